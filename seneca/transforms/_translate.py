"""Translate one transform of pixels, of torchvision's, into Seneca's of the same meaning.

The input is a transform and the kind of value that it gets. The result is one of ``seneca.transforms``, or
:class:`NotNative` with the reason why there is none. torchvision is known by the names of its types. timm's
transforms are in ``_translate_timm``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from seneca.transforms._base import Transform
from seneca.transforms._colour import ColorJitter, RandomGrayscale
from seneca.transforms._genuine import is_genuine, is_theirs
from seneca.transforms._geometry import (
    CenterCrop,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
)
from seneca.transforms._recipes import AugMix, AutoAugment, RandAugment, TrivialAugmentWide
from seneca.transforms._sizes import RandomShortestSize, RandomZoomOut, ScaleJitter
from seneca.transforms._tone import (
    GaussianBlur,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomEqualize,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
)
from seneca.transforms._translate_timm import TIMM, TIMM_PIXELS, NotNative
from seneca.transforms._warp import ElasticTransform, RandomAffine, RandomPerspective, RandomRotation

__all__ = ["ON_TENSORS", "PIXELS", "V2", "Holds", "NotNative", "interpolation_of", "known_as"]

V1 = "torchvision.transforms.transforms"
V1_RECIPES = "torchvision.transforms.autoaugment"
V2 = "torchvision.transforms.v2."
PRESETS = "torchvision.transforms._presets"  # what weights.transforms() makes

Holds = Literal["picture", "bytes", "floats", "normalised", "erased"]

# The tensors on which a transform of pixels means the same as on the PIL image before. Measured with
# torchvision 0.28 on made-up pictures and photographs, as the average distance in levels:
#   flips    only move values, whatever the values mean
#   crops    only move values; the 0 in their margins is black until it is normalised
#   resizes  at most 0.20 on uint8, but see _filter; on floats, which are not rounded to whole levels,
#            0.28 to 0.33, and bicubic ones overshoot [0, 1]
#   blurs    torchvision turns a PIL image into bytes for them
#   tones    inverting bytes is the same for both
#   colour   0.5 for grey, 1 for a turned hue: torchvision has other arithmetic for tensors; so it has
#            for warps, sharpness and what RandAugment and its like are made of
ON_TENSORS: dict[str, frozenset[Holds]] = {
    "RandomHorizontalFlip": frozenset({"bytes", "floats", "normalised"}),
    "RandomVerticalFlip": frozenset({"bytes", "floats", "normalised"}),
    "CenterCrop": frozenset({"bytes", "floats"}),
    "RandomCrop": frozenset({"bytes", "floats"}),
    "Pad": frozenset({"bytes", "floats"}),
    "Resize": frozenset({"bytes"}),
    "RandomResizedCrop": frozenset({"bytes"}),
    "ColorJitter": frozenset(),
    "RandomGrayscale": frozenset(),
    "RandomRotation": frozenset(),
    "RandomAffine": frozenset(),
    "GaussianBlur": frozenset({"bytes"}),
    "RandomInvert": frozenset({"bytes"}),
    "RandomPosterize": frozenset(),
    "RandomSolarize": frozenset(),
    "RandomAutocontrast": frozenset(),
    "RandomEqualize": frozenset(),
    "RandomAdjustSharpness": frozenset(),
    "RandAugment": frozenset(),
    "TrivialAugmentWide": frozenset(),
    "AutoAugment": frozenset(),
    # torchvision makes a tensor of a picture for these two.
    "AugMix": frozenset({"bytes"}),
    "ElasticTransform": frozenset({"bytes"}),
    "RandomPerspective": frozenset(),
    "RandomShortestSize": frozenset(),
    "RandomZoomOut": frozenset({"bytes", "floats"}),
    "ScaleJitter": frozenset(),
    **dict.fromkeys(TIMM_PIXELS, frozenset()),
}


def known_as(transform: object) -> str | None:
    """The name of a transform of torchvision's, or of timm's behind ``timm.``; None for any other, and for a
    changed
    one."""
    kind = type(transform)
    if kind.__module__ in TIMM and is_genuine(transform):
        return f"timm.{kind.__qualname__}"
    if (kind.__module__ in (V1, V1_RECIPES, PRESETS) or kind.__module__.startswith(V2)) and is_genuine(
        transform
    ):
        return kind.__qualname__
    return None


def _is_v1(transform: object) -> bool:
    """Whether a transform is of torchvision's first version."""
    return type(transform).__module__ in (V1, V1_RECIPES)


