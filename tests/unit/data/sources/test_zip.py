"""Where the members of a zip archive are, or why there is no place."""

import os
import zipfile

import numpy as np
import pytest

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
    for _ in range(3000):
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
