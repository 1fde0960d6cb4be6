"""Where a loader stands in its epochs, and how another run goes on from there.

::

    iterator --made--> Epoch --hand_out--> delivered     state_dict(): what names the epoch, and which
                                                         of its places are delivered

A **place** of an epoch is what is delivered once. Where the order is Seneca's to choose it is an index
of the dataset; in any other order it is where a sample stands in it, from 0; where batches are not
made of a sampler's samples, it is a batch. A state holds how many places are delivered where these
are the first, else a bit for each, and never a sample.

A state is a dict of plain values:

* ``seneca_state``: :data:`VERSION`.
* ``n_samples``, ``dataset``: its length, and in mid-epoch what names its samples, where that is known.
* ``epoch``: the one under way, or that begins next.
* ``generators``: those of the loader and its sampler, before the sampler draws for this epoch.
* ``order``: what places are, see :data:`ORDERS`. It and all that follows in mid-epoch only.
* ``sampler``: the class whose order it is.
* ``done``: the places delivered.
* ``ranks``, ``dealt``, ``before``, ``yielded``, ``in_turn``: where a sampler deals the epoch to ranks, which
  of how many this is, how it deals, the indices that had been delivered before it was dealt, samples
  yielded since, and whether in every rank these are for certain the first of its portion. What is to be
  dealt anew has of these ``ranks`` and ``before`` alone.
* ``draws``: of a random sampler, which draws so many times out of so many samples, with replacement or not.
* ``audit``: the logs that say what was delivered, where there are any, see :mod:`seneca.audit`.
* ``seed``, ``nonce``, ``order_seed``, ``sampler_state``, ``sampler_epoch``, ``global_generator``: what
  order and pixels hang on, as far as they do.
* ``sampler_now``: of a sampler that keeps a state, what that is after the batch delivered last, see
  :mod:`seneca.sampler_states`. ``sampler_state`` is that of before the epoch.
* ``base_seed``: torch's seed of the worker processes, where samples depend on it: those of an
  ``IterableDataset``, or of a dataset that keeps a state.
* ``cut``: of an ``IterableDataset``, how many processes make batches of it, and of how many samples.
* ``dataset_state``: the state that the dataset keeps, if it keeps one, see :mod:`seneca.stateful`. This key
  is there between epochs too.
"""

from __future__ import annotations

import collections
import contextlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

__all__ = [
    "ORDERS",
    "VERSION",
    "Epoch",
    "flags",
    "named",
    "of_length",
    "packed",
    "unchanged_global_generator",
    "unnamed",
    "unpacked",
]

VERSION = 1
ORDERS = {
    "seneca": "Seneca's own order",
    "samples": "the samples of a sampler",
    "batches": "the batches of a batch sampler",
    "stream": "the batches of an IterableDataset",
}
FOLD = 64  # batches whose places are put into the bits at once, in a fifth of the time
NUMBERS = 2**21  # of a generator that are looked through to name it, in some 10 ms
BIT = (1 << np.arange(8)).astype(np.uint8)


def named(state: torch.Tensor) -> dict[str, int] | bytes:
    """A generator's state in few bytes: its seed, and how many numbers it has given since.

    Where that does not make it, all of it, in some 3 KB.
    """
    generator = torch.Generator()
    generator.set_state(state)
    seed = generator.initial_seed()
    first = int(torch.empty((), dtype=torch.int32).random_(generator=generator))
    for count in (2**12, NUMBERS):
        numbers = torch.empty(count, dtype=torch.int32).random_(generator=generator.manual_seed(seed))
        for given in np.flatnonzero(numbers.numpy() == first)[:4].tolist():
            name = {"seed": seed, "given": given}
            if torch.equal(unnamed(name), state):
                return name
    return zlib.compress(state.numpy().tobytes())


