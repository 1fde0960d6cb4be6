"""Every function of the core that changes the segment in more than one step has a crash point.

A survivor may find the first of two changes without the second. tests/c/test_crash_points.c kills a process
at each ``SN_CRASH_POINT``, and fails for one that it does not reach. This test finds functions that have
none. It reads C as text. A change is a store through one of the names that the core has for what
lies in the segment.
"""

from __future__ import annotations

import re
from pathlib import Path

CORE = Path(__file__).parents[2] / "csrc"
FOLDERS = ("shm", "slots", "store", "member")

NAME = (
    r"(?:segment->(?:slots|rows|head|wants|writing|granules|first|telemetry|committed|groups)"
    r"|head|record|self|writer|table|change|timetable|ledger|line|sequence|generation|eligible\.\w+)\b"
)
PLACE = rf"&?(?:sn_seen\(|sn_ledger\(|sn_eligible\(|word_of\(|words\[|word\b|{NAME})"
CHANGES = (
    re.compile(rf"^(?:\+\+|--)?\*?{NAME}(?:->|[^=!<>])*?(?:[-+|&^]?=(?!=)|\+\+$|--$)|^(?:\+\+|--)\*?{NAME}"),
    re.compile(rf"\batomic_(?:store|fetch_\w+?|exchange|compare_exchange\w*?)(?:_explicit)?\({PLACE}"),
    re.compile(rf"\b(?:memset|memcpy|strncpy)\({PLACE}"),
    re.compile(rf"\bsn_(?:bit_set|bit_clear|bits_fill|counted_set|counted_clear)\({PLACE}"),
    re.compile(r"\b(?:fallocate|ftruncate|unlink)\("),
)
FUNCTION = re.compile(
    r"^(?!typedef|struct|enum|union|#)[a-z][\w \*]*?\b(\w+)\([^;{}]*?\)\s*\n\{\n(.*?)^\}", re.M | re.S
)
BEFORE = re.compile(r"^(?:\s|else\b|if \(.*?\) (?=[\w*+-]+(?:->|\.|\[))|case [^:]*:|default:)+")

NEED_NONE = {
    "resolve": "private pointers",
    "sn_segment_punch": "one change: the second call is what is tried if the kernel refuses the first",
}


def functions(text: str) -> dict[str, str]:
    """The body of each function, without comments."""
    return {match[1]: match[2] for match in FUNCTION.finditer(re.sub(r"/\*.*?\*/", "", text, flags=re.S))}


def changes(body: str) -> int:
    """How many changes to the segment a function makes itself."""
    statements = [BEFORE.sub("", each).strip() for each in re.split(r"[;{}]", re.sub(r"\s+", " ", body))]
    return sum(len(change.findall(statement)) for statement in statements for change in CHANGES)


def without_point(text: str) -> list[str]:
    """The functions that have several changes and no point."""
    return [
        name
        for name, body in functions(text).items()
        if changes(body) > 1 and "SN_CRASH_POINT" not in body and name not in NEED_NONE
    ]


def sources() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((CORE / folder).glob("sn_*.[ch]"))]


def test_each_function_that_changes_the_segment_has_a_crash_point() -> None:
    assert {
        path.name: without_point(path.read_text()) for path in sources() if without_point(path.read_text())
    } == {}


def test_a_function_whose_point_was_taken_away_is_found() -> None:
    found = []
    for path in sources():
        found += without_point(re.sub(r"SN_CRASH_POINT\(\w+\);", "", path.read_text()))
    assert len(found) >= 30
    assert {
        "sn_slot_reserve",
        "sn_row_claim",
        "sn_space_give",
        "rebuild_rows",
        "sn_want_clear",
    } <= set(found)


def test_no_two_points_have_one_name() -> None:
    names = [name for path in sources() for name in re.findall(r"SN_CRASH_POINT\((\w+)\)", path.read_text())]
    assert len(names) == len(set(names)) >= 60
