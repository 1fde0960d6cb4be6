"""From a description of transforms to a pipeline: checked, split into head and tail, fingerprinted.

The input is a user's transform. The result is a :class:`Pipeline`: plain values that pickle and that every
thread may read. This module touches no picture.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from seneca._runtime.pillow import Settings as PillowSettings
from seneca._runtime.pillow import settings as pillow_settings
from seneca.errors import PlanError

if TYPE_CHECKING:
    from seneca._core.plan import Plan

__all__ = [
    "BY_KIND",
    "DTYPES",
    "Decode",
    "NativeTransform",
    "Pipeline",
    "Size",
    "Step",
    "ValueKind",
    "compile_sound",
    "compile_transform",
    "runs_natively",
]

# This number is part of every fingerprint. Raise it when the same description gives other pixels than
# before, or when ``sn_moves`` changes. Then jobs with two versions of Seneca never serve each other's
# payloads.
PIXELS_VERSION = 1

MAX_STEPS = 16  # SN_PLAN_MAX_OPS in csrc/codec/sn_plan.h
DTYPES = ("uint8", "float16", "bfloat16", "float32")
SAME_SIZE_REMEDY = "pictures of different sizes cannot be stacked; add T.Resize((h, w)) or a crop"

Decode = Literal["exact", "fast"]
ValueKind = Literal["picture", "bytes", "floats", "normalised", "erased"]
Size = tuple[int, int]  # height, width
Channels = tuple[float, float, float]

ZEROS: Channels = (0.0, 0.0, 0.0)
ONES: Channels = (1.0, 1.0, 1.0)


class Step(NamedTuple):
    """One operation on a picture, in the native core's words: a kind of ``csrc/codec/ops.def``."""

    kind: str
    args: dict[str, Any]


class NativeTransform(ABC):
    """A transform that describes itself in steps. Therefore it can run without Python.

    Attributes:
        sound: Whether it changes sounds, and not pictures.
        kinds: The kinds of its steps.
        fixed_kinds: Those of them that give equal results for equal pictures.
        keeps_size: The result has the picture's size.
        any_size: The size of the result is drawn, or depends on the picture's: a crop must follow.
    """

    sound: ClassVar[bool] = False
    kinds: ClassVar[tuple[str, ...]] = ()
    fixed_kinds: ClassVar[tuple[str, ...]] = ()
    keeps_size: ClassVar[bool] = False
    any_size: ClassVar[bool] = False

    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """The operations on a picture, or a sound, in order."""

    def is_of_sounds(self) -> bool:
        """Whether it changes sounds, and not pictures."""
        return any(_is_of_sound(step.kind) for step in self.steps())


BY_KIND: dict[str, type[NativeTransform]] = {}
"""The class that makes steps of a kind. Classes enter themselves (``_base``)."""


