"""Transforms with torchvision's names, arguments and meaning, which run without Python.

Each transform is a frozen description. A loader compiles it once and runs it in the native core. If you
call it on one picture, it returns what the loader would return for that picture. In a list, the transforms
of pixels come first, then those of the tensor. A list without transforms of the tensor gives float32 in [0,
1], as ``ToTensor`` does.

:class:`Static` is no such description: it marks a callable of yours.

Example:
    >>> from seneca import transforms as T
    >>> train = T.Compose([
    ...     T.RandomResizedCrop(224),
    ...     T.RandomHorizontalFlip(),
    ...     T.ColorJitter(0.4, 0.4, 0.4),
    ...     T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD),
    ... ])
    >>> evaluation = T.Compose([T.Resize(256), T.CenterCrop(224)])
    >>> half = T.Compose([T.RandomResizedCrop(224), T.ToDtype("float16", scale=True)])
"""

from __future__ import annotations

from seneca.transforms._base import Compose, Static
from seneca.transforms._colour import (
    ColorJitter,
    GaussianBlur,
    Grayscale,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomChannelPermutation,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPhotometricDistort,
    RandomPosterize,
    RandomSolarize,
)
from seneca.transforms._detection import RandomResize, RandomShortestSize, RandomZoomOut, ScaleJitter
from seneca.transforms._geometry import (
    CenterCrop,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    ResizeKeepRatio,
)
from seneca.transforms._recipes import (
    AugMix,
    AutoAugment,
    RandAugment,
    RandomApply,
    RandomChoice,
    RandomOrder,
    TrivialAugmentWide,
)
from seneca.transforms._sound import (
    Mono,
    RandomGain,
    RandomNoise,
    RandomPolarity,
    RandomTimeCrop,
    RandomTimeShift,
    Resample,
    TimeCrop,
)
from seneca.transforms._tensor import (
    ConvertImageDtype,
    Normalize,
    PILToTensor,
    RandomErasing,
    ToDtype,
    ToTensor,
)
from seneca.transforms._timm import TimmAugment, TimmAugMix
from seneca.transforms._warp import ElasticTransform, RandomAffine, RandomPerspective, RandomRotation

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "AugMix",
    "AutoAugment",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "ElasticTransform",
    "GaussianBlur",
    "Grayscale",
    "Mono",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGain",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomNoise",
    "RandomOrder",
    "RandomPerspective",
    "RandomPhotometricDistort",
    "RandomPolarity",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomTimeCrop",
    "RandomTimeShift",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Resample",
    "Resize",
    "ResizeKeepRatio",
    "ScaleJitter",
    "Static",
    "TimeCrop",
    "TimmAugMix",
    "TimmAugment",
    "ToDtype",
    "ToTensor",
    "TrivialAugmentWide",
]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
"""Mean of ImageNet's red, green and blue, in [0, 1]. Pretrained weights expect it."""

IMAGENET_STD = (0.229, 0.224, 0.225)
"""Standard deviation of ImageNet's red, green and blue, in [0, 1]. Pretrained weights expect it."""
