"""Iterating on the native path: batches of pictures that this process's threads prepare."""

from __future__ import annotations

import functools
import itertools
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import RandomSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from seneca._core import pool, store
from seneca._pipeline.batch import Rooms
from seneca._pipeline.prefetch import Prefetcher
from seneca._pipeline.sample import open_picture
from seneca.adapt import Adapter, Progress, profile_for
from seneca.audit import Log
from seneca.cache import SampleCache
from seneca.ending import FIRST, finalize
from seneca.partition import Jobs, Spent
from seneca.turns import InTurn
from seneca.walks import dealt_by, drawn_seed, own_seed, seeded
from seneca.witness import open_log_of

if TYPE_CHECKING:
    from seneca.grades import Grade
    from seneca.loader import DataLoader

__all__ = ["NativeIterator"]

BATCHES_AHEAD = 2  # torch's default prefetch_factor


class NativeIterator(InTurn, _BaseDataLoaderIter):
    """One epoch of a loader; with persistent workers one after the other.

    Torch's own base class draws the seed, warns, counts and profiles as torch's iterators do.

    Args:
        loader: Whose.
        grade: Of its dataset, native.
        cache: Where it shares; None: nowhere.
    """

    def __init__(self, loader: DataLoader, grade: Grade, cache: SampleCache | None) -> None:
        assert loader.num_workers > 0 or loader.timeout == 0, (
            "DataLoader requires timeout == 0 without workers"
        )
        assert loader.num_workers == 0 or loader.prefetch_factor, "prefetch_factor must be greater than 0"
        self._epoch = loader._epoch_of_iterator()
        super().__init__(loader)
        self.grade = grade
        # As torch's: without workers nothing is drawn before the first batch.
        self._begin_with: tuple[DataLoader, Grade, SampleCache | None] | None = (loader, grade, cache)
        if loader.num_workers > 0:
            self._begin()

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        with self._turn:
            super()._reset(loader, first_iter)
            self._close()
            self._epoch = loader._epoch_of_iterator()
            self._begin_with = (loader, self.grade, loader._join(self.grade))
            self._begin()

    def _begin(self) -> None:
        assert self._begin_with is not None
        loader, grade, cache = self._begin_with
        files, pipeline = grade.files, grade.pipeline
        assert files is not None and pipeline is not None
        loader._sample_cache = cache
        batches: Any = loader.batch_sampler
        sampler, batch_size = batches.sampler, batches.batch_size
        epoch = self._epoch
        loader._begin_epoch(epoch)
        dealt = dealt_by(sampler, len(loader.dataset), epoch)  # type: ignore[arg-type]  # map-style
        shuffle = type(sampler) is RandomSampler if dealt is None else dealt.portion.shuffle
        self._sampled: Iterator[int] = iter(())
        skip = loader.on_error == "skip"
        ahead = 0 if loader.num_workers == 0 else loader.prefetch_factor or BATCHES_AHEAD
        samples = len(sampler)
        seed, order = int(self._base_seed), grade.own
        shares = shuffle and loader.share == "augmented" and not pipeline.deterministic
        if (shares and loader.cache is not None) or skip:
            epoch.in_turn = False  # also where only another rank has the cache, or bad samples
        shares = shares and cache is not None
        senecas = shares and dealt is None  # the order; of an epoch that goes on it is what it was
        if epoch.resumed is not None and dealt is None:
            senecas = shuffle and epoch.resumed["order"] == "seneca"
            shares = shares and senecas
        if dealt is not None:
            order = dealt.indices.astype(np.uint32) if order is None else order[dealt.indices]
            samples = len(order)
        elif (
            shuffle and not senecas
        ):  # nothing will take another's place: torch's order, from torch's numbers
            if sampler.generator is None:
                sampler = seeded(sampler, epoch.name("order_seed", lambda: drawn_seed(None)))
            self._sampled = iter(sampler)
            chosen = np.fromiter(itertools.islice(self._sampled, samples), np.int64, samples)
            order = chosen.astype(np.uint32) if order is None else order[chosen]
        elif shuffle and sampler.generator is not None:
            seed = drawn_seed(sampler.generator)
        seed = epoch.name("seed", lambda: seed)
        nonce = epoch.name("nonce", lambda: secrets.randbits(64) | 1)
        left = samples - int(np.count_nonzero(epoch.before[:samples]))
        to_yield = left if dealt is None else samples - epoch.yielded
        n_batches = to_yield // batch_size if batches.drop_last else -(-to_yield // batch_size)
        self._asked, self._whole = 0, left // batch_size
        self._ask(loader.num_workers * (loader.prefetch_factor or 0))
        height, width = pipeline.output_size
        member = store.Member(
            None if cache is None else cache.segment,
            n_samples=len(files),
            samples=order,
            # What replaces a bad sample may come from what drop_last leaves over.
            places=left if skip else min(left, n_batches * batch_size),
            taken=epoch.taken(len(files), order),
            seed=seed,
            epoch=epoch.number,
            fixed=not senecas,
            own_seed=own_seed(cache if shares else None, pipeline.augmented_fingerprint),
            decoded=pipeline.head_fingerprint,
            augmented=pipeline.augmented_fingerprint,
            height=height,
            width=width,
            in_flight=batch_size * (ahead + 1),
            shares=shares,
            keeps=True,
            substitutes=shares,
        )
        count = min(to_yield, n_batches * batch_size)
        log = open_log_of(loader, batches, loader.dataset, epoch, cache=cache, own=grade.own, count=count)
        self._witness = None if log is None else _Witness(log, len(files), grade.own)
        stream = pool.Stream(
            member,
            pipeline.plan,
            *files.path_table(),
            seed=seed,
            epoch=epoch.number,
            nonce=nonce,
            threads=loader.num_workers,
            max_pixels=grade.max_pixels,
            copies=None if self._witness is None else self._witness.copies,
            check_every=0 if cache is None else loader.check_every or 0,
        )
        self._close = finalize(self, _end, stream, cache, order=FIRST)  # before a Ctrl-C could come
        epoch.log = log
        epoch.begin("seneca" if senecas else "samples", batches.sampler, grade.identity, order)
        job = Jobs(batch_size=batch_size, ahead=ahead, threads=max(1, loader.num_workers), share=loader.share)
        loader._adapter = None if cache is None else self._adapter(loader, grade, cache, job)
        if cache is not None and not member.shared:
            loader._warn(f"this epoch shares nothing: {member.why_private}")
        self._loader = loader
        self._labels = files.labels()
        self._copy_bytes = 3 * height * width
        self._in_hand = 0  # samples of the batch that the training loop has
        self._prefetcher = Prefetcher(
            stream,
            batches=n_batches,
            batch_size=batch_size,
            ahead=ahead,
            room=Rooms(
                (3, height, width),
                dtype=getattr(torch, pipeline.dtype),
                channels_last=pipeline.channels_last,
                at_once=ahead + 1,
                pinned=loader._pins,
            ),
            decode=lambda index, data: np.ascontiguousarray(
                open_picture(
                    files.read(index) if data is None else data,
                    apply_orientation=pipeline.apply_orientation,
                    max_pixels=grade.max_pixels,
                )
            ),
            path_of=lambda index: files.samples[index][0],
            skip=skip,
            drop_last=batches.drop_last,
            evenly=None if dealt is None else count,
            counts=loader._counts,
        )
        if loader._adapter is not None:
            loader._adapter.begin(self._progress, job)
        self._begin_with = None

    def _ask(self, batches: int) -> None:
        """Bring the sampler to its end, where it draws once more, once torch has asked it for so many."""
        self._asked += batches
        if self._asked > self._whole:
            next(self._sampled, None)

    def _next_data(self) -> Any:
        if self._begin_with is not None:
            self._begin()
        if not self._close.alive:
            raise StopIteration
        self._ask(1)
        try:
            indices, room = next(self._prefetcher)
        except (StopIteration, pool.StreamClosed) as end:
            self._close()
            self._in_hand = 0
            if isinstance(end, pool.StreamClosed):
                self._epoch.log = None  # half-way
            elif self._loader._adapter is not None:
                self._loader._adapter.tick(self._progress, ended=True)
            self._tell()
            self._epoch.end()
            raise StopIteration from None
        except Exception:
            self._tell(failed=True)
            raise
        self._note_distrust()
        self._tell(indices)
        self._in_hand = len(indices)
        if self._loader._adapter is not None:
            self._loader._adapter.tick(self._progress)
        self._loader.last_indices = indices
        return room.tensor[: len(indices)], torch.from_numpy(self._labels[indices])

    def _note_distrust(self) -> None:
        """Nobody shares any more where somebody was served what its dataset does not make."""
        different, self._prefetcher.different = self._prefetcher.different, []
        if different and self._witness is not None:
            self._witness.differed(np.asarray(different))
        self._loader._give_up_distrusted()

    def _adapter(self, loader: DataLoader, grade: Grade, cache: SampleCache, job: Jobs) -> Adapter:
        """The loader's, or a new one."""
        before, files, pipeline = loader._adapter, grade.files, grade.pipeline
        assert files is not None and pipeline is not None
        if before is not None and before.suits(cache):
            return before
        return Adapter(cache, profile_for(files, pipeline, grade.max_pixels), job, len(files))

    def _progress(self) -> Progress:
        counts = self._loader._counts
        spent = Spent(counts.times, counts.spent_s, counts.read_bytes, counts.decoded_bytes)
        worked_on = counts.delivered - self._in_hand
        return Progress(spent, worked_on, counts.stall_s, reads_here=True, copy_bytes=self._copy_bytes)

    def _tell(self, indices: np.ndarray | None = None, *, failed: bool = False) -> None:
        """What the batch that was made, or has failed, has used up."""
        gone, self._prefetcher.gone = self._prefetcher.gone, []
        if gone:
            batch = gone[0] if len(gone) == 1 else np.concatenate(gone)
            write = None
            if self._witness is not None:
                write = functools.partial(self._witness.write, batch, indices, failed)
            self._epoch.made(batch, len(batch) if indices is None else len(indices), write)


class _Witness:
    """Writes down what an epoch delivers; see :mod:`seneca.audit`."""

    def __init__(self, log: Log, files: int, own: np.ndarray | None) -> None:
        self._log = log
        self.copies = np.zeros((files, 3), np.uint32)  # of each sample; written by the draws
        self._index_of = np.arange(files, dtype=np.uint32)
        if own is not None:
            self._index_of[own] = np.arange(len(own))

    def differed(self, samples: np.ndarray) -> None:
        """Samples were not what they were served as."""
        self._log.differed(self._index_of[samples])

    def write(self, gone: np.ndarray, given: np.ndarray | None, failed: bool) -> None:
        """Of the samples that are gone some were given; the others were bad."""
        if failed:
            self._log.failed(self._index_of[gone])
            return
        skipped = gone if given is None else np.setdiff1d(gone, given)
        if len(skipped):
            self._log.skipped(self._index_of[skipped])
        if given is not None:
            self._log.gave(self._index_of[given], self.copies[given])


def _end(stream: pool.Stream, cache: SampleCache | None) -> None:
    """Ends an epoch; holding the cache, it comes before the cache's own end."""
    stream.close()
