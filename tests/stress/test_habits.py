"""Jobs with samplers and functions of the user's share a cache, as real processes, one of which is killed."""

import itertools
import random
import time

import numpy as np
import torch
from job_processes import Host, transform
from sizes import size
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
)

import seneca
from seneca.audit.check import check

MiB = 2**20


def mixed(items):
    images, labels = default_collate(items)
    return images.lerp(images.roll(1, 0), torch.rand(())), labels


HABITS = {
    "weighted": lambda n: {
        "sampler": WeightedRandomSampler([1.0 + i % 3 for i in range(n)], n),
        "batch_size": 8,
    },
    "batches": lambda n: {"batch_sampler": BatchSampler(RandomSampler(range(n)), 8, drop_last=False)},
    "a part": lambda n: {"sampler": SubsetRandomSampler(range(0, n, 2)), "batch_size": 8},
    "lists": lambda n: {"batch_sampler": [[*range(at, at + 10)] for at in range(0, n, 10)]},
    "mixes": lambda _: {"shuffle": True, "batch_size": 8, "collate_fn": mixed},
}


def train(folder, name, habit, *, epochs, until=None, workers=1):
    def work(log):
        dataset = seneca.ImageFolder(folder, transform())
        loader = seneca.DataLoader(
            dataset,
            num_workers=workers,
            cache=name,
            cache_bytes=MiB,
            split="20-40-40",
            **HABITS[habit](len(dataset)),
        )
        assert loader.explain().startswith("native: ")
        for epoch in itertools.count():
            if epoch >= epochs and (until is None or until.exists()):
                break
            for images, labels in loader:
                ids = loader.last_indices
                assert images.shape == (len(ids), 3, 32, 32) and bool(images.isfinite().all())
                assert [dataset.targets[i] for i in ids] == labels.tolist()
                log(epoch, ids)

    return work


def test_each_gets_what_its_sampler_gives_whoever_dies(host: Host, small_pictures, seed, monkeypatch):
    monkeypatch.setenv("SENECA_AUDIT", str(host.folder / "audit"))
    rng = random.Random(seed)
    for round_ in range(size(1, 8)):
        is_dead = host.folder / f"round {round_}"
        jobs = {
            habit: host.start(
                train(small_pictures, host.name, habit, epochs=2, until=is_dead, workers=(round_ + 1) % 3)
            )
            for habit in HABITS
        }
        victim = jobs.pop(rng.choice(list(jobs)))
        while victim.runs() and not victim.delivered():
            time.sleep(0.001)
        time.sleep(rng.random() * 0.1)
        victim.kill()
        is_dead.touch()
        assert {habit: job.wait() for habit, job in jobs.items()} == dict.fromkeys(jobs, 0)
        for habit, job in jobs.items():
            for ids in job.delivered().values():
                seen = np.concatenate(ids)
                if habit == "weighted":
                    assert len(seen) == 300
                else:
                    assert sorted(seen.tolist()) == list(range(0, 300, 2 if habit == "a part" else 1))
        assert host.segments() == []
    report = check(host.folder / "audit")
    assert not report.violations and report.own_order > 0 and report.served["augmented"] > 0
