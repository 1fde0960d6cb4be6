"""Seneca: a drop-in PyTorch loader with which the training jobs of one host share one cache.

Change one import::

    import seneca
    from seneca import transforms as T

    train = seneca.ImageFolder("train/", transform=T.Compose([
        T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)]))
    loader = seneca.DataLoader(train, batch_size=256, shuffle=True, num_workers=8)
    for images, labels in loader:
        ...

:class:`DataLoader` is plain torch where ``SENECA_DISABLE=1`` is set, and on every system but Linux.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from seneca import errors
from seneca._runtime.enabled import off_because
from seneca._runtime.warn import SenecaWarning
from seneca.errors import SenecaError
from seneca.forms import Form

if TYPE_CHECKING:
    from seneca import transforms
    from seneca.cache import SampleCache
    from seneca.data.archive import open
    from seneca.data.folder import ImageFolder
    from seneca.data.open_images import OpenImagesDetection
    from seneca.data.picture_list import PictureList
    from seneca.data.private import do_not_share
    from seneca.data.segmentation import SegmentationFolder
    from seneca.data.sounds import SoundFolder, SoundList
    from seneca.data.stages import StagedDataset
    from seneca.epochs.merge import merge_states
    from seneca.loader import DataLoader
    from seneca.partition.split import Split
    from seneca.tuning.profile import profile
    from seneca.workers.dataset import SharedDataset
    from seneca.workers.sampler import OpportunisticBatchSampler

__all__ = [
    "DataLoader",
    "Form",
    "ImageFolder",
    "OpenImagesDetection",
    "OpportunisticBatchSampler",
    "PictureList",
    "SampleCache",
    "SegmentationFolder",
    "SenecaError",
    "SenecaWarning",
    "SharedDataset",
    "SoundFolder",
    "SoundList",
    "Split",
    "StagedDataset",
    "__version__",
    "do_not_share",
    "errors",
    "merge_states",
    "open",
    "profile",
    "transforms",
]

__version__ = "0.1.0"


# Modules that import torch, NumPy or the native core are imported on first use. Therefore the command line
# starts at once, and `import seneca` works where there is no native core.
_LATER = {
    "DataLoader": "seneca.loader",
    "ImageFolder": "seneca.data.folder",
    "OpenImagesDetection": "seneca.data.open_images",
    "OpportunisticBatchSampler": "seneca.workers.sampler",
    "PictureList": "seneca.data.picture_list",
    "SampleCache": "seneca.cache",
    "SegmentationFolder": "seneca.data.segmentation",
    "SharedDataset": "seneca.workers.dataset",
    "SoundFolder": "seneca.data.sounds",
    "SoundList": "seneca.data.sounds",
    "Split": "seneca.partition.split",
    "StagedDataset": "seneca.data.stages",
    "do_not_share": "seneca.data.private",
    "merge_states": "seneca.epochs.merge",
    "open": "seneca.data.archive",
    "profile": "seneca.tuning.profile",
}
_WITH_FALLBACK = ("DataLoader", "OpportunisticBatchSampler", "SharedDataset")


def __getattr__(name: str) -> Any:
    if name == "transforms":
        return importlib.import_module("seneca.transforms")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    off = name in _WITH_FALLBACK and off_because() is not None
    value = getattr(importlib.import_module("seneca.fallback" if off else _LATER[name]), name)
    globals()[name] = value  # later look-ups find it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