def unnamed(name: dict[str, int] | bytes) -> torch.Tensor:
    """The state that :func:`named` has named."""
    if isinstance(name, bytes):
        return torch.frombuffer(bytearray(zlib.decompress(name)), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(name["seed"])
    torch.empty(name["given"], dtype=torch.int32).random_(generator=generator)
    return generator.get_state()


@contextlib.contextmanager
def unchanged_global_generator() -> Iterator[None]:
    """Torch's, which is left as it was."""
    before = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(before)


def packed(done: np.ndarray) -> int | bytes:
    """Places that are delivered, a bool each, as a state holds them."""
    count = int(np.count_nonzero(done))
    return count if done[:count].all() else np.packbits(done, bitorder="little").tobytes()


def unpacked(done: int | bytes) -> np.ndarray:
    """The places that are delivered, a bool each; those behind the last are not."""
    if isinstance(done, int):
        return np.ones(done, bool)
    return np.unpackbits(np.frombuffer(done, np.uint8), bitorder="little").astype(bool)


def flags(done: int | bytes, count: int) -> np.ndarray:
    """As :func:`unpacked`, of so many places."""
    return of_length(unpacked(done), count)


def of_length(flags: np.ndarray, count: int) -> np.ndarray:
    """The first ``count`` of them; those that there are not are False."""
    return np.pad(flags[:count], (0, max(0, count - len(flags))))


def _with_bits(bits: np.ndarray, batches: list[Any], repeats: bool) -> np.ndarray:
    """The bits, more of them if need be, with those of these batches set.

    ``repeats``: a place may come twice, for ranks put a good sample in the place of a bad one.
    """
    if not batches:
        return bits
    places = np.concatenate([np.asarray(batch, np.int64) for batch in batches])
    last = int(places.max(initial=0)) >> 3
    if last >= len(bits):
        bits = np.pad(bits, (0, max(last + 1, 2 * len(bits)) - len(bits)))
    if repeats:
        np.bitwise_or.at(bits, places >> 3, BIT[places & 7])
    else:
        np.add.at(bits, places >> 3, BIT[places & 7])  # the same, in a fifth of the time
    return bits


class Epoch:
    """One epoch of a loader or batch sampler: what names it, and what of it is delivered.

    A batch is first *made* and then *handed out*: at once, unless somebody takes it on the way and says
    when. Only what was handed out is delivered.

    Args:
        resumed: The state with which it goes on, in mid-epoch; None: it begins anew.
        remember: How many batches can be taken back at the most, see :meth:`state`.
        restores: The ``dataset_state`` that the dataset is given back; None: nothing.

    Attributes:
        number: Of the epoch.
        generators: Of its loader, as they were before it; once it has begun, before the sampler drew.
        before: Places delivered before it went on, a bool each.
        yielded: Samples handed out, those counted that came twice.
        in_turn: Whether it is certain, also of all other ranks, that what was handed out came first in order.
        begun: Whether its order is settled.
        ended: Whether everything is delivered, and who iterates has been told so.
        watched: Whether somebody says when a batch is handed out.
        log: Where it is written down, a :class:`seneca.audit.Log`; None: nowhere.
        draws: What its sampler yields, if that keeps a state, a :class:`seneca.sampler_states.Draws`.
        standing: What the processes that load have told of the dataset, a :class:`seneca.stateful.Standing`;
            None: nothing loads yet, or nothing is asked.
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
        self.log: Any = None
        self.draws: Any = None
        self.standing: Any = None
        self._told: list[tuple[int, Any]] = []  # with the batch that is made next
        self._names: dict[str, Any] = {}
        self._sample_of: np.ndarray | None = None
        self._identify: Callable[[], str | None] = _nothing
        self._remember = remember
        self._made: collections.deque[Any] = collections.deque()
        # Delivered, and not yet in the bits: each batch with what its sampler's state was then.
        self._recent: collections.deque[tuple[Any, Any]] = collections.deque()
        self._sampler_now = None if resumed is None else resumed.get("sampler_now")
        self._bits = np.zeros(0, np.uint8)
        self._handed_out = 0

    def name(self, name: str, make: Callable[[], Any]) -> Any:
        """What the order hangs on: as the state has it, or else made now; remembered for the next state."""
        resumed = self.resumed or {}
        self._names[name] = resumed[name] if name in resumed else make()
        return self._names[name]

    @property
    def _repeats(self) -> bool:
        return "ranks" in self._names

    def note(self, **names: Any) -> None:
        """What else a state says of it."""
        self._names.update(names)

    def begin(
        self,
        order: str,
        sampler: Any,
        identify: Callable[[], str | None],
        sample_of: np.ndarray | None = None,
    ) -> None:
        """The order is settled.

        Args:
            order: One of :data:`ORDERS`.
            sampler: Whose.
            identify: Names the dataset's samples, in hexadecimal.
            sample_of: The sample at each place; None: batches are told by their places.
        """
        self._names.update(order=order, sampler=type(sampler).__name__)
        self._identify = identify
        self._sample_of = sample_of
        self.begun = True

    def taken(self, n_samples: int, sample_of: np.ndarray | None) -> np.ndarray | None:
        """The samples at the places delivered before it went on, a bit each; None: it begins anew."""
        if self.resumed is None:
            return None
        flags = of_length(self.before, n_samples)
        if sample_of is not None:
            flags = np.zeros(n_samples, bool)
            flags[sample_of[: len(self.before)][self.before[: len(sample_of)]]] = True
        return np.packbits(flags, bitorder="little")

    def made(
        self,
        batch: Any,
        yielded: int | None = None,
        write: Callable[[], None] | None = None,
        sampler_now: Any = None,
    ) -> None:
        """A batch was made, or has failed: its places, or its samples; and how many it yields.

        Args:
            batch: What of it is not to come again.
            yielded: How many samples it has; None: as many as places.
            write: Writes down that it is delivered.
            sampler_now: The state that its sampler keeps, after it was drawn.
        """
        yielded = len(batch) if yielded is None else yielded
        self._made.append((batch, yielded, write, self._told, sampler_now))
        self._told = []
        if not self.watched:
            self.hand_out()

    def tell(self, process: int, told: Any) -> None:
        """A process has told this of the dataset. It holds once the batch that is made next is delivered."""
        self._told.append((process, told))

    def end(self) -> None:
        """There is no more."""
        self.made(None, 0)

    def hand_out(self) -> None:
        """What was made first, if anything was, is delivered."""
        if not self._made:
            return
        batch, yielded, write, told, sampler_now = self._made.popleft()
        for process, state in told:
            self.standing.heard(process, state)
        if batch is None:
            self.ended = True
            if self.log is not None:
                self.log.done()
            return
        if write is not None:
            write()
        self.yielded += yielded
        self._handed_out += 1
        self._recent.append((batch, sampler_now))
        if len(self._recent) == self._remember + FOLD:
            folded = [self._recent.popleft() for _ in range(FOLD)]
            self._bits = _with_bits(self._bits, [batch for batch, _ in folded], self._repeats)
            self._sampler_now = folded[-1][1]

    def done(self, handed_out: int | None = None) -> np.ndarray:
        """All places delivered, a bool each.

        Args:
            handed_out: Count so many batches since it went on; None: all.

        Raises:
            ValueError: More than there were, or so few that they are no longer told apart.
        """
        recent = [batch for batch, _ in self._parted(handed_out)[0]]
        bits = _with_bits(self._bits.copy(), recent, self._repeats)
        flags = np.unpackbits(bits, bitorder="little").astype(bool)
        if self._sample_of is not None:
            beyond = int(self._sample_of.max(initial=0)) + 1 - len(flags)
            flags = np.pad(flags, (0, max(0, beyond)))[self._sample_of]
        done = np.zeros(max(len(flags), len(self.before)), bool)
        done[: len(flags)] = flags
        done[: len(self.before)] |= self.before
        return done

    def _parted(self, handed_out: int | None) -> tuple[list[Any], list[Any]]:
        """Batches that are not yet in the bits: those delivered, and those taken back. See :meth:`done`."""
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
        """Where an audit finds what was delivered before it went on: see :class:`seneca.audit.Header`."""
        if self.resumed is None:
            return []
        return self.resumed.get("audit") or [{"log": None, "batches": 0}]

    def state(self, handed_out: int | None = None) -> dict[str, Any]:
        """What a state says of it. See :meth:`done`."""
        if not self.begun:
            generators = [named(state) for state in self.generators]
            return self.resumed or {"generators": generators, **self.dataset_state()}
        if "ranks" in self._names:
            taken_back = self._parted(handed_out)[1]
            self._names["yielded"] = self.yielded - sum(len(batch) for batch, _ in taken_back)
            self._names["in_turn"] = self.in_turn
        delivered = self._parted(handed_out)[0]
        sampler_now = delivered[-1][1] if delivered else self._sampler_now
        if self.log is not None or "audit" in (self.resumed or {}):
            batches = self._handed_out if handed_out is None else handed_out
            here = {"log": None if self.log is None else self.log.id, "batches": batches}
            self._names["audit"] = [*self.written_before(), here]
        return {
            "dataset": self._identify(),
            "epoch": self.number,
            "generators": [named(state) for state in self.generators],
            **{name: named(one) if torch.is_tensor(one) else one for name, one in self._names.items()},
            **({} if sampler_now is None else {"sampler_now": sampler_now}),
            **self.dataset_state(),
            "done": packed(self.done(handed_out)),
        }

    def dataset_state(self) -> dict[str, Any]:
        """What a state says of the dataset's own; empty: the dataset keeps no state."""
        state = self.restores if self.standing is None else self.standing.state(between=self.ended)
        return {} if state is None else {"dataset_state": state}


def _nothing() -> None:
    return None
