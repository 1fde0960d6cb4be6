"""Jobs whose datasets resemble, and do not share: what differs is reported by its name, to both."""

import logging
import os
import secrets

import pytest
import seen_jobs
import torch
from engine import Process

import seneca
from seneca._runtime.distributed import job_key
from seneca.data.support import inspect_dataset
from seneca.data.traits import MOST, REST, Traits
from seneca.segments import find
from seneca.tuning import neighbours
from seneca.tuning.neighbours import MOST_JOBS, neighbours_text, publish_traits, sharers_text


class Sized(torch.utils.data.Dataset):
    def __init__(self, size, lr=0.1, count=50):
        self.size, self.lr, self.count = size, lr, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index * self.size


class Other(Sized):
    """Another class with the same length."""


class Named:
    """What a cache asks of a dataset."""

    def __len__(self):
        return 50

    def fingerprint(self):
        return b"neighbours' test"

    def total_bytes(self):
        return 50_000


@pytest.fixture(autouse=True)
def nothing_was_logged(monkeypatch):
    monkeypatch.setattr(neighbours, "_logged", set())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Caches of this test alone."""
    monkeypatch.setenv("SENECA_DIR", str(tmp_path))
    return str(tmp_path)


def traits(dataset):
    return Traits.of(inspect_dataset(dataset))


def training(pipe, dataset, job, cache):
    loader = seneca.DataLoader(dataset, 10, job=job, cache=cache, cache_bytes="4MiB")
    batches = iter(loader)
    next(batches)
    pipe.send(loader.explain())
    pipe.receive()
    pipe.send(loader.explain())


def beside(dataset, *others, cache="auto", folder=None):
    """What a job with this dataset learns while the others train."""
    jobs = [Process(training, other, f"job-{k}", "auto") for k, other in enumerate(others)]
    for job in jobs:
        job.receive()
    name = cache if cache != "auto" else f"none-{secrets.token_hex(4)}"
    text = neighbours_text(traits(dataset), name, job_key("mine"), folder)
    for job in jobs:
        job.send("end")
        job.receive()
        job.join()
    return text


def test_what_differs_is_named(folder):
    text = beside(Sized(3), Sized(4, lr=0.2))
    assert text.startswith("not shared with other jobs' datasets of the same class and length: process ")
    assert text.endswith("(job-0): size differs")


@pytest.mark.small(1)
@pytest.mark.parametrize("other", [Other(4), Sized(4, count=51)], ids=["another class", "another length"])
def test_other_datasets_are_no_neighbours(folder, other):
    assert beside(Sized(3), other) == ""


def test_equal_datasets_in_two_caches_are_reported(folder):
    text = beside(Sized(3), Sized(3))
    assert "it has another cache, '" in text


@pytest.mark.whole_size(shown_by="test_what_differs_is_named")
def test_many_jobs_are_counted(folder):
    text = beside(Sized(3), *(Sized(4 + k) for k in range(MOST_JOBS + 2)))
    assert text.count("size differs") == MOST_JOBS and text.endswith("; and 2 jobs more")


@pytest.mark.whole_size(shown_by="test_what_differs_is_named")
def test_both_jobs_are_named_by_explain_and_by_their_rows(folder):
    with (
        Process(training, Sized(3), "one", "auto") as one,
        Process(training, Sized(4), "two", "auto") as two,
    ):
        first = one.receive(), two.receive()
        for job in (one, two):
            job.send("end")
        said = one.receive(), two.receive()
        assert "(one): size differs" in said[1] and "(two): size differs" in said[0], first
        one.join()
        two.join()


def test_who_shares_now_is_told_apart_from_what_may_be_shared(folder):
    name, mine = f"now-{secrets.token_hex(4)}", job_key("mine")
    assert sharers_text(name, mine, folder) == "now no other job uses that cache"
    with Process(training, Sized(3), "one", name) as one:
        said = one.receive().split("\n")
        assert said[0].startswith("opaque: ") and f"may be shared in the cache '{name}'" in said[0]
        assert said[1] == "now no other job uses that cache", "a job does not share with itself"
        assert sharers_text(name, mine, folder) == f"now 1 other job uses it: process {one.pid} (one)"
        with Process(training, Sized(3), "two", name) as two:
            assert f"now 1 other job uses it: process {one.pid} (one)" in two.receive()
            assert sharers_text(name, mine, folder).startswith("now 2 other jobs use it: process ")
            for job in (one, two):
                job.send("end")
                job.receive()
                job.join()


def test_of_many_jobs_that_share_some_are_named(monkeypatch):
    jobs = [seen_jobs.job(key=f"{k:016x}", pids=(k,)) for k in range(1, MOST_JOBS + 3)]
    monkeypatch.setattr(neighbours, "find", lambda name, folder: seen_jobs.segment(*jobs))
    text = sharers_text("demo", 1)
    assert text == "now 4 other jobs use it: process 2, process 3, process 4, and 1 more"


def test_it_is_logged_once(folder, caplog):
    with caplog.at_level(logging.WARNING, "seneca.sharing"):
        for _ in range(2):
            beside(Sized(3), Sized(4))
    assert [record.getMessage().endswith("size differs") for record in caplog.records] == [True]


def test_a_row_has_as_many_parts_as_there_is_room(folder):
    class Many(Sized):
        def __init__(self, last):
            super().__init__(1)
            vars(self).update({f"a{i:03}": i for i in range(2 * MOST)}, z=last)

        def __getitem__(self, index):
            return sum(vars(self).values())

    one, other = traits(Many(1)), traits(Many(2))
    assert len(one.parts) == MOST and one.like == other.like
    assert [name for name in one.parts if one.parts[name] != other.parts[name]] == [REST]


def test_what_is_published_is_seen(folder):
    wanted = traits(Sized(3))
    with seneca.SampleCache.create("published", Named(), cache_bytes="1MiB") as cache:
        publish_traits(wanted, cache)
        (job,) = find("published").view.jobs
        (seen,) = job.datasets
    assert (seen.pid, seen.like, seen.source, seen.kind) == (
        os.getpid(),
        wanted.like,
        wanted.source,
        wanted.kind,
    )
    assert len(seen.traits) == len(wanted.parts) and job.apart == ""


def test_pictures_name_the_step_that_differs(picture_folder):
    from seneca import transforms as T

    one, other = (
        traits(
            seneca.ImageFolder(picture_folder, T.Compose([T.Resize(16), T.RandomCrop(size), T.ToTensor()]))
        )
        for size in (8, 12)
    )
    assert one.source == other.source and one.kind != other.kind
    assert [part for part in one.parts if one.parts[part] != other.parts[part]] == [
        "step 2 of the transform, random_crop"
    ]
