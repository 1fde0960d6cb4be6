from typing import Any

from seneca._core.segment import Segment

CAUSES: dict[str, int]
NAME_BYTES: int

def tell_work(segment: Segment, told: dict[str, Any]) -> None: ...
