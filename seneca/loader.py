"""The loader: torch's signature and rules, with the batches prepared natively and shared.

Where the dataset, its transform and the sampler are ones that the native path knows, iterating
draws from the shared cache; anything else is handed to torch unchanged. See :class:`DataLoader`.
"""

from __future__ import annotations

import secrets
import warnings
import weakref
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import RandomSampler, SequentialSampler, default_collate

from seneca._core import pool, store
from seneca._pipeline.batch import Rooms
from seneca._pipeline.plan import NativeTransform, compile_transform, runs_natively
from seneca._pipeline.prefetch import Counts, Prefetcher
from seneca._pipeline.sample import open_picture
from seneca.cache import SampleCache, shared_cache
from seneca.ending import FIRST, finalize
from seneca.errors import NoSpaceError, SegmentError, SegmentMismatchError
from seneca.options import Options
from seneca.sources import ImageFolder

__all__ = ["DataLoader"]

BATCHES_AHEAD = 2  # torch's default prefetch_factor


class DataLoader(torch.utils.data.DataLoader):
    """A ``torch.utils.data.DataLoader`` whose batches the jobs of this host prepare together.

    Every epoch delivers each sample exactly once, in random order, whatever other jobs do. Jobs
    that load the same files find each other by themselves; each sample is prepared once for all
    that use equal transforms, and what pays is kept in shared memory.

    The native path serves a ``seneca.ImageFolder`` with a transform of ``seneca.transforms``,
    torch's default collate function, and ``shuffle=True`` (the order is then Seneca's, random but
    not torch's) or no shuffle (the order is kept). Everything else is torch's own, with one
    warning that says why.

    Args:
        dataset: As torch's.
        cache: ``"auto"``: meet all jobs on the same files; a name: meet those that say the same;
            a :class:`seneca.SampleCache`; ``None``: share nothing.
        cache_bytes: Memory for payloads where this job is the first, ``"8GiB"`` or an int;
            ``"auto"``: half of what is free, at the most what the dataset can use.
        split: Shares of the forms where this job is the first: ``"58-42-0"`` for encoded, decoded,
            augmented in percent, or ``"auto"``.
        share: ``"augmented"``; ``"decoded"``: every job augments for itself; ``"none"``: own
            order and own randomness by the seed alone, while kept payloads still serve.
        on_error: ``"raise"``: a file that cannot be decoded raises an error that names it, and
            iterating may go on with the next batch; ``"skip"``: it gives its place to the next
            sample, with one warning.
        memory_format: ``torch.channels_last``: the three channels of a pixel lie together, as
            convolutions on GPUs like it; the shape stays ``(B, 3, height, width)``. Where torch
            loads, batches are ``torch.contiguous_format``, and the warning says so.
        *args: torch's other arguments, in torch's order.
        **kwargs: torch's other arguments by name. On the native path ``num_workers`` is the
            number of threads that prepare, in this process; 0 prepares in the calling thread.
            ``prefetch_factor`` is the number of batches prepared ahead, for all threads together.

    Yields:
        ``(images, labels)``: float32 (or the type that the transform says) ``(B, 3, height,
        width)``, int64 ``(B,)``. The last batch may be shorter unless ``drop_last``.

    Example:
        >>> import tempfile, seneca
        >>> from seneca import transforms as T
        >>> from seneca.pictures import make_pictures
        >>> folder = tempfile.TemporaryDirectory()
        >>> _ = make_pictures(folder.name, count=6, classes=2)
        >>> train = seneca.ImageFolder(folder.name, transform=T.RandomResizedCrop(32))
        >>> loader = seneca.DataLoader(train, batch_size=4, shuffle=True, cache_bytes="4MiB")
        >>> [tuple(images.shape) for images, labels in loader]
        [(4, 3, 32, 32), (2, 3, 32, 32)]
        >>> loader.stats()["delivered"]
        6
        >>> folder.cleanup()
    """

    def __init__(
        self,
        dataset: Any,
        *args: Any,
        cache: Any = "auto",
        cache_bytes: int | str = "auto",
        split: Any = "auto",
        share: Any = "augmented",
        on_error: Any = "raise",
        memory_format: torch.memory_format = torch.contiguous_format,
        **kwargs: Any,
    ) -> None:
        self._options = Options(cache, cache_bytes, split, share, on_error, memory_format)
        self.cache = cache
        self.cache_bytes = cache_bytes
        self.split = split
        self.share = share
        self.on_error = on_error
        self.memory_format = memory_format
        self._sample_cache: SampleCache | None = None
        self._counts = Counts()
        self._epochs = 0
        self._warned = False
        self.last_indices: np.ndarray | None = None
        super().__init__(dataset, *args, **kwargs)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # torch promises its own class
        reason = self._not_native_because()
        if reason is None:
            return _Iterator(self)
        contiguous = ", and without memory_format" if self._options.channels_last else ""
        self._warn(f"torch loads this, without sharing{contiguous}: {reason}")
        return super().__iter__()

    def _warn(self, text: str) -> None:
        """Once a loader."""
        if not self._warned:
            self._warned = True
            warnings.warn(f"seneca: {text}", stacklevel=4)

    def stats(self) -> dict[str, Any]:
        """What this loader did on the native path so far, in all its epochs.

        Returns:
            ``served``, samples by the form they came from (``storage``, ``encoded``, ``decoded``,
            ``augmented``); ``prepared``, augmented copies made here; ``staged``, those of them
            made for other jobs too; ``delivered`` and ``skipped``, samples; ``read_bytes`` from
            storage; ``stall_s``, seconds that iterating waited; ``cache``, what the shared cache
            holds (``None`` without one), see :meth:`seneca.SampleCache.stats`.
        """
        cache = self._sample_cache
        try:
            holds = None if cache is None or cache.segment.closed else cache.stats()
        except BlockingIOError:
            holds = None  # its lock is with a process that is stopped
        return {
            **{name: value for name, value in vars(self._counts).items() if name != "served"},
            "served": dict(self._counts.served),
            "cache": holds,
        }

    def _not_native_because(self) -> str | None:
        """Why the native path cannot serve this, or None."""
        dataset = self.dataset
        if type(dataset) is not ImageFolder:
            return f"{type(dataset).__name__} is not a seneca.ImageFolder"
        if not runs_natively(dataset.transform):
            return f"the transform {dataset.transform!r} is not one of seneca.transforms"
        if self.collate_fn is not default_collate:
            return "it has a collate function of its own"
        if self.worker_init_fn is not None:
            return "it has a worker_init_fn"
        if self.batch_size is None:
            return "it has a batch sampler of its own, or no batches"
        sampler = self.sampler
        if type(sampler) is SequentialSampler:
            return None
        if type(sampler) is not RandomSampler:
            return f"the order is {type(sampler).__name__}'s"
        if sampler.replacement or sampler.num_samples != len(dataset):
            return "its sampler draws with replacement or not every sample once"
        return None

    def _join(self) -> SampleCache | None:
        """The cache that this loader shares, joined when it is first iterated; None: nothing is shared.

        Raises:
            NoSpaceError: There is no room for it: the user has asked for too much.
            SegmentMismatchError: It is another dataset's.
        """
        dataset = cast(ImageFolder, self.dataset)
        name = self.cache
        if isinstance(name, SampleCache):
            if name.owned_here:
                if name.segment.fingerprint != dataset.fingerprint():
                    raise SegmentMismatchError(f"{name!r} holds another dataset than {dataset.root}")
                return name
            name = name.name  # a forked child's copy: join for itself
        if name is None:
            return None
        try:
            return shared_cache(name, dataset, self.cache_bytes, self._options.split_wanted)
        except (NoSpaceError, SegmentMismatchError):
            raise
        except SegmentError as error:
            self._warn(f"going on without the shared cache: {error}")
            return None

    def __getstate__(self) -> dict[str, Any]:
        # The membership is this process's; the copy joins for itself.
        return {**vars(self), "_sample_cache": None}


