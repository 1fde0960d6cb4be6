"""The border to csrc/codec: owns handles, drops the GIL, translates errors, decides nothing."""

import os

import numpy as np

from libc.string cimport memcpy, memset

from seneca.errors import DecodeError, NotJpegError, PictureTooLargeError, PlanError

__all__ = ["Codec", "Plan", "Rng", "batch_write", "philox", "resize"]

_KINDS = {
    "resize": SN_OP_RESIZE,
    "center_crop": SN_OP_CENTER_CROP,
    "random_resized_crop": SN_OP_RANDOM_RESIZED_CROP,
    "random_hflip": SN_OP_RANDOM_HFLIP,
    "random_vflip": SN_OP_RANDOM_VFLIP,
    "pad": SN_OP_PAD,
    "random_crop": SN_OP_RANDOM_CROP,
    "color_jitter": SN_OP_COLOR_JITTER,
    "random_grayscale": SN_OP_RANDOM_GRAYSCALE,
}
_DTYPES = {"uint8": SN_UINT8, "float32": SN_FLOAT32, "float16": SN_FLOAT16, "bfloat16": SN_BFLOAT16}
_ARRAYS = {
    SN_UINT8: np.dtype(np.uint8),
    SN_FLOAT32: np.dtype(np.float32),
    SN_FLOAT16: np.dtype(np.float16),
    SN_BFLOAT16: np.dtype(np.uint16),
}
_FILTERS = {
    ("bilinear", True): SN_BILINEAR,
    ("bicubic", True): SN_BICUBIC,
    ("bilinear", False): SN_PLAIN_BILINEAR,
    ("bicubic", False): SN_PLAIN_BICUBIC,
}
_PADDING_MODES = {
    "constant": SN_PAD_CONSTANT,
    "edge": SN_PAD_EDGE,
    "reflect": SN_PAD_REFLECT,
    "symmetric": SN_PAD_SYMMETRIC,
}
_COLOURS = {SN_BRIGHTNESS: "brightness", SN_CONTRAST: "contrast", SN_SATURATION: "saturation", SN_HUE: "hue"}
_DECODES = {"exact": SN_DECODE_EXACT, "fast": SN_DECODE_FAST}
_CLASSES = {
    SN_E_NOT_JPEG: NotJpegError,
    SN_E_DECODE: DecodeError,
    SN_E_TOO_LARGE: PictureTooLargeError,
    SN_E_PLAN: PlanError,
}


def error_for(rc, message):
    """The exception that says what the code ``rc`` of csrc/codec means."""
    if rc in _CLASSES:
        return _CLASSES[rc](message)
    if rc == -12:  # ENOMEM
        return MemoryError(message)
    return OSError(-rc, message or os.strerror(-rc))


cdef int copy_out(object array, const sn_view *view) except -1:
    cdef uint8_t[:, :, ::1] out = array
    cdef size_t y
    for y in range(view.height):
        memcpy(&out[y, 0, 0], view.pixels + y * view.stride, <size_t>view.width * 3)
    return 0


cdef object array_of(const sn_view *view):
    array = np.empty((view.height, view.width, 3), np.uint8)
    copy_out(array, view)
    return array


cdef sn_view view_of(const uint8_t[:, :, :] picture) except *:
    """A view that lives as long as the caller keeps ``picture``."""
    cdef sn_view view
    if picture.shape[0] == 0 or picture.shape[1] == 0 or picture.shape[2] != 3:
        raise ValueError("expected a picture of shape (height, width, 3), not empty")
    if picture.strides[2] != 1 or picture.strides[1] != 3 or picture.strides[0] < 3 * picture.shape[1]:
        raise ValueError("expected rows of RGB triples close together; numpy.ascontiguousarray makes them")
    view.pixels = &picture[0, 0, 0]
    view.height = <uint32_t>picture.shape[0]
    view.width = <uint32_t>picture.shape[1]
    view.stride = <size_t>picture.strides[0]
    return view


