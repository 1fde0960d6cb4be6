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

from seneca import errors, transforms
from seneca._runtime.enabled import off_because
from seneca._runtime.warn import SenecaWarning
from seneca.data import ImageFolder
from seneca.errors import SenecaError
from seneca.forms import Form
from seneca.partition import Split

if TYPE_CHECKING:
    from seneca.cache import SampleCache
    from seneca.data.stages import StagedDataset
    from seneca.epochs.merge import merge_states
    from seneca.loader import DataLoader
    from seneca.tuning.profile import profile
    from seneca.workers.dataset import SharedDataset
    from seneca.workers.sampler import OpportunisticBatchSampler

__all__ = [
    "DataLoader",
    "Form",
    "ImageFolder",
    "OpportunisticBatchSampler",
    "SampleCache",
    "SenecaError",
    "SenecaWarning",
    "SharedDataset",
    "Split",
    "StagedDataset",
    "__version__",
    "errors",
    "merge_states",
    "profile",
    "transforms",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Torch and the native core are imported on first use. Therefore the command line starts without
    # torch, and `import seneca` works where there is no native core.
    if name == "DataLoader":
        module = "seneca.loader" if off_because() is None else "seneca.fallback"
    elif name == "OpportunisticBatchSampler":
        module = "seneca.workers.sampler" if off_because() is None else "seneca.fallback"
    elif name == "SharedDataset":
        module = "seneca.workers.dataset" if off_because() is None else "seneca.fallback"
    elif name == "merge_states":
        module = "seneca.epochs.merge"
    elif name == "SampleCache":
        module = "seneca.cache"
    elif name == "StagedDataset":
        module = "seneca.data.stages"
    elif name == "profile":
        module = "seneca.tuning.profile"
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value  # later look-ups find it without coming here
    return value
