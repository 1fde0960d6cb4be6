from collections.abc import Sequence

import numpy as np

from seneca._core.participant import Participant
from seneca._core.segment import Segment

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
        exact: bool = False,
    ) -> None: ...
    def begin(
        self,
        claims: np.ndarray,
        row: int = ...,
        row_generation: int = 0,
        offers: Sequence[tuple[int, int, int, int, int]] = (),
    ) -> tuple[np.ndarray, list[tuple[int, int] | None], bool]: ...
    def name_copies(self, augmented: int) -> None: ...
    def name_files(self, files_name: int) -> None: ...
    def check_awaited(
        self,
        items: np.ndarray,
        row: int,
        row_generation: int,
        *,
        takes_over: bool = False,
        blamed: Sequence[int] = (),
    ) -> bool: ...
    def done(self, items: np.ndarray) -> None: ...
    def offer_done(self, slot: int, entry: int) -> None: ...
    def learn(self, copy_bytes: int) -> None: ...
    def close(self) -> None: ...