cdef class Plan:
    """A pipeline as the native path runs it: ops, of which the first ``n_head`` are the head.

    Args:
        ops: ``(kind, arguments)`` in order, the arguments named and meant as torchvision's:
            ``resize`` (``size``: ``(height, width)``, or an int for the short side; ``max_size``,
            ``interpolation``, ``antialias``), ``center_crop`` (``size``), ``random_resized_crop``
            (``size``, ``scale``, ``ratio``, ``interpolation``, ``antialias``), ``random_hflip`` and
            ``random_vflip`` (``p``), ``pad`` (``padding``: ``(left, top, right, bottom)``, ``fill``:
            three bytes, ``padding_mode``), ``random_crop`` (``size``, what ``pad`` has,
            ``pad_if_needed``), ``color_jitter`` (``brightness``, ``contrast``, ``saturation``,
            ``hue``: ranges), ``random_grayscale`` (``p``).
        n_head: How many of them, from the first, make DECODED. They must not be random.
        dtype: Of the batch: ``"uint8"``, ``"float16"``, ``"bfloat16"`` or ``"float32"``.
        channels_last: Lay the batch out as HWC, not CHW.
        mean: Three numbers, in units of the scaled pixel; they matter for floats only.
        std: Likewise.
        scale: Whether floats are pixels divided by 255, or left from 0 to 255.
        erase: ``None`` or the arguments of a random erasing on the output: ``p``, ``scale``,
            ``ratio``, ``value`` (three numbers in units of the output), and with ``deviation``
            (three numbers) normal noise around it.
        decode: ``"exact"``, or ``"fast"`` for fewer operations and slightly other pixels.
        apply_orientation: Turn pictures as their EXIF orientation says.

    Raises:
        PlanError: An argument out of range, an unknown kind, too many ops, a random head.
    """

    def __init__(self, ops, n_head, dtype, channels_last, mean, std, *, scale=True, erase=None,
                 decode="exact", apply_orientation=False):
        cdef size_t k
        memset(&self.value, 0, sizeof(sn_plan))
        if len(ops) > SN_PLAN_MAX_OPS:
            raise PlanError(f"{len(ops)} transforms; at most {SN_PLAN_MAX_OPS} run natively")
        if len(mean) != 3 or len(std) != 3:
            raise PlanError("mean and std need a number for each of 3 channels")
        try:
            self.value.n_ops = len(ops)
            self.value.n_head = n_head
            self.value.dtype = word("dtype", _DTYPES, dtype)
            self.value.decode = word("decode", _DECODES, decode)
            self.value.apply_orientation = bool(apply_orientation)
            self.value.channels_last = bool(channels_last)
            self.value.divisor = 255 if scale else 1
            for k in range(3):
                self.value.mean[k] = mean[k]
                self.value.std[k] = std[k]
            for k, (kind, arguments) in enumerate(ops):
                fill_op(&self.value.ops[k], kind, arguments)
            if erase is not None:
                fill_erase(&self.value.erase, erase)
        except OverflowError as error:
            raise PlanError(f"a number is negative or too large: {ops!r}") from error
        if sn_plan_check(&self.value) != SN_OK:
            raise PlanError(f"a number is out of range, or the head is random: {ops!r}, n_head={n_head}, "
                            f"mean={mean!r}, std={std!r}, erase={erase!r}")
        if sn_plan_output_size(&self.value, &self.height, &self.width) != SN_OK:
            self.height = self.width = 0

    def output_size(self):
        """``(height, width)`` of every AUGMENTED picture.

        Raises:
            PlanError: They would differ from picture to picture.
        """
        if self.height == 0:
            raise PlanError("pictures come out in different sizes, which do not stack: "
                            "add Resize((height, width)) or a crop")
        return self.height, self.width

    def route(self, height, width, seed, nonce=0, epoch=0, index=0, max_pixels=64_000_000):
        """The passes that a picture of this size would take: for tests, and for looking at.

        Returns:
            A list of dicts: ``box`` and ``window`` as ``(top, left, height, width)``, ``full``
            (what the box is resized to), ``filter``, ``flip`` and ``vflip``, ``size`` of the
            output and ``at``, the place of the window in it; where it is padded ``border``, the
            mode and the fill; ``colours``, each a name and its factor, or for a hue its turn in
            256ths.
        """
        cdef sn_rng rng
        cdef sn_route route
        cdef sn_pass *p
        cdef sn_colour *colour
        cdef size_t k, i
        sn_rng_start(&rng, seed, nonce, epoch, index, SN_STREAM_AUGMENT)
        rc = sn_route_lay(&route, self.value.ops, self.value.n_ops, &rng, height, width, max_pixels)
        if rc != SN_OK:
            raise error_for(rc, "the pipeline does not fit the picture")
        passes = []
        for k in range(route.n_passes):
            p = &route.passes[k]
            colours = []
            for i in range(p.n_colours):
                colour = &route.colours[p.first_colour + i]
                colours.append((_COLOURS[colour.kind], colour.turn if colour.kind == SN_HUE else colour.factor))
            described = {
                "box": (p.box.top, p.box.left, p.box.height, p.box.width),
                "full": (p.full_height, p.full_width),
                "window": (p.window.top, p.window.left, p.window.height, p.window.width),
                "filter": name_of(_FILTERS, p.filter),
                "flip": bool(p.flip),
                "vflip": bool(p.vflip),
                "size": (p.height, p.width),
                "at": (p.top, p.left),
                "colours": colours,
            }
            if (p.window.height, p.window.width) != (p.height, p.width):
                described["border"] = (name_of(_PADDING_MODES, p.border.mode),
                                       (p.border.fill[0], p.border.fill[1], p.border.fill[2]))
            passes.append(described)
        return passes


