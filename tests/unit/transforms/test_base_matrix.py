"""Where each transform of torchvision's runs natively: the table of docs/transforms.md, from the classes."""

import operations_page
import pytest

from seneca.transforms._base import BY_NAME, MOVES, STAYS
from seneca.transforms._recognise import OTHERS, does_beside


def test_the_page_says_where_each_transform_runs():
    assert operations_page.PAGE.read_text() == operations_page.page(), "run make generated"


@pytest.mark.parametrize("what", ["masks", "boxes"])
def test_what_does_not_run_there_has_a_reason_with_a_remedy(what):
    """A refusal of torchvision's, or what to use."""
    for name in {name for name in BY_NAME if not name.startswith("timm.")} | OTHERS.keys():
        does = does_beside(name, what)
        assert does in (MOVES, STAYS) or ": use " in does or does.endswith(": leave it out"), (name, does)
