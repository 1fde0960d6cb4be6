"""One of two processes that train with accelerate; writes what it was given to FOLDER/RANK.json."""

import json
import os
import sys
from pathlib import Path

import torch
import torchvision_here  # noqa: F401
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from recorded import CACHE_BYTES, Points, Readings, ours, planned, untrained_line
from torch.utils.data import DataLoader, SequentialSampler

import seneca


def epochs_of(loader, accelerator, count=2):
    """Samples by epoch and batch of this process; and what both have gathered, by epoch."""
    batches, gathered = [], []
    for _ in range(count):
        batches.append([])
        gathered.append([])
        for batch in loader:
            batches[-1].append(batch["index"].tolist())
            gathered[-1] += accelerator.gather_for_metrics(batch["index"]).tolist()
        accelerator.wait_for_everyone()
    return {"batches": batches, "gathered": gathered}


def in_order():
    shared = seneca.SharedDataset(Points(), cache_bytes=CACHE_BYTES)
    batches = seneca.OpportunisticBatchSampler(SequentialSampler(shared), 4)
    return DataLoader(shared, batch_sampler=batches)


def train(loader, accelerator, epochs=4):
    """What comes of it."""
    line = untrained_line()
    model, optimizer = accelerator.prepare(line, torch.optim.SGD(line.parameters(), 0.3))
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()
    return {"error": line.error(), "weight": line.layer.weight.item(), "seen": line.seen}


folder = Path(sys.argv[1])
whole = Accelerator(cpu=True)
split = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
seeded = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
resumed = seeded.prepare(planned(Points()))
resumed.set_epoch(3)  # as transformers' Trainer does
stages = planned(Readings(count=48), num_workers=1)
found = {
    "planned": epochs_of(whole.prepare(planned(Points())), whole),
    "planned, with workers": epochs_of(whole.prepare(planned(Points(), num_workers=2)), whole),
    "planned, split": epochs_of(split.prepare(planned(Points())), split),
    "planned, seedable sampler": epochs_of(seeded.prepare(planned(Points())), seeded),
    "resumed": epochs_of(resumed, seeded, count=2),
    "in order": epochs_of(whole.prepare(in_order()), whole),
    "stages": epochs_of(whole.prepare(stages), whole),
    "ours": epochs_of(whole.prepare(ours(Points())), whole),
    "trained on ours": train(whole.prepare(ours(Points())), whole),
}
found["stages"]["served"] = stages.dataset.stats()["served"]
(folder / f"{os.environ['RANK']}.json").write_text(json.dumps(found))
# Else one of gloo's threads may still run when the process ends: torch then aborts.
torch.distributed.destroy_process_group()
