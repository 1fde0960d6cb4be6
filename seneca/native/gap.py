"""The gap between two epochs: the next epoch's first batches are prepared before somebody asks for them.

::

    epoch ends --> foresee: its order, its seed --> Early: batches, then files into the page cache
                                                      |
    iter(loader) --> the epoch's plan --the same?-----+--> the epoch begins with these batches
                                          \\--no--> they are dropped

The next epoch is only foreseen. It begins later, as any other: its plan is drawn from the generators of the
user, and its files are asked for their state. What was prepared is used if it is what the epoch prepares.
Until then nothing of it is to be seen: not in the loader's state, its counters, the audit or the cache.
Therefore a job that dies in the gap leaves nothing behind.

At most one loader of a process works for its next epoch. The threads of all other iterators come first.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import math
import os
import weakref
from typing import Any, NamedTuple

import numpy as np
import torch

from seneca._core import early
from seneca._core.member import Member
from seneca._core.pool import Batch, Stream
from seneca._runtime.finalizers import FIRST, finalize
from seneca._runtime.memory import free_memory
from seneca.epochs.dataset_state import alike
from seneca.epochs.plan import EpochPlan
from seneca.epochs.progress import EpochProgress
from seneca.epochs.samplers import Kind, draw_seed, epoch_of, foreseen
from seneca.native.buffers import BatchBuffers
from seneca.native.fetchers import Fetchers
from seneca.native.planned_order import PlannedOrder
from seneca.native.prefetch import UnderWay
from seneca.native.session import Inputs

__all__ = ["NOTHING_EARLY", "Begun", "Gap"]

logger = logging.getLogger("seneca.epochs")  # the name that users filter by

MOST_BYTES = 256 << 20  # of files that are brought into the page cache
MOST_FILES = 32_768  # of these
LEAST_NEW = 0.5  # of the samples of the first batches: so many are not kept in the cache
REPEATED = 2  # epochs, after which a third is likely enough for requests to servers, which may cost money
SHARE_OF_FREE = 4  # batches take at most one of so many parts of the free memory, and files as well
MOST_DRAWS = 16  # that are tried, to find how many numbers were drawn in a gap
FIRST_DRAWS = 1  # an iterator of another loader, which validates, draws one number


class Begun(NamedTuple):
    """The part of an epoch that is prepared when it begins.

    Attributes:
        batches: Its first batches, which are complete.
        samples: Theirs, uint32.
        own_seed: See :class:`Member`; 0: none was chosen.
        early: What prepared the batches, and brings more files. It stays until the end of the epoch.
    """

    batches: tuple[UnderWay, ...] = ()
    samples: np.ndarray = np.empty(0, np.uint32)
    own_seed: int = 0
    early: Early | None = None

    def draws(self, draws: dict[str, Any], n_samples: int) -> dict[str, Any]:
        """What a :class:`Member` needs of the order, after these batches; see :meth:`PlannedOrder.draws`."""
        if self.own_seed and draws["own_seed"]:
            draws = draws | {"own_seed": self.own_seed}
        if not self.batches:
            return draws
        taken = np.zeros(n_samples, bool)
        taken[self.samples] = True
        bits = np.packbits(taken, bitorder="little")
        return draws | {"taken": bits, "places": draws["places"] - len(self.samples)}


NOTHING_EARLY = Begun()


class Early:
    """The beginning of an epoch that nobody has asked for. It ends with the last reference to it.

    It uses no shared memory: its samples are read from storage or other hosts, and nothing is kept of them.

    Args:
        source: What the epoch will be.
        inputs: What it will be prepared from.
        buffers: Memory for its batches.
        threads: How many threads prepare.
        batches: How many batches to prepare.
    """

    def __init__(
        self, source: PlannedOrder, inputs: Inputs, buffers: BatchBuffers, *, threads: int, batches: int
    ) -> None:
        self.source, self.inputs = source, inputs
        support, remote = inputs.support, inputs.remote
        files, pipeline = support.files, support.pipeline
        assert files is not None and pipeline is not None
        draws = source.draws(pipeline.augmented_fingerprint)
        self.own_seed: int = draws["own_seed"]
        if self.own_seed:
            batches = 0  # others exchange samples with this job: each is to be prepared once for all
        height, width = (0, 0) if pipeline.sound else pipeline.output_size
        member = Member(
            None,
            n_samples=len(files),
            seed=source.seed,
            epoch=source.plan.number,
            decoded=pipeline.head_fingerprint,
            augmented=pipeline.augmented_fingerprint,
            height=height,
            width=width,
            copy_bytes=pipeline.plan.copy_bytes,
            in_flight=source.batch_size * batches,
            keeps=False,
            **draws | {"shares": False, "substitutes": False},
        )
        self.stream = Stream(
            member,
            pipeline.plan,
            *files.places(),
            seed=source.seed,
            epoch=source.plan.number,
            nonce=0,
            threads=threads,
            max_pixels=support.max_pixels,
            largest=0 if remote is None else files.seen().largest,
            remote=None if remote is None else remote.handle,
            dataset=b"" if remote is None else files.fingerprint(),
            boxes=None if support.targets is None else support.targets.table,
        )
        objects = files.objects()
        fetchers = None if objects is None else Fetchers(self.stream, objects, remote is not None)
        self.end = finalize(self, _end, self.stream, fetchers, order=FIRST)
        early.begin(self.stream)
        segment = None if inputs.cache is None else inputs.cache.segment
        wanted = source.batch_size * batches
        if len(early.coming(member, wanted, segment)) < LEAST_NEW * min(wanted, member.left):
            batches = 0  # the cache has most of them
        self.batches: list[_Batch] = []
        for _ in range(min(batches, source.plan.batches)):
            size = min(source.batch_size, member.left)
            buffer = buffers(size)
            batch = self.stream.draw(*buffer.arrays)
            if batch is None:
                break
            # What other hosts have left is of the files as they were when these were last asked.
            by_ctimes = remote is not None and objects is None
            known = files.ctimes(batch.indices, now=False) if by_ctimes else None
            self.batches.append(_Batch(batch, buffer, size, known))
        if fetchers is not None:
            fetchers.start()
        elif remote is None:
            coming = early.coming(member, MOST_FILES, segment)
            early.bring(self.stream, coming, min(MOST_BYTES, free_memory() // SHARE_OF_FREE))

    def begun(self, source: PlannedOrder, inputs: Inputs) -> Begun:
        """What of it is prepared, if the epoch of ``source`` begins like it; else nothing."""
        is_like_it = _plans_alike(self.source.plan, source.plan) and _prepare_alike(self.inputs, inputs)
        if self.own_seed or not is_like_it:  # where others exchange samples it has no batches
            return Begun(own_seed=self.own_seed)
        good = list(
            itertools.takewhile(lambda one: one.batch.wait(0) and _is_of_now(one, inputs), self.batches)
        )
        if len(good) == len(self.batches):
            early.go_on(self.stream)
        elif good:
            early.stop(self.stream)  # what it has under way is given up
        else:
            return Begun(own_seed=self.own_seed)
        self.batches = []  # their memory is used again once the training loop has let go of it
        batches = tuple(UnderWay(one.batch, one.buffer, one.size) for one in good)
        samples = np.concatenate([np.empty(0, np.uint32), *(one.batch.indices for one in good)])
        return Begun(batches, samples, self.own_seed, self)


class _Batch(NamedTuple):
    """A batch that was begun early, its memory, and how many samples it has room for.

    ``ctimes``: those of its files before they were read; None: those who read them have noted theirs.
    """

    batch: Batch
    buffer: Any
    size: int
    ctimes: np.ndarray | None


def _is_of_now(one: _Batch, inputs: Inputs) -> bool:
    """Whether no file has changed since a batch was made of it.

    The epoch has just asked all files for their state, if it shares anything. If it does not, these few are
    asked here.
    """
    files, options = inputs.support.files, inputs.options
    assert files is not None
    if files.objects() is not None or options.verify_files == "run":
        return True  # the user says that no file changes; what a bucket has listed does not
    read = early.ctimes(one.batch) if one.ctimes is None else one.ctimes
    try:
        return np.array_equal(read, files.ctimes(one.batch.indices, now=options.cache is None))
    except OSError:
        return False


def _end(stream: Stream, fetchers: Fetchers | None) -> None:
    stream.close()
    if fetchers is not None:
        fetchers.end()


class Gap:
    """What one loader does in its gaps, and what it has learned of them."""

    def __init__(self) -> None:
        self._early: Early | None = None
        self._owner = os.getpid()
        self._ended = 0  # epochs
        self._others: weakref.ref[Early] | None = None  # was in the way of an earlier gap
        self._generator: torch.Tensor | None = None  # the state of torch's global one when the epoch ended
        self._draws: int | None = FIRST_DRAWS  # from it in a gap; None: nobody knows
        self._sampler_epoch: int | None = None  # when the last epoch began
        self._epochs = 1  # by how much that number changes

    def drop(self) -> None:
        """Give up what was prepared."""
        dropped, self._early = self._early, None
        if dropped is not None and self._owner == os.getpid():
            dropped.end()

    def asked(self) -> None:
        """An epoch is asked for: bring no more files if its order is not the one that was foreseen.

        Jobs that exchange samples take each other's copies. Whichever job needs a file reads it. If it were
        brought here too while jobs read, it would be read twice.
        """
        waiting = self._early
        if waiting is None or self._owner != os.getpid() or not waiting.end.alive:
            return
        if waiting.own_seed:
            early.stop(waiting.stream)

    def close(self, loader: Any) -> None:
        """Learn from the gap which ends now. Nothing was drawn yet for the epoch that begins."""
        if self._generator is not None:
            self._draws = _draws_between(self._generator, torch.get_rng_state())
            self._generator = None
        now = epoch_of(getattr(loader.batch_sampler, "sampler", None))
        if now is not None and self._sampler_epoch is not None:
            self._epochs = now - self._sampler_epoch
        self._sampler_epoch = now

    def take(self, source: Any, inputs: Inputs, progress: EpochProgress) -> Begun:
        """What was prepared of an epoch that begins. What cannot be used of it is dropped."""
        taken, self._early = self._early, None
        if taken is not None:
            _set_waiting(None)
        if taken is None or self._owner != os.getpid() or not taken.end.alive:
            return NOTHING_EARLY
        begun = NOTHING_EARLY
        if progress.resumed is None and isinstance(source, PlannedOrder):
            begun = taken.begun(source, inputs)
        logger.debug(
            "epoch %d begins with %d batches that were prepared before it, and %d files were brought besides",
            progress.number,
            len(begun.batches),
            early.brought(taken.stream),
        )
        if begun.early is None:
            taken.end()
        return begun

    def open(
        self,
        loader: Any,
        inputs: Inputs,
        buffers: BatchBuffers,
        *,
        seed: int | None,
        threads: int,
        batches: int,
    ) -> None:
        """Begin to prepare the epoch that comes after one that has ended.

        Args:
            loader: The loader.
            inputs: What the ended epoch was prepared from.
            buffers: Memory of its batches.
            seed: The seed that a persistent iterator keeps; None: the next iterator draws one.
            threads: How many threads prepare.
            batches: How many batches to prepare.
        """
        self.drop()
        self._owner = os.getpid()
        self._generator = torch.get_rng_state()
        self._ended += 1
        assert inputs.support.files is not None
        is_fetched = inputs.support.files.objects() is not None
        if (is_fetched and self._ended < REPEATED) or not self._may_begin():
            return
        try:
            source, is_seed_known = self._foresee(loader, inputs, seed)
            if source is None:
                return
            if not is_seed_known or not _may_prepare(inputs, source.batch_size * batches):
                batches = 0
            self._early = Early(source, inputs, buffers, threads=threads, batches=batches)
            _set_waiting(self._early)
        except Exception:
            # Whatever is wrong, the epoch will say so once it begins.
            logger.debug("the next epoch could not be prepared in advance", exc_info=True)

    def _may_begin(self) -> bool:
        """Whether no other loader's beginning waits. One that waits through two epochs here is dropped."""
        other = None if _waiting is None else _waiting()
        if other is None or not other.end.alive:
            return True
        if self._others is not None and self._others() is other:
            other.end()
            return True
        self._others = weakref.ref(other)
        return False

    def _foresee(self, loader: Any, inputs: Inputs, seed: int | None) -> tuple[PlannedOrder | None, bool]:
        """The order of the next epoch, None if nobody knows it; and whether its seed is known."""
        clones: dict[int, torch.Generator | None] = {}

        def clone(generator: torch.Generator | None) -> torch.Generator | None:
            if id(generator) not in clones:
                clones[id(generator)] = self._clone(generator)
            return clones[id(generator)]

        if seed is None:
            generator = clone(loader.generator)
            seed = None if generator is None else draw_seed(generator)
        sampler = loader.batch_sampler.sampler
        is_senecas = PlannedOrder.exchanges(inputs) and inputs.cache is not None
        is_by_seed = is_senecas and loader._kind(subsets=False) is Kind.SHUFFLED
        if is_by_seed and getattr(sampler, "generator", None) is None:
            following = None if seed is None else sampler  # which is not asked
        else:
            following = foreseen(sampler, clone, self._epochs)
        if following is None:
            return None, False
        progress = EpochProgress()
        progress.number = loader._epochs
        source = PlannedOrder(loader, inputs, progress, 0 if seed is None else seed, following)
        return source, seed is not None

    def _clone(self, generator: torch.Generator | None) -> torch.Generator | None:
        """A generator that draws what this one will after the gap; None: nobody knows."""
        following = torch.Generator()
        if generator is not None:
            return following.set_state(generator.get_state()) if generator.device.type == "cpu" else None
        if self._draws is None or self._generator is None:
            return None
        following.set_state(self._generator)
        for _ in range(self._draws):
            draw_seed(following)
        return following


