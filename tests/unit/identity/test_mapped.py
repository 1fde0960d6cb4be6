"""Arrays and tensors that are mapped from files: they count by these, and are not read."""

import mmap
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from seneca._runtime.mounts import mount_of
from seneca.identity import fingerprint
from seneca.identity.fingerprinter import Fingerprinter
from seneca.identity.mapped import Mappings

COUNT = 1 << 18  # numbers of 8 bytes


@pytest.fixture
def path(tmp_path):
    """A file on a disk: one in memory counts by its content, see below."""
    folder = tmp_path
    if mount_of(str(tmp_path)).kind == "tmpfs":
        folder = Path(tempfile.mkdtemp(prefix="seneca-test-", dir="/var/tmp"))
    np.arange(COUNT).tofile(folder / "numbers")
    torch.save(torch.arange(COUNT), folder / "saved")
    yield folder / "numbers"
    if folder != tmp_path:
        shutil.rmtree(folder)


def by_mmap(path, access):
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), 0, access=access)


def saved(path):
    return path.parent / "saved"


MAPPED = {
    "r": lambda path: np.memmap(path, np.int64, "r"),
    "r+": lambda path: np.memmap(path, np.int64, "r+"),
    "c": lambda path: np.memmap(path, np.int64, "c"),
    "array": lambda path: np.asarray(np.memmap(path, np.int64, "r+")),
    "part": lambda path: np.memmap(path, np.int64, "r", offset=4096 * 3 + 8)[7::2],
    "backwards": lambda path: np.memmap(path, np.int64, "c")[::-1],
    "columns": lambda path: np.memmap(path, np.int64, "r", shape=(512, 512)).T[:, 3:],
    "view": lambda path: np.memmap(path, np.int64, "r+").view(np.float32).reshape(2, -1),
    "list": lambda path: np.split(np.memmap(path, np.int64, "r+"), 256),
    "mmap": lambda path: np.frombuffer(by_mmap(path, mmap.ACCESS_COPY), np.int64),
    "from_numpy": lambda path: torch.from_numpy(np.memmap(path, np.int64, "r+")),
    "slice": lambda path: torch.from_numpy(np.memmap(path, np.int64, "c"))[1000:200_000],
    "frombuffer": lambda path: torch.frombuffer(by_mmap(path, mmap.ACCESS_WRITE), dtype=torch.int64),
    "from_file": lambda path: torch.from_file(str(path), shared=False, size=COUNT, dtype=torch.int64),
    "from_file, shared": lambda path: torch.from_file(str(path), shared=True, size=COUNT, dtype=torch.int64),
    "load": lambda path: torch.load(saved(path), mmap=True),
}


def resident(*paths):
    """The kilobytes of these files that this process has examined through mappings."""
    within, found = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if not line.split()[0].endswith(":"):
            within = line.endswith(tuple(map(str, paths)))
        elif within and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found


@pytest.mark.small(3)
@pytest.mark.parametrize("kind", MAPPED)
def test_it_is_not_read(path, kind):
    value = MAPPED[kind](path)
    before = resident(path, saved(path))  # torch.load() has read the first page
    assert fingerprint(value) == fingerprint(MAPPED[kind](path)), "another mapping of one file"
    assert resident(path, saved(path)) <= 2 * before


@pytest.mark.small(5)
@pytest.mark.parametrize("kind", MAPPED)
def test_a_file_that_was_rewritten_is_another(path, kind):
    value = MAPPED[kind](path)
    before = fingerprint(value)
    for each in (path, saved(path)):
        content = each.read_bytes()
        each.write_bytes(content[:-8192] + bytes(8192))
    assert fingerprint(value) != before


@pytest.mark.small(2)
@pytest.mark.parametrize("kind", [kind for kind in MAPPED if kind not in ("r", "part", "columns")])
def test_what_is_written_through_it_counts(path, kind):
    """Also if its pages were written to before, and were not yet written out since."""
    value = MAPPED[kind](path)
    flat = value[0] if kind == "list" else value.reshape(-1)
    seen = {fingerprint(value)}
    for number in range(1, 4):
        flat[5] = 1_000_000 * number
        seen.add(fingerprint(value))
        flat[5] = 1_000_000 * number + 1  # into a page that is dirty now, if nobody has written it out
        seen.add(fingerprint(value))
    assert len(seen) == 7


