"""Iterating on the native path: batches of pictures that this process's threads prepare."""

from __future__ import annotations

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
from seneca.cache import SampleCache
from seneca.ending import FIRST, finalize
from seneca.portions import portion_of

if TYPE_CHECKING:
    from seneca.grades import Grade
    from seneca.loader import DataLoader

__all__ = ["NativeIterator"]

BATCHES_AHEAD = 2  # torch's default prefetch_factor


class NativeIterator(_BaseDataLoaderIter):
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
        super().__init__(loader)
        self.grade = grade
        # As torch's: without workers nothing is drawn before the first batch.
        self._begin_with: tuple[DataLoader, Grade, SampleCache | None] | None = (loader, grade, cache)
        if loader.num_workers > 0:
            self._begin()

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        self._close()
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
        portion = portion_of(sampler, len(loader.dataset))  # type: ignore[arg-type]  # map-style
        shuffle = type(sampler) is RandomSampler if portion is None else portion.shuffle
        self._sampled: Iterator[int] = iter(())
        skip = loader.on_error == "skip"
        ahead = 0 if loader.num_workers == 0 else loader.prefetch_factor or BATCHES_AHEAD
        samples = len(sampler)
        seed, order = int(self._base_seed), grade.own
        shares = shuffle and cache is not None and loader.share == "augmented" and not pipeline.deterministic
        if portion is not None:
            drawn = portion.indices()
            order = drawn.astype(np.uint32) if order is None else order[drawn]
        elif shuffle and not shares:  # nothing will take another's place: torch's order, from torch's numbers
            self._sampled = iter(sampler)
            drawn = np.fromiter(itertools.islice(self._sampled, samples), np.int64, samples)
            order = drawn.astype(np.uint32) if order is None else order[drawn]
        elif shuffle and sampler.generator is not None:
            seed = int(torch.empty((), dtype=torch.int64).random_(generator=sampler.generator).item())
        self._asked, self._whole = 0, samples // batch_size
        self._ask(loader.num_workers * (loader.prefetch_factor or 0))
        height, width = pipeline.output_size
        member = store.Member(
            None if cache is None else cache.segment,
            n_samples=len(files),
            samples=order,
            # What replaces a bad sample may come from what drop_last leaves over.
            places=samples if skip else min(samples, len(batches) * batch_size),
            seed=seed,
            epoch=loader._epochs,
            fixed=portion is not None or not shares,
            decoded=pipeline.head_fingerprint,
            augmented=pipeline.augmented_fingerprint,
            height=height,
            width=width,
            in_flight=batch_size * (ahead + 1),
            shares=shares,
            keeps=True,
            substitutes=shares,
        )
        stream = pool.Stream(
            member,
            pipeline.plan,
            *files.path_table(),
            seed=seed,
            epoch=loader._epochs,
            nonce=secrets.randbits(64) | 1,
            threads=loader.num_workers,
            max_pixels=grade.max_pixels,
        )
        loader._epochs += 1
        self._close = finalize(self, _end, stream, cache, order=FIRST)
        if cache is not None and not member.shared:
            loader._warn("this epoch shares nothing: the cache's rows are all taken, or its lock was not had")
        self._loader = loader
        self._labels = files.labels()
        self._prefetcher = Prefetcher(
            stream,
            batches=len(batches),
            batch_size=batch_size,
            ahead=ahead,
            room=Rooms(
                (3, height, width),
                dtype=getattr(torch, pipeline.dtype),
                channels_last=pipeline.channels_last,
                at_once=ahead + 1,
                pinned=loader._pins,
            ),
            decode=lambda index: np.ascontiguousarray(
                open_picture(
                    files.read(index),
                    apply_orientation=pipeline.apply_orientation,
                    max_pixels=grade.max_pixels,
                )
            ),
            path_of=lambda index: files.samples[index][0],
            skip=skip,
            drop_last=batches.drop_last,
            evenly=None if portion is None else min(samples, len(batches) * batch_size),
            counts=loader._counts,
        )
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
        except (StopIteration, pool.StreamClosed):
            self._close()
            raise StopIteration from None
        self._loader.last_indices = indices
        return room.tensor[: len(indices)], torch.from_numpy(self._labels[indices])


def _end(stream: pool.Stream, cache: SampleCache | None) -> None:
    """Ends an epoch; holding the cache, it comes before the cache's own end."""
    stream.close()