class _Iterator:
    """One epoch of a loader on the native path."""

    def __init__(self, loader: DataLoader) -> None:
        dataset = cast(ImageFolder, loader.dataset)
        pipeline = compile_transform(
            cast(NativeTransform, dataset.transform),
            decode=dataset.decode,
            apply_orientation=dataset.apply_exif_orientation,
            channels_last=loader._options.channels_last,
        )
        shuffle = type(loader.sampler) is RandomSampler
        skip = loader.on_error == "skip"
        samples, batch_size = len(dataset), cast(int, loader.batch_size)
        batches = len(loader)
        ahead = 0 if loader.num_workers == 0 else loader.prefetch_factor or BATCHES_AHEAD
        # As torch: a number from the generator for every iterator, so that seeds reproduce runs.
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=loader.generator).item())
        cache = loader._sample_cache = loader._join()
        shares = shuffle and loader.share == "augmented" and not pipeline.deterministic
        height, width = pipeline.output_size
        member = store.Member(
            None if cache is None else cache.segment,
            n_samples=samples,
            samples=None,
            # What replaces a bad sample may come from what drop_last leaves over.
            places=samples if skip else min(samples, batches * batch_size),
            seed=seed,
            epoch=loader._epochs,
            fixed=not shuffle,
            decoded=pipeline.head_fingerprint,
            augmented=pipeline.augmented_fingerprint,
            height=height,
            width=width,
            in_flight=batch_size * (ahead + 1),
            shares=shares,
            keeps=True,
            substitutes=shares,
        )
        paths, path_at = _path_table(dataset)
        stream = pool.Stream(
            member,
            pipeline.plan,
            paths,
            path_at,
            seed=seed,
            epoch=loader._epochs,
            nonce=secrets.randbits(64) | 1,
            threads=loader.num_workers,
            max_pixels=dataset.max_pixels,
        )
        loader._epochs += 1
        # Before the cache leaves, whatever order a garbage collection finds them in.
        self._close = finalize(self, _end, stream, cache, order=FIRST)
        if cache is not None and not member.shared:
            loader._warn("this epoch shares nothing: the cache's rows are all taken, or its lock was not had")
        self._loader = loader
        self._batches = batches
        self._targets = np.asarray(dataset.targets, np.int64)
        self._prefetcher = Prefetcher(
            stream,
            batches=batches,
            batch_size=batch_size,
            ahead=ahead,
            room=Rooms(
                (3, height, width),
                dtype=getattr(torch, pipeline.dtype),
                channels_last=pipeline.channels_last,
                at_once=ahead + 1,
                pinned=loader.pin_memory and torch.cuda.is_available(),
            ),
            decode=lambda index: np.ascontiguousarray(
                open_picture(
                    dataset.read(index),
                    apply_orientation=pipeline.apply_orientation,
                    max_pixels=dataset.max_pixels,
                )
            ),
            path_of=lambda index: dataset.samples[index][0],
            skip=skip,
            drop_last=loader.drop_last,
            counts=loader._counts,
        )

    def __iter__(self) -> _Iterator:
        return self

    def __len__(self) -> int:
        return self._batches

    def __next__(self) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autograd.profiler.record_function("enumerate(DataLoader)#_Iterator.__next__"):
            if not self._close.alive:
                raise StopIteration
            try:
                indices, room = next(self._prefetcher)
            except (StopIteration, pool.StreamClosed):
                self._close()
                raise StopIteration from None
            self._loader.last_indices = indices
            return room.tensor[: len(indices)], torch.from_numpy(self._targets[indices])


def _end(stream: pool.Stream, cache: SampleCache | None) -> None:
    """Ends an iterator; holding the cache, it comes before the cache's own end."""
    stream.close()


_path_tables: weakref.WeakKeyDictionary[ImageFolder, tuple[bytes, np.ndarray]] = weakref.WeakKeyDictionary()


def _path_table(dataset: ImageFolder) -> tuple[bytes, np.ndarray]:
    """The dataset's path table, made once; it resolves against the folder of that time."""
    if dataset not in _path_tables:
        _path_tables[dataset] = dataset.path_table()
    return _path_tables[dataset]
