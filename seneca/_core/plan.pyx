"""The border to sn_plan.h: a transform in Python's words as the plan that the core runs."""

from libc.string cimport memset

from seneca._core.codes import picture_error
from seneca.errors import PlanError
from seneca._core.codes cimport SN_OK
from seneca._core.rng cimport SN_STREAM_AUGMENT, sn_rng, sn_rng_start

__all__ = ["Plan"]

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
    "random_rotation": SN_OP_RANDOM_ROTATION,
    "random_affine": SN_OP_RANDOM_AFFINE,
    "gaussian_blur": SN_OP_GAUSSIAN_BLUR,
    "random_invert": SN_OP_RANDOM_INVERT,
    "random_posterize": SN_OP_RANDOM_POSTERIZE,
    "random_solarize": SN_OP_RANDOM_SOLARIZE,
    "random_adjust_sharpness": SN_OP_RANDOM_SHARPNESS,
    "random_autocontrast": SN_OP_RANDOM_AUTOCONTRAST,
    "random_equalize": SN_OP_RANDOM_EQUALIZE,
    "rand_augment": SN_OP_RAND_AUGMENT,
    "trivial_augment_wide": SN_OP_TRIVIAL_AUGMENT,
    "auto_augment": SN_OP_AUTO_AUGMENT,
    "resize_keep_ratio": SN_OP_RESIZE_KEEP_RATIO,
    "random_resize_keep_ratio": SN_OP_RANDOM_RESIZE_KEEP_RATIO,
    "scale_jitter": SN_OP_SCALE_JITTER,
    "random_shortest_size": SN_OP_RANDOM_SHORTEST_SIZE,
    "random_zoom_out": SN_OP_RANDOM_ZOOM_OUT,
    "timm_augment": SN_OP_TIMM_AUGMENT,
    "timm_aug_mix": SN_OP_TIMM_AUG_MIX,
    "aug_mix": SN_OP_AUG_MIX,
    "random_perspective": SN_OP_RANDOM_PERSPECTIVE,
    "elastic_transform": SN_OP_ELASTIC,
    "random_apply": SN_OP_RANDOM_APPLY,
    "random_choice": SN_OP_RANDOM_CHOICE,
    "random_order": SN_OP_RANDOM_ORDER,
    "branch": SN_OP_BRANCH,
}
_WARPING = {"random_rotation", "random_affine", "rand_augment", "trivial_augment_wide", "auto_augment",
            "timm_augment", "timm_aug_mix", "aug_mix", "random_perspective", "elastic_transform"}
_WARPS = {"nearest": SN_WARP_NEAREST, "bilinear": SN_WARP_BILINEAR, "bicubic": SN_WARP_BICUBIC,
          "random": SN_WARP_EITHER}
