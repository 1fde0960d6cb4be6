"""Values of a database are where LMDB finds them. Damage is an error, where LMDB would end the process."""

import random
import struct

import lmdb
import pytest
from sizes import size

from seneca.data.sources.lmdb_pages import values_of_database
from seneca.errors import SourceError


def values(data):
    found = list(values_of_database(lambda length, at: data[at : at + length], "the.lmdb", len(data)))
    for one in found:
        assert one.beginning == data[one.offset : one.offset + min(12, one.length)]
    return [(one.key, data[one.offset : one.offset + one.length]) for one in found]


@pytest.mark.small(4)
@pytest.mark.parametrize("seed", range(size(8, 200)))
def test_values_are_those_that_lmdb_finds(tmp_path, seed):
    """Of trees with one level and several, with pages that were freed, and with values of every size."""
    chance = random.Random(seed)
    sizes = [0, 1, 5, 30, 500, 2000, 2040, 4080, 4090, 9000]
    with lmdb.open(str(tmp_path / "it"), subdir=False, map_size=1 << 28, max_dbs=1) as database:
        for _ in range(chance.randint(1, 3)):
            with database.begin(write=True) as writing:
                for _ in range(chance.choice([0, 1, 5, 300, 2000])):
                    key = chance.randbytes(chance.randint(1, 400))
                    writing.put(key, chance.randbytes(chance.choice(sizes)))
                for key in list(writing.cursor().iternext(values=False))[:: chance.randint(2, 9)]:
                    writing.delete(key)
        with database.begin(buffers=True) as reading:
            theirs = [(bytes(key), bytes(value)) for key, value in reading.cursor()]
    assert values((tmp_path / "it").read_bytes()) == theirs


@pytest.fixture
def database(tmp_path):
    """120 values, on 13 leaves or more, and large ones."""
    with (
        lmdb.open(str(tmp_path / "it"), subdir=False, map_size=1 << 24) as opened,
        opened.begin(write=True) as writing,
    ):
        for number in range(120):
            writing.put(b"%04d" % number, bytes([number]) * (9000 if number % 40 == 3 else 300))
    return bytearray((tmp_path / "it").read_bytes())


def test_a_database_within_it_is_left_out(tmp_path):
    with lmdb.open(str(tmp_path / "it"), subdir=False, map_size=1 << 24, max_dbs=1) as opened:
        with opened.begin(write=True) as writing:
            writing.put(b"a", b"1")
            writing.put(b"c", b"3")
        within = opened.open_db(b"b")
        with opened.begin(write=True, db=within) as writing:
            writing.put(b"x", b"2")
    assert values((tmp_path / "it").read_bytes()) == [(b"a", b"1"), (b"c", b"3")]


def test_several_values_for_a_key_are_refused(tmp_path):
    with lmdb.open(str(tmp_path / "it"), subdir=False, map_size=1 << 24) as opened:
        for flag, says in ((4, "have several values"), (8, "no plain bytes")):
            data = bytearray((tmp_path / "it").read_bytes())
            for head in (0, 4096):
                data[head + 16 + 76] |= flag
            with pytest.raises(SourceError, match=rf"the.lmdb cannot be read as an LMDB database: .*{says}"):
                values(data)
    assert opened is not None


def put(data, at, kind, number):
    struct.pack_into(f"<{kind}", data, at, number)


def pages(data, kind):
    """Where pages of a kind begin, of those that are in the tree."""
    return [at for at in range(8192, len(data), 4096) if data[at + 10] == kind]


BRANCH, LEAF, OVERFLOW = 1, 2, 4


def nodes(data, page):
    (end,) = struct.unpack_from("<H", data, page + 12)
    return struct.unpack_from(f"<{(end - 16) // 2}H", data, page + 16)


def to_itself(data):
    """A page is below itself, which would never end."""
    (root,) = pages(data, BRANCH)
    put(data, root + nodes(data, root)[1], "I", root // 4096)


def to_one_leaf_twice(data):
    (root,) = pages(data, BRANCH)
    first, second = nodes(data, root)[:2]
    data[root + second : root + second + 6] = data[root + first : root + first + 6]


def with_keys_that_trade_places(data):
    leaf = pages(data, LEAF)[0]
    data[leaf + 16 : leaf + 20] = data[leaf + 18 : leaf + 20] + data[leaf + 16 : leaf + 18]


def with_two_values_in_one_place(data):
    leaves = pages(data, LEAF)
    big = [
        (leaf, node)
        for leaf in leaves
        for node in nodes(data, leaf)
        if struct.unpack_from("<H", data, leaf + node + 4)[0] & 1
    ]
    (one, at), (other, place) = big[:2]
    data[one + at + 12 : one + at + 20] = data[other + place + 12 : other + place + 20]


def with_a_value_beyond_its_pages(data):
    put(data, pages(data, OVERFLOW)[0] + 12, "I", 1)


def with_a_value_that_reaches_into_the_next(data):
    leaf = pages(data, LEAF)[0]
    put(data, leaf + nodes(data, leaf)[1], "H", 400)


def with_a_node_beyond_its_page(data):
    put(data, pages(data, LEAF)[0] + 16, "H", 4092)


def with_another_page_in_its_place(data):
    one, other = pages(data, LEAF)[:2]
    data[one : one + 4096] = data[other : other + 4096]


def with_fewer_values(data):
    leaf = pages(data, LEAF)[0]
    put(data, leaf + 12, "H", 16 + 2 * (len(nodes(data, leaf)) - 1))


def without_its_end(data):
    """Between a value's first page and its last."""
    del data[pages(data, OVERFLOW)[-1] + 5000 :]


def without_its_beginning(data):
    del data[:100]


def with_a_page_beyond_all_files(data):
    for head in (0, 4096):
        put(data, head + 16 + 112, "Q", 2**62)
        put(data, head + 16 + 120, "Q", 2**63)


def of_another_version(data):
    put(data, 20, "I", 2)


def with_pages_of_no_size(data):
    put(data, 40, "I", 0)


def deeper_than_a_tree_can_be(data):
    for head in (0, 4096):
        put(data, head + 16 + 78, "H", 60000)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (to_itself, "used twice"),
        (to_one_leaf_twice, "used twice"),
        (with_keys_that_trade_places, "not in order"),
        (with_two_values_in_one_place, "used twice"),
        (with_a_value_beyond_its_pages, "does not end there"),
        (with_a_value_that_reaches_into_the_next, "is damaged"),
        (with_a_node_beyond_its_page, "is damaged"),
        (with_another_page_in_its_place, "is damaged"),
        (with_fewer_values, "it has 119 values, and its head says 120"),
        (without_its_end, "it was not copied to its end"),
        (without_its_beginning, "it has no head"),
        (with_a_page_beyond_all_files, "it ends before its page"),
        (of_another_version, "version 2 of the format"),
        (with_pages_of_no_size, "a page has 0 bytes"),
        (deeper_than_a_tree_can_be, "its head is damaged"),
    ],
)
def test_damage_is_named(database, damage, says):
    damage(database)
    with pytest.raises(SourceError, match=rf"^the.lmdb cannot be read as an LMDB database: .*{says}"):
        values(database)
