"""One of two processes that train with accelerate; writes what it was given to FOLDER/RANK.json."""

import json
import os
import sys
from pathlib import Path

import torch
import torchvision_here  # noqa: F401
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from recorded import CACHE_BYTES, Line, Points, Readings, ours, planned
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
    """Losses at the first step and at the last."""
    torch.manual_seed(0)
    line = Line()
    optimizer = torch.optim.SGD(line.parameters(), 0.3)
    model, optimizer = accelerator.prepare(line, optimizer)
    losses = []
    for _ in range(epochs):
        for batch in loader:
            loss = model(**batch)["loss"]
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    return {"losses": [losses[0], losses[-1]], "weight": float(line.layer.weight), "seen": line.seen}


folder = Path(sys.argv[1])
whole = Accelerator(cpu=True)
split = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
seeded = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
stages = planned(Readings(folder / "read", count=48), num_workers=1)
found = {
    "planned": epochs_of(whole.prepare(planned(Points())), whole),
    "planned, with workers": epochs_of(whole.prepare(planned(Points(), num_workers=2)), whole),
    "planned, split": epochs_of(split.prepare(planned(Points())), split),
    "planned, seedable sampler": epochs_of(seeded.prepare(planned(Points())), seeded),
    "in order": epochs_of(whole.prepare(in_order()), whole),
    "stages": epochs_of(whole.prepare(stages), whole),
    "ours": epochs_of(whole.prepare(ours(Points())), whole),
    "trained on ours": train(whole.prepare(ours(Points())), whole),
}
found["stages"]["served"] = stages.dataset.stats()["served"]
(folder / f"{os.environ['RANK']}.json").write_text(json.dumps(found))
