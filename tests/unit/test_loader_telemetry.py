"""What a loader reports of itself while it iterates: to its user, and to those who watch its cache."""

import gc
import logging
import time

import pytest
import torch
from sizes import size
from torch.utils.data import Dataset, IterableDataset, RandomSampler

import seneca
from seneca import transforms as T
from seneca.segments import find

EPOCHS = 2


class Slow(Dataset):
    """Items that take some time, 2 ms, in which nobody computes."""

    def __init__(self, items=40, seconds=0.002):
        self.items, self.seconds = items, seconds

    def __len__(self):
        return self.items

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.tensor(index)


def keep(samples):
    return samples


def pictures(folder, workers, **options):
    data = seneca.ImageFolder(
        folder,
        transform=T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip()]),
    )
    return seneca.DataLoader(data, 8, shuffle=True, num_workers=workers, cache_bytes="4MiB", **options)


def kinds(folder, name):
    """Loaders of each way of loading, by name."""
    return {
        "threads": lambda: pictures(folder, 2, cache=name),
        "no threads": lambda: pictures(folder, 0, cache=name),
        "staged": lambda: pictures(folder, 2, cache=name, collate_fn=keep),
        "staged, no workers": lambda: pictures(folder, 0, cache=name, collate_fn=keep),
        "items": lambda: seneca.DataLoader(Slow(), 8, True, num_workers=2, cache=name, cache_bytes="1MiB"),
    }


def work_of(name):
    (job,) = find(name).view.jobs
    (work,) = job.work
    return work


@pytest.mark.small(2)
@pytest.mark.parametrize("kind", kinds(None, None))
def test_what_watchers_see_is_what_the_loader_did(picture_folder, name, kind):
    loader = kinds(picture_folder, name)[kind]()
    for _ in range(EPOCHS):
        for _ in loader:
            pass
    seen, stats = work_of(name), loader.stats()
    places = len(loader.dataset)
    assert (seen.epoch, seen.place, seen.places, seen.batch_size) == (EPOCHS - 1, places, places, 8)
    assert (seen.threads, seen.rank, seen.ranks) == (max(1, loader.num_workers), 0, 1)
    assert seen.served == stats["served"]
    assert (seen.delivered, seen.prepared, seen.staged) == (
        *(stats["delivered"], stats["prepared"], stats["staged"]),
    )
    assert (seen.read_bytes, seen.skipped, seen.damaged) == (stats["read_bytes"], 0, 0)
    assert seen.dataset == find(name).view.dataset == ("Slow" if kind == "items" else picture_folder.name)
    assert stats["stall_s"] > 0
    assert sum(seen.stall_ns.values()) * 1e-9 == pytest.approx(stats["stall_s"], rel=0.05, abs=0.01)
    assert seen.spent_ns["item" if kind == "items" else "decode"] > 0


def test_why_items_take_long_is_published(name):
    """Two workers sleep 0.8 s in an epoch, together, and perhaps wait for a core besides.

    On a busy host they take 0.1 s of CPU to begin with.
    """
    loader = seneca.DataLoader(Slow(40, 0.02), 8, True, num_workers=2, cache=name, cache_bytes="1MiB")
    for _ in loader:
        pass
    found = loader.diagnose()
    assert (found.epoch, found.delivered, found.ended) == (0, 40, True)
    assert next(iter(found.causes)) in ("storage", "cores"), "nobody computes anything"
    spent_ns = work_of(name).spent_ns
    assert spent_ns["storage"] + spent_ns["cores"] >= 800_000_000
    assert str(found).startswith("epoch 0 waited ")


def test_a_wait_for_other_jobs_is_shown_as_such(picture_folder, name):
    loader = pictures(picture_folder, 1, cache=name)
    for _ in loader:
        # What a batch reports whose copies other jobs were making.
        loader._session.counts.stall_s += 0.5
        loader._session.counts.peer_wait_s += 0.5
    assert work_of(name).stall_ns["peers"] == pytest.approx(3e9)
    assert next(iter(loader.diagnose().causes)) == "peers"


def test_torchs_own_loader_over_a_shared_dataset_publishes_what_it_can(name):
    shared = seneca.SharedDataset(Slow(400), cache=name, cache_bytes="4MiB")
    batches = seneca.OpportunisticBatchSampler(RandomSampler(shared), 8, drop_last=False)
    loader = torch.utils.data.DataLoader(shared, batch_sampler=batches, num_workers=1)
    for _ in loader:
        pass
    seen = work_of(name)
    assert 0 < seen.delivered <= 400 and sum(seen.stall_ns.values()) == 0


@pytest.mark.small(1)
@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("kind", ["threads", "staged"])
def test_a_loader_is_diagnosed_with_and_without_a_cache(picture_folder, name, kind, cache):
    loader = kinds(picture_folder, name if cache else None)[kind]()
    with pytest.raises(RuntimeError, match="in an epoch"):
        loader.diagnose()
    batches = iter(loader)
    next(batches)
    assert loader.diagnose().ended is False
    for _ in batches:
        pass
    found = loader.diagnose()
    assert (found.epoch, found.delivered, found.ended) == (0, len(loader.dataset), True)
    assert found.waited is not None and found.waited > 0


def test_the_end_of_each_epoch_is_logged(picture_folder, name, caplog):
    seen = size(("staged",), ("threads", "staged", "items"))
    with caplog.at_level(logging.INFO, "seneca.epochs"):
        for kind in seen:
            loader = kinds(picture_folder, f"{name}-{kind[0]}")[kind]()
            for _ in range(EPOCHS):
                for _ in loader:
                    pass
    lines = [record.getMessage() for record in caplog.records if record.name == "seneca.epochs"]
    assert len(lines) == len(seen) * EPOCHS
    assert [line.split(" waited")[0] for line in lines] == ["epoch 0", "epoch 1"] * len(seen)


def test_what_cannot_be_measured_is_not_diagnosed():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(8))

    loader = seneca.DataLoader(Stream(), cache=None)
    assert len(list(loader)) == 8
    with pytest.raises(RuntimeError):
        loader.diagnose()


def test_nobody_is_kept_by_what_is_published(picture_folder, name):
    """A loader that is let go of leaves its cache at once, without a collection of cycles."""
    gc.collect()
    gc.disable()
    try:
        for kind in ("threads", "staged"):
            loader = kinds(picture_folder, name)[kind]()
            for _ in loader:
                pass
            assert find(name).view.jobs
            del loader
            with pytest.raises(FileNotFoundError):
                find(name)
    finally:
        gc.enable()
