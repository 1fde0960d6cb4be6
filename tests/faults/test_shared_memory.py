"""Shared memory that is squatted, short or forbidden: jobs go on without it, or say what to change."""

import fcntl
import os
import socket
import warnings

import pytest
import torch
from engine import in_small_shm
from small_jobs import MiB, epoch_of

import seneca
from seneca import errors

NOBODY = 65534
ALL = list(range(48))


def path_of(name):
    return f"/dev/shm/seneca-{os.geteuid()}-{name}"


def make_directory(path):
    os.mkdir(path)


def make_socket(path):
    socket.socket(socket.AF_UNIX).bind(path)


def make_link(path):
    os.symlink("/dev/shm/there is no such thing", path)


def make_open_file(path):
    with open(path, "wb"):
        os.chmod(path, 0o666)


KINDS = {
    "a directory": make_directory,
    "a FIFO": os.mkfifo,
    "a socket": make_socket,
    "a symbolic link": make_link,
}


@pytest.mark.small(2)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_at_the_name_of_the_cache_costs_a_warning_that_says_so(load, name, kind):
    def job():
        KINDS[kind](path_of(name))
        samples, warned = epoch_of(load())
        assert samples == ALL
        assert len(warned) == 1
        assert f"{path_of(name)} is {kind} and not a regular file; remove it" in warned[0]

    in_small_shm(8 * MiB, job)


def test_what_is_no_file_at_other_names_costs_nothing(load, name):
    def job():
        for kind, make in KINDS.items():
            make(path_of(f"another-{kind.split()[-1]}"))
        loader = load()
        assert epoch_of(loader) == (ALL, [])
        assert loader.stats()["cache"]["processes"] == 1

    in_small_shm(8 * MiB, job)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_squatted_name_is_refused_with_its_owner_named(load, name):
    def job():
        squats = {make_directory: "is a directory and not a regular file and ", make_open_file: ""}
        for make, what in squats.items():
            path = path_of(name)
            make(path)
            os.chown(path, NOBODY, NOBODY)
            samples, warned = epoch_of(load())
            assert samples == ALL and len(warned) == 1
            assert f"{path} {what}belongs to another user, nobody (uid {NOBODY}); have its owner" in warned[0]
            os.rmdir(path) if what else os.unlink(path)

    in_small_shm(8 * MiB, job)


def test_a_file_that_others_may_open_is_refused_as_that(load, name):
    def job():
        make_open_file(path_of(name))
        with pytest.raises(errors.SegmentOwnerError, match="may be opened by other users: its mode is 0666"):
            seneca.SampleCache.create(name, load().dataset, cache_bytes="1MiB")

    in_small_shm(8 * MiB, job)


def fill_shm():
    with open("/dev/shm/filling", "wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 16)):
                pass
            while file.write(bytes(1 << 12)):
                pass
        except OSError:
            pass


def test_a_job_that_joins_when_shm_is_full_goes_on_by_itself(load, name):
    """It lacks memory for its own records, of which no size of the cache could be the cause."""

    def job():
        with seneca.SampleCache.create(name, load().dataset, cache_bytes="4MiB"):
            fill_shm()
            joiner = load(job="another", cache_bytes="auto")
            samples, warned = epoch_of(joiner)
            assert samples == ALL
            assert len(warned) == 1 and "going on without the shared cache" in warned[0]
            assert "no room is left for the records of one more of its users" in warned[0]
            assert "cache_bytes" not in warned[0]
            assert joiner.stats()["cache"] is None
            os.unlink("/dev/shm/filling")
            assert epoch_of(joiner) == (ALL, [])
            assert joiner.stats()["cache"]["processes"] == 2

    in_small_shm(8 * MiB, job)


def test_an_iterator_without_memory_for_its_row_says_that_it_is_memory(load, name):
    def job():
        with seneca.SampleCache.create(name, load().dataset, cache_bytes="4MiB") as cache:
            fill_shm()
            samples, warned = epoch_of(load(cache=cache))
            assert samples == ALL
            assert len(warned) == 1 and "this epoch shares nothing: no room is left" in warned[0]

    in_small_shm(8 * MiB, job)


def test_an_iterator_that_is_not_let_in_says_that(load, name):
    with seneca.SampleCache.create(name, load().dataset, cache_bytes="4MiB") as cache:
        with open(path_of(name), "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            samples, warned = epoch_of(load(cache=cache))
        assert samples == ALL
        assert len(warned) == 1 and "another process held the cache's lock for too long" in warned[0]


def test_an_iterator_that_finds_every_row_taken_says_that(load, name):
    def job():
        with seneca.SampleCache.create(name, load().dataset, cache_bytes="4MiB") as cache:
            others = [iter(load(cache=cache, num_workers=1)) for _ in range(127)]
            samples, warned = epoch_of(load(cache=cache))
            assert samples == ALL
            assert len(warned) == 1 and "shares nothing: all rows of the cache are taken" in warned[0]
            others.clear()

    in_small_shm(64 * MiB, job)


class Many:
    """Cheap items, so many that a cache of 64 MiB is far too small for them."""

    def __len__(self):
        return 60_000

    def __getitem__(self, index):
        return index


@pytest.mark.parametrize(
    ("size_mib", "cache_bytes", "warns"), [(64, "auto", 1), (64, "4MiB", 0), (2048, "auto", 0)]
)
def test_auto_in_a_folder_that_is_far_too_small_names_the_folder_and_the_remedy(
    name, size_mib, cache_bytes, warns
):
    def job():
        loader = seneca.DataLoader(
            torch.utils.data.Subset(Many(), range(30_000)), 1000, cache=name, cache_bytes=cache_bytes
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                next(iter(loader))
        texts = [str(one.message) for one in caught]
        assert len(texts) == warns, texts
        if warns:
            assert (
                "because /dev/shm has 6" in texts[0] and "--shm-size" in texts[0] and "SENECA_DIR" in texts[0]
            )

    in_small_shm(size_mib * MiB, job)
