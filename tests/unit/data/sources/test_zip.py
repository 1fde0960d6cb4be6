"""Where the members of a zip archive are, or why there is no place."""

import io
import os
import struct
import zipfile

import numpy as np
import pytest
import sizes

from seneca.data.sources.zip import members_of_zip
from seneca.errors import SourceError


def members(path):
    file = os.open(path, os.O_RDONLY)
    try:
        return list(members_of_zip(file, str(path), os.fstat(file).st_size))
    finally:
        os.close(file)


def write(path, compression=zipfile.ZIP_STORED, before=b""):
    with open(path, "wb") as file:
        file.write(before)
        with zipfile.ZipFile(file, "w", compression) as archive:
            archive.mkdir("class")
            for number in range(20):
                archive.writestr(f"class/{number}.jpg", bytes([number]) * (1 + 97 * number))


@pytest.mark.parametrize("before", [b"", b"a program that unpacks it"])
def test_stored_members_are_where_they_are(tmp_path, before):
    path = tmp_path / "some.zip"
    write(path, before=before)
    data = path.read_bytes()
    found = members(path)
    assert [name for name, _, _ in found] == [f"class/{number}.jpg" for number in range(20)]
    for number, (_, offset, length) in enumerate(found):
        assert data[offset : offset + length] == bytes([number]) * (1 + 97 * number)


def test_a_compressed_member_says_what_to_do(tmp_path):
    path = tmp_path / "some.zip"
    write(path, zipfile.ZIP_DEFLATED)
    with pytest.raises(SourceError, match=r"class/0.jpg is compressed; write the archive again with zip -0"):
        members(path)


def test_an_encrypted_member_says_what_to_do(tmp_path):
    path = tmp_path / "some.zip"
    write(path)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\1\2", data.index(b"PK\1\2") + 4)  # of the first file, behind the folder
    data[at + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"class/0.jpg is encrypted"):
        members(path)


LOCAL, CENTRAL = b"PK\3\4", b"PK\1\2"


@pytest.fixture
def sound(tmp_path):
    write(tmp_path / "some.zip")
    return bytearray((tmp_path / "some.zip").read_bytes())


def header(data, mark, number):
    """Where the header of a member begins; the first one is a folder's."""
    at = -1
    for _ in range(number + 2):
        at = data.index(mark, at + 1)
    return at


def put(data, at, kind, number):
    struct.pack_into(f"<{kind}", data, at, number)


def with_another_length_of_the_name(data):
    """Then its bytes begin elsewhere."""
    put(data, header(data, LOCAL, 5) + 26, "H", 14)


def with_extra_fields_that_are_none(data):
    put(data, header(data, LOCAL, 5) + 28, "H", 20)


def with_bytes_of_the_next(data):
    """The list of members and the header agree."""
    for mark, at in ((LOCAL, 18), (CENTRAL, 20)):
        for size in (at, at + 4):
            put(data, header(data, mark, 5) + size, "I", 600)


def with_fewer_bytes_than_its_header_says(data):
    for size in (20, 24):
        put(data, header(data, CENTRAL, 5) + size, "I", 40)


def with_two_sizes(data):
    put(data, header(data, CENTRAL, 5) + 20, "I", 40)


def with_another_checksum(data):
    put(data, header(data, CENTRAL, 5) + 16, "I", 40)


def with_places_that_trade(data):
    one, other = (header(data, CENTRAL, number) for number in (5, 6))
    data[one + 42 : one + 46], data[other + 42 : other + 46] = (
        data[other + 42 : other + 46],
        data[one + 42 : one + 46],
    )


def with_one_place_for_two(data):
    one, other = (header(data, CENTRAL, number) for number in (5, 6))
    data[other : other + 46 + len("class/5.jpg")] = data[one : one + 46 + len("class/5.jpg")]


def compressed_as_its_header_says(data):
    put(data, header(data, LOCAL, 5) + 8, "H", 8)


def with_a_name_that_ends_early(data):
    for mark, at in ((LOCAL, 30), (CENTRAL, 46)):
        data[header(data, mark, 5) + at + 3] = 0


