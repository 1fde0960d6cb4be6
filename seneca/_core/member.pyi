from collections.abc import Sequence
from typing import Any

import numpy as np

from seneca._core.participant import Participant
from seneca._core.segment import Segment

CLAIM: np.dtype[Any]

class Member(Participant):
    shared: bool
    exact: bool
    why_private: str | None
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
        own_seed: int = 0,
        exact_family: int = 0,
        wanted_alone: int = 0,
        files_name: int = 0,
        recodes: bool = False,
    ) -> None: ...
    @property
    def left(self) -> int: ...
    @property
    def out_of_turn(self) -> int: ...
    def draw(
        self, wanted: int, offers: Sequence[tuple[int, int, int, int, int]] = ()
    ) -> tuple[np.ndarray, list[tuple[int, int] | None], bool]: ...
    def check_awaited(
        self, items: np.ndarray, *, takes_over: bool = False, blamed: Sequence[int] = ()
    ) -> bool: ...
    def claims(self, items: np.ndarray) -> tuple[int, int, np.ndarray | None]: ...
    @property
    def copy_bytes(self) -> int: ...
    def done(self, items: np.ndarray) -> None: ...
    def offer_done(self, slot: int, entry: int) -> None: ...
    def retire(self) -> None: ...
    def close(self) -> None: ...
