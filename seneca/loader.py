"""The loader: torch's signature and rules, with the batches prepared natively and shared.

What the native core can prepare, it does; any other dataset is loaded by torch's own workers, over the
same cache. See :class:`DataLoader`.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch.utils.data import IterableDataset, RandomSampler, default_collate

from seneca._core import store
from seneca._pipeline.prefetch import Counts
from seneca.adapt import Adapter
from seneca.cache import SampleCache, cache_name, shared_cache
from seneca.device import CopiedAhead, check_device
from seneca.errors import NoSpaceError, SegmentError, SegmentMismatchError
from seneca.grades import Grade, grade_of
from seneca.identity import Memory
from seneca.native import NativeIterator
from seneca.notices import warn
from seneca.options import CHECK_EVERY, Options
from seneca.processes import iterate
from seneca.ranks import job_key, world
from seneca.resumable import ResumableLoader
from seneca.resume import Epoch
from seneca.samplers import OpportunisticBatchSampler
from seneca.shared import SharedDataset, distrust_text
from seneca.sources.files import PictureFiles
from seneca.stages import Stages
from seneca.walks import Walk, Walks
from seneca.witness import open_log_of

__all__ = ["DataLoader"]

logger = logging.getLogger(__name__)

NO_INDICES = "an IterableDataset has no indices by which jobs could share"

_T_co = TypeVar("_T_co", covariant=True)


class DataLoader(torch.utils.data.DataLoader[_T_co], ResumableLoader):
    """A ``torch.utils.data.DataLoader`` whose batches the jobs of this host prepare together.

    Every epoch delivers each sample exactly once, in random order, whatever other jobs do. Jobs
    that load the same files find each other by themselves; each sample is prepared once for all
    that use equal transforms, and what pays is kept in shared memory.

    Folders of pictures (``seneca.ImageFolder``, torchvision's ``ImageFolder`` and its likes) with
    transforms that the native core knows (``seneca.transforms``, torchvision's of the same meaning)
    are prepared in threads of this process. Any other map-style dataset is loaded by torch's worker
    processes, and its items are shared if it can be told what they are made of, or with ``key``;
    :meth:`explain` says what was found. An ``IterableDataset`` is torch's alone. With
    ``shuffle=True`` the order is Seneca's, random but not torch's; any other order is kept, and so
    is torch's with ``cache=None``. With a ``DistributedSampler`` each process of a run has the part
    that it deals out; where no other job shares, in its order.

    Args:
        dataset: As torch's. A :class:`seneca.SharedDataset` is shared on its own terms, not on these.
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
        key: Stands for each part of the dataset that cannot be fingerprinted: jobs that say the same, and
            whose datasets are equal in all other parts, share. That their items are interchangeable is the
            user's word.
        job: Names the training run that this process is of; all its processes say the same. None: the
            processes that meet by torchrun's or torch.distributed's environment are one run, any other is
            a run by itself. A copy that is made for others reaches a run once.
        device: Where batches go, ``"cuda"`` say: each is copied while the one before is in use. None:
            they stay where they are made.
        check_every: Of so many samples that are served from the cache one is made again and compared. Where
            it is another, the jobs of the cache stop sharing, with one warning; ``stats()`` counts both.
            None: none is.
        snapshot_every_n_steps: Has no effect. torchdata's ``StatefulDataLoader`` has this argument; the state
            of this loader is exact after every batch.
        batch_size, num_workers, prefetch_factor and the rest: As torch's. On the native path
            ``num_workers`` is the number of threads that prepare, in this process; 0 prepares in
            the calling thread. ``prefetch_factor`` is then the number of batches prepared ahead,
            for all threads together.

    Yields:
        On the native path ``(images, labels)``: float32 (or as the transform says) ``(B, 3, height, width)``,
        int64 ``(B,)``. Elsewhere what ``collate_fn`` makes of the dataset's items.

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
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        cache: Any = "auto",
        cache_bytes: int | str = "auto",
        split: Any = "auto",
        share: Any = "augmented",
        on_error: Any = "raise",
        memory_format: torch.memory_format = torch.contiguous_format,
        key: str | None = None,
        job: str | None = None,
        device: str | torch.device | None = None,
        check_every: int | None = CHECK_EVERY,
        snapshot_every_n_steps: int | None = 1,
    ) -> None:
        self._device = check_device(device)
        self._options = Options(
            cache, cache_bytes, split, share, on_error, memory_format, key, job, check_every
        )
        self.cache = cache
        self.cache_bytes = cache_bytes
        self.split = split
        self.share = share
        self.on_error = on_error
        self.memory_format = memory_format
        self.key = key
        self.job = job
        self.device = device
        self.check_every = check_every
        self.snapshot_every_n_steps = snapshot_every_n_steps
        self._sample_cache: SampleCache | None = None
        self._shared: SharedDataset | None = None
        self._adapter: Adapter | None = None
        self._counts = Counts()
        self._memory = Memory()
        self._given_up: tuple[bytes, str] | None = None  # files that are no longer shared, and why
        self._never_begun()
        self._warned = False
        self.last_indices: np.ndarray | None = None
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
        )

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # torch promises its own class
        if self._iterator is not None and not self._still_suits(self._iterator):
            self._iterator = None  # persistent workers of what the dataset was
        if self._device is not None and self._device.type == "cuda" and not torch.cuda.is_available():
            raise RuntimeError(
                f"device={self.device!r}, but torch sees no CUDA device; leave it out to load without"
            )
        epoch = self._epoch_to_begin()
        with self._settled(epoch):
            iterator = super().__iter__()
        if self._device is None:
            return iterator
        epoch.watched = True
        return CopiedAhead(iterator, self._device, epoch.hand_out)

    def _users_dataset(self) -> Any:
        return self.dataset.dataset if isinstance(self.dataset, SharedDataset) else self.dataset

    def _identity(self) -> str | None:
        return None if isinstance(self.dataset, IterableDataset) else self._grade().identity()

    def _identify(self) -> Callable[[], str | None]:
        return self._shared_dataset()._identity

    @property
    def _pins(self) -> bool:
        """Whether batches lie in page-locked memory, which a GPU copies from by itself."""
        on_cuda = self._device is not None and self._device.type == "cuda"
        return (self.pin_memory or on_cuda) and torch.cuda.is_available()

    def _get_iterator(self) -> Any:
        if isinstance(self.dataset, IterableDataset):
            if self.cache is not None and not self._warned:
                self._warned = True
                logger.info("torch loads this, without sharing: %s", NO_INDICES)
            return iterate(self, self._stream())
        grade = self._grade()
        rank, ranks = world()
        if ranks > 1 and rank == 0 and type(self.sampler) is RandomSampler and grade.own is None:
            _tell_that_ranks_do_not_divide(ranks)
        reason = self._not_native_because(grade)
        if reason is None:
            if self.num_workers > 0:
                self.check_worker_number_rationality()
            return NativeIterator(self, grade, self._join(grade))
        if self.on_error == "skip":
            self._warn(f"on_error='skip' is the native path's; here what fails raises: {reason}")
        if self._options.channels_last:
            self._warn(f"memory_format is the native path's; here batches are contiguous: {reason}")
        if grade.stages is None:
            self._warn_of_torch(grade.why)
        shared = self._shared_dataset()
        shared.loaded_with(self.worker_init_fn)
        shared.look(grade)
        self._sample_cache = shared.join(
            batch_size=getattr(self._index_sampler, "batch_size", None) or 1,
            batches_ahead=self._batches_ahead(),
            threads=max(1, self.num_workers),
        )
        return iterate(self, self._walks_over(shared), shared, pins=self._pins)

    def _grade(self) -> Grade:
        if isinstance(self.dataset, SharedDataset):
            self.dataset.loaded_with(self.worker_init_fn)
            return self.dataset.look()
        return grade_of(
            self.dataset,
            key=self.key,
            channels_last=self._options.channels_last,
            shares=self.cache is not None,
            worker_init_fn=self.worker_init_fn,
            memory=self._memory,
        )

    def _still_suits(self, iterator: Any) -> bool:
        """Whether a persistent iterator can load another epoch.

        Torch's worker processes stay, with the dataset as it was when they began: as in torch's own loader.
        The native path has no copy of the dataset, and loads it as it is now, as long as it is native.
        """
        if not isinstance(iterator, NativeIterator):
            if self._shared is not None:
                self._shared.look_for_workers_that_stay()
            return True
        grade = self._grade()
        suits = self._not_native_because(grade) is None
        if suits:
            iterator.grade = grade
        return suits

    def _shared_dataset(self) -> SharedDataset:
        if isinstance(self.dataset, SharedDataset):  # on its own terms
            self._shared = self.dataset
        elif self._shared is None or self._shared.dataset is not self.dataset:
            self._shared = SharedDataset(
                self.dataset,
                cache=self.cache.name if isinstance(self.cache, SampleCache) else self.cache,
                cache_bytes=self.cache_bytes,
                split=self.split,
                share=self.share,
                key=self.key,
                job=self.job,
                check_every=self.check_every,
            )
        return self._shared

    def _walks_over(self, shared: SharedDataset) -> Walks:
        """Batches that are planned, where the order is one that Seneca may choose or look ahead in."""
        batches: Any = self._index_sampler
        if shared.terms is None or not shared.terms.shares or not self._walks_the_dataset():
            return self._walks(mark=shared.batch)
        planned = OpportunisticBatchSampler(
            batches.sampler, batches.batch_size, batches.drop_last, batches_ahead=self._batches_ahead()
        )
        planned.shared, planned.threads = shared, max(1, self.num_workers)
        return Walks(planned, lambda loader: loader._plan_of(planned), self)

    def _plan_of(self, planned: OpportunisticBatchSampler) -> Walk:
        planned.looked = True  # by this loader, before it made or reset the iterator
        return planned.walk(self._epoch_of_iterator(), self)

    def _batches_ahead(self) -> int:
        """Under way in worker processes, with the one that is asked for."""
        return 1 + self.num_workers * (self.prefetch_factor or 0)

    def _open_log(self, batches: Any, epoch: Epoch) -> Any:
        return open_log_of(self, batches, self._shared_dataset(), epoch)

    def _warn(self, text: str) -> None:
        """Once a loader."""
        if not self._warned:
            self._warned = True
            warn(text)

    def _warn_of_torch(self, why: tuple[str, ...]) -> None:
        if self.cache is not None:
            self._warn(f"torch loads this, without sharing: {'; '.join(why)}")

    def explain(self) -> str:
        """In plain words: how this dataset is loaded, what of it is shared, with whom, and why not more.

        The first line says that. Where anything is shared, the second says by what the dataset is told from
        others, and what that does not see; and on torch's path the third what examples have shown.

        Looks at the dataset as it is now, as the beginning of an epoch does.
        """
        if isinstance(self.dataset, IterableDataset):
            return f"not shared: {NO_INDICES}"
        grade = self._grade()
        reason = self._not_native_because(grade)
        if reason is None:
            shared = "nothing is shared: cache=None"
            files = cast(PictureFiles, grade.files)
            if self._given_up is not None and self._given_up[0] == files.fingerprint():
                shared = f"nothing is shared: {self._given_up[1]}"
            elif self.cache is not None:
                name = cache_name(getattr(self.cache, "name", self.cache), files.fingerprint())
                augmented = self.share == "augmented" and not cast(Stages, grade.stages).same
                forms = "ENCODED, DECODED" + (", AUGMENTED" if augmented else "")
                shared = f"shared in the cache {name!r}: {forms}\n{grade.told_by()}"
            return f"native: {'; '.join(grade.why)}; {shared}"
        first, *more = self._shared_dataset().explain(grade).split("\n")
        if grade.name == "native":
            first += f"; loaded by torch's workers, because {reason}"
        return "\n".join([first, *more])

    def stats(self) -> dict[str, Any]:
        """What this loader did so far, in all its epochs.

        Returns:
            ``served``, samples by the form they came from (``storage``, ``encoded``, ``decoded``,
            ``augmented``); ``prepared``, augmented copies made here; ``staged``, those of them
            made for other jobs too; ``delivered`` and ``skipped``, samples; ``repeated``, those of them
            that took the places of skipped ones a second time, in ranks; ``unshared``, items
            that cannot be laid out in shared memory; ``damaged``, samples that were read from storage
            because what the cache had of them was damaged; ``checked``, samples served from the cache that
            were made again; ``different``, those of them that were others; ``read_bytes`` from storage, where
            Seneca reads; ``stall_s``, seconds that iterating waited on the native path; ``cache``, what the
            shared cache holds (``None`` without one), see :meth:`seneca.SampleCache.stats`.
        """
        cache = self._sample_cache
        try:
            holds = None if cache is None or cache.segment.closed else cache.stats()
        except (BlockingIOError, store.Unlinked):
            holds = None  # its lock is with a process that is stopped, or it was given up
        counts = {**vars(self._counts), "served": dict(self._counts.served), "unshared": 0}
        for name in ("times", "spent_s", "decoded_bytes"):
            del counts[name]
        if self._shared is not None:
            of_workers = self._shared.stats()
            counts["served"] = {form: n + of_workers["served"][form] for form, n in counts["served"].items()}
            for name in (
                *("prepared", "staged", "delivered", "unshared", "damaged", "read_bytes"),
                *("checked", "different"),
            ):
                counts[name] += of_workers[name]
        return {**counts, "cache": holds}

    def _not_native_because(self, grade: Grade) -> str | None:
        """Why the native path cannot serve this, or None."""
        if grade.name != "native":
            return "; ".join(grade.why)
        if isinstance(self.dataset, SharedDataset):
            return "it is a SharedDataset, for torch's workers"
        if self.collate_fn is not default_collate:
            return "it has a collate function of its own"
        if self.worker_init_fn is not None:
            return "it has a worker_init_fn"
        if not self._walks_the_dataset():
            return "it has an order or batches of its own"
        return None

    def _join(self, grade: Grade) -> SampleCache | None:
        """The cache that the native path shares, joined when it is first iterated; None: nothing is shared.

        Raises:
            NoSpaceError: There is no room for it: the user has asked for too much.
            SegmentMismatchError: It is another dataset's.
        """
        files, name = grade.files, self.cache
        assert files is not None
        if isinstance(name, SampleCache):
            if name.owned_here and name.job == job_key(self.job):
                if name.segment.fingerprint == files.fingerprint():
                    return name
                self._go_on_without_cache(
                    SegmentMismatchError(f"{name!r} holds another dataset than {files.root}")
                )
                return None
            name = name.name  # a forked child's copy, or another job's: join for itself
        if name is None or (self._given_up is not None and self._given_up[0] == files.fingerprint()):
            return None
        try:
            return shared_cache(name, files, self.cache_bytes, self._options.split_wanted, self.job)
        except SegmentError as error:
            self._go_on_without_cache(error)
            return None

    def _give_up_distrusted(self) -> None:
        """Share no more where any job has found that what lies in the cache is not to be trusted; say so
        once."""
        cache = self._sample_cache
        if (
            self._given_up is not None
            or cache is None
            or cache.segment.closed
            or not cache.segment.distrusted
        ):
            return
        if (why := cache.segment.why_distrusted()) is not None:
            text = distrust_text(cache.name, *why, own_job=why[0] == cache.segment.job_key)
            self._given_up = cache.segment.fingerprint, text
            warn(text)

    def _go_on_without_cache(self, error: SegmentError) -> None:
        """Go on alone, unless the user has asked for what cannot be; a job that runs is not ended for
        that."""
        first = self._sample_cache is None
        if isinstance(error, NoSpaceError) or (isinstance(error, SegmentMismatchError) and first):
            raise error
        self._warn(f"going on without the shared cache: {error}")

    def __getstate__(self) -> dict[str, Any]:
        # The membership is this process's, and so is what was counted; the copy joins for itself.
        cache = self.cache.name if isinstance(self.cache, SampleCache) else self.cache
        own = {
            "_sample_cache": None,
            "_shared": None,
            "_adapter": None,
            "_iterator": None,
            "_under_way": None,
            "_counts": Counts(),
            "_memory": Memory(),
        }
        return {
            **vars(self),
            "cache": cache,
            "_options": dataclasses.replace(self._options, cache=cache),
            **own,
        }


@functools.cache
def _tell_that_ranks_do_not_divide(ranks: int) -> None:
    """Once a process."""
    warn(
        f"each of the {ranks} processes of this job loads every sample, as with torch's loader; to divide an "
        "epoch among them, give sampler=torch.utils.data.DistributedSampler(dataset) instead of shuffle=True"
    )
