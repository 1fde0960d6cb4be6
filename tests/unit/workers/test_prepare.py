"""What a worker notes of the items that it makes."""

from __future__ import annotations

import itertools
import secrets
from types import SimpleNamespace

import numpy as np
import torch

import seneca
from seneca.data.stages import Payload
from seneca.workers import prepare as maker

# --- what a dataset's stages take


def test_each_stage_of_a_dataset_is_noted_under_its_own_name(monkeypatch):
    stages = SimpleNamespace(
        decoded=1,
        read=lambda index: b"bytes",
        decode=lambda index, data: Payload(b"decoded", 0, 0),
        augment=lambda index, decoded: "augmented",
        augment_encoded=lambda index, data: "prepared",
    )
    wall, cpu = itertools.count(step=1000), itertools.count(step=1)
    clocks = SimpleNamespace(perf_counter_ns=lambda: next(wall), thread_time_ns=lambda: next(cpu))
    monkeypatch.setattr(maker, "time", clocks)
    counts = np.zeros(len(maker.COUNTERS), np.int64)
    timed = maker._Timed(stages, counts)
    assert timed.read(0) == b"bytes"
    assert {timed.augment(0, timed.decode(0, b"")) for _ in range(2)} == {"augmented"}
    assert {timed.augment(0, None), timed.augment_encoded(0, b"")} == {"augmented", "prepared"}
    assert {name: count for name, count in zip(maker.COUNTERS, counts.tolist(), strict=True) if count} == {
        **{"reads": 1, "prepares": 1, "decodes": 2, "augments": 3},
        **{"read_ns": 1000, "prepare_ns": 1, "decode_ns": 2, "augment_ns": 3},
        **{"read_bytes": 5, "decoded_bytes": 14},
    }


# --- what is left for others


class Stepped(torch.utils.data.Dataset):
    """Its items hang on shared memory."""

    def __init__(self):
        self.step = torch.zeros(1, dtype=torch.int64).share_memory_()

    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.tensor(index + 100 * int(self.step)), torch.rand(1)


def test_an_item_is_not_left_for_others_if_another_process_changes_the_dataset_meanwhile(monkeypatch):
    """The change comes between the making of an item and its commit; here this process makes it."""
    dataset = Stepped()
    options = {"shuffle": True, "cache": f"prepare-{secrets.token_hex(6)}", "cache_bytes": "2MiB"}
    other = iter(seneca.DataLoader(Stepped(), 4, job="b", **options))
    next(other)  # wants copies from now on
    loader = seneca.DataLoader(dataset, 4, job="a", **options)
    batches = iter(loader)
    while not loader.stats()["staged"]:
        next(batches)
    before = loader.stats()
    lay_out = maker.Preparer.lay_out

    def change_and_lay_out(self, item):
        dataset.step.fill_(1)
        return lay_out(self, item)

    monkeypatch.setattr(maker.Preparer, "lay_out", change_and_lay_out)
    next(batches)
    after = loader.stats()
    assert after["prepared"] > before["prepared"] and after["staged"] == before["staged"]
