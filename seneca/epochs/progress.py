"""How far an epoch has come: which of its batches are made, and which are delivered.

::

    iterator --made()--> EpochProgress --hand_out()--> delivered --> state(): see seneca.epochs.state
"""

from __future__ import annotations

import collections
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from seneca.epochs.samplers import subset_named
from seneca.epochs.state import named, packed, unpacked

__all__ = ["EpochProgress"]

FOLD = 64  # batches whose places are put into the bits together, which takes a fifth of the time
BIT = (1 << np.arange(8)).astype(np.uint8)


def _with_bits(bits: np.ndarray, batches: list[Any], repeats: bool) -> np.ndarray:
    """A copy of the bits with those of these batches set, and with more bits if needed.

    ``repeats``: a place may come twice, because ranks put a good sample in the place of a bad one.
    """
    if not batches:
        return bits
    places = np.concatenate([np.asarray(batch, np.int64) for batch in batches])
    last = int(places.max(initial=0)) >> 3
    more = max(last + 1, 2 * len(bits)) - len(bits) if last >= len(bits) else 0
    bits = np.pad(bits, (0, more))
    if repeats:
        np.bitwise_or.at(bits, places >> 3, BIT[places & 7])
    else:
        np.add.at(bits, places >> 3, BIT[places & 7])  # the same, in a fifth of the time
    return bits


