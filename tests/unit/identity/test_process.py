"""The settings of a process: each is named, and what is loaded late changes none."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from PIL import Image

import seneca
from seneca.identity.process import settings


def changed(before):
    now = settings()
    return {name for name in {**before, **now} if before.get(name) != now.get(name)}


def test_each_setting_changes_the_one_of_its_name(monkeypatch):
    before = settings()
    with np.printoptions(precision=3):
        assert changed(before) == {"NumPy's print options"}
    with np.errstate(over="raise"):
        assert changed(before) == {"NumPy's handling of errors"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert changed(before) == {"warnings that are errors"}
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert changed(before) == {"PIL.Image.MAX_IMAGE_PIXELS"}
    monkeypatch.undo()
    torch.use_deterministic_algorithms(True)
    try:
        assert changed(before) == {"torch's deterministic algorithms"}
    finally:
        torch.use_deterministic_algorithms(False)
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert changed(before) == {"OPENBLAS_CORETYPE"}
    monkeypatch.undo()
    assert changed(before) == set()


def test_senecas_own_warnings_are_no_matter_of_items():
    before = settings()
    with warnings.catch_warnings():
        warnings.simplefilter("error", seneca.SenecaWarning)
        assert changed(before) == set()


@pytest.mark.small(1)
@pytest.mark.parametrize("module", ["PIL.Image", "PIL.PngImagePlugin", "csv", "pandas", "torchvision"])
def test_a_module_that_is_loaded_late_changes_nothing(module):
    source = (
        "from seneca.identity.process import settings\nbefore = settings()\n"
        f"try:\n    import {module}\nexcept (ImportError, RuntimeError):\n    pass\n"
        "import sys, warnings\nwarnings.simplefilter('error')\n"
        "del before['warnings that are errors']\nnow = settings()\ndel now['warnings that are errors']\n"
        "sys.exit(before != now)"
    )
    assert subprocess.run([sys.executable, "-c", source]).returncode == 0


def test_an_option_of_pandas_counts():
    pandas = pytest.importorskip("pandas")
    before = settings()
    with pandas.option_context("mode.string_storage", "python"):
        assert changed(before) == {"pandas' mode.string_storage"}