@dataclass(frozen=True)
class Pipeline:
    """A compiled transform: how files are decoded, the steps on pixels, and what the batch makes of them.

    The *head* is the leading deterministic steps. Its result may be kept for ever. The *tail* is the rest,
    from the first random step on. Each job computes the batch for itself: ``(pixel / 255 - mean) / std``,
    erasing, type and layout are no part of what is kept or shared.

    Args:
        steps: The operations on pixels.
        mean: Subtracted from each channel, in the units of the scaled pixel.
        std: Divides each channel after that.
        output_size: Height and width of every result; of sounds channels and frames, (0, 0) if they differ.
        dtype: The type of the result, one of ``DTYPES``. ``"uint8"`` leaves the pixels as they are.
        scale: Whether floats are pixels divided by 255. If not, they go from 0 to 255.
        erase: The arguments of erasing, as the native ``Plan`` takes them; None: nothing is erased.
        decode: ``"exact"``, or ``"fast"`` for fewer operations and slightly other pixels.
        apply_orientation: Whether pictures are turned as their EXIF orientation says.
        channels_last: Whether a result is stored as (height, width, 3).
        max_pixels: Pictures with more pixels are refused. None: only those that Pillow refuses. Jobs with
            different limits share nothing.
        mask: Of pairs of a picture and a mask: the type of the batch's masks, ``"uint8"`` or ``"int64"``.
            None: there are only pictures.
        moves: Whether batches say how each picture was moved, because there are boxes to move likewise. Then
            there is no head: DECODED is the whole picture, whose size the boxes need.
        boxes: What distinguishes the boxes that a step reads from others; None: no step reads any.
        leaves_erasing: Whether batches come with the rectangles that are to be erased, instead of being
            erased.
        sound: Whether it is of sounds. Then its results are float arrays (channels, frames).
        channels: Of sounds: how many each file has. None: that is not known.
        pillow: Pillow's settings, by default those of now. They count for every picture: the native core
            leaves to Pillow what it shall accept, warn of or refuse by them.
    """

    steps: tuple[Step, ...]
    mean: Channels
    std: Channels
    output_size: Size
    dtype: str = "float32"
    scale: bool = True
    erase: dict[str, Any] | None = None
    decode: Decode = "exact"
    apply_orientation: bool = False
    channels_last: bool = False
    max_pixels: int | None = None
    mask: str | None = None
    moves: bool = False
    boxes: str | None = None
    leaves_erasing: bool = False
    sound: bool = False
    channels: int | None = None
    pillow: PillowSettings = field(default_factory=pillow_settings)

    @property
    def n_head(self) -> int:
        """How many of the leading steps are the head."""
        if self.moves:
            return 0
        for position, step in enumerate(self.steps):
            if not _is_fixed(step.kind):
                return position
        return len(self.steps)

    @property
    def deterministic(self) -> bool:
        """Whether a picture gives the same AUGMENTED pixels every time."""
        return all(_is_fixed(step.kind) for step in self.steps)

    @property
    def item_shape(self) -> tuple[int, ...]:
        """The shape of a sample's tensor."""
        return self.output_size if self.sound else (3, *self.output_size)

    @property
    def recodes(self) -> bool:
        """Whether files may be kept RECODED."""
        return self.mask is None and not self.sound

    @functools.cached_property
    def plan(self) -> Plan:
        """The native core's form of this pipeline. It is made on first use."""
        from seneca._core.plan import Plan

        if self.sound:
            steps = [(step.kind, dict(step.args)) for step in self.steps]
            return Plan.of_sounds(steps, self.n_head, self.dtype, self.channels)
        return Plan(
            [(step.kind, dict(step.args)) for step in self.steps],
            self.n_head,
            self.dtype,
            self.channels_last,
            self.mean,
            self.std,
            scale=self.scale,
            erase=self.erase,
            leaves_erasing=self.leaves_erasing,
            decode=self.decode,
            apply_orientation=self.apply_orientation,
            mask=self.mask,
            moves=self.moves,
            leaves_damaged=self.pillow.takes_truncated,
            leaves_above=self.pillow.max_pixels,
        )

    @functools.cached_property
    def head_fingerprint(self) -> int:
        """64 bits that are equal if DECODED payloads are interchangeable."""
        return _fingerprint(self._description("decoded", self.steps[: self.n_head]))

    @functools.cached_property
    def augmented_fingerprint(self) -> int:
        """64 bits that are equal if AUGMENTED payloads are interchangeable. The batch is no part of them."""
        return _fingerprint(self._description("augmented, moves" if self.moves else "augmented", self.steps))

    def _description(self, form: str, steps: tuple[Step, ...]) -> str:
        """All that decides a form's pixels, but for the decoder. The order of a dict has no effect."""
        description: list[Any] = [PIXELS_VERSION, form, steps]
        if self.decode != "exact" or self.apply_orientation:
            description.append({"decode": self.decode, "apply_orientation": self.apply_orientation})
        if self.max_pixels is not None:
            description.append({"max_pixels": self.max_pixels})
        if self.pillow != PillowSettings():
            description.append({"pillow": self.pillow})
        if self.mask is not None:
            description.append({"pairs": True})  # the type of masks is the batch's
        if self.sound:
            description.append({"sound": sound_library(), "channels": self.channels})
        if self.boxes is not None and form != "decoded":
            description.append({"boxes": self.boxes})
        return json.dumps(description, sort_keys=True, separators=(",", ":"))

    def __hash__(self) -> int:
        return hash((len(self.steps), self.output_size, self.mean, self.std, self.dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        # The native plan is not pickled: it is a handle of this process, and is made again on demand.
        return Pipeline, tuple(getattr(self, field.name) for field in dataclasses.fields(self))


def sound_library() -> str | None:
    """The version of the libsndfile that decodes; None: Python does. Another may decode MP3s otherwise."""
    from seneca._core.sound import libsndfile

    return libsndfile()


def _fingerprint(description: str) -> int:
    """64 bits of a description and of the libjpeg-turbo that decodes. Another build may make other pixels."""
    from seneca._core.codec import jpeg_library

    text = f"{description} {jpeg_library()}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def runs_natively(transform: object) -> bool:
    """Whether ``transform`` describes itself in steps. Every other transform runs as Python."""
    return isinstance(transform, NativeTransform)


def compile_transform(
    transform: NativeTransform | None,
    *,
    decode: Decode = "exact",
    apply_orientation: bool = False,
    channels_last: bool = False,
    max_pixels: int | None = None,
    mask: str | None = None,
    moves: bool = False,
    boxes: str | None = None,
) -> Pipeline:
    """Check a transform and compile it to a pipeline.

    Args:
        transform: A transform of ``seneca.transforms``.
        decode, apply_orientation, channels_last, max_pixels, mask, moves, boxes: As in :class:`Pipeline`.

    Returns:
        The pipeline. Equal transforms give equal pipelines with equal fingerprints.

    Raises:
        PlanError: The transform does not run natively. Or a transform of pixels follows one of tensors, or
            those of tensors contradict each other. Or there are more than 16 steps on pixels. Or the size
            of the result would depend on the picture.

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
    if (of_sound := next((step for step in steps if _is_of_sound(step.kind)), None)) is not None:
        raise PlanError(f"{_name(of_sound.kind)} changes sounds, and these are pictures: leave it out")
    n_pixels = next((i for i, step in enumerate(steps) if step.kind in _Ending.KINDS), len(steps))
    ending = _Ending()
    for kind, args in steps[n_pixels:]:
        if kind not in _Ending.KINDS:
            raise PlanError(
                f"{_name(kind)} works on pixels: move it in front of {_name(steps[n_pixels].kind)}"
            )
        getattr(ending, kind)(**args)
    if (count := _count(steps[:n_pixels])) > MAX_STEPS:
        raise PlanError(f"{count} transforms of pixels are more than the {MAX_STEPS} that run natively")
    return Pipeline(
        steps[:n_pixels],
        ending.mean,
        ending.std,
        _output_size(steps[:n_pixels]),
        ending.dtype,
        ending.scale,
        ending.erase,
        decode,
        apply_orientation,
        channels_last,
        max_pixels,
        mask,
        moves,
        boxes,
    )


def compile_sound(transform: NativeTransform | None, *, channels: int | None = None) -> Pipeline:
    """Check a transform of sounds and compile it to a pipeline.

    Args:
        transform: A transform of ``seneca.transforms``; None: sounds stay as they are.
        channels: How many channels each file has; None: that is not known.

    Returns:
        The pipeline. Its ``output_size`` is (0, 0) if its results would differ in channels or frames.

    Raises:
        PlanError: A transform is not of sounds. Or a resample follows a random transform. Or there are more
            than 16 steps.
    """
    steps = () if transform is None else transform.steps()
    ending = _Ending()
    while steps and steps[-1].kind == "to_dtype":
        ending.to_dtype(**steps[-1].args)
        steps = steps[:-1]
    for step in steps:
        if not _is_of_sound(step.kind):
            raise PlanError(f"{_name(step.kind)} does not change sounds: leave it out")
    if ending.dtype == "uint8":
        raise PlanError("ToDtype: sounds are floats, which uint8 does not hold: leave it out")
    if len(steps) > MAX_STEPS:
        raise PlanError(f"{len(steps)} transforms of sounds are more than the {MAX_STEPS} that run natively")
    n_head = next((i for i, step in enumerate(steps) if not _is_fixed(step.kind)), len(steps))
    if any(step.kind == "resample" for step in steps[n_head:]):
        raise PlanError(
            f"Resample stands behind {_name(steps[n_head].kind)}, which is random: move it in front"
        )
    return Pipeline(
        steps,
        ZEROS,
        ONES,
        _size_of_sounds(steps, channels),
        ending.dtype,
        sound=True,
        channels=channels,
        pillow=PillowSettings(),
    )


def _size_of_sounds(steps: tuple[Step, ...], channels: int | None) -> Size:
    """Channels and frames of every result; (0, 0) if they differ from sound to sound."""
    frames = 0
    for kind, args in steps:
        if kind == "mono":
            channels = 1
        elif kind == "resample":
            frames = 0
        elif "frames" in args:
            frames = args["frames"]
    return (channels, frames) if channels and frames else (0, 0)


def members_of(step: Step) -> tuple[tuple[float | None, tuple[Step, ...]], ...]:
    """The branches of a step that is a group: each with its probability, or None where it is no branch."""
    if "steps" in step.args:
        return ((None, step.args["steps"]),)
    return tuple(step.args.get("branches", ()))


def _count(steps: tuple[Step, ...]) -> int:
    """How many ops of the native core the steps are. A group counts, and so does each of its branches."""
    total = 0
    for step in steps:
        branches = members_of(step)
        total += 1 + sum((p is not None) + _count(inner) for p, inner in branches)
    return total


class _Ending:
    """The combined effect of the transforms of the tensor, followed from one to the next.

    ``holds`` says what the tensor holds at this place in the list:

    * ``"picture"``: still a picture. The first transform that needs floats turns it into [0, 1], as
      ToTensor does.
    * ``"bytes"``: uint8.
    * ``"floats"``: from 0 to 1 with ``scale``, else from 0 to 255, unless they are normalised.
    """

    KINDS = frozenset({"to_tensor", "pil_to_tensor", "to_dtype", "normalize", "random_erasing"})

    def __init__(self) -> None:
        self.holds: Literal["picture", "bytes", "floats"] = "picture"
        self.normalized = False
        self.dtype = "float32"
        self.scale = True
        self.mean, self.std = ZEROS, ONES
        self.erase: dict[str, Any] | None = None

    def to_tensor(self) -> None:
        if self.holds != "picture":
            raise PlanError("ToTensor takes a picture, and this is a tensor already: leave ToTensor out")
        self.holds = "floats"

    def pil_to_tensor(self) -> None:
        if self.holds != "picture":
            raise PlanError("PILToTensor takes a picture, and this is a tensor already: move it in front")
        self.holds, self.dtype = "bytes", "uint8"

    def to_dtype(self, dtype: str, scale: bool) -> None:
        if self.holds == "picture":
            self.holds = "bytes"
        if dtype != "uint8":
            if self.holds == "bytes":
                self.holds, self.scale = "floats", scale
                if scale:
                    self._erase_becomes(ZEROS, (255.0, 255.0, 255.0))
        elif self.holds == "floats":
            if self.normalized:
                raise PlanError("ToDtype: what Normalize made does not fit into uint8; leave one of them out")
            if self.erase is not None:
                raise PlanError("ToDtype to uint8 after RandomErasing: move RandomErasing behind it")
            if scale != self.scale:
                what = "[0, 1]" if self.scale else "[0, 255]"
                raise PlanError(f"ToDtype to uint8 from floats in {what} loses them: use scale={self.scale}")
            self.holds, self.scale = "bytes", True
        self.dtype = dtype

    def normalize(self, mean: Channels, std: Channels) -> None:
        if self.normalized:
            raise PlanError("Normalize is there twice: leave one of them out")
        if self.holds == "bytes":
            raise PlanError(
                "Normalize takes floats, not uint8: put ToDtype(torch.float32, scale=True) in front of it"
            )
        self.holds, self.normalized = "floats", True
        self.mean, self.std = mean, std
        self._erase_becomes(mean, std)

    def random_erasing(
        self, p: float, scale: Any, ratio: Any, value: str | Channels, count: tuple[int, int] = (1, 1)
    ) -> None:
        if self.erase is not None:
            raise PlanError("RandomErasing is there twice: leave one of them out")
        if self.holds == "bytes" and (isinstance(value, str) or any(x not in range(256) for x in value)):
            raise PlanError(
                f"RandomErasing: {value!r} is no uint8, which is what the tensor holds here: give whole "
                "numbers from 0 to 255, or put ToDtype(torch.float32, scale=True) in front of it"
            )
        if self.holds == "picture":
            self.holds = "floats"
        self.erase = {"p": p, "scale": scale, "ratio": ratio, "value": value}
        if isinstance(value, str):
            self.erase.update(value=ZEROS, deviation=ONES)
        if value == "random colour":
            self.erase["noise"] = "colours"
        if count != (1, 1):
            self.erase["count"] = count

    def _erase_becomes(self, mean: Channels, std: Channels) -> None:
        """Apply ``(value - mean) / std`` to the values that erasing writes, as to all others."""
        if self.erase is None:
            return
        value = zip(self.erase["value"], mean, std, strict=True)
        self.erase["value"] = tuple((v - m) / s for v, m, s in value)
        if "deviation" in self.erase:
            deviation = zip(self.erase["deviation"], std, strict=True)
            self.erase["deviation"] = tuple(d / abs(s) for d, s in deviation)


def _is_of_sound(kind: str) -> bool:
    return kind in BY_KIND and BY_KIND[kind].sound


def _is_fixed(kind: str) -> bool:
    return kind in BY_KIND and kind in BY_KIND[kind].fixed_kinds


def _name(kind: str) -> str:
    """The name of the transform that made a step of this kind."""
    return BY_KIND[kind].__name__ if kind in BY_KIND else kind


def short_side_size(height: int, width: int, short: int, max_size: int | None = None) -> Size:
    """The size after the short side is resized to ``short``, rounded as torchvision rounds.

    The long side is at most ``max_size``, and the short side then follows.
    """
    new_short, new_long = short, int(short * max(height, width) / min(height, width))
    if max_size is not None and new_long > max_size:
        new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_short, new_long) if height <= width else (new_long, new_short)


def _output_size(steps: tuple[Step, ...]) -> Size:
    """The size of every result; PlanError if the sizes would differ."""
    size: Size | None = None
    for kind, args in steps:
        if kind == "pad" and size is not None:
            left, top, right, bottom = args.get("padding", (0, 0, 0, 0))
            size = size[0] + top + bottom, size[1] + left + right
        elif isinstance(args.get("size"), int):  # the short side: needs the picture's size
            size = size and short_side_size(*size, args["size"], args.get("max_size"))
        elif kind in BY_KIND and BY_KIND[kind].any_size:
            size = None
        else:
            size = args.get("size", size)
        if size is not None and 0 in size:
            raise PlanError(f"{_name(kind)} leaves nothing of a picture: {size[0]} x {size[1]}")
    if size is None:
        raise PlanError(SAME_SIZE_REMEDY)
    return size
