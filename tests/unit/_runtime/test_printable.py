"""What others wrote is shown on one line, and gives a terminal no orders."""

import pytest

from seneca._runtime.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("straße 1.jpg", "straße 1.jpg"),
        ("a\x1b[31mb\x07", "a\ufffd[31mb\ufffd"),
        ("two\r\nlines", "two\ufffd\ufffdlines"),
        ("\x9b31m", "\ufffd31m"),
        ("gpj.\u202eexe", "gpj.\ufffdexe"),
        ("\udcff", "\ufffd"),
    ],
)
def test_what_a_terminal_would_obey_is_replaced(text, shown):
    assert printable(text) == shown
