"""Jobs on folders of WebPs and on lists of pictures share a cache as real processes; one is killed."""

import itertools
import random
import time

import numpy as np
import pytest
import torch
from job_processes import Host, transform
from sizes import size

import seneca
from seneca.audit.check import check

MiB = 2**20
SAMPLES = 120


def as_dict(items):
    pictures, targets = zip(*items, strict=True)
    ids = torch.tensor([target["id"] for target in targets])
    return {
        "pixel_values": torch.stack(pictures),
        "labels": {"id": ids, "name": [one["name"] for one in targets]},
    }


def target_of(number, kind):
    return number if kind == "folder" else {"id": number, "name": f"picture {number}"}


def dataset_of(files, kind):
    if kind == "folder":
        return seneca.ImageFolder(files.parent, transform())
    entries = [(path, target_of(number, kind)) for number, path in enumerate(sorted(files.iterdir()))]
    return seneca.PictureList(entries, transform())


def batch_of(batch, dataset, kind):
    """The pictures of a batch, and the numbers that its targets give."""
    if kind == "folder":
        return batch[0], None
    labels = batch["labels"]
    assert labels["name"] == [f"picture {number}" for number in labels["id"].tolist()]
    return batch["pixel_values"], labels["id"].tolist()


def train(files, name, kind, *, epochs, until=None):
    def work(log):
        dataset = dataset_of(files, kind)
        loader = seneca.DataLoader(
            dataset,
            batch_size=8,
            shuffle=True,
            num_workers=1,
            collate_fn=as_dict if kind == "list" else None,
            cache=name,
            cache_bytes=MiB,
            split="20-40-40",
        )
        assert loader.explain().startswith("native: ")
        for epoch in itertools.count():
            if epoch >= epochs and (until is None or until.exists()):
                break
            for batch in loader:
                ids = loader.last_indices
                pictures, numbers = batch_of(batch, dataset, kind)
                assert pictures.shape == (len(ids), 3, 32, 32) and bool(pictures.isfinite().all())
                assert numbers is None or numbers == list(ids)
                log(epoch, ids)

    return work


@pytest.fixture(params=["png", "webp"])
def files(request, tmp_path):
    """A folder of so many pictures, of other sizes each."""
    folder = tmp_path / "pictures" / "only"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for number in range(SAMPLES):
        pixels = rng.integers(0, 256, (20 + number % 30, 40, 3), np.uint8)
        path = folder / f"{number:03}.{request.param}"
        if request.param == "webp":
            from webp_files import webp  # without libwebp it skips

            path.write_bytes(webp(pixels, lossless=number % 2 == 0))
        else:
            from PIL import Image

            Image.fromarray(pixels).save(path)
    return folder


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", ["folder", "list"])
def test_each_job_gets_each_sample_once_whoever_dies(host: Host, files, kind, seed, monkeypatch):
    monkeypatch.setenv("SENECA_AUDIT", str(host.folder / "audit"))
    rng = random.Random(seed)
    for round_ in range(size(1, 4)):
        is_dead = host.folder / f"round {round_}"
        jobs = [host.start(train(files, host.name, kind, epochs=3, until=is_dead)) for _ in range(3)]
        victim = jobs.pop(rng.randrange(3))
        while victim.runs() and not victim.delivered():
            time.sleep(0.001)
        time.sleep(rng.random() * 0.1)
        victim.kill()
        is_dead.touch()
        assert [job.wait() for job in jobs] == [0, 0]
        for job in jobs:
            epochs = job.delivered()
            assert len(epochs) >= 3
            for ids in epochs.values():
                assert sorted(np.concatenate(ids).tolist()) == list(range(SAMPLES))
        assert host.segments() == []
    report = check(host.folder / "audit")
    assert not report.violations and report.served["augmented"] > 0


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", ["folder", "list"])
def test_an_epoch_is_resumed_in_another_process(host: Host, files, kind):
    """Beside a job that shares with both processes, what they deliver is each sample once."""
    state_file = host.folder / "state"

    def loader_of(dataset):
        return seneca.DataLoader(
            dataset, batch_size=8, shuffle=True, num_workers=1, cache=host.name, cache_bytes=MiB,
            split="20-40-40", collate_fn=as_dict if kind == "list" else None,
        )  # fmt: skip

    def first(log):
        loader = loader_of(dataset_of(files, kind))
        for _ in itertools.islice(loader, 5):
            log(0, loader.last_indices)
        torch.save(loader.state_dict(), state_file)

    def second(log):
        loader = loader_of(dataset_of(files, kind))
        loader.load_state_dict(torch.load(state_file))
        for _ in loader:
            log(0, loader.last_indices)

    done = host.folder / "done"
    neighbour = host.start(train(files, host.name, kind, epochs=1, until=done))
    seen = []
    for work in (first, second):
        job = host.start(work)
        assert job.wait() == 0
        seen += [number for ids in job.delivered()[0] for number in ids.tolist()]
    done.touch()
    assert neighbour.wait() == 0
    assert sorted(seen) == list(range(SAMPLES))