cdef object word(name, words, value):
    if value not in words:
        raise PlanError(f"{name} {value!r}; expected one of {', '.join(map(repr, words))}")
    return words[value]


cdef object name_of(words, value):
    return next(name for name, known in words.items() if known == value)


cdef int fill_pair(double *pair, value) except -1:
    pair[0], pair[1] = value
    return 0


cdef int fill_op(sn_op *op, kind, arguments) except -1:
    cdef size_t k
    if kind not in _KINDS:
        raise PlanError(f"no native transform {kind!r}; there are {', '.join(_KINDS)}")
    op.kind = _KINDS[kind]
    op.filter = word("interpolation, antialias", _FILTERS,
                     (arguments.get("interpolation", "bilinear"), arguments.get("antialias", True)))
    op.brightness[0] = op.brightness[1] = op.contrast[0] = op.contrast[1] = 1
    op.saturation[0] = op.saturation[1] = 1
    for name, value in arguments.items():
        if name in ("interpolation", "antialias"):
            pass  # above, together
        elif name == "size" and isinstance(value, int):
            op.height = value  # the short side: width 0 says so
        elif name == "size":
            op.height, op.width = value
        elif name == "max_size":
            op.max_size = value
        elif name == "scale":
            fill_pair(op.scale, value)
        elif name == "ratio":
            fill_pair(op.ratio, value)
        elif name == "p":
            op.probability = value
        elif name == "padding":
            for k in range(4):
                op.padding[k] = value[k]
        elif name == "padding_mode":
            op.padding_mode = word(name, _PADDING_MODES, value)
        elif name == "pad_if_needed":
            op.pad_if_needed = bool(value)
        elif name == "fill":
            for k in range(3):
                op.fill[k] = value[k]
        elif name == "brightness":
            fill_pair(op.brightness, value)
        elif name == "contrast":
            fill_pair(op.contrast, value)
        elif name == "saturation":
            fill_pair(op.saturation, value)
        elif name == "hue":
            fill_pair(op.hue, value)
        else:
            raise PlanError(f"{kind} has no argument {name!r}")
    return 0


cdef int fill_erase(sn_erase *erase, arguments) except -1:
    cdef size_t k
    deviation = arguments.get("deviation")
    erase.probability = arguments["p"]
    fill_pair(erase.scale, arguments["scale"])
    fill_pair(erase.ratio, arguments["ratio"])
    erase.noise = deviation is not None
    for k in range(3):
        erase.value[k] = arguments["value"][k]
        erase.deviation[k] = 0 if deviation is None else deviation[k]
    return 0


