"""The kinds of datasets. The first kind that matches a dataset says what of it can be shared."""

from seneca.data.kinds import boxes, items, pairs, pictures, sounds, staged
from seneca.data.kinds.kind import Kind

__all__ = ["KINDS"]

KINDS = (
    Kind(pictures.matches, pictures.support),
    Kind(sounds.matches, sounds.support),
    Kind(pairs.matches, pairs.support),
    Kind(boxes.matches, boxes.support),
    Kind(staged.matches, staged.support),
    Kind(items.matches, items.support),  # matches any dataset
)
