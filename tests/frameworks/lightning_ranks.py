"""One of two processes that train with Lightning; writes what it was given to FOLDER/RANK.json."""

import dataclasses
import json
import os
import sys

import torch.distributed
import torchvision_here  # noqa: F401
from recorded import COUNT, Points, ours, planned
from recorded_lightning import Module, trainer_of

from seneca._runtime.distributed import job_key
from seneca.epochs.plan import shard_of


class OwnPoints(Points):
    """Of a cache that no other test has: beside another job the order is no longer the sampler's."""


def name_of(thing) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


found = {}
for make in (ours, planned):
    module = Module()
    trainer = trainer_of(max_epochs=2, devices=2, strategy="ddp")
    trainer.fit(module, make(OwnPoints()))
    loader = trainer.train_dataloader
    stats = loader.stats() if make is ours else loader.dataset.stats()
    found[make.__name__] = {
        "epochs": module.epochs,
        "loader": name_of(loader),
        "batch_sampler": name_of(loader.batch_sampler),
        "served": stats["delivered"],
        "portion": dataclasses.astuple(shard_of(loader.batch_sampler.sampler, COUNT))[:3],
        "job": job_key(),
    }
with open(os.path.join(sys.argv[1], f"{os.environ['RANK']}.json"), "w") as file:
    json.dump(found, file)
# Else one of gloo's threads may still run when the process ends: torch then aborts.
torch.distributed.destroy_process_group()
