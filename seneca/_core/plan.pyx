"""The border to sn_plan.h: a transform in Python's words as the plan that the core runs."""

import numpy as np

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset

from seneca._core.codes import picture_error
from seneca.errors import PlanError
from seneca._core.codes cimport SN_OK
from seneca._core.op cimport fill_erase, fill_op, filter_name, padding_name, word
from seneca._core.rng cimport SN_STREAM_AUGMENT, sn_rng, sn_rng_start

__all__ = ["Plan"]

_DTYPES = {"uint8": SN_UINT8, "float32": SN_FLOAT32, "float16": SN_FLOAT16, "bfloat16": SN_BFLOAT16}
_COLOURS = {SN_BRIGHTNESS: "brightness", SN_CONTRAST: "contrast", SN_SATURATION: "saturation", SN_HUE: "hue"}
_MASK_DTYPES = {"uint8": SN_MASK_UINT8, "int64": SN_MASK_INT64}
_TONES = (  # in the order of enum sn_tone_kind
    "invert", "posterize", "solarize", "autocontrast", "equalize", "solarize_add", "permute",
)
_DECODES = {"exact": SN_DECODE_EXACT, "fast": SN_DECODE_FAST}


cdef class Plan:
    """A pipeline as the native path runs it: ops, of which the first ``n_head`` are the head.

    Args:
        ops: ``(kind, arguments)`` in order, as ``csrc/codec/ops.def`` lists them, the arguments named and meant as
            torchvision's. A ``size`` is ``(height, width)``, ``padding`` ``(left, top, right, bottom)``, a ``fill``
            three bytes and a ``mask_fill`` one. ``chains`` of timm's recipes are each a weight and ``(name, p,
            magnitude)`` of its operations. Groups have members, which are such pairs again, and which keep a
            picture's size: ``random_apply`` (``p``, ``steps``), ``random_choice`` and ``random_order``
            (``branches``, each a probability and its steps).
        n_head: How many of them, from the first, make DECODED. They must not be random.
        dtype: Of the batch: ``"uint8"``, ``"float16"``, ``"bfloat16"`` or ``"float32"``.
        channels_last: Lay the batch out as HWC, not CHW.
        mean: Three numbers, in units of the scaled pixel; they matter for floats only.
        std: Likewise.
        scale: Whether floats are pixels divided by 255, or left from 0 to 255.
        erase: ``None`` or the arguments of a random erasing on the output: ``p``, ``scale``,
            ``ratio``, ``value`` (three numbers in units of the output), and with ``deviation``
            (three numbers) normal noise around it, a number for each value; with
            ``noise="colours"`` one for each channel of a box. ``count``: the fewest and the most
            boxes.
        leaves_erasing: Whether batches come with their ``sn_erasure``, for others to erase with. Not with a number
            for each value.
        decode: ``"exact"``, or ``"fast"`` for fewer operations and slightly other pixels.
        apply_orientation: Turn pictures as their EXIF orientation says.
        mask: Of pairs of a picture and a mask: the type of the batch's masks, ``"uint8"`` or ``"int64"``. None:
            there are no masks.
        moves: Whether batches say how each picture was moved, as ``sn_moves`` does. There is then no head.
        leaves_damaged: Whether damaged JPEGs are left to Pillow, as other formats are.
        leaves_above: Pictures with more pixels are left to Pillow. None: none is.
        sound: Whether it is of sounds. :meth:`of_sounds` makes such plans.
        channels: Of sounds: how many each file has. None: that is not known.

    Raises:
        PlanError: An argument out of range, an unknown kind, too many ops, a random head.
    """

    def __init__(self, ops, n_head, dtype, channels_last, mean, std, *, scale=True, erase=None,
                 leaves_erasing=False, decode="exact", apply_orientation=False, mask=None, moves=False,
                 leaves_damaged=False, leaves_above=None, sound=False, channels=None):
        cdef size_t k
        memset(&self.value, 0, sizeof(sn_plan))
        flat = list(flattened(ops))
        if len(flat) > SN_PLAN_MAX_OPS:
            raise PlanError(f"{len(flat)} transforms; at most {SN_PLAN_MAX_OPS} run natively")
        if len(mean) != 3 or len(std) != 3:
            raise PlanError("mean and std need a number for each of 3 channels")
        try:
            self.value.n_ops = len(flat)
            self.value.n_head = n_head
            self.value.dtype = word("dtype", _DTYPES, dtype)
            self.value.decode = word("decode", _DECODES, decode)
            self.value.apply_orientation = bool(apply_orientation)
            self.value.channels_last = bool(channels_last)
            self.value.is_pair = mask is not None
            self.value.mask_dtype = SN_MASK_UINT8 if mask is None else word("mask", _MASK_DTYPES, mask)
            self.value.has_moves = bool(moves)
            self.value.leaves_damaged = bool(leaves_damaged)
            self.value.leaves_above = 0 if leaves_above is None else max(leaves_above, 1)
            self.value.is_sound = bool(sound)
            self.value.channels = 0 if channels is None else channels
            self.value.divisor = 255 if scale else 1
            for k in range(3):
                self.value.mean[k] = mean[k]
                self.value.std[k] = std[k]
            for k, (kind, arguments) in enumerate(flat):
                fill_op(&self.value.ops[k], kind, arguments)
            if erase is not None:
                fill_erase(&self.value.erase, erase)
            self.value.leaves_erasing = bool(leaves_erasing)
        except OverflowError as error:
            raise PlanError(f"a number is negative or too large: {ops!r}") from error
        if sn_plan_check(&self.value) != SN_OK:
            raise PlanError(f"a number is out of range, or the head is random: {ops!r}, n_head={n_head}, "
                            f"mean={mean!r}, std={std!r}, erase={erase!r}")
        if sn_plan_output_size(&self.value, &self.height, &self.width) != SN_OK:
            self.height = self.width = 0
        self.copy_bytes = sn_plan_copy_bytes(&self.value, self.height, self.width)
        self.beside_bytes = <uint64_t>self.height * self.width * sn_plan_mask_bytes(&self.value)
        if moves:
            self.beside_bytes = sizeof(sn_moves)
        self.erasure_bytes = sn_plan_erasures(&self.value) * sizeof(sn_erasure)

    @classmethod
    def of_sounds(cls, ops, n_head, dtype="float32", channels=None):
        """A pipeline of sounds, whose ops are torchaudio's, and whose batches are floats ``(channels, frames)``."""
        return cls(ops, n_head, dtype, False, (0, 0, 0), (1, 1, 1), sound=True, channels=channels)

    cdef int lend(self, others, uint64_t samples, uint8_t **beside, sn_erasure **erasures) except -1:
        """The memory of the arrays for what a batch has beside pictures. What the plan does not make stays as it is."""
        rest = iter(others)
        if self.beside_bytes:
            beside[0] = memory_of(next(rest), samples * self.beside_bytes)
        if self.erasure_bytes:
            erasures[0] = <sn_erasure *>memory_of(next(rest), samples * self.erasure_bytes)
        return 0

    def output_size(self):
        """``(height, width)`` of every AUGMENTED picture, ``(channels, frames)`` of every sound.

        Raises:
            PlanError: They would differ from picture to picture.
        """
        if self.height == 0 and self.value.is_sound:
            raise PlanError("sounds come out with different numbers of channels or frames, which do not stack: "
                            "add a crop to a number of frames, and mix the channels or say how many there are")
        if self.height == 0:
            raise PlanError("pictures come out in different sizes, which do not stack: "
                            "add Resize((height, width)) or a crop")
        return self.height, self.width

    def route(self, height, width, seed, nonce=0, epoch=0, index=0, max_pixels=64_000_000):
        """The passes that a picture of this size would take: for tests, and for examining.

        Returns:
            A list of dicts: ``box`` and ``window`` as ``(top, left, height, width)``, ``full``
            (what the box is resized to), ``filter``, ``flip`` and ``vflip``, ``size`` of the
            output and ``at``, the place of the window in it; where it is padded ``border``, the
            mode and the fill; ``edits``, each a name and its factor, for a hue its turn in
            256ths, for a blur sigma, for a warp the matrix (eight
            numbers in perspective), for an elastic transform the seed of its noise, for a mix the weight.
        """
        cdef sn_rng rng
        cdef sn_route route
        cdef sn_pass *p
        cdef size_t k, i
        sn_rng_start(&rng, seed, nonce, epoch, index, SN_STREAM_AUGMENT)
        rc = sn_route_lay(&route, self.value.ops, self.value.n_ops, &rng, height, width, NULL, max_pixels)
        if rc != SN_OK:
            raise picture_error(rc, "the pipeline does not fit the picture")
        passes = []
        for k in range(route.n_passes):
            p = &route.passes[k]
            edits = [described_edit(&route.edits[p.first_edit + i]) for i in range(p.n_edits)]
            described = {
                "box": (p.box.top, p.box.left, p.box.height, p.box.width),
                "full": (p.full_height, p.full_width),
                "window": (p.window.top, p.window.left, p.window.height, p.window.width),
                "filter": filter_name(p.filter),
                "flip": bool(p.flip),
                "vflip": bool(p.vflip),
                "size": (p.height, p.width),
                "at": (p.top, p.left),
                "edits": edits,
            }
            if (p.window.height, p.window.width) != (p.height, p.width):
                described["border"] = (padding_name(p.border.mode),
                                       (p.border.fill[0], p.border.fill[1], p.border.fill[2]))
            passes.append(described)
        return passes


