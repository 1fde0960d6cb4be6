"""One transform in Python's words as an operation of the core's plan: its kind, and its arguments as numbers."""

from seneca.errors import PlanError

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
_SINC_WINDOWS = {"sinc_interp_hann": SN_SINC_HANN, "sinc_interp_kaiser": SN_SINC_KAISER}
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
_KINDS = kinds()


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


cdef dict kinds():
    return {sn_kinds[k].name.decode(): k for k in range(1, SN_N_OPS)}


cdef int fill_pair(double *pair, value) except -1:
    pair[0], pair[1] = value
    return 0


cdef int fill_op(sn_op *op, kind, arguments) except -1:
    """Set ``op`` to this kind with these arguments, by the table that ``csrc/codec/ops.def`` makes."""
    cdef const sn_argument *argument
    if kind not in _KINDS:
        raise PlanError(f"no native transform {kind!r}; there are {', '.join(_KINDS)}")
    sn_op_begin(op, _KINDS[kind])
    unknown = set(arguments)
    argument = sn_kinds[op.kind].arguments
    while argument.name != NULL:
        name = argument.name.decode()
        if name in arguments:
            fill_argument(<char *>op + argument.at, argument.type, name, arguments)
            unknown.discard(name)
        argument += 1
    if unknown:
        raise PlanError(f"{kind} has no argument {min(unknown)!r}")
    return 0


cdef int fill_argument(char *at, sn_argument_type type, name, arguments) except -1:
    cdef uint32_t *whole = <uint32_t *>at
    cdef double *real = <double *>at
    cdef uint8_t *byte = <uint8_t *>at
    cdef size_t k
    value = arguments[name]
    if type == SN_WHOLE:
        whole[0] = value
    elif type == SN_REAL:
        real[0] = value
    elif type in (SN_RANGE, SN_POINT):
        real[0], real[1] = value
    elif type == SN_TWO_RANGES:
        real[0], real[1], real[2], real[3] = value
    elif type in (SN_SIZE, SN_SHORT_OR_SIZE):
        whole[0], whole[1] = (value, 0) if isinstance(value, int) else value  # one int: the short side
    elif type == SN_SIDES:
        whole[0], whole[1], whole[2], whole[3] = value
    elif type == SN_COLOUR:
        byte[0], byte[1], byte[2] = value
    elif type == SN_BYTE:
        byte[0] = value
    elif type == SN_GIVEN:
        whole[0] = 1
    elif type == SN_SIZES:
        fill_sizes(<sn_sizes *>at, value)
    elif type == SN_REALS:
        fill_reals(<sn_reals *>at, value)
    elif type == SN_CHAINS:
        fill_chains(<sn_chains *>at, value)
    elif type == SN_FILTER:  # two arguments give it together
        whole[0] = filter_of(arguments.get("interpolation", "bilinear"), arguments.get("antialias", True))
    elif type == SN_WARP_FILTER:
        whole[0] = word(name, _WARPS, value)
    elif type == SN_PADDING_MODE:
        whole[0] = word(name, _PADDING_MODES, value)
    elif type == SN_POLICY:
        whole[0] = word(name, _POLICIES, value)
    else:
        whole[0] = word(name, _SINC_WINDOWS, value)
    return 0


cdef int fill_sizes(sn_sizes *filled, sizes) except -1:
    if len(sizes) > SN_MAX_SIZES:
        raise PlanError(f"{len(sizes)} sizes; at most {SN_MAX_SIZES} run natively")
    filled.count = len(sizes)
    for k, size in enumerate(sizes):
        filled.sizes[k] = size
    return 0


cdef int fill_reals(sn_reals *filled, values) except -1:
    if len(values) > SN_MAX_SIZES:
        raise PlanError(f"{len(values)} numbers; at most {SN_MAX_SIZES} run natively")
    filled.count = len(values)
    for k, value in enumerate(values):
        filled.values[k] = value
    return 0


cdef int fill_chains(sn_chains *filled, chains) except -1:
    cdef sn_part *part = filled.parts
    filled.count = sum([len(parts) for _, parts in chains])
    if filled.count > SN_MAX_PARTS:
        raise PlanError(f"more than {SN_MAX_PARTS} operations of a recipe do not run natively")
    for weight, parts in chains:
        for k, (name, p, magnitude) in enumerate(parts):
            part.operation = word("operation", _TIMM, name)
            part.ends = k + 1 == len(parts)
            part.weight = weight if k == 0 else 0
            part.probability = p
            part.magnitude = magnitude
            part += 1
    return 0


def limits_of_sounds():
    """``(kind, argument, most)`` of each number of an operation of sounds."""
    cdef const sn_argument *argument
    found = []
    for kind, number in _KINDS.items():
        argument = sn_kinds[<size_t>number].arguments
        while sn_kinds[<size_t>number].flags & SN_IS_SOUND and argument.name != NULL:
            found.append((kind, argument.name.decode(), argument.most))
            argument += 1
    return found


def described_kinds():
    """The content of ``csrc/codec/ops.def``: for each kind, in Python's words, its flags and its arguments' names."""
    cdef const sn_argument *argument
    found = {}
    for kind, number in _KINDS.items():
        flags = sn_kinds[<size_t>number].flags
        argument = sn_kinds[<size_t>number].arguments
        names = set()
        while argument.name != NULL:
            names.add(argument.name.decode())
            argument += 1
        found[kind] = {
            "is_fixed": bool(flags & SN_IS_FIXED),
            "keeps_size": bool(flags & SN_KEEPS_SIZE),
            "any_size": bool(flags & SN_ANY_SIZE),
            "reads_boxes": bool(flags & SN_READS_BOXES),
            "is_sound": bool(flags & SN_IS_SOUND),
            "arguments": names,
        }
    return found


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


def packed(kind, arguments):
    """An op as the core has it, as bytes: for tests."""
    cdef sn_op op
    fill_op(&op, kind, arguments)
    return (<char *>&op)[:sizeof(sn_op)]