@pytest.mark.small(2)
@pytest.mark.parametrize("kind", ["r", "c", "from_file", "mmap"])
@pytest.mark.parametrize("in_memory", [False, True])
def test_what_another_mapping_writes_counts_each_time(path, kind, in_memory):
    if in_memory:
        path = Path(f"/dev/shm/seneca-test-mapped-{os.getpid()}")
        np.arange(COUNT).tofile(path)
    try:
        value, other = MAPPED[kind](path), np.memmap(path, np.int64, "r+")
        seen = {fingerprint(value)}
        for number in range(1, 4):
            other[number] = 1_000_000 * number
            seen.add(fingerprint(value))
        assert len(seen) == 4
    finally:
        if in_memory:
            path.unlink()


def test_a_small_one_is_watched_by_its_content(path):
    value, fingerprinter = np.memmap(path, np.int64, "r+", shape=(2,)), Fingerprinter()
    fingerprinter.identify(value)
    value[0] = 7
    assert fingerprinter.watch.changed()


def test_a_write_into_a_file_in_memory_counts():
    path = Path(f"/dev/shm/seneca-test-mapped-{os.getpid()}")
    if not path.parent.is_dir():
        pytest.skip("no file system in memory is here")
    try:
        np.arange(COUNT).tofile(path)
        value, other = np.memmap(path, np.int64, "r+"), np.memmap(path, np.int64, "r+")
        seen = {fingerprint(value)}
        for number in range(3):
            other[number] = 1_000_000
            seen.add(fingerprint(value))
        assert len(seen) == 4
    finally:
        path.unlink()


@pytest.mark.small(2)
@pytest.mark.parametrize("kind", ["r", "r+", "c", "from_numpy"])
def test_a_file_that_was_replaced_is_what_was_mapped(path, kind):
    """The path leads to another file then. The process goes on with the old one."""
    copy = shutil.copy(path, path.parent / "copy")
    old = MAPPED[kind](path)
    os.replace(copy, path)
    Path(f"{path} (deleted)").write_bytes(bytes(8 * COUNT))  # as the kernel calls the old file now
    new = MAPPED[kind](path)
    old_file, new_file = fingerprint(old), fingerprint(new)
    assert old_file != new_file
    Path(f"{path} (deleted)").write_bytes(bytes(8))
    assert fingerprint(old) == old_file
    path.write_bytes(bytes(8 * COUNT))
    assert fingerprint(new) != new_file


def test_the_place_in_the_file_counts(path):
    numbers = np.memmap(path, np.int64, "r")
    views = [numbers, numbers[1:], numbers[:-1], numbers[::-1], numbers[::2], numbers[1::2]]
    views += [numbers.reshape(512, 512), numbers.reshape(512, 512).T, numbers.view(np.uint64)]
    tensors = [torch.from_numpy(np.memmap(path, np.int64, "c"))[start:] for start in range(3)]
    tensors += [tensors[0].view(torch.complex32), tensors[0].view(torch.complex32).conj()]
    assert len({fingerprint(one) for one in [*views, *tensors]}) == len(views) + len(tensors)


def test_a_mapping_that_the_kernel_has_divided(path):
    inside = by_mmap(path, mmap.ACCESS_COPY)
    value = np.frombuffer(inside, np.int64)
    before = fingerprint(value)
    inside.madvise(mmap.MADV_SEQUENTIAL, 8192, 4096 * 5)
    first = value.__array_interface__["data"][0]
    assert Mappings().place_of(first + 8, first, first + value.nbytes) == (str(path), 8)
    assert fingerprint(value) == before
    value[COUNT - 1] = 7
    assert fingerprint(value) != before


def test_what_is_not_mapped_is_read():
    here = torch.zeros(COUNT)
    first = here.data_ptr()
    assert Mappings().place_of(first, first, first + here.nbytes) is None
    before = fingerprint(here)
    here.numpy()[77] = 1
    assert fingerprint(here) != before


def test_past_the_end_of_a_mapping_is_no_place(path):
    value = np.memmap(path, np.int64, "r")
    first = value.__array_interface__["data"][0]
    assert Mappings().place_of(first, first, first + value.nbytes) == (str(path), 0)
    assert Mappings().place_of(first, first, first + value.nbytes + (1 << 40)) is None
    assert Mappings().place_of(8, 8, 16) is None


def test_without_proc_it_is_read(path, monkeypatch):
    def missing(*arguments, **options):
        raise FileNotFoundError

    value = np.memmap(path, np.int64, "r")
    monkeypatch.setattr("builtins.open", missing)
    assert Mappings().place_of(*[value.__array_interface__["data"][0]] * 2, 1) is None
