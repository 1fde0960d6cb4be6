"""A sampler that keeps a state: how an epoch under way goes on in its order.

Samplers with ``state_dict`` and ``load_state_dict`` are of two kinds:

* Some yield the order of an epoch from its beginning, if they are given the state of before the epoch. What
  was delivered of it is then left out.
* Others, as torchdata's, save how far they have come, and yield the rest of the order.

A loader's state has both states. The sampler is given the earlier one and tried: if it yields again what it
has yielded, and has the later state then, it is of the first kind. Else it is given the later state.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from seneca.resume import Epoch
from seneca.stateful import alike, has_state

__all__ = ["drawn_from"]


class Draws:
    """What a sampler yields, and the states that it and its iterator keep.

    Args:
        sampler: Of samples, or of batches.
        owner: Which keeps the sampler's state, the sampler or the one beneath it; None: neither does.
        past: What :meth:`now` has said; the sampler goes on from there.
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
        """How much was drawn, a digest of that, and the states."""
        states = {name: copy.deepcopy(keeper.state_dict()) for name, keeper in self.asked.items()}
        return {"drawn": self._drawn, "digest": self._digest, **states}


def drawn_from(sampler: Any, owner: Any, epoch: Epoch) -> Iterator[Any]:
    """What a sampler yields in an epoch, from its beginning.

    Args:
        sampler: Of samples, or of batches.
        owner: See :class:`Draws`.
        epoch: What is under way. What was delivered of it before may come as None.
    """
    before = None if owner is None else epoch.name("sampler_state", lambda: copy.deepcopy(owner.state_dict()))
    resumed = epoch.resumed or {}
    past = resumed.get("sampler_now")
    if past is None or past["drawn"] != len(epoch.before) or not epoch.before.all():
        # Nothing was delivered, or not the beginning of the order: the sampler has to yield all of it.
        return _all_of(sampler, owner, epoch, before)
    generator = torch.get_rng_state()
    draws = _again(sampler, owner, before, past)
    if draws is None:
        torch.set_rng_state(generator)
        draws = Draws(sampler, owner, past)
    epoch.draws = draws
    return itertools.chain(itertools.repeat(None, past["drawn"]), draws)


def _all_of(sampler: Any, owner: Any, epoch: Epoch, before: Any) -> Iterator[Any]:
    if owner is not None and epoch.resumed is not None:
        owner.load_state_dict(copy.deepcopy(before))
    draws = Draws(sampler, owner)
    if not draws.asked:
        return draws.iterator
    epoch.draws = draws
    if epoch.resumed is None:
        return draws
    first = list(itertools.islice(draws, 1))
    if not first:  # the state of before the epoch was that of the end of the one before
        draws = epoch.draws = Draws(sampler, owner)
    return itertools.chain(first, draws)


def _again(sampler: Any, owner: Any, before: Any, past: dict[str, Any]) -> Draws | None:
    """The draws of a sampler that has yielded again what it had yielded; None: it does not."""
    try:
        if owner is not None:
            owner.load_state_dict(copy.deepcopy(before))
        draws = Draws(sampler, owner)
        for _ in itertools.islice(draws, past["drawn"]):
            continue
        return draws if alike(draws.now(), past) else None
    except Exception:  # a sampler that yields the rest may not know what to do with that state
        return None
