"""From a description of transforms to what runs: checked, split in head and tail, fingerprinted.

Data enters as a transform of the user's; what leaves is a :class:`Pipeline`, plain values that
every thread may read and that pickle. Nothing here touches a picture.
"""

from __future__ import annotations

import functools
import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from seneca.errors import PlanError

if TYPE_CHECKING:
    from seneca._core.codec import Plan

__all__ = ["NativeTransform", "Pipeline", "Step", "compile_transform", "runs_natively"]

# Part of every fingerprint. Raise it when the same description comes to mean other pixels, so
# that jobs with two versions of Seneca never serve each other's payloads.
PIXELS_VERSION = 1

MAX_STEPS = 16  # SN_PLAN_MAX_OPS in csrc/codec/sn_plan.h
DETERMINISTIC = frozenset({"resize", "center_crop"})
SAME_SIZE_REMEDY = "pictures of different sizes cannot be stacked; add T.Resize((h, w)) or a crop"

Size = tuple[int, int]
Channels = tuple[float, float, float]


class Step(NamedTuple):
    """One thing done to a picture, in the native core's words (``Plan`` lists them)."""

    kind: str
    args: dict[str, Any]


class NativeTransform(ABC):
    """A transform that describes itself in steps, so that it can run without Python."""

    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """What is done to a picture, in order."""


@dataclass(frozen=True)
class Pipeline:
    """A compiled transform: the steps on pixels, then ``(pixel / 255 - mean) / std``.

    The *head* is the leading deterministic steps, whose result may be kept for ever; the *tail*
    is the rest, from the first random step on.

    Args:
        steps: What is done to the pixels; normalising is not among them.
        mean: Subtracted from each channel of [0, 1].
        std: Divides each channel after that.
        output_size: Height and width of every result.
    """

    steps: tuple[Step, ...]
    mean: Channels
    std: Channels
    output_size: Size

    @property
    def n_head(self) -> int:
        """How many of the leading steps are deterministic."""
        for position, step in enumerate(self.steps):
            if step.kind not in DETERMINISTIC:
                return position
        return len(self.steps)

    @property
    def deterministic(self) -> bool:
        """Whether a picture comes out the same every time, so that AUGMENTED may be kept too."""
        return self.n_head == len(self.steps)

    @functools.cached_property
    def plan(self) -> Plan:
        """The native core's form of this, made on first use."""
        from seneca._core.codec import Plan

        ops = [(step.kind, dict(step.args)) for step in self.steps]
        return Plan(ops, self.n_head, "float32", False, self.mean, self.std)

    @functools.cached_property
    def head_fingerprint(self) -> int:
        """64 bits that are equal where DECODED payloads are interchangeable."""
        return _fingerprint("decoded", self.steps[: self.n_head])

    @functools.cached_property
    def augmented_fingerprint(self) -> int:
        """64 bits that are equal where AUGMENTED payloads are; normalising is each job's own."""
        return _fingerprint("augmented", self.steps)

    def __hash__(self) -> int:
        return hash((self.augmented_fingerprint, self.mean, self.std))

    def __reduce__(self) -> tuple[Any, ...]:
        # The native plan stays behind: it is a handle of this process, made again where needed.
        return Pipeline, (self.steps, self.mean, self.std, self.output_size)


def runs_natively(transform: object) -> bool:
    """Whether ``transform`` describes itself in steps; anything else is run as Python."""
    return isinstance(transform, NativeTransform)


def compile_transform(transform: NativeTransform | None) -> Pipeline:
    """Check a transform and turn it into what runs.

    Args:
        transform: One of ``seneca.transforms``, or ``None`` for the pictures as they are.

    Returns:
        The pipeline; equal transforms give equal pipelines with equal fingerprints.

    Raises:
        PlanError: ``Normalize`` is not last, there are more than 16 steps, the size of the result
            would depend on the picture, or the transform is not one that runs natively.

    Example:
        >>> from seneca import transforms as T
        >>> pipeline = compile_transform(T.Compose([T.Resize(256), T.CenterCrop(224)]))
        >>> pipeline.output_size, pipeline.deterministic
        ((224, 224), True)
    """
    if transform is None:
        raise PlanError(f"transform=None: {SAME_SIZE_REMEDY}")
    if not isinstance(transform, NativeTransform):
        raise PlanError(
            f"{transform!r} does not run natively; use the transforms in seneca.transforms, "
            "or let it run as Python in worker processes"
        )
    steps = transform.steps()
    mean: Channels = (0.0, 0.0, 0.0)
    std: Channels = (1.0, 1.0, 1.0)
    if steps and steps[-1].kind == "normalize":
        mean, std = steps[-1].args["mean"], steps[-1].args["std"]
        steps = steps[:-1]
    if any(step.kind == "normalize" for step in steps):
        raise PlanError(
            "Normalize must come last, once: it makes the floats of the batch; move it to the end"
        )
    if len(steps) > MAX_STEPS:
        raise PlanError(f"{len(steps)} transforms of pixels are more than the {MAX_STEPS} that run natively")
    return Pipeline(steps, mean, std, _output_size(steps))


def short_side_size(height: int, width: int, short: int) -> Size:
    """The size after a resize of the short side to ``short``, rounded as torchvision rounds."""
    if height <= width:
        return short, int(short * width / height)
    return int(short * height / width), short


def _output_size(steps: tuple[Step, ...]) -> Size:
    """The size that every picture ends with; PlanError where there is no such size."""
    size: Size | None = None
    for _, args in steps:
        if isinstance(args.get("size"), int):  # the short side: known only if the picture's size is
            size = size and short_side_size(*size, args["size"])
        else:
            size = args.get("size", size)
    if size is None:
        raise PlanError(SAME_SIZE_REMEDY)
    return size


def _fingerprint(form: str, steps: tuple[Step, ...]) -> int:
    """64 bits of a description that does not depend on the host, the process or dict order."""
    description = json.dumps([PIXELS_VERSION, form, steps], sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.blake2b(description.encode(), digest_size=8).digest(), "little")
