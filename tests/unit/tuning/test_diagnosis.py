"""Why a training loop waits, and what would remove it, worked out by hand for a host of round numbers."""

import dataclasses

import pytest
from profiles import ROUND

from seneca.partition import BOTTLENECK, Jobs, Split
from seneca.tuning.diagnosis import ModelInputs, diagnose
from seneca.tuning.telemetry import EpochTimes

# With files in memory, preparing and batching a sample takes 1.2 ms of a core that is alone.
IN_MEMORY = dataclasses.replace(ROUND.with_storage(1e15), cache_bytes=1 << 30)


def times(seconds=100.0, ended=True, **stall_s):
    return EpochTimes(3, seconds, 5000, stall_s, ended)


def inputs(profile=IN_MEMORY, split=None, **jobs):
    return ModelInputs(profile, Jobs(**{"threads": 1, **jobs}), split or Split(0, 0, 1))


def test_a_wait_is_a_share_of_the_epoch_by_cause():
    found = diagnose(times(decode=20.0, storage=8.0, cores=3.0, item=0.0), None)
    assert found.waited == pytest.approx(0.31)
    assert list(found.causes.items()) == [("decode", 0.2), ("storage", 0.08), ("cores", 0.03)]
    assert found.scalars() == {
        "seneca/waited": found.waited,
        "seneca/waited_for/decode": 0.2,
        "seneca/waited_for/storage": 0.08,
        "seneca/waited_for/cores": 0.03,
    }
    assert str(found).startswith(
        "epoch 3 waited 31% of 100.0 s: 20% for decoding, 8% for storage, 3% for a free core. More workers"
    )


def test_an_epoch_that_is_not_over_is_described_so_far():
    assert str(diagnose(times(decode=50.0, ended=False), None)).startswith("epoch 3 so far waited 50%")


def test_where_nobody_waits_the_step_is_the_limit():
    found = diagnose(times(decode=2.0), inputs())
    assert found.remedies == () and found.advice == ""
    assert str(found) == "epoch 3 waited 2% of 100.0 s: the training step is the limit"


@pytest.mark.parametrize("nothing", [times(), times(seconds=0.0, decode=1.0)])
def test_what_is_not_known_is_not_guessed(nothing):
    found = diagnose(nothing, inputs())
    assert found.waited is None and "not known" in str(found) and found.scalars() == {}


@pytest.mark.parametrize(
    ("cause", "word"),
    [
        ("storage", "cache_bytes"),
        ("decode", "num_workers"),
        ("augment", "num_workers"),
        ("item", "__getitem__"),
        ("batch", "collate_fn"),
        ("cores", "other processes"),
        ("peers", "start them together"),
    ],
)
def test_without_a_model_the_largest_cause_is_answered(cause, word):
    found = diagnose(times(**{"other": 1.0, cause: 30.0}), None)
    assert found.remedies == () and word in found.advice and word in str(found).lower()


def test_more_threads_here_do_not_end_a_wait_for_other_jobs():
    """Half of the epoch is waited, most of it for other jobs. Two threads take half of what is left."""
    found = diagnose(times(decode=20.0, peers=30.0), inputs())
    (threads,) = [one for one in found.remedies if "thread" in one.what]
    assert threads.removes == pytest.approx(0.20)
    assert "30% for other jobs of the same seed, 20% for decoding" in str(found)
    alone = diagnose(times(peers=30.0), inputs())
    assert alone.remedies == () and "Jobs with share='exact'" in str(alone)


def test_a_second_thread_halves_what_a_thread_takes():
    """A quarter of the epoch is waited. Two threads need half of its time, less than the step does."""
    found = diagnose(times(decode=25.0), inputs())
    (threads,) = [one for one in found.remedies if "thread" in one.what]
    assert threads.what == "one more thread (num_workers=2)"
    assert threads.removes == pytest.approx(0.25)
    assert "One more thread (num_workers=2) would remove all of it" in str(found)


def test_of_a_wait_that_stays_the_part_that_goes_is_shown():
    """The loop waits always. What is left is the model's time with the change over its time now."""
    known = inputs(threads=2)
    (threads,) = [one for one in diagnose(times(decode=100.0), known).remedies if "thread" in one.what]
    rates = {n: BOTTLENECK.predict(IN_MEMORY, known.split, Jobs(threads=n)).samples_per_s for n in (2, 3, 4)}
    assert threads.what == "one more thread (num_workers=3)"
    assert threads.removes == pytest.approx(1 - rates[2] / rates[3])
    assert 1 - rates[2] / rates[4] == pytest.approx(threads.removes, abs=0.01), "a fourth gains little"


def test_threads_beyond_the_cores_decode_nothing():
    found = diagnose(times(decode=50.0), inputs(threads=4))
    assert not [one for one in found.remedies if "thread" in one.what]
    assert [one for one in found.remedies if "core" in one.what]


def test_a_slow_storage_wants_memory_or_a_faster_one():
    """10 GB at 50 MB/s, of which half is kept: a cache for all of it reads nothing."""
    found = diagnose(times(storage=80.0), inputs(ROUND, Split(1, 0, 0), threads=4))
    (memory,) = [one for one in found.remedies if "GiB" in one.what]
    (storage,) = [one for one in found.remedies if "storage" in one.what]
    gib = float(memory.what.split()[0])
    assert 3 < gib < 60, "5 GB are missing for all files; for all decoded pictures it is 50"
    assert memory.removes > 0.5 and storage.removes > 0.3
    assert not [one for one in found.remedies if "core" in one.what], "they wait for storage"


def test_the_most_useful_comes_first():
    removes = [one.removes for one in diagnose(times(storage=80.0), inputs(ROUND, threads=1)).remedies]
    assert len(removes) > 1 and removes == sorted(removes, reverse=True)


def test_the_steps_of_the_jobs_do_not_bound_what_more_threads_would_prepare():
    slow = inputs(step_per_s=1.0)
    assert diagnose(times(decode=25.0), slow).remedies == diagnose(times(decode=25.0), inputs()).remedies


def test_a_cache_that_the_folder_has_no_room_for_is_no_matter_of_cache_bytes():
    profile = dataclasses.replace(ROUND.with_storage(1e6), cache_bytes=1 << 20)
    known = inputs(profile)
    bare = next(one for one in diagnose(times(storage=80.0), known).remedies if "more of cache" in one.what)
    assert bare.what.endswith("(cache_bytes)")
    for most_bytes, how in (
        (1 << 50, "(cache_bytes)"),
        (64 << 20, "(/dev/shm has no room for it: make it larger (mount -o remount,size=... /dev/shm; in "),
    ):
        known = known._replace(folder="/dev/shm", most_bytes=most_bytes)
        found = next(one for one in diagnose(times(storage=80.0), known).remedies if "of cache" in one.what)
        assert how in found.what and found.removes == bare.removes
    assert "cache_bytes" not in found.what and "--shm-size" in found.what and "SENECA_DIR" in found.what
