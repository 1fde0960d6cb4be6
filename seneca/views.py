"""How counters and loaders are shown: as lines of text, and as a table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["Stats", "table_html"]


class Stats(dict[str, Any]):
    """Counters: a dict. ``print()`` and a notebook show those that are not 0, as a table.

    Example:
        >>> print(Stats(served={"storage": 1000, "decoded": 200}, skipped=0, read_bytes=3 << 20, stall_s=2.5))
        served      storage 1,000, decoded 200
        read bytes  3.0 MiB
        stall       2.50 s
    """

    def __str__(self) -> str:
        rows = list(_rows(self))
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join(f"{name:{width}}  {value}" for name, value in rows) or "nothing is counted yet"

    def _repr_html_(self) -> str:
        return table_html(_rows(self))

    def scalars(self, prefix: str = "seneca/") -> dict[str, float]:
        """All numbers, each by one name, as TensorBoard, W&B and MLflow take them.

        Args:
            prefix: What all names begin with.

        Example:
            >>> Stats(served={"storage": 1000}, stall_s=2.5).scalars()
            {'seneca/served/storage': 1000, 'seneca/stall_s': 2.5}
        """
        return dict(_numbers(self, prefix))


def table_html(rows: Iterable[tuple[str, str]]) -> str:
    """A table of two columns, for a notebook."""
    lines = (f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{''.join(lines)}</table>"


def _numbers(counts: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for name, value in counts.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)):
            yield f"{prefix}{name}", value


def _rows(counts: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, str]]:
    """Each counter's name and value, but for those that are 0."""
    for name, value in counts.items():
        full = f"{within} {name}".strip().replace("_", " ")
        if not value:
            continue
        if isinstance(value, Mapping) and any(isinstance(one, Mapping) for one in value.values()):
            yield from _rows(value, full)
        elif isinstance(value, Mapping):
            parts = [f"{key} {_written(full, one)}" for key, one in value.items() if one]
            if parts:
                yield full, ", ".join(parts)
        elif not isinstance(value, list):
            yield full.removesuffix(" s"), _written(full, value)


def _written(name: str, value: Any) -> str:
    if isinstance(value, int) and "bytes" in name.split():
        return f"{value / 2**20:,.1f} MiB"
    if isinstance(value, (int, float)):
        return f"{value:,.2f} s" if name.endswith(" s") else f"{value:,}"
    return str(value)