class EpochProgress:
    """One epoch of a loader or batch sampler: what its order depends on, and what of it is delivered.

    A batch is first *made* and then *handed out*. Only batches that were handed out are delivered. A batch is
    handed out when it is made, unless the epoch is ``watched``: then :meth:`hand_out` says when.

    Args:
        resumed: The state from which the epoch continues, in mid-epoch; None: it begins anew.
        remember: How many batches can be taken back at most, see :meth:`state`.
        restores: The ``dataset_state`` that is restored; None: nothing is.

    Attributes:
        number: The epoch's number.
        generators: The states of the loader's generators before the epoch. Once it has begun: before the
            sampler drew.
        before: Whether each place was delivered before the epoch was resumed, a bool each.
        yielded: Samples handed out, repeated ones included.
        in_turn: Whether each rank, this one and all others, is known to deliver in the order of its shard.
        begun: Whether the order is settled.
        ended: Whether everything is delivered and the training loop knows it.
        watched: Whether somebody calls :meth:`hand_out` for each batch.
        asked: The thread that asks for a batch and does not have it yet, and how many batches were handed out
            before; None: no thread does. An iterator clears this in its last step, when it has the batch.
        recorder: Writes down what is delivered, a :class:`seneca.audit.record.DeliveryRecorder`; None:
            nothing is written.
        draws: What the sampler yields, if it keeps a state, a :class:`seneca.epochs.sampler_state.Draws`.
        chosen: The user's dataset and the sampler, which may be of a subset.
        standing: What the processes that load have reported of the dataset, a
            :class:`seneca.epochs.dataset_state.Standing`; None: nothing loads yet, or nothing is asked.
    """

    def __init__(
        self,
        resumed: dict[str, Any] | None = None,
        remember: int = 0,
        restores: dict[str, Any] | None = None,
    ) -> None:
        self.resumed = resumed
        self.restores = restores
        self.number = 0
        self.generators: list[torch.Tensor] = []
        self.before = np.zeros(0, bool) if resumed is None else unpacked(resumed["done"])
        self.yielded: int = 0 if resumed is None else resumed.get("yielded", 0)
        self.in_turn: bool = resumed is None or resumed["done"] == 0 or resumed.get("in_turn", False)
        self.begun = self.ended = self.watched = False
        self.asked: tuple[int, int] | None = None
        self.recorder: Any = None
        self.draws: Any = None
        self.standing: Any = None
        self._reported: list[tuple[int, Any]] = []  # belongs to the batch that is made next
        self._reported_last: list[tuple[int, Any]] = []  # belongs to the batch that was handed out last
        self._names: dict[str, Any] = {}
        self._sample_of: np.ndarray | None = None
        self._identify: Callable[[], str | None] = _nothing
        self.chosen: tuple[Any, Any] = (None, None)
        self._remember = max(1, remember)  # the batch that a thread asks for
        self._made: collections.deque[Any] = collections.deque()
        # Batches that are delivered and not yet in the bits, each with the sampler's state after its draw.
        self._recent: collections.deque[tuple[Any, Any]] = collections.deque()
        self._sampler_now = None if resumed is None else resumed.get("sampler_now")
        self._bits = np.zeros(0, np.uint8)
        self._folded = 0  # batches that are in the bits

    def name(self, name: str, make: Callable[[], Any]) -> Any:
        """A value that the order depends on: from the resumed state, or else from ``make``.

        It is remembered for the next state.
        """
        resumed = self.resumed or {}
        self._names[name] = resumed[name] if name in resumed else make()
        return self._names[name]

    @functools.cached_property
    def subset(self) -> str | None:
        """The name of the subset's indices. A long list takes time, and only a state needs it."""
        return subset_named(*self.chosen)

    @property
    def _repeats(self) -> bool:
        return "ranks" in self._names

    def note(self, **names: Any) -> None:
        """Remember more values for the next state."""
        self._names.update(names)

    def begin(
        self,
        order: str,
        sampler: Any,
        identify: Callable[[], str | None],
        sample_of: np.ndarray | None = None,
    ) -> None:
        """Note that the order is settled.

        Args:
            order: What a place is, see :mod:`seneca.epochs.state`.
            sampler: The sampler that the order comes from.
            identify: Names the dataset's samples, in hexadecimal.
            sample_of: The sample at each place, if :meth:`made` is given samples; None: it is given places.
        """
        self._names.update(order=order, sampler=type(sampler).__name__)
        self._identify = identify
        self._sample_of = sample_of
        self.begun = True

    def made(
        self,
        batch: Any,
        yielded: int | None = None,
        write: Callable[[], None] | None = None,
        sampler_now: Any = None,
    ) -> None:
        """Note that a batch was made, or has failed.

        Args:
            batch: The places, or the samples, that will not come again; None: the epoch has no more.
            yielded: How many samples the batch has; None: as many as ``batch``.
            write: Writes down that the batch is delivered.
            sampler_now: The state of the sampler after the draw, if it keeps one.
        """
        yielded = len(batch) if yielded is None else yielded
        self._made.append((batch, yielded, write, self._reported, sampler_now))
        self._reported = []
        if not self.watched:
            self.hand_out()

    def report(self, process: int, state: Any) -> None:
        """Note what a process has reported of the dataset. It holds once the batch made next is delivered."""
        self._reported.append((process, state))

    def end(self) -> None:
        """Note that the epoch has no more batches."""
        self.made(None, 0)

    def taken(self, take: Callable[[], Any]) -> Any:
        """Take a batch. In this thread it does not count as delivered while :attr:`asked` is set.

        A signal handler may interrupt the thread, ask for the state, and end the process. The training loop
        then never has the batch. So it is too if an interrupt ends the taking. Each step of :meth:`hand_out`
        therefore leaves what is delivered as it was, or changes it as a whole.
        """
        self.asked = threading.get_ident(), self._handed_out
        try:
            return take()
        except Exception:  # an error, or the end, takes the place of the batch
            self.asked = None
            raise

    def hand_out(self) -> None:
        """Note that the batch in front, if there is one, is delivered."""
        if not self._made:
            return
        batch, yielded, write, reported, sampler_now = self._made.popleft()
        self._hear()
        self._reported_last = reported
        if batch is None:
            self.ended = True
            if self.recorder is not None:
                self.recorder.end()
            return
        if write is not None:
            write()
        self.yielded += yielded
        self._recent.append((batch, sampler_now))
        if len(self._recent) == self._remember + FOLD:
            recent = list(self._recent)
            folded, rest = recent[:FOLD], collections.deque(recent[FOLD:])
            bits = _with_bits(self._bits, [batch for batch, _ in folded], self._repeats)
            now = bits, folded[-1][1], rest, self._folded + FOLD
            self._bits, self._sampler_now, self._recent, self._folded = now

    @property
    def _handed_out(self) -> int:
        return self._folded + len(self._recent)

    def _hear(self) -> None:
        """Take as the dataset's state what was reported with the batch that was handed out last."""
        for process, state in self._reported_last:
            self.standing.heard(process, state)
        self._reported_last = []

    def _counted(self) -> int | None:
        """How many batches count as delivered, if this thread asks for one just now; else None: all."""
        asked = self.asked
        if asked is None or asked[0] != threading.get_ident():
            return None
        return max(asked[1], self._handed_out - len(self._recent))

    def done(self, handed_out: int | None = None) -> np.ndarray:
        """Whether each place is delivered, a bool each.

        Args:
            handed_out: How many batches count as delivered since the epoch began or was resumed; None: all.

        Raises:
            ValueError: There were fewer batches; or more would have to be taken back than are remembered.
        """
        recent = [batch for batch, _ in self._parted(handed_out)[0]]
        bits = _with_bits(self._bits, recent, self._repeats)
        flags = np.unpackbits(bits, bitorder="little").astype(bool)
        if self._sample_of is not None:
            beyond = int(self._sample_of.max(initial=0)) + 1 - len(flags)
            flags = np.pad(flags, (0, max(0, beyond)))[self._sample_of]
        done = np.zeros(max(len(flags), len(self.before)), bool)
        done[: len(flags)] = flags
        done[: len(self.before)] |= self.before
        return done

    def _parted(self, handed_out: int | None) -> tuple[list[Any], list[Any]]:
        """Batches that are not yet in the bits: the delivered, and those taken back. See :meth:`done`."""
        taken_back = 0 if handed_out is None else self._handed_out - handed_out
        if not 0 <= taken_back <= len(self._recent):
            raise ValueError(
                f"{handed_out} batches are said to be delivered of {self._handed_out} that were drawn, "
                f"of which the last {len(self._recent)} can be taken back"
            )
        recent = list(self._recent)
        end = len(recent) - taken_back
        return recent[:end], recent[end:]

    def written_before(self) -> list[dict[str, Any]]:
        """The logs of what was delivered before the resume: see :class:`seneca.audit.log.Header`."""
        if self.resumed is None:
            return []
        return self.resumed.get("audit") or [{"log": None, "batches": 0}]

    def state(self, handed_out: int | None = None) -> dict[str, Any]:
        """The part of a loader's state that is about this epoch. See :meth:`done`."""
        if not self.begun:
            generators = [named(state) for state in self.generators]
            return self.resumed or {"generators": generators, **self.dataset_state()}
        handed_out = self._counted() if handed_out is None else handed_out
        if "ranks" in self._names:
            taken_back = self._parted(handed_out)[1]
            self._names["yielded"] = self.yielded - sum(len(batch) for batch, _ in taken_back)
            self._names["in_turn"] = self.in_turn
        delivered = self._parted(handed_out)[0]
        sampler_now = delivered[-1][1] if delivered else self._sampler_now
        if self.recorder is not None or "audit" in (self.resumed or {}):
            batches = self._handed_out if handed_out is None else handed_out
            here = {"log": None if self.recorder is None else self.recorder.id, "batches": batches}
            self._names["audit"] = [*self.written_before(), here]
        return {
            "dataset": self._identify(),
            **({} if self.subset is None else {"subset": self.subset}),
            "epoch": self.number,
            "generators": [named(state) for state in self.generators],
            **{name: named(one) if torch.is_tensor(one) else one for name, one in self._names.items()},
            **({} if sampler_now is None else {"sampler_now": sampler_now}),
            **self.dataset_state(),
            "done": packed(self.done(handed_out)),
        }

    def dataset_state(self) -> dict[str, Any]:
        """The part of a loader's state that is the dataset's own; empty: the dataset keeps no state."""
        if self._counted() is None or self.ended:
            self._hear()
        state = self.restores if self.standing is None else self.standing.state(between=self.ended)
        return {} if state is None else {"dataset_state": state}


def _nothing() -> None:
    return None