cdef class Codec:
    """Decoder state and scratch memory, for one thread at a time.

    Args:
        max_pixels: Pictures with more, decoded or resized, are refused; 0 means 64 million.

    Its methods raise DecodeError (a damaged file), NotJpegError, PictureTooLargeError, PlanError,
    MemoryError; and RuntimeError when a second thread comes in, which would share the scratch.
    """

    def __cinit__(self, max_pixels=0):
        self.handle = sn_codec_new(max_pixels)
        if self.handle is NULL:
            raise MemoryError("no memory for a codec")

    def __dealloc__(self):
        sn_codec_free(self.handle)

    cdef int enter(self) except -1:
        if self.busy:
            raise RuntimeError("a Codec serves one thread at a time; give each thread its own")
        self.busy = True
        return 0

    cdef int leave(self, int rc) except -1:
        self.busy = False
        if rc != SN_OK:
            raise error_for(rc, sn_codec_message(self.handle).decode("utf-8", "replace"))
        return 0

    cdef object leave_with(self, int rc, const sn_view *view):
        try:  # the view points into the codec: nobody else may enter before it is copied
            return array_of(view) if rc == SN_OK else None
        finally:
            self.leave(rc)

    def probe(self, const uint8_t[::1] data):
        """``(height, width)`` by the header alone."""
        cdef uint32_t height = 0, width = 0
        cdef int rc
        self.enter()
        with nogil:
            rc = sn_codec_probe(self.handle, &data[0], data.shape[0], &height, &width)
        self.leave(rc)
        return height, width

    def decode(self, Plan plan, const uint8_t[::1] data):
        """DECODED: the picture after the head of ``plan``, uint8 ``(height, width, 3)``."""
        cdef sn_view view
        cdef int rc
        self.enter()
        with nogil:
            rc = sn_codec_decode(self.handle, &plan.value, &data[0], data.shape[0], &view)
        return self.leave_with(rc, &view)

    def decode_region(self, const uint8_t[::1] data, uint32_t top, uint32_t left, uint32_t height,
                      uint32_t width):
        """A rectangle of the picture, without any op: uint8 ``(height, width, 3)``."""
        cdef sn_view view
        cdef int rc
        self.enter()
        with nogil:
            rc = sn_codec_decode_region(self.handle, &data[0], data.shape[0], top, left, height, width,
                                        &view)
        return self.leave_with(rc, &view)

    def head(self, Plan plan, const uint8_t[:, :, :] picture):
        """DECODED, from a picture that was decoded elsewhere."""
        cdef sn_view view, source = view_of(picture)
        cdef int rc
        self.enter()
        with nogil:
            rc = sn_codec_head(self.handle, &plan.value, &source, &view)
        return self.leave_with(rc, &view)

    def augment_encoded(self, Plan plan, const uint8_t[::1] data, uint64_t seed, uint64_t nonce,
                        uint32_t epoch, uint32_t index):
        """AUGMENTED, straight from the file: uint8 ``(height, width, 3)`` of ``output_size()``."""
        array = np.empty((*plan.output_size(), 3), np.uint8)
        cdef uint8_t[:, :, ::1] out = array
        cdef sn_rng rng
        cdef int rc
        sn_rng_start(&rng, seed, nonce, epoch, index, SN_STREAM_AUGMENT)
        self.enter()
        with nogil:
            rc = sn_codec_augment_encoded(self.handle, &plan.value, &rng, &data[0], data.shape[0],
                                          &out[0, 0, 0])
        self.leave(rc)
        return array

    def augment_decoded(self, Plan plan, const uint8_t[:, :, :] picture, uint64_t seed, uint64_t nonce,
                        uint32_t epoch, uint32_t index):
        """AUGMENTED, by the tail of ``plan`` from DECODED."""
        array = np.empty((*plan.output_size(), 3), np.uint8)
        cdef uint8_t[:, :, ::1] out = array
        cdef sn_view source = view_of(picture)
        cdef sn_rng rng
        cdef int rc
        sn_rng_start(&rng, seed, nonce, epoch, index, SN_STREAM_AUGMENT)
        self.enter()
        with nogil:
            rc = sn_codec_augment_decoded(self.handle, &plan.value, &rng, &source, &out[0, 0, 0])
        self.leave(rc)
        return array


