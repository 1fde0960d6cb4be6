"""Marks of samples that a job has made itself and found equal, in memory that all its processes see."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import torch

from seneca._core.digests import mark_words
from seneca._core.segment import Segment
from seneca._runtime.regular_files import standard_streams_taken
from seneca.forms import Form
from seneca.workers.messages import shared_zeros
from seneca.workers.terms import Names, Terms

__all__ = ["Marks"]

DRAWS, PROBED = 0, 1  # the words in front of the marks
FRONT = 2


class Marks:
    """A bit for each sample and form. A job that makes other payloads has other marks.

    Args:
        names: The names under which the payloads are shared.
        n_samples: The number of samples.

    Attributes:
        names: As in the arguments.
    """

    def __init__(self, names: Names, n_samples: int) -> None:
        self.names = names
        self._n_samples = n_samples
        self._each = mark_words(n_samples)
        self._words = shared_zeros(FRONT + len(Form) * self._each)
        self._view: np.ndarray | None = None
        self._compared: torch.Tensor | None = None

    def of(self, form: Form) -> np.ndarray:
        """The words of a form's marks, for :class:`seneca._core.digests.Digests`."""
        at = FRONT + form * self._each
        return self._all()[at : at + self._each]

    def expect_suspects(self, segment: Segment, terms: Terms | None) -> None:
        """If files have changed since a cache was made, let workers that begin now compare them together.

        The cache is known from the second epoch on. In the first one each process compares for itself.
        """
        if terms is None or segment.closed or not 0 < segment.newest_ctime < terms.newest_ctime():
            return
        if self._compared is None:  # it takes four bytes a sample, which are needed only here
            with contextlib.suppress(RuntimeError):  # there is no room; each process compares for itself then
                with standard_streams_taken():
                    storage = torch.UntypedStorage._new_shared(4 * self._n_samples)
                self._compared = torch.empty(0, dtype=torch.int32).set_(storage)

    @property
    def compared(self) -> np.ndarray:
        """Memory for :class:`seneca.data.suspects.Suspects`; this process's own, unless it is shared."""
        if self._compared is None:
            return np.zeros(self._n_samples, np.uint32)
        return self._compared.numpy().view(np.uint32)

    @property
    def draws(self) -> bool:
        """Whether items draw random numbers, as far as is known."""
        return bool(self._all()[DRAWS])

    @draws.setter
    def draws(self, draws: bool) -> None:
        self._all()[DRAWS] = int(draws)

    def next_probe(self) -> int:
        """A number that counts up. Processes that ask at the same time may be given the same one."""
        words = self._all()
        words[PROBED] += np.uint64(1)
        return int(words[PROBED]) - 1

    @property
    def is_shared(self) -> bool:
        """Whether other processes see this memory."""
        return self._words.is_shared()

    def _all(self) -> np.ndarray:
        if self._view is None:
            self._view = self._words.numpy().view(np.uint64)
        return self._view

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_view": None}
