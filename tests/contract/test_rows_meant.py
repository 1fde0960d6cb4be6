"""Every difference that is said to be meant is held by a row."""

import re
from pathlib import Path

from subjects import MEANT


def test_each_difference_that_is_meant_has_a_row_and_each_row_a_difference():
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_rows_*.py"))
    assert set(re.findall(r"^@pytest\.mark\.meant\(\"(\w+)\"\)$", text, re.MULTILINE)) == set(MEANT)
