"""Facts about libraries that the walk needs: functions that they compile, values that they keep."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["compiled_from", "settings_of_libraries", "texts_in", "texts_of_column"]

PLACES = 64  # of an array, where texts are searched for
WINDOW = 4096  # bytes that are examined there
_PATH_LIKE = re.compile(rb"[\x20-\x7e\x80-\xff]*/[\x20-\x7e\x80-\xff]*")


def compiled_from(value: Any) -> dict[str, Any] | None:
    """The parts of a function that numba has compiled; None: numba has not compiled it.

    Such an object has another state in each process.
    """
    if type(value).__module__.partition(".")[0] != "numba":
        return None
    function = getattr(value, "py_func", None) or getattr(
        getattr(value, "_dispatcher", None), "py_func", None
    )
    if function is None:
        return None
    options = getattr(value, "targetoptions", None)
    held = {"function": function, "options": dict(options) if isinstance(options, dict) else {}}
    signature = getattr(value, "signature", None)  # of a guvectorize
    return held | ({"signature": str(signature)} if signature else {})


def texts_in(array: np.ndarray) -> list[str]:
    """Texts in an array that may be paths: some of its elements, or what resembles a path in its bytes."""
    if array.dtype.kind in "US":
        flat = array.reshape(-1)
        some = flat[np.linspace(0, len(flat) - 1, min(PLACES, len(flat))).astype(int)] if len(flat) else flat
        return [one.decode(errors="surrogateescape") if isinstance(one, bytes) else str(one) for one in some]
    if array.dtype == np.uint8 and array.ndim == 1 and len(array) >= WINDOW:
        return list(_paths_among(array))
    return []


def texts_of_column(value: Any) -> list[str]:
    """Some of the texts in a column of pyarrow's or polars', or in each column of a polars table."""
    top, name = type(value).__module__.partition(".")[0], type(value).__name__
    if top == "polars" and name == "DataFrame":
        return [text for column in value.iter_columns() for text in texts_of_column(column)]
    is_column = name == "Series" if top == "polars" else name.endswith("Array")
    if top not in ("pyarrow", "polars") or not is_column or len(value) == 0:
        return []
    places = np.linspace(0, len(value) - 1, min(PLACES, len(value))).astype(int).tolist()
    some = [value[i] for i in places]
    plain = [one.as_py() if hasattr(one, "as_py") else one for one in some]
    return [one for one in plain if isinstance(one, str)]


def _paths_among(array: np.ndarray) -> Iterator[str]:
    """Texts that resemble paths in packed records, such as pickles one after the other."""
    for at in np.linspace(0, max(0, len(array) - WINDOW), PLACES).astype(int).tolist():
        for match in _PATH_LIKE.finditer(array[at : at + WINDOW].tobytes()):
            text = match[0]
            for whole in {text, text[: _end_of_ascii(text)]}:
                yield from (whole[i:].decode(errors="surrogateescape") for i in _beginnings(whole))


def _end_of_ascii(text: bytes) -> int:
    """Where the first byte beyond ASCII is. It may be of a name, or of the record's form."""
    return next((i for i, byte in enumerate(text) if byte >= 0x80 and i > text.find(b"/")), len(text))


def _beginnings(text: bytes) -> Iterator[int]:
    """Where a path may begin in a run of printable bytes: its first bytes may be a length."""
    yield from range(min(4, len(text)))
    if (slash := text.find(b"/")) > 3:
        yield slash


def settings_of_libraries(packages: set[str], words: set[str]) -> dict[str, Any]:
    """Values that libraries keep for a program, and that code reads without naming them.

    Args:
        packages: Top-level modules of the installed packages that code names.
        words: Every name in the code.
    """
    found: dict[str, Any] = {}
    gin = sys.modules.get("gin.config")
    if "gin" in packages and gin is not None:
        found["gin"] = getattr(gin, "_CONFIG", None)
    hydra = sys.modules.get("hydra.core.hydra_config")
    if hydra is not None and "HydraConfig" in words:
        holder = hydra.HydraConfig
        instances = getattr(type(holder), "_instances", {})
        found["hydra"] = getattr(instances.get(holder), "cfg", None)
    return found