_POLICIES = {"imagenet": SN_POLICY_IMAGENET, "cifar10": SN_POLICY_CIFAR10, "svhn": SN_POLICY_SVHN}
_DTYPES = {"uint8": SN_UINT8, "float32": SN_FLOAT32, "float16": SN_FLOAT16, "bfloat16": SN_BFLOAT16}
_FILTERS = {
    ("bilinear", True): SN_BILINEAR,
    ("bicubic", True): SN_BICUBIC,
    ("bilinear", False): SN_PLAIN_BILINEAR,
    ("bicubic", False): SN_PLAIN_BICUBIC,
    ("random", True): SN_EITHER,
}
_PADDING_MODES = {
    "constant": SN_PAD_CONSTANT,
    "edge": SN_PAD_EDGE,
    "reflect": SN_PAD_REFLECT,
    "symmetric": SN_PAD_SYMMETRIC,
}
_COLOURS = {SN_BRIGHTNESS: "brightness", SN_CONTRAST: "contrast", SN_SATURATION: "saturation", SN_HUE: "hue"}
_MASK_DTYPES = {"uint8": SN_MASK_UINT8, "int64": SN_MASK_INT64}
_TONES = (  # in the order of enum sn_tone_kind
    "invert", "posterize", "solarize", "autocontrast", "equalize", "solarize_add",
)
_TIMM = {  # in the order of enum sn_timm_operation
    name: number for number, name in enumerate((
        "AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "PosterizeIncreasing",
        "PosterizeOriginal", "Solarize", "SolarizeIncreasing", "SolarizeAdd", "Color", "ColorIncreasing",
        "Contrast", "ContrastIncreasing", "Brightness", "BrightnessIncreasing", "Sharpness",
        "SharpnessIncreasing", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel", "Desaturate",
        "GaussianBlur", "GaussianBlurRand",
    ))
}
_NOISES = {"values": SN_NOISE_VALUES, "colours": SN_NOISE_COLOURS}
_DECODES = {"exact": SN_DECODE_EXACT, "fast": SN_DECODE_FAST}


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
            ``hue``: ranges), ``random_grayscale`` (``p``), ``random_rotation`` (``degrees``,
            ``center``, ``interpolation``, ``fill``), ``random_affine`` (these, and ``translate``,
            ``scale``, ``shear``: four), ``gaussian_blur`` (``kernel_size``: height and width,
            ``sigma``), ``random_invert``, ``random_autocontrast`` and ``random_equalize`` (``p``),
            ``random_posterize`` (``p``, ``bits``), ``random_solarize`` (``p``, ``threshold``),
            ``random_adjust_sharpness`` (``p``, ``sharpness_factor``), ``rand_augment``
            (``num_ops``, ``magnitude``, ``num_magnitude_bins``), ``trivial_augment_wide``
            (``num_magnitude_bins``), ``auto_augment`` (``policy``); the last three also have
            ``interpolation`` and ``fill``, and so have ``random_perspective`` (``p``,
            ``distortion_scale``), ``elastic_transform`` (``alpha``, ``sigma``: pairs) and ``aug_mix``
            (``severity``, ``mixture_width``, ``chain_depth``: 0 is drawn, ``alpha``, ``all_ops``).
            Those of timm: ``timm_augment`` (``chains``: each a weight and ``(name, p, magnitude)`` of
            its operations, ``num_layers``, ``distinct``, ``deviation`` and ``most`` of magnitudes,
            ``share`` of a shift) and ``timm_aug_mix`` (these but for ``distinct``, ``chain_depth``,
            ``alpha``; ``num_layers``: chains). Those of sizes: ``resize_keep_ratio`` (``size``,
            ``longest``, ``interpolation``), ``random_resize_keep_ratio`` (these, ``p``, ``scale``,
            ``by_area``, ``aspect_p``, ``ratio``), ``scale_jitter`` (``size``, ``scale``,
            ``interpolation``), ``random_shortest_size`` (``sizes``, ``max_size``, ``interpolation``)
            and ``random_zoom_out`` (``p``, ``scale``, ``fill``). What has a ``fill`` has a
            ``mask_fill`` too, one byte.
            Groups have members, which are such pairs again, and which keep a picture's size:
            ``random_apply`` (``p``, ``steps``), ``random_choice`` and ``random_order``
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
        decode: ``"exact"``, or ``"fast"`` for fewer operations and slightly other pixels.
        apply_orientation: Turn pictures as their EXIF orientation says.
        mask: Of pairs of a picture and a mask: the type of the batch's masks, ``"uint8"`` or ``"int64"``. None:
            there are no masks.

    Raises:
        PlanError: An argument out of range, an unknown kind, too many ops, a random head.
    """

    def __init__(self, ops, n_head, dtype, channels_last, mean, std, *, scale=True, erase=None,
                 decode="exact", apply_orientation=False, mask=None):
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
            self.value.divisor = 255 if scale else 1
            for k in range(3):
                self.value.mean[k] = mean[k]
                self.value.std[k] = std[k]
            for k, (kind, arguments) in enumerate(flat):
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
            mode and the fill; ``edits``, each a name and its factor, for a hue its turn in
            256ths, for a blur sigma, for a warp the matrix (eight
            numbers in perspective), for an elastic transform the seed of its noise, for a mix the weight.
        """
        cdef sn_rng rng
        cdef sn_route route
        cdef sn_pass *p
        cdef size_t k, i
        sn_rng_start(&rng, seed, nonce, epoch, index, SN_STREAM_AUGMENT)
        rc = sn_route_lay(&route, self.value.ops, self.value.n_ops, &rng, height, width, max_pixels)
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
                "filter": name_of(_FILTERS, p.filter),
                "flip": bool(p.flip),
                "vflip": bool(p.vflip),
                "size": (p.height, p.width),
                "at": (p.top, p.left),
                "edits": edits,
            }
            if (p.window.height, p.window.width) != (p.height, p.width):
                described["border"] = (name_of(_PADDING_MODES, p.border.mode),
                                       (p.border.fill[0], p.border.fill[1], p.border.fill[2]))
            passes.append(described)
        return passes


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


cdef object word(name, words, value):
    if value not in words:
        raise PlanError(f"{name} {value!r}; expected one of {', '.join(map(repr, words))}")
    return words[value]


cdef object filter_of(interpolation, antialias):
    return word("interpolation, antialias", _FILTERS, (interpolation, antialias))


cdef object name_of(words, value):
    return next(name for name, known in words.items() if known == value)


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


