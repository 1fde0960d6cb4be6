"""``SENECA_AUDIT``: what members write down of what they deliver."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing.util
import os
import pickle
import signal

import numpy as np
import pytest
import torch
from audited_jobs import MiB, Squares, loader_of, logs, native, small_pictures
from engine import Process
from sizes import size
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, Subset

import seneca
from seneca import transforms as T
from seneca.audit.check import check
from seneca.audit.log import FORM_UNKNOWN, NO_SLOT, SUFFIX, read

AUGMENTED = 3


class Unsized(torch.utils.data.Dataset):
    """A sampler says how many there are."""

    def __getitem__(self, index):
        return index


# One job


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1])
def test_an_epoch_of_a_subset_is_no_incomplete_one(folder, cache, workers):
    options = {"num_workers": workers, "sampler": torch.utils.data.SubsetRandomSampler(range(5, 45))}
    loader = seneca.DataLoader(Squares(), 8, cache=cache, cache_bytes="4MiB", **options)
    for _ in range(2):
        assert sum(len(labels) for _, labels in loader) == 40
    report = check(folder)
    assert (report.violations, report.epochs, report.own_order) == ([], 2, 2)


def test_a_native_epoch_is_written_as_it_is_delivered(folder, pictures, cache):
    loader = native(pictures, cache, drop_last=True, batch_size=50)
    delivered = [[loader.last_indices.copy() for _ in loader] for _ in range(2)]
    for epoch, (header, content) in enumerate(logs(folder)):
        assert content.records["index"].tolist() == np.concatenate(delivered[epoch]).tolist()
        assert content.sizes.tolist() == [50] * 4 and content.done
        assert (header.epoch, header.turn, header.count, header.samples) == (epoch, epoch, 200, 240)
        assert (
            header.shuffled and header.drop_last and header.segment is not None and len(header.attached) == 1
        )
    assert content.out_of_turn == 0 and (content.records["form"] != FORM_UNKNOWN).all()
    assert (content.records["slot"] == NO_SLOT).all(), "nobody else is there: no copy is shared"
    report = check(folder)
    assert (report.violations, report.epochs, report.checked[3]) == ([], 2, 8)
    assert sum(report.served.values()) == 400


@pytest.mark.whole_size(shown_by="test_an_epoch_of_a_subset_is_no_incomplete_one")
@pytest.mark.parametrize("kind", ["native", "torch"])
def test_indices_of_a_subset_are_its_own(folder, pictures, cache, kind):
    folder_of = seneca.ImageFolder(pictures, transform=T.RandomResizedCrop(16))
    whole = folder_of if kind == "native" else Squares()
    loader = loader_of(Subset(whole, range(200, 90, -1)), cache, num_workers=1 if kind == "native" else 0)
    list(loader)
    ((header, content),) = logs(folder)
    assert header.samples == 110 and sorted(content.records["index"].tolist()) == list(range(110))
    assert check(folder).violations == []


def test_an_epoch_that_is_left_is_incomplete_and_the_next_is_another(folder, pictures, cache):
    loader = native(pictures, cache)
    for step, _ in enumerate(loader):
        if step == 4:
            break
    list(loader)
    (left, begun), (_, whole) = logs(folder)
    assert (len(begun.records), begun.done, whole.done) == (80, False, True)
    assert left.turn == 0
    report = check(folder)
    assert (report.violations, report.epochs, report.incomplete) == ([], 1, 1)


@pytest.mark.small(1)
@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.filterwarnings("ignore:seneca. skipped")
def test_what_cannot_be_read_is_written_as_that(folder, tmp_path, cache, on_error):
    pictures = small_pictures(tmp_path / "pictures", 50)
    for path in sorted(pictures.rglob("*.jpg"))[10:30:10]:
        path.write_bytes(path.read_bytes()[:200])
    loader = native(pictures, cache, on_error=on_error, batch_size=8, num_workers=0)
    iterator, failures = iter(loader), 0
    while True:
        try:
            next(iterator)
        except StopIteration:
            break
        except seneca.errors.DecodeError:
            failures += 1
    ((_, content),) = logs(folder)
    if on_error == "raise":
        assert 1 <= failures <= 2 and len(content.failures) == failures
        assert {10, 20} <= set(np.concatenate(content.failures).tolist())
    else:
        assert sorted(content.skipped.tolist()) == [10, 20] and len(content.records) == 48
    report = check(folder)
    assert (report.violations, report.epochs) == ([], 1)


@pytest.mark.parametrize("workers", size([2], [0, 2]))
def test_an_epoch_of_torch_s_workers_is_written_by_who_delivers_and_who_makes(folder, cache, workers):
    loader = loader_of(Squares(90), cache, num_workers=workers, batch_size=8, persistent_workers=workers > 0)
    delivered = [[index for _, indices in loader for index in indices.tolist()] for _ in range(2)]
    iterator = iter(loader)
    next(iterator)
    del iterator, loader
    known = logs(folder)
    assert [content.records["index"].tolist() for _, content in known[:2]] == delivered
    assert [(content.done, len(content.sizes)) for _, content in known] == [
        (True, 12),
        (True, 12),
        (False, 1),
    ]
    served = logs(folder, "served")
    for header, content in known[:2]:
        parts = [part.records["index"] for who, part in served if who.of == header.log]
        assert len(parts) == max(1, workers)
        assert sorted(np.concatenate(parts)) == sorted(content.records["index"])
    report = check(folder)
    assert (report.violations, report.epochs, report.incomplete, report.jobs) == ([], 2, 1, 1)


@pytest.mark.whole_size(shown_by="test_what_cannot_be_read_is_written_as_that")
def test_a_batch_that_raises_in_a_worker_is_written_as_that(folder, cache):
    class Torn(Squares):
        def __getitem__(self, index):
            if index == 33:
                raise ValueError("torn")
            return super().__getitem__(index)

    for workers in (0, 1):
        iterator, raised = iter(loader_of(Torn(90), cache, num_workers=workers, batch_size=8)), 0
        while True:
            try:
                next(iterator)
            except StopIteration:
                break
            except ValueError:
                raised += 1
        assert raised == 1
    for _, content in logs(folder):
        assert len(content.failures) == 1 and 33 in content.failures[0] and content.done
    assert (check(folder).violations, check(folder).epochs) == ([], 2)


def test_in_a_loader_of_torch_s_own_drawn_is_delivered(folder, cache):
    shared = seneca.SharedDataset(Squares(90), cache=cache, cache_bytes=MiB)
    batches = seneca.OpportunisticBatchSampler(RandomSampler(shared), batch_size=8, drop_last=True)
    loader = torch.utils.data.DataLoader(shared, batch_sampler=batches, num_workers=1)
    delivered = [[index for _, indices in loader for index in indices.tolist()] for _ in range(2)]
    assert [content.records["index"].tolist() for _, content in logs(folder)] == delivered
    assert {who.of for who, _ in logs(folder, "served")} == {header.log for header, _ in logs(folder)}
    assert [header.count for header, _ in logs(folder)] == [88, 88]
    report = check(folder)
    assert (report.violations, report.epochs, report.checked[1]) == ([], 2, 2)


@pytest.mark.whole_size(shown_by="test_in_a_loader_of_torch_s_own_drawn_is_delivered")
def test_a_sampler_that_plans_is_written_once_in_seneca_s_own_loader(folder, cache):
    shared = seneca.SharedDataset(Squares(90), cache=cache, cache_bytes=MiB)
    batches = seneca.OpportunisticBatchSampler(RandomSampler(shared), batch_size=8, drop_last=False)
    list(seneca.DataLoader(shared, batch_sampler=batches))
    ((header, content),) = logs(folder)
    assert (header.count, len(content.records), content.done) == (90, 90, True)
    assert check(folder).violations == []


def test_an_order_of_the_user_s_is_written_and_not_judged(folder, cache):
    class Names(Squares):
        def __getitem__(self, index):
            return super().__getitem__(int(index))

    order = [3, 3, 1, 40, 3]
    list(loader_of(Squares(90), cache, shuffle=False, sampler=order, num_workers=0, batch_size=2))
    list(
        loader_of(
            Names(90), f"{cache}-names", batch_size=None, shuffle=False, sampler=["7", "8"], num_workers=0
        )
    )
    by_itself = BatchSampler(RandomSampler(range(90), replacement=True), 8, False)
    list(loader_of(Squares(90), cache, batch_size=1, shuffle=False, batch_sampler=by_itself, num_workers=0))
    first, second, _ = logs(folder)
    assert first[1].records["index"].tolist() == order and second[1].records["index"].tolist() == []
    report = check(folder)
    assert (report.violations, report.own_order, report.checked[1]) == ([], 3, 0)


# Resumed


def gone_through(loader, steps, ahead=0):
    """The state after so many batches, of a run that goes on for some more before it ends."""
    state = None
    for step, _ in enumerate(loader):
        if step + 1 == steps:
            state = pickle.loads(pickle.dumps(loader.state_dict()))
        if step + 1 == steps + ahead:
            break
    return state


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", ["native", "torch"])
@pytest.mark.parametrize("drop_last", [False, True])
def test_an_epoch_that_is_resumed_twice_is_one_in_the_logs(folder, pictures, cache, kind, drop_last):
    def make(**options):
        options |= {"drop_last": drop_last}
        if kind == "native":
            return native(pictures, cache, range(230), **options)
        return loader_of(Squares(230), cache, **(options | {"num_workers": 2}))

    first = make()
    list(first)
    state = gone_through(first, 4, ahead=3)
    assert len(pickle.dumps(state)) < 230 // 8 + 1024
    again = make(batch_size=12)
    again.load_state_dict(state)
    state = gone_through(again, 5, ahead=1)
    last = make()
    last.load_state_dict(state)
    list(last)
    list(last)
    del first, again, last
    report = check(folder)
    assert report.violations == []
    assert (report.epochs, report.incomplete, report.checked[5]) == (3, 2, 2)
    headers = [header for header, _ in logs(folder)]
    assert [header.epoch for header in headers] == [0, 1, 1, 1, 2]
    assert [[part["batches"] for part in header.resumed] for header in headers] == [[], [], [4], [4, 5], []]
    lost = max(folder.glob(f"*{headers[2].log}{SUFFIX}"))
    lost.unlink()  # then nobody knows what it delivered, but that there was something
    assert check(folder).violations == []


def test_a_state_of_a_run_without_a_log_is_resumed_as_far_as_is_known(folder, monkeypatch, cache):
    monkeypatch.delenv("SENECA_AUDIT")
    state = gone_through(loader_of(Squares(230), cache, num_workers=0), 4)
    assert "audit" not in state
    monkeypatch.setenv("SENECA_AUDIT", str(folder))
    loader = loader_of(Squares(230), cache, num_workers=0)
    loader.load_state_dict(state)
    state = gone_through(loader, 3)
    monkeypatch.delenv("SENECA_AUDIT")
    loader = loader_of(Squares(230), cache, num_workers=0)
    loader.load_state_dict(state)
    state = gone_through(loader, 2)
    assert [part["log"] is None for part in state["audit"]] == [True, False, True]
    monkeypatch.setenv("SENECA_AUDIT", str(folder))
    loader = loader_of(Squares(230), cache, num_workers=0)
    loader.load_state_dict(state)
    list(loader)
    report = check(folder)
    assert (report.violations, report.epochs, report.incomplete) == ([], 1, 1)


def test_a_batch_sampler_is_resumed_by_what_was_yielded(folder, cache):
    def make():
        shared = seneca.SharedDataset(Squares(90), cache=cache, cache_bytes=MiB)
        return seneca.OpportunisticBatchSampler(RandomSampler(shared), batch_size=8)

    first = make()
    for step, _ in enumerate(first):
        if step == 6:
            break
    last = make()
    last.load_state_dict(first.state_dict(yielded=4))
    list(last)
    assert logs(folder)[1][0].resumed == [{"log": logs(folder)[0][0].log, "batches": 4}]
    report = check(folder)
    assert (report.violations, report.checked[5]) == ([], 1)


@pytest.mark.small(1)
@pytest.mark.filterwarnings("ignore:seneca. skipped")
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_what_failed_before_a_resume_is_not_missing(folder, tmp_path, cache, on_error):
    pictures = small_pictures(tmp_path / "pictures", 50)
    for path in sorted(pictures.rglob("*.jpg"))[::5]:  # some are among the first, however they are shuffled
        path.write_bytes(path.read_bytes()[:200])

    def through(loader, steps):
        iterator, state = iter(loader), None
        for step in itertools.count(1):
            try:
                next(iterator)
            except StopIteration:
                return state
            except seneca.errors.DecodeError:
                pass
            if step == steps:
                return loader.state_dict()

    state = through(native(pictures, cache, on_error=on_error, batch_size=4), 8)
    loader = native(pictures, cache, on_error=on_error, batch_size=4)
    loader.load_state_dict(state)
    through(loader, 100)
    report = check(folder)
    assert (report.violations, report.checked[5]) == ([], 1)
    (_, first), _ = logs(folder)
    assert len(first.failures if on_error == "raise" else first.skipped) > 0


# Ranks


@pytest.mark.small(1)
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("kind", ["native", "torch"])
def test_ranks_that_go_on_as_others_are_one_epoch_in_the_logs(folder, pictures, cache, kind, drop_last):
    """Two ranks for an epoch and some batches of the next; then three."""
    whole = seneca.ImageFolder(pictures, transform=T.RandomResizedCrop(16)) if kind == "native" else Squares()

    def rank(number, ranks, states, steps):
        def work(pipe):
            torch.set_num_threads(1)
            dataset = Subset(whole, range(239))
            sampler = DistributedSampler(dataset, ranks, number, drop_last=drop_last)
            options = {"shuffle": None, "sampler": sampler, "job": cache, "batch_size": 10}
            loader = loader_of(dataset, cache, **options)
            if states is None:
                list(loader)
                sampler.set_epoch(1)
            else:
                loader.load_state_dict(states)
            pipe.receive()
            pipe.send(gone_through(loader, steps))
            pipe.receive()
            del loader
            multiprocessing.util._run_finalizers()

        return Process(work)

    def run(ranks, states, steps):
        with contextlib.ExitStack() as stack:
            processes = [stack.enter_context(rank(k, ranks, states, steps)) for k in range(ranks)]
            for process in processes:
                process.send("go")
            states = [process.receive() for process in processes]
            for process in processes:
                process.send("end")
            assert [process.join() for process in processes] == [0] * ranks
            return states

    states = run(2, None, 5)
    run(3, states, 1000)
    report = check(folder)
    assert report.violations == []
    assert (report.epochs, report.incomplete, report.checked[5], report.jobs) == (2, 1, 1, 1)
    headers = [header for header, _ in logs(folder)]
    assert sorted((h.epoch, h.ranks, h.rank) for h in headers) == [
        *((0, 2, k) for k in range(2)), *((1, 2, k) for k in range(2)), *((1, 3, k) for k in range(3)),
    ]  # fmt: skip
    assert {h.padded for h in headers} == {not drop_last}


# Several jobs


def begins_together(loader_made, epochs, stops_after=None):
    """What a job does: it joins, says so, and goes through its epochs when all have; or stops half-way."""

    def work(pipe):
        torch.set_num_threads(1)  # OpenMP's threads are the parent's and did not come along
        loader = loader_made()
        iterator = iter(loader)
        pipe.send("ready")
        pipe.receive()
        for epoch in range(epochs):
            for step, _ in enumerate(iterator if epoch == 0 else loader):
                if step + 1 == stops_after:
                    pipe.send("stopped")
                    pipe.receive(patience_s=None)
        pipe.send(loader.stats()["served"])
        del iterator, loader
        multiprocessing.util._run_finalizers()  # as at the end of a script

    return Process(work)


def run_together(jobs):
    for job in jobs:
        assert job.receive() == "ready"
    for job in jobs:
        job.send("go")
    return [job.receive() for job in jobs]


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", ["native", "torch"])
@pytest.mark.parametrize(("epochs", "samples"), [(1, 240), (3, 150)])
def test_two_jobs_that_share_hold_every_invariant(folder, pictures, cache, kind, epochs, samples):
    """One epoch that is long enough to be judged by its order, and several that are not."""

    def make():
        if kind == "native":
            return native(pictures, cache, part=range(samples))
        return loader_of(Squares(samples), cache, num_workers=2)

    with begins_together(make, epochs) as one, begins_together(make, epochs) as other:
        served = run_together([one, other])
        assert [one.join(), other.join()] == [0, 0]
    report = check(folder)
    assert report.violations == []
    assert (report.jobs, report.epochs, report.incomplete) == (2, 2 * epochs, 0)
    assert report.samples == 2 * epochs * samples
    assert report.checked[2] > 0 and report.served["augmented"] > 0
    assert report.checked[3] == (6 if epochs == 1 else 0)
    assert report.served == {form: sum(part[form] for part in served) for form in report.served}
    for path in folder.iterdir():
        records = read(path).records
        assert (records["slot"][records["form"] == AUGMENTED] != NO_SLOT).all()
    assert sum(content.out_of_turn for _, content in logs(folder)) > 0
    for _, content in logs(folder):
        substitutes = int((content.records["form"] == AUGMENTED).sum())  # 0 here if workers make the items
        assert substitutes <= content.out_of_turn <= len(content.records)


def in_turn(loaders, epochs, ahead):
    """Epochs of two loaders, a batch of each in turn, of which the first is some batches ahead."""
    one, other = (itertools.chain.from_iterable(itertools.repeat(loader, epochs)) for loader in loaders)
    for _ in range(ahead):
        next(one)
    for _ in itertools.zip_longest(one, other):
        pass
    return [loader.stats()["served"]["augmented"] for loader in loaders]


@pytest.mark.parametrize("workers", size([0], [0, 1]))
def test_jobs_that_share_half_an_epoch_apart_are_not_called_broken(folder, cache, workers):
    """Their epochs begin with the same half each time."""
    options = {"num_workers": workers, "batch_size": 20, "split": "0-0-100", "key": "squares"}
    loaders = [loader_of(Squares(600), cache, job=job, **options) for job in ("one", "other")]
    assert min(in_turn(loaders, epochs=4, ahead=15)) > 300
    report = check(folder)
    assert (report.violations, report.epochs) == ([], 8)
    assert sum(report.unchecked[3].values()) == 6


@pytest.mark.parametrize("kind", size(["native"], ["native", "torch"]))
def test_indices_of_jobs_that_go_over_different_parts_are_not_held_to_each_other(
    folder, pictures, cache, kind
):
    """Their copies are of the same samples, whatever index these have in either."""
    loaders = []
    for job, part in (("one", range(180)), ("other", range(60, 240)), ("third", range(60, 240))):
        if kind == "native":
            loaders.append(native(pictures, cache, part=part, job=job, split="0-0-100"))
        else:
            dataset = Subset(Squares(), part)
            loaders.append(loader_of(dataset, cache, job=job, num_workers=0, split="0-0-100", key="squares"))
    assert min(in_turn(loaders[:2], epochs=2, ahead=1)) > 0
    report = check(folder)
    assert report.violations == [] and report.served["augmented"] > 0
    assert len({header.part for header, _ in logs(folder)} - {""}) == 2
    in_turn(loaders[1:], epochs=1, ahead=1)
    assert len({header.part for header, _ in logs(folder)}) == 2


def test_a_job_that_is_killed_leaves_an_incomplete_epoch_and_no_violation(folder, pictures, cache):
    def make():
        return native(pictures, cache)

    with begins_together(make, 1, stops_after=4) as victim, begins_together(make, 1) as other:
        assert run_together([victim, other])[0] == "stopped"
        os.kill(victim.pid, signal.SIGKILL)
        assert other.join() == 0
    with contextlib.suppress(FileNotFoundError):  # if the other was through before, it was not the last
        seneca.SampleCache.remove(cache)
    report = check(folder)
    assert (report.violations, report.jobs, report.incomplete) == ([], 2, 1)
    assert report.epochs == 1 and report.samples == 240 + 4 * 16


@pytest.mark.filterwarnings("ignore:.*has no length")
def test_a_dataset_without_a_length_is_loaded_and_leaves_no_log(folder, cache):
    """A log says how many samples there are, and which of them were not delivered."""
    loader = seneca.DataLoader(Unsized(), sampler=[5, 6, 7], batch_size=2, cache=cache)
    assert [batch.tolist() for batch in loader] == [[5, 6], [7]]
    assert not folder.exists() or not list(folder.iterdir())