def interpolation_of(name: str, step: Any) -> Any:
    """The step's interpolation as an argument of Seneca's: a name or Pillow's number."""
    given = getattr(step.interpolation, "value", step.interpolation)
    if given in ("bilinear", "bicubic", 2, 3):
        return given
    raise NotNative(f"{name} has interpolation={getattr(step.interpolation, 'name', given)}")


def _filter(name: str, step: Any, holds: Holds) -> Any:
    """The interpolation, if the step's resizing gives Seneca's pixels."""
    interpolation = interpolation_of(name, step)
    if holds == "picture":
        return interpolation  # Pillow always antialiases and ignores the argument
    if step.antialias is not True:
        # v1 is up to 0.36 levels away, and so is v2 where torch has no resize of uint8 for the CPU.
        raise NotNative(f"{name} has antialias={step.antialias} on a tensor")
    if _is_v1(step) and interpolation in ("bicubic", 3):
        # Pillow, v2 and Seneca clip overshoots between the two passes; v1 does not: 3.6 levels apart, at
        # edges.
        raise NotNative(f"{name} of v1 has interpolation=BICUBIC on a tensor")
    return interpolation


def _fill(name: str, step: Any, holds: Holds) -> Any:
    """The colour of margins. None means black in v2."""
    fill = 0 if step.fill is None and not (_is_v1(step) and holds != "picture") else step.fill
    if isinstance(fill, dict):
        raise NotNative(f"{name} has fill={fill!r}, which tells types apart")
    if holds == "floats" and fill != 0:
        raise NotNative(f"{name} has fill={fill!r} on a float tensor, where that is no level from 0 to 255")
    if holds == "bytes" and _is_v1(step) and not isinstance(fill, (int, float)):
        raise NotNative(f"{name} has fill={fill!r} on a tensor, for which v1 takes one number")
    return fill


def _resize(step: Any, holds: Holds) -> Transform:
    if step.size is None:
        raise NotNative("Resize has size=None")
    return Resize(step.size, _filter("Resize", step, holds), step.max_size)


def _random_resized_crop(step: Any, holds: Holds) -> Transform:
    interpolation = _filter("RandomResizedCrop", step, holds)
    return RandomResizedCrop(step.size, step.scale, step.ratio, interpolation)


def _pad(step: Any, holds: Holds) -> Transform:
    return Pad(step.padding, _fill("Pad", step, holds), step.padding_mode)


def _random_crop(step: Any, holds: Holds) -> Transform:
    padding = step.padding
    if not _is_v1(step) and padding is not None:
        left, right, top, bottom = padding  # v2 stores it in this order
        padding = left, top, right, bottom
        if step.pad_if_needed and step.padding_mode in ("reflect", "symmetric"):
            # v2 mirrors once for both kinds of margins. v1 and Seneca mirror twice.
            raise NotNative(
                f"RandomCrop of v2 has padding, pad_if_needed and padding_mode={step.padding_mode!r} at once"
            )
    fill = _fill("RandomCrop", step, holds)
    return RandomCrop(step.size, padding, step.pad_if_needed, fill, step.padding_mode)


def _color_jitter(step: Any, _holds: Holds) -> Transform:
    return ColorJitter(step.brightness, step.contrast, step.saturation, step.hue)


def _random_rotation(step: Any, holds: Holds) -> Transform:
    fill = _fill("RandomRotation", step, holds)
    return RandomRotation(step.degrees, _warping("RandomRotation", step), step.expand, step.center, fill)


def _random_affine(step: Any, holds: Holds) -> Transform:
    fill = _fill("RandomAffine", step, holds)
    interpolation = _warping("RandomAffine", step)
    return RandomAffine(
        step.degrees, step.translate, step.scale, step.shear, interpolation, fill, step.center
    )


def _warping(name: str, step: Any) -> Any:
    """The interpolation of a transform that turns or shifts."""
    given = getattr(step.interpolation, "value", step.interpolation)
    if given in ("nearest", "nearest-exact", "bilinear", "bicubic", 0, 2, 3):
        return given
    raise NotNative(f"{name} has interpolation={getattr(step.interpolation, 'name', given)}")


