"""The loader: torch's signature and rules, with batches that jobs share.

The native core prepares the datasets that it knows. torch's worker processes load all others, over the same
cache. See :class:`DataLoader`.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator, Sized
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch.utils.data import IterableDataset, RandomSampler

from seneca import faces
from seneca._core.codes import Unlinked
from seneca._runtime.distributed import world
from seneca._runtime.finalizers import shielded
from seneca._runtime.warn import warn
from seneca.cache import SampleCache, same_job_text
from seneca.data.support import Support, inspect_dataset
from seneca.epochs.batches import EpochBatches, TrackedBatches
from seneca.epochs.dataset_state import alike
from seneca.epochs.plan import EpochPlan
from seneca.epochs.progress import EpochProgress
from seneca.epochs.samplers import Kind, seed_of
from seneca.identity import Memory
from seneca.native.byte_batches import Travel, travel_of
from seneca.native.collate import collates_plainly, who_collates
from seneca.native.device import CopiedAhead, check_device
from seneca.native.explained import native_text, seed_text
from seneca.native.gap import Gap
from seneca.native.init_fn import can_be_left_out, only_seeds
from seneca.native.iterator import NativeIterator
from seneca.native.normalizer import Normalizer
from seneca.native.session import Session
from seneca.options import AutoWorkers, Options
from seneca.tuning.diagnosis import NOTHING_TO_SAY, Diagnosis
from seneca.views import Stats, table_html
from seneca.workers.dataset import SharedDataset
from seneca.workers.explained import order_text
from seneca.workers.iterators import iterate
from seneca.workers.sampler import OpportunisticBatchSampler

__all__ = ["DataLoader"]

logger = logging.getLogger(__name__)

NO_INDICES = "an IterableDataset has no indices by which jobs could share"
NOT_CALLED = "worker_init_fn is not called, because threads of this process prepare and no worker begins"

_T_co = TypeVar("_T_co", covariant=True)


class DataLoader(faces.DataLoader[_T_co]):
    """A ``torch.utils.data.DataLoader`` whose batches the jobs of this host prepare together.

    Every epoch delivers each sample exactly once, whatever other jobs do. Jobs that load the same files find
    each other. Jobs with equal transforms prepare each sample once for all of them. The cache keeps payloads
    in shared memory if keeping them saves time.

    The dataset decides how samples are prepared. :meth:`explain` says which way was found.

    * Threads of this process prepare files of pictures (``seneca.ImageFolder``, ``seneca.PictureList``,
      torchvision's ``ImageFolder`` and similar classes) with transforms that the native core knows:
      ``seneca.transforms``, and torchvision's of the same meaning. This is the native path.
    * torch's worker processes load any other map-style dataset. Jobs share its items if Seneca can find what
      the items are made of, or if the user gives ``key``.
    * torch alone loads an ``IterableDataset``, and nothing is shared.

    The sampler decides the order.

    * With ``shuffle=True``, Seneca draws a random order of its own if jobs may share augmented copies. Jobs
      share none with ``cache=None``, with another ``share`` than ``"augmented"``, or if the transform draws
      no random numbers. The order is then torch's.
    * With a ``DistributedSampler``, each process delivers the shard that the sampler assigns to it. It keeps
      the sampler's order if no other job shares.
    * Any other order is kept.

    Yields:
        On the native path ``(images, labels)``: float32 (or the transform's dtype) ``(B, 3, height, width)``,
        and int64 ``(B,)``. Otherwise what ``collate_fn`` makes of the dataset's items.

    Example:
        >>> import tempfile, seneca
        >>> from seneca import transforms as T
        >>> from seneca.testing import make_pictures
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

    def _set_up(self) -> None:
        _ = self._options, self._device  # a wrong value raises here, not in the first epoch
        self._session, self._gap = Session(), Gap()
        self._shared: SharedDataset | None = None
        self._memory = Memory()
        self._iterates_in = os.getpid()
        self._has_reported_stream = False
        self._normalizer: torch.nn.Module | None = None  # with uint8_batches=True, once it is known

    @property
    def _device(self) -> torch.device | None:
        return check_device(self.device)

    @property
    def last_indices(self) -> np.ndarray | None:
        """The indices of the samples in the native path's last batch; None: there was no batch."""
        return self._session.last_indices

    @last_indices.setter
    def last_indices(self, indices: np.ndarray | None) -> None:
        self._session.last_indices = indices

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # torch promises its own class
        with shielded:
            return self._begun()

    def _begun(self) -> Iterator[Any]:
        self._gap.asked()
        if self._iterator is not None and self._iterates_in != os.getpid():
            self._iterator = None  # it is the parent's, and so are its workers
        if self._iterator is not None and not self._still_suits(self._iterator):
            self._iterator = None  # its dataset is no longer native
        self._iterates_in = os.getpid()
        if self._device is not None and self._device.type == "cuda" and not torch.cuda.is_available():
            raise RuntimeError(
                f"device={self.device!r}, but torch sees no CUDA device; leave it out to load without"
            )
        progress = self._epoch_to_begin()
        with self._settled(progress):
            iterator = super().__iter__()
        if self._device is None:
            return iterator
        progress.watched = True
        return CopiedAhead(iterator, self._device, progress)

    def _identity(self) -> str | None:
        return None if isinstance(self.dataset, IterableDataset) else self._grade().identity()

    def _identify(self) -> Callable[[], str | None]:
        return self._shared_dataset()._identity

    @property
    def _pins(self) -> bool:
        """Whether batches are in page-locked memory, from which a GPU copies by itself."""
        on_cuda = self._device is not None and self._device.type == "cuda"
        return (self.pin_memory or on_cuda) and torch.cuda.is_available()

    def _get_iterator(self) -> Any:
        if isinstance(self.dataset, IterableDataset):
            if self.uint8_batches:
                self._travel(None, NO_INDICES).required()
            if self.cache is not None and not self._has_reported_stream:
                self._has_reported_stream = True
                logger.info("torch loads this, without sharing: %s", NO_INDICES)
            return iterate(self, self._stream())
        support = self._grade()
        rank, ranks = world()
        if ranks > 1 and rank == 0 and type(self.sampler) is RandomSampler and support.own is None:
            _warn_of_undivided_ranks(ranks)
        reason = self._not_native_because(support)
        if reason is None:
            self.check_worker_number_rationality()  # as torch does before each epoch
            if self.num_workers > 0 and not only_seeds(self.worker_init_fn):
                self._session.warn(NOT_CALLED)
            inputs = self._inputs(support)
            return NativeIterator(self, self._session, inputs, self._gap)
        self._gap.drop()
        if self.uint8_batches:
            self._travel(support, reason).required()
        if self.on_error == "skip":
            self._session.warn(f"on_error='skip' is the native path's; here what fails raises: {reason}")
        if self._options.channels_last:
            self._session.warn(f"memory_format is the native path's; here batches are contiguous: {reason}")
        if support.stages is None:
            self._warn_of_torch(support.why)
        shared = self._shared_dataset()
        shared.loaded_with(self.worker_init_fn)
        shared.look(support)
        if self._options.remote_wanted and not shared._session.servers:
            why = "nothing is shared" if shared.terms is None else "these are no files of pictures"
            self._session.warn(f"remote is not used, and all comes from storage: {why}; explain() says more")
        is_auto = isinstance(self.num_workers, AutoWorkers)
        self._session.cache = shared.join(
            batch_size=getattr(self._index_sampler, "batch_size", None) or 1,
            batches_ahead=self._batches_ahead(),
            threads=max(1, self.num_workers),
        )
        return iterate(
            self,
            self._batches_of(shared),
            shared,
            pins=self._pins,
            waited=shared._session.waited,
            cores=shared._session.core_share(self.num_workers, is_auto=is_auto),
        )

    def _grade(self) -> Support:
        if isinstance(self.dataset, SharedDataset):
            self.dataset.loaded_with(self.worker_init_fn)
            return self.dataset.look()
        inspect = functools.partial(
            inspect_dataset,
            self.dataset,
            key=self.key,
            channels_last=self._options.channels_last,
            shares=self.cache is not None,
            worker_init_fn=self.worker_init_fn,
            memory=self._memory,
            verify_files=self.verify_files,
        )
        support = inspect(for_workers=False)
        if support.name != "native" or support.stages is not None or not self._not_native_because(support):
            return support
        return inspect()

    def _still_suits(self, iterator: Any) -> bool:
        """Whether a persistent iterator can load another epoch.

        torch's worker processes stay. As in torch's own loader, they have the dataset as it was when they
        began. The native path has no copy of the dataset. It loads the dataset as it is now, as long as that
        is native.
        """
        if not isinstance(iterator, NativeIterator):
            if self._shared is not None:
                self._shared.look_for_workers_that_stay()
            return True
        support = self._grade()
        suits = self._not_native_because(support) is None
        if suits:
            iterator.next_inputs = self._inputs(support)
        return suits

    def _shared_dataset(self) -> SharedDataset:
        if isinstance(self.dataset, SharedDataset):  # its own arguments hold
            self._shared = self.dataset
            return self._shared
        options = self._shared_options()
        if self._shared is None or self._shared.dataset is not self.dataset:
            self._shared = SharedDataset(self.dataset, **options)
        else:
            for name, value in options.items():
                before = getattr(self._shared, name)
                if before is not value and not alike(before, value):
                    setattr(self._shared, name, value)
        return self._shared

    def _shared_options(self) -> dict[str, Any]:
        """The arguments of a :class:`SharedDataset` in this loader."""
        cache = self.cache.name if isinstance(self.cache, SampleCache) else self.cache
        return {name: getattr(self, name) for name in Options.of_dataset()} | {"cache": cache}

    def _batches_of(self, shared: SharedDataset) -> TrackedBatches:
        """The batches of an epoch: planned ones if Seneca may choose the order or knows it ahead."""
        batches: Any = self._index_sampler
        if shared.terms is None or not shared.terms.shares or not self._plans_order():
            return self._tracked(mark=shared.batch)
        planned = OpportunisticBatchSampler(
            batches.sampler, batches.batch_size, batches.drop_last, batches_ahead=self._batches_ahead()
        )
        planned.shared, planned.threads = shared, max(1, self.num_workers)
        planned.is_subset = not self._goes_over_dataset()
        return TrackedBatches(planned, lambda loader: loader._drawn_batches(planned), self)

    def _inputs(self, support: Support) -> Any:
        travel = self._travel(support, None)
        if self.uint8_batches:
            travel.required()
        return self._session.inputs(
            support, self._options, pinned=self._pins, is_planned=self._plans_order(), travel=travel
        )

    def _travel(self, support: Support | None, not_native_because: str | None) -> Travel:
        """How batches leave the threads. The same normaliser serves as long as it has to do the same."""
        travel = travel_of(self, self._device, support, not_native_because)
        if not self.uint8_batches or travel.why_not:
            self._normalizer = None
        elif repr(self._normalizer) != repr(travel.normalizer or torch.nn.Identity()):
            self._normalizer = travel.normalizer or torch.nn.Identity()
        if not isinstance(self._normalizer, Normalizer):
            return travel
        return travel._replace(normalizer=self._normalizer)

    @property
    def normalizer(self) -> torch.nn.Module:
        """What is left to do of a batch's pictures, as a module for the training step.

        With ``uint8_batches=True`` and without ``device``, it makes of a uint8 batch on any device what the
        transform would make: scaled, normalised, in the transform's type. Otherwise batches are complete, and
        it returns what it gets. It pickles. It is the same object in every epoch as long as the transform
        stays.

        Raises:
            ValueError: With ``uint8_batches=True``: batches cannot be uint8; the message says why.

        Example:
            >>> import tempfile, seneca
            >>> from seneca import transforms as T
            >>> from seneca.testing import make_pictures
            >>> folder = tempfile.TemporaryDirectory()
            >>> _ = make_pictures(folder.name, count=6, classes=2)
            >>> normalised = T.Compose([T.Resize((8, 8)), T.Normalize((0.5,) * 3, (0.25,) * 3)])
            >>> train = seneca.ImageFolder(folder.name, transform=normalised)
            >>> loader = seneca.DataLoader(train, batch_size=4, cache=None, uint8_batches=True)
            >>> for images, labels in loader:
            ...     print(images.dtype, loader.normalizer(images).dtype)
            torch.uint8 torch.float32
            torch.uint8 torch.float32
            >>> folder.cleanup()
        """
        if not self.uint8_batches or self._device is not None:
            return torch.nn.Identity()
        if self._normalizer is None:
            if isinstance(self.dataset, IterableDataset):
                travel = self._travel(None, NO_INDICES)
            else:
                support = self._grade()
                travel = self._travel(support, self._not_native_because(support))
            travel.required()
        assert self._normalizer is not None
        return self._normalizer

    def _plans_order(self) -> bool:
        """Whether Seneca knows which samples an epoch has, and may change their order for copies."""
        exchanges = self.share == "augmented" and self.cache is not None
        return self._goes_over_dataset() or (exchanges and self._kind(subsets=True) is Kind.SUBSET)

    def _drawn_batches(self, planned: OpportunisticBatchSampler) -> EpochBatches:
        planned.looked = True  # this loader has inspected it, before it made or reset the iterator
        return planned.epoch_batches(self._epoch_of_iterator(), self)

    def _batches_ahead(self) -> int:
        """Batches under way in worker processes, including the one that is asked for."""
        return 1 + self.num_workers * (self.prefetch_factor or 0)

    def _sample_seed(self, progress: EpochProgress) -> int | None:
        return seed_of(progress.generators) if self.share == "exact" else None

    def _record(self, plan: EpochPlan, progress: EpochProgress) -> Any:
        return self._shared_dataset().record(self, plan, progress)

    def _warn_of_torch(self, why: tuple[str, ...]) -> None:
        if self.cache is not None:
            self._session.warn(f"torch loads this, without sharing: {'; '.join(why)}")

    def explain(self) -> str:
        """Say in plain words how this dataset is loaded, what of it is shared, with whom, and why not more.

        This inspects the dataset as it is now, as the beginning of an epoch does.

        Returns:
            One line with that. If anything is shared, a second line says what the dataset's fingerprint
            covers, and what it does not. If files could not be kept RECODED, a line says how many and why. If
            torch's workers load it, a third line says how many samples were compared with what other jobs
            make. A last line names what differs in the datasets of other jobs
            that have the same class and length, and are not shared.
        """
        if isinstance(self.dataset, IterableDataset):
            return "; ".join([f"not shared: {NO_INDICES}", *self._how_travels(None, NO_INDICES)])
        support = self._grade()
        reason = self._not_native_because(support)
        if reason is None:
            why = self._session.why_given_up(support.files)
            of_job = self._of_seed() + same_job_text(self._session.cache, self._session)
            return native_text(
                support,
                self._options,
                why,
                besides=self._besides(support),
                of_job=of_job,
                unrecoded=self._session.counts.of_unrecoded(),
            )
        first, *more = self._shared_dataset().explain(support).split("\n")
        if more:
            is_planned = self._plans_order() or isinstance(self._index_sampler, OpportunisticBatchSampler)
            first += self._of_seed() + ("" if is_planned else order_text(self._orders()[1], self.share))
        if support.name == "native":
            first += f"; loaded by torch's workers, because {reason}"
        first = "; ".join([first, *self._how_travels(support, reason)])
        return "\n".join([first, *more])

    def _how_travels(self, support: Support | None, not_native_because: str | None) -> list[str]:
        """Describe how batches leave the threads, if uint8 ones are wanted."""
        text = self._travel(support, not_native_because).describe(self._device)
        return [text] if text else []

    def _besides(self, support: Support) -> list[str]:
        """Describe what of the user's code is used on the native path."""
        found = []
        if not self._plans_order():
            found.append(f"the order is that of {type(self._orders()[1]).__name__}")
        if not collates_plainly(self, support):
            found.append(who_collates(self, support))
        if self.worker_init_fn is not None:
            found.append(NOT_CALLED)
        return found + self._how_travels(support, None)

    def _of_seed(self) -> str:
        """Describe with which jobs exact copies are shared; empty: copies are not exact."""
        return seed_text(has_generator=bool(self._generators())) if self.share == "exact" else ""

    def stats(self) -> dict[str, Any]:
        """Counters of this loader so far, in all its epochs.

        Returns:
            A dict:

            * ``served``: samples by the form they came from: ``storage``, ``encoded``, ``recoded``,
              ``decoded``, ``augmented``.
            * ``unrecoded``: files that might have been kept RECODED and were not, by the cause: ``kind``
              (they are of a kind that has no such form), ``damaged``, ``large`` (it would be too large).
            * ``prepared``: augmented copies made here.
            * ``staged``: copies in ``prepared`` that were made for other jobs too.
            * ``delivered``: samples.
            * ``skipped``: samples that could not be prepared.
            * ``repeated``: samples delivered a second time, because a rank had skipped samples and no others
              were left.
            * ``early``: samples that were prepared before their epoch began, on the native path.
            * ``unshared``: items that cannot be laid out in shared memory.
            * ``damaged``: samples read from storage because their payload in the cache was damaged.
            * ``checked``: samples served from the cache that were made again.
            * ``different``: samples that this job made, and that differed from what was served, or from what
              other jobs had made.
            * ``compared``: samples that both this job and another have made by the dataset's own code, and
              that were equal, by form.
            * ``in_vain``: with ``share="exact"`` on the native path: samples in ``prepared`` that another job
              was to make, but did not make in time.
            * ``copies_from_servers``: with ``share="exact"`` on the native path: augmented copies that other
              hosts had left on the servers in ``remote``. They are in ``served`` too.
            * ``read_bytes``: bytes read from storage, if Seneca reads.
            * ``stall_s``: seconds that iterating waited.
            * ``workers``: threads, or worker processes, that prepare now.
            * ``peer_wait_s``: with ``share="exact"`` on the native path: seconds in which a batch lacked only
              copies that other jobs were making, or was not drawn because other jobs were far behind.
            * ``longest_peer_wait_s``: the longest of these waits for one batch.
            * ``cache``: what the shared cache holds, see :meth:`seneca.SampleCache.stats`. None: there is no
              cache.
            * ``remote``: what this process and its workers have asked of each server in ``remote``:
              ``hits``, ``misses``, ``skipped`` (it was left alone), ``stored``, ``short_lived`` (copies that
              were sent, and what hosts send each other; most are in ``stored``), ``refused`` (it was full),
              ``failures``, ``wrong`` (values with a wrong checksum), ``bytes`` and ``get_s`` of the hits,
              ``left_alone``, and the last ``message``.
        """
        holds, did = self._cache_holds(), self._session.counts
        compared = dict.fromkeys(("encoded", "decoded", "augmented"), 0)
        counts = {**vars(did), "served": dict(did.served), "unshared": 0, "compared": compared}
        cores = self._session.cores or (None if self._shared is None else self._shared._session.cores)
        counts["workers"] = int(self.num_workers) if cores is None else cores.threads
        counts["unrecoded"] = did.of_unrecoded()
        for name in ("times", "spent_s", "blocked_s", "decoded_bytes", "from_servers", "from_servers_s"):
            del counts[name]
        if self._shared is not None:
            of_workers = self._shared.stats()
            counts["served"] = {form: n + of_workers["served"][form] for form, n in counts["served"].items()}
            for name in set(of_workers) & set(counts) - {"served", "compared", "remote"}:
                counts[name] += of_workers[name]
            compared |= of_workers["compared"]
            counts["stall_s"] += self._shared._session.stall_s or 0.0
        remote = {} if self._session.remote is None else self._session.remote.stats()
        if self._shared is not None:
            remote |= self._shared._session.remote_stats()
        return Stats({**counts, "cache": holds, "remote": remote})

    def _cache_holds(self) -> dict[str, Any] | None:
        """What the shared cache holds; None: there is none, its lock is taken, or it was given up."""
        cache = self._session.cache
        with contextlib.suppress(BlockingIOError, Unlinked):
            return None if cache is None or cache.segment.closed else cache.stats()
        return None

    def __repr__(self) -> str:
        facts = "; ".join(f"{name} {value}" for name, value in self._facts())
        return f"<{type(self).__qualname__}: {facts}>"

    def _repr_html_(self) -> str:
        return table_html(self._facts())

    def _facts(self) -> Iterator[tuple[str, str]]:
        """What it loads, how and with whom, as far as that is known now. This inspects nothing."""
        size = ""
        with contextlib.suppress(TypeError, NotImplementedError):
            size = f", {len(cast(Sized, self.dataset)):,} samples"
        yield "dataset", f"{type(self.dataset).__name__}{size}"
        by = (
            "none, single samples"
            if self.batch_sampler is None
            else f"by {type(self.batch_sampler).__name__}"
        )
        yield "batches", f"of {self.batch_size}" if self.batch_size else by
        if self._under_way is None:
            yield "epoch", "none yet"
            return
        if self._shared is None and self._session.telemetry is None:
            yield "loaded", "by torch alone"
            return
        session = self._session if self._shared is None else self._shared._session
        n = self.stats()["workers"]
        by = f"in {n} threads, natively" if self._shared is None else f"by {n} worker processes"
        yield "loaded", by if n else "in the thread that iterates"
        if self._session.cache is not None and (holds := self._cache_holds()) is not None:
            jobs = "one job" if holds["jobs"] == 1 else f"{holds['jobs']} jobs"
            yield "cache", f"{self._session.cache.name!r} of {jobs}, split {holds['split']}"
        if (found := session.diagnosis(may_measure=False)) is not None:
            number = f"{found.epoch}{'' if found.ended else ', under way'}"
            rate = f", {found.delivered / found.seconds:,.0f} samples/s" if found.seconds else ""
            waited = "" if found.waited is None else f", {found.waited:.0%} of the time waited"
            yield "epoch", f"{number}: {found.delivered:,} samples{rate}{waited}"

    def diagnose(self) -> Diagnosis:
        """Say why the training loop waits for samples, and what would remove the wait.

        It describes the epoch that began last: so far, or as a whole if it has ended. At the end of each
        epoch the logger ``seneca.epochs`` logs the same line, at level INFO. If the host was not measured
        yet, this may read some files, for some tenths of a second.

        Returns:
            A :class:`Diagnosis`. ``print(loader.diagnose())`` prints it as one line.

        Raises:
            RuntimeError: No epoch has begun, or torch loads the dataset alone.

        Example:
            >>> import torch, seneca
            >>> data = torch.utils.data.TensorDataset(torch.arange(600))
            >>> loader = seneca.DataLoader(data, batch_size=2, cache=None)
            >>> for batch in loader:
            ...     pass
            >>> loader.diagnose().delivered
            600
        """
        found = self._session.diagnosis(may_measure=True)
        if self._shared is not None:
            found = self._shared._session.diagnosis(may_measure=True) or found
        if found is None:
            raise RuntimeError(NOTHING_TO_SAY)
        return found

    def _not_native_because(self, support: Support) -> str | None:
        """Why the native path cannot serve this, or None."""
        if support.name != "native":
            return "; ".join(support.why)
        if isinstance(self.dataset, SharedDataset):
            return "it is a SharedDataset, for torch's workers"
        if not self._goes_over_dataset():
            if isinstance(self.batch_sampler, OpportunisticBatchSampler):
                return "its batch sampler is Seneca's for torch's loader"
            if self.share == "exact" and self.cache is not None:
                return "exact copies need an order that Seneca knows: torch's samplers over the whole dataset"
        if not can_be_left_out(self.worker_init_fn, runs_python=not collates_plainly(self, support)):
            return "its worker_init_fn may set up what items depend on"
        return None

    def __getstate__(self) -> dict[str, Any]:
        # Membership and counts belong to this process. The copy joins for itself.
        cache = self.cache.name if isinstance(self.cache, SampleCache) else self.cache
        mine = {
            "_session": self._session.copied(),
            "_gap": Gap(),
            "_shared": None,
            "_iterator": None,
            "_under_way": None,
            "_memory": Memory(),
        }
        return {**vars(self), "cache": cache, **mine}


@functools.cache
def _warn_of_undivided_ranks(ranks: int) -> None:
    """Warn, once a process."""
    warn(
        f"each of the {ranks} processes of this job loads every sample, as with torch's loader; to divide an "
        "epoch among them, give sampler=torch.utils.data.DistributedSampler(dataset) instead of shuffle=True"
    )
