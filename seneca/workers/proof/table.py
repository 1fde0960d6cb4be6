"""What the processes of one dataset share with each other about their examples."""

from __future__ import annotations

import functools
from enum import IntEnum

import numpy as np

from seneca.data.stages import number_of
from seneca.workers.messages import shared_zeros
from seneca.workers.terms import Names

__all__ = ["ProofState", "ProofTable"]

TEXT_BYTES = 1024
MOST_INSPECTIONS = 32  # that all processes of a dataset make together because items bind attributes anew


class ProofState(IntEnum):
    """The verdict of examples."""

    UNKNOWN = 0
    PROVED = 1
    UNPROVABLE = 2
    REFUSED = 3


class ProofTable:
    """The verdicts of the processes of one dataset about its examples, in memory that all of them see.

    A verdict is one word, which also holds a digest of the names that it is about. Processes that write at
    the same time overwrite each other's verdicts. A reader that finds a verdict about other names takes it
    for unknown.
    """

    def __init__(self) -> None:
        self._words = shared_zeros(5 + TEXT_BYTES // 8)

    def read(self, names: Names, inspection: int | None = None) -> ProofState:
        """The verdict about these names. If ``inspection`` is given: the verdict of that inspection."""
        about, verdict = divmod(int(self._words[0 if inspection is None else 1]), 4)
        return ProofState(verdict) if about == _about(names, inspection) else ProofState.UNKNOWN

    def write(
        self, names: Names, verdict: ProofState, text: str = "", *, inspection: int = 0, lasts: bool = True
    ) -> None:
        """Write a verdict.

        Args:
            names: The names that it is about.
            verdict: The verdict.
            text: What to say to people.
            inspection: The inspection of the dataset that it comes from.
            lasts: Whether it also holds for later inspections.
        """
        data = text.encode()[:TEXT_BYTES]
        words = self._words.numpy()
        words[3 : 4 + TEXT_BYTES // 8].view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
        words[2] = len(data)
        words[1] = _about(names, inspection) * 4 + verdict
        words[0] = _about(names, None) * 4 + (verdict if lasts else ProofState.UNKNOWN)

    def take_inspection(self) -> bool:
        """Count an inspection that is made because items bind attributes anew; False: there were too many."""
        self._words[-1] += 1
        return int(self._words[-1]) <= MOST_INSPECTIONS

    @property
    def text(self) -> str:
        """The text of the last verdict."""
        words = self._words.numpy()
        length = min(max(0, int(words[2])), TEXT_BYTES)
        return words[3 : 4 + TEXT_BYTES // 8].view(np.uint8)[:length].tobytes().decode(errors="replace")

    @property
    def is_shared(self) -> bool:
        """Whether other processes see this memory."""
        return self._words.is_shared()


@functools.lru_cache(maxsize=64)
def _about(names: Names, inspection: int | None) -> int:
    """A digest of names and inspection: 61 bits, so that a verdict fits beside them."""
    source, decoded, augmented = names
    parts = source, decoded.to_bytes(8, "little"), augmented.to_bytes(8, "little"), repr(inspection).encode()
    return number_of(*parts) >> 3
