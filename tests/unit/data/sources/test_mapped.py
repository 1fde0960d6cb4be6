"""Addresses as places in files."""

import mmap
import os

import numpy as np
import pytest

from seneca.data.sources.mapped import pieces_at


@pytest.fixture
def mapped(tmp_path):
    """Two files that are mapped: the second from its second page on."""
    page = mmap.PAGESIZE
    found = []
    for number, skip in ((0, 0), (1, page)):
        path = tmp_path / f"{number}"
        path.write_bytes(os.urandom(3 * page))
        with open(path, "rb") as file:
            map_ = mmap.mmap(file.fileno(), 3 * page - skip, offset=skip, access=mmap.ACCESS_READ)
        found.append((str(path), np.frombuffer(map_, np.uint8), skip))
    return found


def test_each_piece_has_the_bytes_of_its_address(mapped):
    wanted = [(1, 5, 10), (0, 0, 1), (0, 4000, 5000), (1, 8000, 192)]
    addresses = np.array([mapped[file][1].ctypes.data + at for file, at, _ in wanted], np.uint64)
    pieces, containers, stated, ctimes = pieces_at(addresses, np.array([n for *_, n in wanted], np.uint32))
    assert list(containers) == [path for path, *_ in mapped]
    assert stated["size_bytes"].tolist() == [3 * mmap.PAGESIZE] * 2
    assert ctimes.tolist() == [os.stat(path).st_ctime_ns for path in containers]
    for piece, (file, at, length) in zip(pieces, wanted, strict=True):
        path, data, skip = mapped[file]
        assert (piece["offset"], piece["length"], piece["container"]) == (at + skip, length, file)
        with open(path, "rb") as opened:
            opened.seek(int(piece["offset"]))
            assert opened.read(length) == data[at : at + length].tobytes()


def test_what_lies_in_no_file_is_none(mapped):
    private = np.zeros(10, np.uint8)
    assert pieces_at(np.array([private.ctypes.data], np.uint64), np.array([10], np.uint32)) is None
    end = mapped[0][1].ctypes.data + 3 * mmap.PAGESIZE
    assert pieces_at(np.array([end - 4], np.uint64), np.array([5], np.uint32)) is None
    os.unlink(mapped[0][0])
    assert pieces_at(np.array([end - 4], np.uint64), np.array([4], np.uint32)) is None
