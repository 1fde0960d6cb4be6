from typing import Any

import numpy as np

from seneca._core.member import Member
from seneca._core.plan import Plan
from seneca._core.remote import Hosts, Remote

READS_AHEAD: int

class StreamClosed(Exception): ...

class Stream:
    member: Member
    def __init__(
        self,
        member: Member,
        plan: Plan,
        paths: bytes | memoryview,
        path_at: np.ndarray,
        pieces: np.ndarray | None = None,
        stated: np.ndarray | None = None,
        external: bool = False,
        *,
        seed: int,
        epoch: int,
        nonce: int,
        threads: int,
        most: int | None = None,
        max_pixels: int | None = None,
        copies: np.ndarray | None = None,
        check_every: int = 0,
        checked: Any = None,
        unrecoded: np.ndarray | None = None,
        changes: np.ndarray | None = None,
        largest: int = 0,
        remote: Remote | None = None,
        dataset: bytes = b"",
        hosts: Hosts | None = None,
        exact_copies: bytes = b"",
        boxes: tuple[np.ndarray, np.ndarray, bool] | None = None,
    ) -> None: ...
    def limit(self, threads: int) -> None: ...
    def thread_numbers(self) -> tuple[int, ...]: ...
    def may_draw(self, timeout_ms: int) -> bool: ...
    def draw(self, out: np.ndarray, *others: np.ndarray) -> Batch | None: ...
    def draw_given(
        self, out: np.ndarray, samples: np.ndarray, turns: np.ndarray, *others: np.ndarray
    ) -> Batch: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...

class Batch:
    indices: np.ndarray
    def __len__(self) -> int: ...
    def wait(self, timeout_ms: int) -> bool: ...
    def copies(self) -> np.ndarray: ...
    def failures(self) -> list[tuple[int, Exception]]: ...
    def different(self) -> list[int]: ...
    def is_of_mask(self, position: int) -> bool: ...
    def done(self) -> dict[str, Any]: ...
