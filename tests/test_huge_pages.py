"""Memory that moves into huge pages keeps what it holds."""

import mmap

import huge_pages
import numpy as np
import pytest


def in_huge_pages() -> int:
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("AnonHugePages"))


def test_it_holds_what_it_held():
    pages = np.frombuffer(mmap.mmap(-1, 4 * huge_pages.HUGE_PAGE, flags=mmap.MAP_PRIVATE), np.int64)
    pages[:] = np.arange(len(pages))
    before = in_huge_pages()
    moved = huge_pages.collapse()
    assert (pages == np.arange(len(pages))).all()
    if moved == 0:
        pytest.skip("this kernel moves nothing into huge pages")
    assert in_huge_pages() >= before + 2 * huge_pages.HUGE_PAGE