def resize(const uint8_t[:, :, :] picture, size, box, interpolation="bilinear", antialias=True):
    """What a resize makes of a box that may fall between pixels: for tests, and for looking at.

    Args:
        picture: uint8 ``(height, width, 3)``.
        size: ``(height, width)`` of the result.
        box: ``(left, top, right, bottom)``, inside the picture and not empty: Pillow's
            ``Image.resize(box=...)``.
        interpolation: ``"bilinear"`` or ``"bicubic"``.
        antialias: As torchvision's.
    """
    cdef sn_view source = view_of(picture)
    cdef sn_resizer resizer
    cdef sn_axis down, across
    cdef int rc
    array = np.empty((*size, 3), np.uint8)
    cdef uint8_t[:, :, ::1] out = array
    cdef double left, top, right, bottom
    left, top, right, bottom = box
    if not (0 <= left < right <= source.width and 0 <= top < bottom <= source.height) or array.size == 0:
        raise ValueError(f"box {box!r} or size {size!r} is empty, or not inside {source.height} x {source.width}")
    memset(&resizer, 0, sizeof(resizer))
    memset(&down, 0, sizeof(down))
    down.filter = word("interpolation, antialias", _FILTERS, (interpolation, antialias))
    across = down
    down.source, down.origin, down.extent = source.height, top, bottom - top
    across.source, across.origin, across.extent = source.width, left, right - left
    down.full = down.count = size[0]
    across.full = across.count = size[1]
    rc = sn_resizer_prepare(&resizer, &down, &across)
    if rc == SN_OK:
        source.pixels += resizer.down.span_first * source.stride + 3 * <size_t>resizer.across.span_first
        source.height, source.width = resizer.down.span_count, resizer.across.span_count
        rc = sn_resizer_run(&resizer, &source, &out[0, 0, 0], 3 * <size_t>across.count)
    sn_resizer_release(&resizer)
    if rc != SN_OK:
        raise error_for(rc, "no memory for the resize")
    return array


def batch_write(Plan plan, const uint8_t[:, :, ::1] augmented, out, uint64_t seed=0, uint32_t epoch=0,
                uint32_t index=0):
    """Normalise, cast and lay out ``augmented`` into ``out``, a place in the batch, and erase a part of it.

    Args:
        plan: Says dtype, layout and statistics, and what is erased.
        augmented: uint8 ``(height, width, 3)``.
        out: A C-contiguous array of the plan's dtype (bfloat16 as uint16), ``(3, height, width)``,
            or ``(height, width, 3)`` if the plan is channels last.
        seed, epoch, index: Name the random numbers of the erasing.
    """
    cdef uint32_t height = augmented.shape[0], width = augmented.shape[1]
    cdef uint8_t[::1] flat
    cdef sn_rng rng
    cdef object shape = (height, width, 3)
    if not plan.value.channels_last:
        shape = (3, height, width)
    if augmented.shape[2] != 3 or out.shape != shape or height == 0 or width == 0:
        raise ValueError(f"augmented and out do not fit: {height} x {width} x {augmented.shape[2]}, {out.shape}")
    if out.dtype != _ARRAYS[plan.value.dtype] or not out.flags.c_contiguous:
        raise ValueError(f"out must be a C-contiguous array of {_ARRAYS[plan.value.dtype]}, but is {out.dtype}")
    flat = out.reshape(-1).view(np.uint8)
    sn_rng_start(&rng, seed, 0, epoch, index, SN_STREAM_ERASE)
    with nogil:
        sn_batch_write(&plan.value, &augmented[0, 0, 0], height, width, &rng, &flat[0])


cdef class Rng:
    """The random numbers of one sample, as csrc/base/sn_rng.h draws them."""

    def __init__(self, uint64_t seed, uint64_t nonce, uint32_t epoch, uint32_t index, int stream=0):
        sn_rng_start(&self.value, seed, nonce, epoch, index, <sn_stream>stream)

    def u32(self):
        return sn_rng_u32(&self.value)

    def double(self):
        """Uniform in [0, 1)."""
        return sn_rng_double(&self.value)

    def below(self, uint32_t n):
        """Uniform in {0, ..., n - 1}."""
        if n == 0:
            raise ValueError("n must be positive")
        return sn_rng_below(&self.value, n)


def philox(key, counter):
    """One Philox4x32-10 block: four 32-bit numbers from two and four."""
    cdef uint32_t c_key[2]
    cdef uint32_t c_counter[4]
    cdef uint32_t out[4]
    c_key[0], c_key[1] = key
    c_counter[0], c_counter[1], c_counter[2], c_counter[3] = counter
    sn_philox(c_key, c_counter, out)
    return out[0], out[1], out[2], out[3]
