from collections.abc import Sequence
from typing import Any

class Plan:
    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def copy_bytes(self) -> int: ...
    @property
    def beside_bytes(self) -> int: ...
    @property
    def erasure_bytes(self) -> int: ...
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
        leaves_erasing: bool = False,
        decode: str = "exact",
        apply_orientation: bool = False,
        mask: str | None = None,
        moves: bool = False,
        leaves_damaged: bool = False,
        leaves_above: int | None = None,
        sound: bool = False,
        channels: int | None = None,
    ) -> None: ...
    @classmethod
    def of_sounds(
        cls,
        ops: Sequence[tuple[str, dict[str, Any]]],
        n_head: int,
        dtype: str = "float32",
        channels: int | None = None,
    ) -> Plan: ...
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
