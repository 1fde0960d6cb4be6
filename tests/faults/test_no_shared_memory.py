"""No /dev/shm or /proc, as in some sandboxes, or one that is no use: jobs without worker processes go on."""

import ctypes
import gc
import os
import warnings

import pytest
import torch
from engine import in_small_shm
from small_jobs import epoch_of

import seneca

MS_RDONLY, MS_REMOUNT = 1, 32
ALL = list(range(48))


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        return torch.tensor(index)


def mount(libc, place, flags=0, options=b"size=1m"):
    assert libc.mount(b"tmpfs", place, b"tmpfs", flags, options) == 0, os.strerror(ctypes.get_errno())


def no_folder(libc):
    mount(libc, b"/dev")


def read_only_folder(libc):
    mount(libc, b"/dev/shm")
    mount(libc, b"/dev/shm", MS_REMOUNT | MS_RDONLY)


def full_folder(libc):
    mount(libc, b"/dev/shm", 0, b"size=4096")
    with open("/dev/shm/full", "wb") as file:
        file.write(bytes(4096))


def no_proc(libc):
    mount(libc, b"/proc")


KINDS = {no_folder: "there is no folder /dev/shm", read_only_folder: "Read-only file system"}


def in_a_host(prepare, work):
    """Run ``work()`` in a child whose /dev is as ``prepare`` makes it."""

    def child():
        prepare(ctypes.CDLL(None, use_errno=True))
        work()

    in_small_shm(64 << 20, child)


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [0, 2])
def test_threads_prepare_without_a_cache_and_one_warning_says_why(load, kind, workers):
    def job():
        loader = load(num_workers=workers)
        samples, warned = epoch_of(loader)
        assert samples == ALL
        assert len(warned) == 1
        assert "going on without the shared cache" in warned[0] and KINDS[kind] in warned[0]
        assert epoch_of(loader) == (ALL, [])

    in_a_host(kind, job)


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("face", [seneca.DataLoader, torch.utils.data.DataLoader])
def test_the_calling_process_makes_items_without_a_cache_and_one_warning_says_why(name, kind, face):
    def job():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dataset = seneca.SharedDataset(Items(), cache=name, cache_bytes="4096")
            loader = face(dataset, 8, shuffle=True, num_workers=0)
            for _ in range(2):
                assert sorted(int(index) for batch in loader for index in batch) == ALL
        assert len(caught) == 1, [str(one.message) for one in caught]
        assert KINDS[kind] in str(caught[0].message)

    in_a_host(kind, job)


@pytest.mark.parametrize("kind", [*KINDS, full_folder])
def test_the_calling_process_needs_no_shared_memory_for_itself(kind):
    def job():
        loader = torch.utils.data.DataLoader(seneca.SharedDataset(Items(), cache=None), 8)
        assert sorted(int(index) for batch in loader for index in batch) == ALL

    in_a_host(kind, job)


def test_another_folder_holds_the_cache_where_there_is_no_shared_memory(segment_folder, load):
    def job():
        loader = load()
        assert epoch_of(loader) == (ALL, []) and epoch_of(loader) == (ALL, [])
        assert loader.stats()["cache"]["processes"] == 1
        loader = seneca.DataLoader(Items(), 8, cache="other", cache_bytes="64KiB")
        assert sorted(int(index) for batch in loader for index in batch) == ALL
        del loader
        gc.collect()

    in_a_host(no_folder, job)


@pytest.mark.small(1)
@pytest.mark.parametrize("cache_bytes", ["auto", "2MiB"])
def test_without_proc_the_cache_is_shared_all_the_same(load, name, cache_bytes):
    def job():
        for workers in (0, 2):
            loader = load(num_workers=workers, cache_bytes=cache_bytes)
            assert epoch_of(loader) == (ALL, []) and epoch_of(loader) == (ALL, [])
            assert loader.stats()["cache"]["processes"] == 1
            loader.diagnose()
        items = seneca.DataLoader(Items(), 8, cache=f"{name}-items", cache_bytes=cache_bytes)
        assert sorted(int(index) for batch in items for index in batch) == ALL
        del loader, items
        gc.collect()

    in_a_host(no_proc, job)
