from typing import Any

import numpy as np
import numpy.typing as npt

from seneca._core.plan import Plan

_Pixels = npt.NDArray[np.uint8]
_Bytes = bytes | bytearray | memoryview | _Pixels

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
def jpeg_library() -> str: ...
