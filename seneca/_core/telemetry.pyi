from typing import Any

from seneca._core.segment import Segment

CAUSES: dict[str, int]
MOST_TRAITS: int
NAME_BYTES: int

def publish_work(segment: Segment, values: dict[str, Any]) -> None: ...
def publish_dataset(
    segment: Segment, like: int, source: int, kind: int, traits: dict[int, int], apart: str
) -> None: ...