def _draws_between(before: torch.Tensor, after: torch.Tensor) -> int | None:
    """How many seeds were drawn from a generator between two of its states; None: that is not known."""
    generator = torch.Generator().set_state(before)
    for draws in range(MOST_DRAWS + 1):
        if torch.equal(generator.get_state(), after):
            return draws
        draw_seed(generator)
    return None


def _may_prepare(inputs: Inputs, samples: int) -> bool:
    """Whether so many samples are prepared in advance.

    Exact copies are not: jobs divide their making. Nor is anything if memory is short.
    """
    pipeline = inputs.support.pipeline
    assert pipeline is not None
    if inputs.options.share == "exact" and inputs.cache is not None:
        return False
    item_bytes = math.prod(pipeline.item_shape) * getattr(torch, pipeline.dtype).itemsize
    return samples * item_bytes <= free_memory() // SHARE_OF_FREE


def _plans_alike(one: EpochPlan, other: EpochPlan) -> bool:
    """Whether two epochs begin with the same samples in the same batches, with the same random numbers."""
    names = ("number", "order", "count", "indices", "seed", "batch_size", "drop_last", "shard")
    return len(other.before) == 0 and all(alike(getattr(one, name), getattr(other, name)) for name in names)


def _prepare_alike(one: Inputs, other: Inputs) -> bool:
    """Whether the same batches come of the same samples, as long as their files stay."""
    return one.pinned == other.pinned and one.remote is other.remote and alike(_parts(one), _parts(other))


def _parts(inputs: Inputs) -> tuple[Any, ...]:
    support = inputs.support
    files, pipeline, targets = support.files, support.pipeline, support.targets
    assert files is not None and pipeline is not None
    steps = tuple(getattr(pipeline, field.name) for field in dataclasses.fields(pipeline))
    table = None if targets is None else targets.table
    return files.root, files.names(), steps, support.own, support.max_pixels, table


_waiting: weakref.ref[Early] | None = None  # the beginning that waits in this process


def _set_waiting(one: Early | None) -> None:
    global _waiting
    _waiting = None if one is None else weakref.ref(one)
