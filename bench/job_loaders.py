"""The loaders that are compared, each as one function: settings in, batches out.

Every function builds its loader from the same :class:`Setup` and yields ``(images, labels)`` for
ever, one epoch after the other: ``images`` float32 ``(B, 3, 224, 224)``, normalised; ``labels``
integers ``(B,)``. ``seneca-bytes`` yields the images as uint8, before they are normalised. All do
RandomResizedCrop(224), a horizontal flip and ImageNet's normalisation in random order, with as many
workers as the setup says, and two batches ahead. A shard is a rank's: its part of each epoch, as
``DistributedSampler`` divides it. What a loader needs is imported where it is used:
the benchmark runs with those that are installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

SIZE = 224
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
GRANULE = 4096
COPY_BYTES = -(-SIZE * SIZE * 3 // GRANULE) * GRANULE
AHEAD = 2


@dataclass(frozen=True)
class Setup:
    """What every job of one measurement has in common."""

    folder: Path
    samples: int
    batch: int
    workers: int
    cache: str | None  # None: a loader that shares nothing
    stage: float = 0.05
    shard: tuple[int, int] | None = None  # the rank and the number of ranks
    part: Sequence[int] | None = None  # indices of the pictures that this job trains on; None: all
    crop: int = SIZE  # height and width

    @property
    def cache_bytes(self) -> int:
        """Room for the stage: a share of the dataset, in augmented copies."""
        return max(1, round(self.samples * self.stage)) * COPY_BYTES


@dataclass
class Opened:
    """A loader that runs: its batches, (seneca only) its counters so far, and the type of its images."""

    batches: Iterator[Any]
    stats: Callable[[], dict[str, Any]]
    dtype: str = "float32"
    indices: Callable[[], Any] | None = None  # of the last batch (seneca only)


def seneca_loader(setup: Setup, **options: Any) -> Any:
    """The loader of this project.

    Unless ``options`` say otherwise, nothing is kept: the whole cache, if there is one, is the stage.
    """
    import seneca
    from seneca import transforms as T

    train = seneca.ImageFolder(
        str(setup.folder),
        transform=T.Compose(
            [T.RandomResizedCrop(setup.crop), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)]
        ),
    )
    stage = {} if setup.cache is None else {"cache_bytes": setup.cache_bytes, "split": "0-0-100"}
    return seneca.DataLoader(
        _part(train, setup),
        batch_size=setup.batch,
        **_order(train, setup),
        num_workers=setup.workers,
        prefetch_factor=AHEAD,
        cache=setup.cache,
        **(stage | options),
    )


def open_seneca(setup: Setup, job: int, **options: Any) -> Opened:
    """Seneca, ``workers`` C threads in the job's process."""
    loader = seneca_loader(setup, **options)
    return Opened(_for_ever(loader), loader.stats, indices=lambda: loader.last_indices)


def open_seneca_bytes(setup: Setup, job: int) -> Opened:
    """The same with uint8 batches, as they travel to a GPU that normalises them."""
    loader = seneca_loader(setup, uint8_batches=True)
    return Opened(_for_ever(loader), loader.stats, "uint8")


def open_torch(setup: Setup, job: int) -> Opened:
    """PyTorch's DataLoader over torchvision, ``workers`` processes; decodes with the PIL installed."""
    from torch.utils.data import DataLoader

    torchvision = import_torchvision()
    T = torchvision.transforms
    train = torchvision.datasets.ImageFolder(
        str(setup.folder),
        transform=T.Compose(
            [T.RandomResizedCrop(setup.crop), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
        ),
    )
    loader = DataLoader(
        _part(train, setup),
        batch_size=setup.batch,
        **_order(train, setup),
        num_workers=setup.workers,
        prefetch_factor=AHEAD if setup.workers else None,
        persistent_workers=setup.workers > 0,
        multiprocessing_context="fork" if setup.workers else None,  # Linux's default until Python 3.14
    )
    return Opened(_for_ever(loader), dict)


def open_dali(setup: Setup, job: int, *, fast: bool = False) -> Opened:
    """NVIDIA DALI on the CPU, ``workers`` threads, given as torch tensors by its own iterator.

    ``fast`` lets its decoder use libjpeg's less accurate inverse DCT. It knows no ``part``.
    """
    rank, ranks = setup.shard or (0, 1)

    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    @pipeline_def
    def graph() -> tuple[Any, Any]:
        encoded, label = fn.readers.file(
            file_root=str(setup.folder), random_shuffle=True, name="reader", shard_id=rank, num_shards=ranks
        )
        crop = fn.decoders.image_random_crop(
            encoded,
            device="cpu",
            output_type=types.RGB,
            random_area=[0.08, 1.0],
            random_aspect_ratio=[3 / 4, 4 / 3],
            use_fast_idct=fast,
        )
        image = fn.crop_mirror_normalize(
            fn.resize(crop, size=(setup.crop, setup.crop)),
            dtype=types.FLOAT,
            output_layout="CHW",
            mirror=fn.random.coin_flip(),
            mean=[255 * value for value in MEAN],
            std=[255 * value for value in STD],
        )
        return image, label

    pipe = graph(
        batch_size=setup.batch,
        num_threads=max(1, setup.workers),
        device_id=None,
        set_affinity=False,
        prefetch_queue_depth=AHEAD,
        seed=1 + job,
    )
    pipe.build()
    iterator = DALIGenericIterator([pipe], ["images", "labels"], reader_name="reader", auto_reset=True)

    def batches() -> Iterator[Any]:
        while True:
            try:
                (out,) = next(iterator)
            except StopIteration:
                continue  # the end of an epoch; auto_reset has begun the next
            yield out["images"], out["labels"].flatten()

    return Opened(batches(), dict)


LOADERS: dict[str, Callable[[Setup, int], Opened]] = {
    "seneca": open_seneca,
    "seneca-bytes": open_seneca_bytes,
    "torch": open_torch,
    "dali": open_dali,
}


def missing(name: str) -> str | None:
    """What has to be installed before loader ``name`` can run, or None."""
    name = name.removesuffix("-bytes")
    needs = {"seneca": ["seneca"], "torch": ["torchvision"], "dali": ["nvidia", "nvidia.dali"]}[name]
    for module in needs:
        if importlib.util.find_spec(module) is None:
            return module
    if name == "seneca":
        import seneca

        return None if hasattr(seneca, "DataLoader") else "seneca, built"
    return None


def import_torchvision() -> Any:
    """Import torchvision, also where its compiled operators do not load.

    Its wheel is built for one build of torch; beside another (a CPU-only one) its import fails
    because nobody has declared the two operators it decorates. Declared, they are never called.
    """
    try:
        import torchvision
    except RuntimeError:
        import sys

        import torch

        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision

        torchvision._seneca_bench_library = library  # the declaration lives as long as this does
    import torchvision.datasets
    import torchvision.transforms

    return torchvision


def _part(train: Any, setup: Setup) -> Any:
    from torch.utils.data import Subset

    return train if setup.part is None else Subset(train, setup.part)


def _order(train: Any, setup: Setup) -> dict[str, Any]:
    """The arguments of a loader that give a random order: of all, or of a rank's shard."""
    from torch.utils.data import DistributedSampler

    if setup.shard is None:
        return {"shuffle": True}
    rank, ranks = setup.shard
    return {"sampler": DistributedSampler(train, num_replicas=ranks, rank=rank)}


def _for_ever(loader: Any) -> Iterator[Any]:
    for epoch in count():
        if hasattr(loader.sampler, "set_epoch"):
            loader.sampler.set_epoch(epoch)
        yield from loader
