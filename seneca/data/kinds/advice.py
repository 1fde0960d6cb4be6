"""The one change of a script by which the pictures of a dataset would be prepared natively."""

from __future__ import annotations

from typing import Any

from seneca.data.sources.arrow import is_table

__all__ = ["advice_for"]

READS_PICTURES = frozenset({"decode_image", "default_loader", "imread", "loader", "pil_loader", "read_image"})


def advice_for(dataset: Any) -> str:
    """The change, to follow a reason; "": none is known."""
    if is_table(dataset) and any(type(one).__name__ == "Image" for one in dataset.features.values()):
        return (
            "; seneca.open(dataset, transform) reads its pictures natively, in place of set_transform() and "
            "with_transform(); a collate_fn makes dicts of its items"
        )
    if _opens_pictures(type(dataset)):
        return (
            "; if an item is a picture opened by path, with its target, give "
            "seneca.PictureList([(path, target), ...], transform) instead, which runs natively; other items "
            "share more by seneca.StagedDataset"
        )
    return ""


def _opens_pictures(kind: type) -> bool:
    """Whether the code of ``__getitem__``, or of a method that it names, seems to open pictures.

    This is a guess for a piece of advice, and decides nothing.
    """
    code = getattr(getattr(kind, "__getitem__", None), "__code__", None)
    if code is None:
        return False
    names = set(code.co_names)
    for name in code.co_names:
        method = getattr(getattr(kind, name, None), "__code__", None)
        names |= set(method.co_names) if method is not None else set()
    return {"open", "convert"} <= names or not names.isdisjoint(READS_PICTURES)