def without_a_name(data):
    for mark, at in ((LOCAL, 26), (CENTRAL, 28)):
        put(data, header(data, mark, 19) + at, "H", 0)


@pytest.mark.parametrize(
    "damage",
    [
        with_another_length_of_the_name,
        with_extra_fields_that_are_none,
        with_bytes_of_the_next,
        with_fewer_bytes_than_its_header_says,
        with_two_sizes,
        with_another_checksum,
        with_places_that_trade,
        with_one_place_for_two,
        compressed_as_its_header_says,
        with_a_name_that_ends_early,
        without_a_name,
    ],
)
def test_a_member_that_is_elsewhere_or_another_one_is_an_error(sound, tmp_path, damage):
    damage(sound)
    (tmp_path / "some.zip").write_bytes(sound)
    with pytest.raises(SourceError, match=r"some\.zip (is damaged|is no zip archive)"):
        members(tmp_path / "some.zip")


class Pipe(io.RawIOBase):
    """What cannot be sought: checksums and sizes come after the bytes of each member."""

    def __init__(self):
        self.data = b""

    def writable(self):
        return True

    def write(self, some):
        self.data += bytes(some)
        return len(some)


@pytest.mark.parametrize("far", [False, True])
def test_what_was_written_to_a_pipe_is_read(tmp_path, far):
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w") as archive:
        for number in range(3):
            with archive.open(f"{number}.jpg", "w", force_zip64=far) as member:
                member.write(bytes([number]) * (100 * number))
    (tmp_path / "some.zip").write_bytes(pipe.data)
    found = members(tmp_path / "some.zip")
    assert [pipe.data[at : at + length] for _, at, length in found] == [
        bytes([n]) * (100 * n) for n in range(3)
    ]
    after = pipe.data.index(b"PK\7\10", found[1].offset)
    (tmp_path / "some.zip").write_bytes(pipe.data[: after + 8] + b"\7" + pipe.data[after + 9 :])
    with pytest.raises(SourceError, match=r"is damaged: 1\.jpg"):
        members(tmp_path / "some.zip")


def test_what_lies_between_members_makes_their_checksums_count(sound, tmp_path):
    """As where another program has removed a member."""
    directory = header(sound, CENTRAL, -1)
    at, following = header(sound, LOCAL, 5), header(sound, LOCAL, 6)
    for change, says in ((0, None), (1, r"class/5\.jpg has another checksum")):
        data = bytearray(sound[:following]) + b"not a member" + sound[following:]
        for number in range(6, 20):
            place = header(data, CENTRAL, number) + 42
            put(data, place, "I", struct.unpack_from("<I", data, place)[0] + 12)
        put(data, len(data) - 6, "I", directory + 12)
        data[at + 50] ^= change
        (tmp_path / "some.zip").write_bytes(data)
        if says is None:
            assert [data[at : at + length] for _, at, length in members(tmp_path / "some.zip")] == [
                bytes([number]) * (1 + 97 * number) for number in range(20)
            ]
        else:
            with pytest.raises(SourceError, match=says):
                members(tmp_path / "some.zip")


def test_what_is_no_archive_says_so(tmp_path):
    path = tmp_path / "some.zip"
    path.write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(SourceError, match=r"some.zip is no zip archive"):
        members(path)


def test_damage_is_an_error_or_the_members_are_within_the_archive(tmp_path):
    rng = np.random.default_rng(6)
    path = tmp_path / "some.zip"
    write(path)
    sound = path.read_bytes()
    directory = sound.index(b"PK\1\2")
    read = failed = 0
    for _ in range(sizes.size(600, 3000)):
        data = bytearray(sound)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(directory, len(data))] = rng.integers(256)
        path.write_bytes(data)
        try:
            for _, offset, length in members(path):
                assert offset >= 0 and length >= 0 and offset + length <= len(data)
            read += 1
        except SourceError as error:
            assert str(path) in str(error)
            failed += 1
    assert read > 100 and failed > 100
