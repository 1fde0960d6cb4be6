"""Where each transform of torchvision's runs natively: the table of docs/transforms.md, from the classes."""

from pathlib import Path

import pytest

from seneca.transforms._base import BY_NAME, MOVES, STAYS
from seneca.transforms._recognise import OTHERS, does_beside

PAGE = Path(__file__).parents[3] / "docs" / "transforms.md"
HEAD = "| transform | on tensors of | beside a mask | beside boxes | in a group |"


def rows():
    for name, kind in sorted(BY_NAME.items()):
        if not name.startswith("timm."):
            beside = (does_beside(name, what) for what in ("masks", "boxes"))
            cells = [does if does in (MOVES, STAYS) else "no" for does in beside]
            group = "yes" if kind.keeps_size else "no"
            yield f"| `{name}` | {', '.join(kind.on_tensors) or 'no'} | {' | '.join(cells)} | {group} |"


def test_the_page_says_where_each_transform_runs():
    expected = "\n".join([HEAD, "| --- | --- | --- | --- | --- |", *rows()])
    print(expected)
    assert expected in PAGE.read_text(), f"put this into {PAGE.name}:\n{expected}"


@pytest.mark.parametrize("what", ["masks", "boxes"])
def test_what_does_not_run_there_has_a_reason_with_a_remedy(what):
    """A refusal of torchvision's, or what to use."""
    for name in {name for name in BY_NAME if not name.startswith("timm.")} | OTHERS.keys():
        does = does_beside(name, what)
        assert does in (MOVES, STAYS) or ": use " in does or does.endswith(": leave it out"), (name, does)