cdef int fill_pair(double *pair, value) except -1:
    pair[0], pair[1] = value
    return 0


cdef int fill_op(sn_op *op, kind, arguments) except -1:
    cdef size_t k
    if kind not in _KINDS:
        raise PlanError(f"no native transform {kind!r}; there are {', '.join(_KINDS)}")
    op.kind = _KINDS[kind]
    if kind in _WARPING:
        op.warp = word("interpolation", _WARPS, arguments.get("interpolation", "bilinear"))
    else:
        op.filter = filter_of(arguments.get("interpolation", "bilinear"), arguments.get("antialias", True))
    if kind == "aug_mix":
        op.all_ops = 1
    if kind == "random_affine":
        op.scale[0] = op.scale[1] = 1
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
            op.has_fill = 1
            for k in range(3):
                op.fill[k] = value[k]
        elif name == "mask_fill":
            op.mask_fill = value
        elif name == "brightness":
            fill_pair(op.brightness, value)
        elif name == "contrast":
            fill_pair(op.contrast, value)
        elif name == "saturation":
            fill_pair(op.saturation, value)
        elif name == "hue":
            fill_pair(op.hue, value)
        elif name == "degrees":
            fill_pair(op.degrees, value)
        elif name == "translate":
            fill_pair(op.translate, value)
        elif name == "shear":
            fill_pair(op.shear, value[:2])
            fill_pair(op.shear + 2, value[2:])
        elif name == "center":
            op.has_center = 1
            fill_pair(op.center, value)
        elif name == "kernel_size":
            op.height, op.width = value
        elif name == "sigma":
            fill_pair(op.sigma, value)
        elif name in ("bits", "threshold", "sharpness_factor"):
            op.amount = value
        elif name == "num_ops":
            op.count = value
        elif name == "magnitude":
            op.magnitude = value
        elif name == "num_magnitude_bins":
            op.bins = value
        elif name == "span":
            op.span = value
        elif name == "policy":
            op.policy = word(name, _POLICIES, value)
        elif name == "longest":
            op.longest = value
        elif name == "aspect_p":
            op.aspect_probability = value
        elif name == "by_area":
            op.by_area = bool(value)
        elif name == "sizes":
            fill_sizes(op, value)
        elif name == "chains":
            fill_parts(op, value)
        elif name in ("num_layers", "mixture_width"):
            op.count = value
        elif name == "distinct":
            op.distinct = bool(value)
        elif name == "deviation":
            op.deviation = value
        elif name == "most":
            op.most = value
        elif name == "share":
            op.translate[0] = value
        elif name == "chain_depth":
            op.depth = value
        elif name == "severity":
            op.magnitude = value
        elif name == "all_ops":
            op.all_ops = bool(value)
        elif name == "distortion_scale":
            op.amount = value
        elif name == "alpha" and isinstance(value, tuple):
            fill_pair(op.alpha, value)
        elif name == "alpha":
            op.alpha[0] = value
        else:
            raise PlanError(f"{kind} has no argument {name!r}")
    return 0


cdef int fill_sizes(sn_op *op, sizes) except -1:
    if len(sizes) > SN_MAX_SIZES:
        raise PlanError(f"{len(sizes)} sizes; at most {SN_MAX_SIZES} run natively")
    op.count = len(sizes)
    for k, size in enumerate(sizes):
        op.sizes[k] = size
    return 0


cdef int fill_parts(sn_op *op, chains) except -1:
    cdef size_t n = 0
    if sum([len(parts) for _, parts in chains]) > SN_MAX_PARTS:
        raise PlanError(f"more than {SN_MAX_PARTS} operations of a recipe do not run natively")
    for weight, parts in chains:
        for k, (name, p, magnitude) in enumerate(parts):
            op.parts[n].operation = word("operation", _TIMM, name)
            op.parts[n].ends = k + 1 == len(parts)
            op.parts[n].weight = weight if k == 0 else 0
            op.parts[n].probability = p
            op.parts[n].magnitude = magnitude
            n += 1
    op.n_parts = n
    return 0


cdef int fill_erase(sn_erase *erase, arguments) except -1:
    cdef size_t k
    deviation = arguments.get("deviation")
    erase.probability = arguments["p"]
    fill_pair(erase.scale, arguments["scale"])
    fill_pair(erase.ratio, arguments["ratio"])
    erase.fewest, erase.most = arguments.get("count", (1, 1))
    erase.noise = SN_NOISE_NONE
    if deviation is not None:
        erase.noise = word("noise", _NOISES, arguments.get("noise", "values"))
    for k in range(3):
        erase.value[k] = arguments["value"][k]
        erase.deviation[k] = 0 if deviation is None else deviation[k]
    return 0
