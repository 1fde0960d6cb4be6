from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

CLAIM: np.dtype[Any]
GRANULE: int
ITEM: np.dtype[Any]
LAYOUT_VERSION: int
NONE: int

class Unlinked(Exception): ...

def segment_bytes(n_samples: int, payload_bytes: int) -> int: ...
def sweep(fd: int, name: str) -> None: ...

class Segment:
    job_key: int
    created: bool
    def __init__(
        self,
        fd: int,
        name: str,
        fingerprint: bytes | None,
        n_samples: int,
        payload_bytes: int,
        *,
        keep: bool,
        job_key: int,
        split: Sequence[int],
        progress: Callable[[int, int], None] | None = None,
    ) -> None: ...
    def close(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    @property
    def linked(self) -> bool: ...
    @property
    def fingerprint(self) -> bytes: ...
    @property
    def payload_bytes(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...
    def attachments(self) -> tuple[int, list[int]]: ...
    def set_split(self, split: Sequence[int]) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def check(self) -> str | None: ...

class Participant:
    def commit(self, slot: int) -> None: ...
    def abort(self, slot: int) -> None: ...
    def payload(self, slot: int) -> memoryview: ...
    def picture_size(self, slot: int) -> tuple[int, int]: ...
    def generation(self, slot: int) -> int: ...

class Member(Participant):
    shared: bool
    def __init__(
        self,
        segment: Segment | None,
        *,
        n_samples: int,
        samples: np.ndarray | None,
        places: int,
        seed: int,
        epoch: int,
        fixed: bool,
        decoded: int,
        augmented: int,
        height: int,
        width: int,
        in_flight: int,
        shares: bool,
        keeps: bool,
        substitutes: bool,
        copy_bytes: int = 0,
        hands_over: bool = False,
        taken: np.ndarray | None = None,
        wanted_alone: int = 0,
    ) -> None: ...
    @property
    def left(self) -> int: ...
    def draw(
        self, wanted: int, offers: Sequence[tuple[int, int, int, int, int]] = ()
    ) -> tuple[np.ndarray, list[tuple[int, int] | None], bool]: ...
    def claims(self, items: np.ndarray) -> tuple[int, int, np.ndarray | None]: ...
    @property
    def copy_bytes(self) -> int: ...
    def done(self, items: np.ndarray) -> None: ...
    def offer_done(self, slot: int, entry: int) -> None: ...
    def close(self) -> None: ...

class Worker(Participant):
    def __init__(
        self,
        segment: Segment | None,
        *,
        decoded: int,
        augmented: int,
        height: int = 0,
        width: int = 0,
        copy_bytes: int = 0,
        shares: bool,
        keeps: bool,
    ) -> None: ...
    def begin(
        self,
        claims: np.ndarray,
        row: int = ...,
        row_generation: int = 0,
        offers: Sequence[tuple[int, int, int, int, int]] = (),
    ) -> tuple[np.ndarray, list[tuple[int, int] | None], bool]: ...
    def done(self, items: np.ndarray) -> None: ...
    def offer_done(self, slot: int, entry: int) -> None: ...
    def learn(self, copy_bytes: int) -> None: ...
    def close(self) -> None: ...