cdef uint8_t *memory_of(array, uint64_t least) except NULL:
    cdef uint8_t[::1] flat = array.reshape(-1).view(np.uint8)
    if <uint64_t>flat.shape[0] < least:
        raise ValueError(f"an array beside the pictures has {flat.shape[0]} bytes, but needs {least}")
    return &flat[0]


def flattened(ops):
    """The ops in order, each group followed by its members, of which it says how many they are."""
    for kind, arguments in ops:
        if "steps" in arguments:
            members = list(flattened(arguments["steps"]))
        elif "branches" in arguments:
            members = list(flattened([("branch", {"p": p, "steps": steps}) for p, steps in arguments["branches"]]))
        else:
            yield kind, arguments
            continue
        kept = {name: value for name, value in arguments.items() if name not in ("steps", "branches")}
        yield kind, {**kept, "span": len(members)}
        yield from members


cdef object described_edit(const sn_edit *edit):
    if edit.kind == SN_EDIT_COLOUR:
        is_hue = edit.colour.kind == SN_HUE
        return _COLOURS[edit.colour.kind], edit.colour.turn if is_hue else edit.colour.factor
    if edit.kind == SN_EDIT_TONE:
        return _TONES[edit.tone.kind], edit.tone.amount
    if edit.kind == SN_EDIT_SHARPNESS:
        return "sharpness", edit.sharpness
    if edit.kind == SN_EDIT_BLUR:
        return "blur", edit.blur.sigma
    if edit.kind == SN_EDIT_SOFTEN:
        return "soften", edit.soften
    if edit.kind == SN_EDIT_ELASTIC:
        return "elastic", edit.elastic.seed
    if edit.kind >= SN_EDIT_MIX_BEGIN:
        return ("mix begin", "mix add", "mix end")[edit.kind - SN_EDIT_MIX_BEGIN], edit.weight
    return "warp", tuple([edit.warp.matrix[k] for k in range(8 if edit.warp.projective else 6)])
