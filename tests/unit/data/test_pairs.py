"""The bytes of a pair."""

import pytest

from seneca.data.pairs import joined_bytes, pair_of, split_bytes
from seneca.errors import DecodeError


@pytest.mark.parametrize("picture, mask", [(b"p" * 70_000, b"m"), (b"", b"m"), (b"p", b""), (b"", b"")])
def test_the_bytes_of_a_pair_are_those_of_its_two_files(picture, mask, tmp_path):
    (tmp_path / "picture").write_bytes(picture)
    (tmp_path / "mask").write_bytes(mask)
    piece = pair_of(str(tmp_path / "picture"), str(tmp_path / "mask"))
    assert piece.path == str(tmp_path / "picture")
    assert piece.read() == joined_bytes(picture, mask)
    assert split_bytes(piece.read()) == (picture, mask)


def test_bytes_that_are_cut_off_are_refused():
    whole = joined_bytes(b"a picture", b"")
    for end in range(len(whole)):
        with pytest.raises(DecodeError, match="cut off"):
            split_bytes(whole[:end])


def test_a_file_that_is_missing_is_named(tmp_path):
    (tmp_path / "picture").write_bytes(b"p")
    with pytest.raises(FileNotFoundError, match="mask"):
        pair_of(str(tmp_path / "picture"), str(tmp_path / "mask")).read()
