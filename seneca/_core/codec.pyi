from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_Pixels = npt.NDArray[np.uint8]
_Bytes = bytes | bytearray | memoryview | _Pixels

class Plan:
    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    def __init__(
        self,
        ops: Sequence[tuple[str, dict[str, Any]]],
        n_head: int,
        dtype: str,
        channels_last: bool,
        mean: Sequence[float],
        std: Sequence[float],
        *,
        scale: bool = True,
        erase: dict[str, Any] | None = None,
        decode: str = "exact",
        apply_orientation: bool = False,
    ) -> None: ...
    def output_size(self) -> tuple[int, int]: ...
    def route(
        self,
        height: int,
        width: int,
        seed: int,
        nonce: int = 0,
        epoch: int = 0,
        index: int = 0,
        max_pixels: int = 64_000_000,
    ) -> list[dict[str, Any]]: ...

class Codec:
    def __init__(self, max_pixels: int = 0) -> None: ...
    def probe(self, data: _Bytes) -> tuple[int, int]: ...
    def decode(self, plan: Plan, data: _Bytes) -> _Pixels: ...
    def decode_region(self, data: _Bytes, top: int, left: int, height: int, width: int) -> _Pixels: ...
    def head(self, plan: Plan, picture: _Pixels) -> _Pixels: ...
    def augment_encoded(
        self, plan: Plan, data: _Bytes, seed: int, nonce: int, epoch: int, index: int
    ) -> _Pixels: ...
    def augment_decoded(
        self, plan: Plan, picture: _Pixels, seed: int, nonce: int, epoch: int, index: int
    ) -> _Pixels: ...

def resize(
    picture: _Pixels,
    size: tuple[int, int],
    box: tuple[float, float, float, float],
    interpolation: str = "bilinear",
    antialias: bool = True,
) -> _Pixels: ...
def batch_write(
    plan: Plan, augmented: _Pixels, out: npt.NDArray[Any], seed: int = 0, epoch: int = 0, index: int = 0
) -> None: ...

class Rng:
    def __init__(self, seed: int, nonce: int, epoch: int, index: int, stream: int = 0) -> None: ...
    def u32(self) -> int: ...
    def double(self) -> float: ...
    def below(self, n: int) -> int: ...

def philox(key: Sequence[int], counter: Sequence[int]) -> tuple[int, int, int, int]: ...
def error_for(rc: int, message: str) -> Exception: ...
