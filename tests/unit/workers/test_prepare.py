"""What a worker notes of the items that it makes."""

from __future__ import annotations

import secrets

import torch

import seneca
from seneca.workers import batch

# --- what is left for others


class Stepped(torch.utils.data.Dataset):
    """Its items depend on shared memory."""

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
    lay_out = batch.BatchContext.lay_out

    def change_and_lay_out(self, item):
        dataset.step.fill_(1)
        return lay_out(self, item)

    monkeypatch.setattr(batch.BatchContext, "lay_out", change_and_lay_out)
    next(batches)
    after = loader.stats()
    assert after["prepared"] > before["prepared"] and after["staged"] == before["staged"]
