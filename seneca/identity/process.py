"""The settings of this process on which every item may depend, although no code names them."""

from __future__ import annotations

import calendar
import csv
import decimal
import locale
import os
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from seneca._runtime.warn import SenecaWarning

__all__ = ["settings"]

# Variables that change what numerical libraries compute, or how Python reads files.
_VARIABLES = (
    *("ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS"),
    *("NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES", "OPENBLAS_CORETYPE", "OPENCV_CPU_DISABLE"),
    *("OPENCV_IO_MAX_IMAGE_PIXELS", "OPENCV_IO_ENABLE_OPENEXR", "PYTHONIOENCODING"),
)

# Settings in modules, and the values that they have if nobody sets them. What a module that is loaded late
# brings along must not change an identity.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "PIL.Image": {"MAX_IMAGE_PIXELS": 1024**3 // 4 // 3},
    "PIL.ImageFile": {"LOAD_TRUNCATED_IMAGES": False},
    "PIL.PngImagePlugin": {"MAX_TEXT_CHUNK": 1024**2, "MAX_TEXT_MEMORY": 64 * 1024**2},
    "PIL.GifImagePlugin": {"LOADING_STRATEGY": 0},
    "PIL.TiffImagePlugin": {"READ_LIBTIFF": False, "IFD_LEGACY_API": True},
    "torchvision": {"get_image_backend": "PIL"},
    "cv2": {"useOptimized": True},
    "csv": {"field_size_limit": 131072},
}
_OF_DIALECTS = (
    *("delimiter", "doublequote", "escapechar", "lineterminator", "quotechar", "quoting", "skipinitialspace"),
    "strict",
)
_OF_PANDAS = (
    *(("mode", "copy_on_write"), ("mode", "string_storage"), ("mode", "use_inf_as_na")),
    ("future", "infer_string"),
)


def settings() -> dict[str, Any]:
    """The settings, by name: each a text, a number, or a tuple of these."""
    return dict(_settings())


def _settings() -> Iterator[tuple[str, Any]]:
    yield "torch's print options", repr(vars(torch._tensor_str.PRINT_OPTS))
    yield "torch's deterministic algorithms", torch.are_deterministic_algorithms_enabled()
    yield "torch's precision of matrix products", torch.get_float32_matmul_precision()
    options: dict[str, Any] = dict(np.get_printoptions())
    options["formatter"] = sorted(
        options["formatter"] or ()
    )  # functions have other addresses in each process
    yield "NumPy's print options", repr(sorted(options.items()))
    yield "NumPy's handling of errors", repr(sorted(np.geterr().items()))
    context = decimal.getcontext()
    yield (
        "the decimal context",
        (
            *(context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp),
            tuple(sorted(kind.__name__ for kind, is_set in context.traps.items() if is_set)),
        ),
    )
    dialects = {name: csv.get_dialect(name) for name in csv.list_dialects()}
    yield (
        "csv's dialects",
        tuple(sorted((n, *(getattr(d, a) for a in _OF_DIALECTS)) for n, d in dialects.items())),
    )
    yield "the first day of a week", calendar.firstweekday()
    yield "torch's gradients", torch.is_grad_enabled()
    yield "torch's denormal numbers", float(torch.tensor([1e-39]) * 1) == 0
    yield "the time zone", (os.environ.get("TZ"), time.timezone, time.altzone, time.tzname)
    yield "the locale", locale.setlocale(locale.LC_ALL)
    yield "the encoding of files", (locale.getpreferredencoding(False), sys.flags.utf8_mode)
    yield "python -O", sys.flags.optimize
    if hasattr(sys, "get_int_max_str_digits"):
        yield "the most digits of an int", sys.get_int_max_str_digits()
    errors = (one for one in warnings.filters if one[0] == "error" and one[2] is not SenecaWarning)
    yield "warnings that are errors", tuple(map(_shown, errors))
    for name in _VARIABLES:
        if name in os.environ:
            yield name, os.environ[name]
    for module, defaults in _DEFAULTS.items():
        for name, default in defaults.items():
            now = getattr(sys.modules.get(module), name, default)
            now = now() if callable(now) else now
            if now != default:
                yield f"{module}.{name}", repr(now)
    yield from _plugins_of_pillow()
    yield from _options_of_pandas()


def _shown(warning_filter: Any) -> str:
    _, message, category, module, _ = warning_filter
    patterns = getattr(message, "pattern", message), getattr(module, "pattern", module)
    return f"{getattr(category, '__name__', category)} {patterns}"


def _plugins_of_pillow() -> Iterator[tuple[str, Any]]:
    """The formats that plugins of other packages read. Pillow loads its own when a picture is opened."""
    opened = getattr(sys.modules.get("PIL.Image"), "OPEN", {})
    homes = {name: getattr(factory, "__module__", None) or "" for name, (factory, _) in opened.items()}
    others = sorted(f"{name} {home}" for name, home in homes.items() if not home.startswith("PIL."))
    if others:
        yield "plugins of Pillow", tuple(others)


def _options_of_pandas() -> Iterator[tuple[str, Any]]:
    """The options of pandas that change what it computes, if they are set."""
    config = sys.modules.get("pandas._config.config")
    registered = getattr(config, "_registered_options", {})
    values = getattr(config, "_global_config", {})  # pandas.get_option() warns of some of them
    for group, name in _OF_PANDAS:
        key = f"{group}.{name}"
        if key in registered and (now := values.get(group, {}).get(name)) != registered[key].defval:
            yield f"pandas' {key}", repr(now)
