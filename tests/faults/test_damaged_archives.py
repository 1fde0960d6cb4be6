"""Archives that are damaged by chance: an error that names them, or each member where it is.

``SENECA_FUZZ=10000000 pytest tests/faults/test_damaged_archives.py`` damages ten million, for half an hour.
"""

import os
import random

import archive_fuzz
import pytest
from sizes import size

COUNT = int(os.environ.get("SENECA_FUZZ", size(2_000, 30_000)))
FEWEST = 500  # one of 18 damaged shards is read: that none of so many is has a chance of 4e-13


@pytest.mark.parametrize("kind", archive_fuzz.KINDS)
def test_fuzz(kind):
    seed = random.randrange(2**20)
    print(f"seed {seed}")
    count = max(FEWEST, COUNT * archive_fuzz.SHARES[kind] // sum(archive_fuzz.SHARES.values()))
    result = archive_fuzz.run(kind, count, seed)
    assert result.total() == count and result["read"] > 0, "some damage is to what says nothing of members"
    assert result["refused"] > 0 or kind == "idx"


def test_what_a_reader_finds_is_compared():
    """The comparison itself: members that are cut, or are another's, are seen."""
    for name, made in archive_fuzz.KINDS.items():
        if name in ("idx", "shards"):
            continue
        kind = made()
        kind.number = 0
        sound = kind.sound if isinstance(kind.sound, bytes) else kind.sound[0]
        found = kind.read(bytearray(sound))
        kind.check(bytearray(sound), found)
        first, second = found[:2]
        names_traded = [(second[0], *first[1:]), (first[0], *second[1:]), *found[2:]]
        for wrong in (
            *([] if name == "parquet" else [names_traded]),  # its values have no names
            [(first[0], first[1] + 1, first[2]), *found[1:]],
            [(first[0], first[1], len(sound)), *found[1:]],
        ):
            with pytest.raises(AssertionError):
                kind.check(bytearray(sound), wrong)