def _common(name: str, step: Any, holds: Holds) -> dict[str, Any]:
    """The arguments that RandAugment, TrivialAugmentWide, AutoAugment and AugMix have in common."""
    spaces = ("_AUGMENTATION_SPACE", "_PARTIAL_AUGMENTATION_SPACE")
    made = [one for space in spaces for one, _ in getattr(type(step), space, {}).values()]
    if {*spaces} & vars(step).keys() or not all(map(is_theirs, made)):
        raise NotNative(f"{name} has other operations than torchvision's")
    # Of AugMix, None is another thing than black: it fades in at the edge.
    fill = None if name == "AugMix" and step.fill is None else _fill(name, step, holds)
    return {"interpolation": _warping(name, step), "fill": fill}


def _rand_augment(step: Any, holds: Holds) -> Transform:
    common = _common("RandAugment", step, holds)
    return RandAugment(step.num_ops, step.magnitude, step.num_magnitude_bins, **common)


def _trivial_augment_wide(step: Any, holds: Holds) -> Transform:
    return TrivialAugmentWide(step.num_magnitude_bins, **_common("TrivialAugmentWide", step, holds))


def _auto_augment(step: Any, holds: Holds) -> Transform:
    policies = step.policies if _is_v1(step) else step._policies
    if policies != step._get_policies(step.policy):
        raise NotNative("AutoAugment has other policies than torchvision's")
    return AutoAugment(step.policy, **_common("AutoAugment", step, holds))


def _aug_mix(step: Any, holds: Holds) -> Transform:
    common = _common("AugMix", step, holds)
    shape = step.severity, step.mixture_width, step.chain_depth
    return AugMix(*shape, step.alpha, step.all_ops, **common)


def _random_perspective(step: Any, holds: Holds) -> Transform:
    fill = _fill("RandomPerspective", step, holds)
    return RandomPerspective(step.distortion_scale, step.p, _warping("RandomPerspective", step), fill)


def _elastic_transform(step: Any, holds: Holds) -> Transform:
    if step.fill is None:
        raise NotNative("ElasticTransform has fill=None, which fades at the edges: use fill=0")
    fill = step.fill if _is_v1(step) else _fill("ElasticTransform", step, holds)
    alpha, sigma = (tuple(pair) for pair in (step.alpha, step.sigma))
    return ElasticTransform(alpha, sigma, _warping("ElasticTransform", step), fill)


def _scale_jitter(step: Any, holds: Holds) -> Transform:
    return ScaleJitter(step.target_size, step.scale_range, _filter("ScaleJitter", step, holds))


def _random_shortest_size(step: Any, holds: Holds) -> Transform:
    return RandomShortestSize(step.min_size, step.max_size, _filter("RandomShortestSize", step, holds))


def _random_zoom_out(step: Any, holds: Holds) -> Transform:
    return RandomZoomOut(_fill("RandomZoomOut", step, holds), step.side_range, step.p)


PIXELS: dict[str, Callable[[Any, Any], Transform]] = {
    "Resize": _resize,
    "CenterCrop": lambda step, _: CenterCrop(step.size),
    "Pad": _pad,
    "RandomCrop": _random_crop,
    "RandomResizedCrop": _random_resized_crop,
    "RandomHorizontalFlip": lambda step, _: RandomHorizontalFlip(step.p),
    "RandomVerticalFlip": lambda step, _: RandomVerticalFlip(step.p),
    "ColorJitter": _color_jitter,
    "RandomGrayscale": lambda step, _: RandomGrayscale(step.p),
    "RandomRotation": _random_rotation,
    "RandomAffine": _random_affine,
    "GaussianBlur": lambda step, _: GaussianBlur(step.kernel_size, step.sigma),
    "RandomInvert": lambda step, _: RandomInvert(step.p),
    "RandomPosterize": lambda step, _: RandomPosterize(step.bits, step.p),
    "RandomSolarize": lambda step, _: RandomSolarize(step.threshold, step.p),
    "RandomAutocontrast": lambda step, _: RandomAutocontrast(step.p),
    "RandomEqualize": lambda step, _: RandomEqualize(step.p),
    "RandomAdjustSharpness": lambda step, _: RandomAdjustSharpness(step.sharpness_factor, step.p),
    "RandAugment": _rand_augment,
    "TrivialAugmentWide": _trivial_augment_wide,
    "AutoAugment": _auto_augment,
    "AugMix": _aug_mix,
    "RandomPerspective": _random_perspective,
    "ElasticTransform": _elastic_transform,
    "ScaleJitter": _scale_jitter,
    "RandomShortestSize": _random_shortest_size,
    "RandomZoomOut": _random_zoom_out,
    **TIMM_PIXELS,
}
