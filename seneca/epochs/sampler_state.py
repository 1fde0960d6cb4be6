"""Samplers that keep a state: how a resumed epoch continues in their order.

Samplers with ``state_dict`` and ``load_state_dict`` are of two kinds:

* Some yield the order of an epoch from its beginning, after the state from before the epoch was loaded.
  Seneca then leaves out what was delivered.
* Others, such as torchdata's, save how far they have come, and yield the rest of the order.

A loader's state has both states, and Seneca tries the earlier one first. A sampler is of the first kind if it
then yields the same again and comes to the later state. Otherwise Seneca loads the later state.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from seneca.epochs.dataset_state import alike, has_state
from seneca.epochs.progress import EpochProgress

__all__ = ["drawn_from"]


class Draws:
    """The items of a sampler, and the states that it and its iterator keep.

    Args:
        sampler: The sampler of samples or of batches.
        owner: The sampler that keeps the state, this one or the one beneath it; None: neither does.
        past: What :meth:`now` returned; the sampler continues from there. None: it begins.
    """

    def __init__(self, sampler: Any, owner: Any, past: dict[str, Any] | None = None) -> None:
        past = {"drawn": 0, "digest": ""} if past is None else copy.deepcopy(past)
        if "sampler" in past:
            owner.load_state_dict(past["sampler"])
        self.iterator = iter(sampler)
        if "iterator" in past:
            self.iterator.load_state_dict(past["iterator"])
        self._drawn, self._digest = past["drawn"], past["digest"]
        self.asked = {} if owner is None or owner is self.iterator else {"sampler": owner}
        if has_state(self.iterator):
            self.asked["iterator"] = self.iterator

    def __iter__(self) -> Draws:
        return self

    def __next__(self) -> Any:
        one = next(self.iterator)
        self._drawn += 1
        self._digest = hashlib.blake2b(f"{self._digest} {one!r}".encode(), digest_size=8).hexdigest()
        return one

    def now(self) -> dict[str, Any]:
        """How much was drawn, a digest of what was drawn, and the states."""
        states = {name: copy.deepcopy(keeper.state_dict()) for name, keeper in self.asked.items()}
        return {"drawn": self._drawn, "digest": self._digest, **states}


def drawn_from(sampler: Any, owner: Any, progress: EpochProgress) -> Iterator[Any]:
    """The items of a sampler in an epoch, from the epoch's beginning.

    In a resumed epoch, None may stand for each item that was delivered before.

    Args:
        sampler: The sampler of samples or of batches.
        owner: See :class:`Draws`.
        progress: The progress of the epoch.
    """
    before = (
        None if owner is None else progress.name("sampler_state", lambda: copy.deepcopy(owner.state_dict()))
    )
    resumed = progress.resumed or {}
    past = resumed.get("sampler_now")
    if past is None or past["drawn"] != len(progress.before) or not progress.before.all():
        # Nothing was delivered, or not just the beginning of the order: the sampler has to yield all of it.
        return _all_of(sampler, owner, progress, before)
    generator = torch.get_rng_state()
    draws = _again(sampler, owner, before, past)
    if draws is None:
        torch.set_rng_state(generator)
        draws = Draws(sampler, owner, past)
    progress.draws = draws
    return itertools.chain(itertools.repeat(None, past["drawn"]), draws)


def _all_of(sampler: Any, owner: Any, progress: EpochProgress, before: Any) -> Iterator[Any]:
    if owner is not None and progress.resumed is not None:
        owner.load_state_dict(copy.deepcopy(before))
    draws = Draws(sampler, owner)
    if not draws.asked:
        return draws.iterator
    progress.draws = draws
    if progress.resumed is None:
        return draws
    first = list(itertools.islice(draws, 1))
    if not first:  # the state from before the epoch was the one at the end of the epoch before it
        draws = progress.draws = Draws(sampler, owner)
    return itertools.chain(first, draws)


def _again(sampler: Any, owner: Any, before: Any, past: dict[str, Any]) -> Draws | None:
    """The draws of a sampler that has repeated what it yielded before; None: it does not repeat it."""
    try:
        if owner is not None:
            owner.load_state_dict(copy.deepcopy(before))
        draws = Draws(sampler, owner)
        for _ in itertools.islice(draws, past["drawn"]):
            continue
        return draws if alike(draws.now(), past) else None
    except Exception:  # a sampler that yields the rest may refuse the earlier state
        return None
