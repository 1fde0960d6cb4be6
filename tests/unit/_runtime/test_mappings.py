"""The files that are mapped into a process."""

import mmap
import os

import pytest

from seneca._runtime import mappings
from seneca._runtime.mappings import file_mappings

PAGE = mmap.PAGESIZE


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "two lines\nof a name"
    path.write_bytes(bytes(3 * PAGE))
    return path


def of(path):
    return [one for one in file_mappings() if one.path.startswith(str(path))]


def test_each_piece_says_where_it_lies_in_memory_and_in_the_file(path):
    with open(path, "r+b") as file:
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        part = mmap.mmap(file.fileno(), PAGE, access=mmap.ACCESS_COPY, offset=PAGE)
    found = {(one.at, one.end - one.begin, one.private, one.writable) for one in of(path)}
    assert found == {(0, 3 * PAGE, False, False), (PAGE, PAGE, True, True)}
    assert {one.inode for one in of(path)} == {os.stat(path).st_ino}
    path.unlink()
    assert {one.path for one in of(path)} == {f"{path} (deleted)"}
    whole.close()
    part.close()


def test_pieces_of_one_mapping_follow_each_other(path):
    with open(path, "r+b") as file:
        inside = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    inside.madvise(mmap.MADV_SEQUENTIAL, PAGE, PAGE)
    first, second, third = of(path)
    assert second.follows(first) and third.follows(second) and not third.follows(first)


def test_without_proc_there_is_an_error(monkeypatch):
    def missing(*arguments):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(mappings, "open", missing, raising=False)
    with pytest.raises(FileNotFoundError):
        file_mappings()
