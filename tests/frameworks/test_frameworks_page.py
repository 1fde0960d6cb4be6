"""The examples of docs/frameworks.md run, each with the framework under whose heading it stands."""

import re
import warnings

import pytest
import torchvision_here  # noqa: F401  # before a framework imports it for itself
from pages import ROOT, blocks

from seneca.testing import make_pictures

PAGE = ROOT / "docs" / "frameworks.md"
SETUP, *EXAMPLES = [block for block in blocks(PAGE) if block.language == "python"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda block: block.heading)
def test_the_example_of(example, tmp_path, monkeypatch):
    module = example.heading.lower()
    pytest.importorskip(module, reason=f"{module} is not here; `make test-frameworks` installs it")
    assert re.search(rf"^(import|from) ([\w.]+\.)?{module}\b", example.text, re.MULTILINE)
    make_pictures(tmp_path / "train", count=24, classes=2, sides=(80, 120))
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in (SETUP, example):
            exec(compile("\n" * block.line + block.text, str(PAGE), "exec"), namespace)
