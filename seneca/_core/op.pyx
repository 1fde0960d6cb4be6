"""One transform in Python's words as an operation of the core's plan: its kind, and its arguments as numbers."""

from seneca.errors import PlanError

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


cdef object word(name, words, value):
    if value not in words:
        raise PlanError(f"{name} {value!r}; expected one of {', '.join(map(repr, words))}")
    return words[value]


cdef object filter_of(interpolation, antialias):
    return word("interpolation, antialias", _FILTERS, (interpolation, antialias))


cdef object name_of(words, value):
    return next(name for name, known in words.items() if known == value)


cdef object filter_name(filter):
    return name_of(_FILTERS, filter)


cdef object padding_name(mode):
    return name_of(_PADDING_MODES, mode)


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
