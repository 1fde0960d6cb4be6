"""Seneca: a drop-in PyTorch loader with which the training jobs of one host share one cache.

Change one import::

    import seneca
    from seneca import transforms as T

    train = seneca.ImageFolder("train/", transform=T.Compose([
        T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)]))
    loader = seneca.DataLoader(train, batch_size=256, shuffle=True, num_workers=8)
    for images, labels in loader:
        ...

``SENECA_DISABLE=1``, and any system but Linux, makes :class:`DataLoader` plain torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from seneca import errors, transforms
from seneca.errors import SenecaError
from seneca.forms import Form
from seneca.notices import SenecaWarning
from seneca.partition import Split
from seneca.sources import ImageFolder
from seneca.switch import off_because

if TYPE_CHECKING:
    from seneca.cache import SampleCache
    from seneca.loader import DataLoader
    from seneca.measure import profile
    from seneca.merging import merge_states
    from seneca.samplers import OpportunisticBatchSampler
    from seneca.shared import SharedDataset
    from seneca.stages import StagedDataset

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
    # Torch and the native core are loaded when first asked for: the command line starts without
    # torch, and `import seneca` works where there is no native core.
    if name == "DataLoader":
        module = "seneca.loader" if off_because() is None else "seneca.fallback"
    elif name == "OpportunisticBatchSampler":
        module = "seneca.samplers" if off_because() is None else "seneca.fallback"
    elif name == "SharedDataset":
        module = "seneca.shared" if off_because() is None else "seneca.fallback"
    elif name == "merge_states":
        module = "seneca.merging"
    elif name == "SampleCache":
        module = "seneca.cache"
    elif name == "StagedDataset":
        module = "seneca.stages"
    elif name == "profile":
        module = "seneca.measure"
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value  # later look-ups find it without coming here
    return value
