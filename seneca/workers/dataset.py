"""A dataset whose items other jobs may have made, also for torch's own DataLoader.

::

    OpportunisticBatchSampler (the loader's process)        SharedDataset (worker processes)
        draws a batch  ------ PlannedBatch: indices, claims ------>  takes over what was drawn
                                                                     makes the rest, stages copies

A list of indices that nobody planned is served as well. Copies that others made are then looked up.

Before a process shares, it makes sure that it knows the dataset as it is now: see
:mod:`seneca.workers.inspection`.
"""

from __future__ import annotations

import copy
import functools
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import Subset, get_worker_info

from seneca import faces
from seneca._runtime.distributed import belong_to_job, job_key
from seneca._runtime.segment_folder import segment_folder
from seneca._runtime.warn import warn
from seneca.audit.record import DeliveryRecorder, record_deliveries
from seneca.cache import MISTAKES, SampleCache, cache_name, distrust_text, shared_cache
from seneca.cache.objects import sweep_at_end
from seneca.data.file_lists import Seen
from seneca.data.stages import Pictures
from seneca.data.support import Support
from seneca.data.traits import Traits
from seneca.epochs.lengths import length_of
from seneca.epochs.plan import EpochPlan
from seneca.epochs.progress import EpochProgress
from seneca.errors import NoSpaceError, SegmentError
from seneca.forms import Form
from seneca.partition import Jobs
from seneca.tuning.neighbours import neighbours_text, sharers_text
from seneca.views import Stats
from seneca.workers import explained
from seneca.workers.inspection import Inspection
from seneca.workers.prepare import Preparer
from seneca.workers.proof import Marks, ProofState, ProofTable
from seneca.workers.session import WorkersSession
from seneca.workers.terms import Batch, PlannedBatch, Terms

__all__ = ["SharedDataset"]


class SharedDataset(faces.SharedDataset):
    """A map-style dataset whose items the jobs of this host make together.

    It works in any ``torch.utils.data.DataLoader``, with torch's worker processes and the user's
    ``collate_fn``. With an :class:`OpportunisticBatchSampler` it shares as much as possible. With any
    other sampler, it only looks up what other jobs happen to have made. Equal datasets of several jobs
    find each other if they can be fingerprinted; :meth:`explain` says what was found.

    Raises:
        TypeError: The dataset is an ``IterableDataset``, which has no indices, or a :class:`SharedDataset`
            already; or ``cache`` is neither a name nor None.

    Example:
        >>> import torch, seneca
        >>> data = torch.utils.data.TensorDataset(torch.arange(6))
        >>> shared = seneca.SharedDataset(data, cache_bytes="4MiB")
        >>> sampler = torch.utils.data.RandomSampler(shared)
        >>> batches = seneca.OpportunisticBatchSampler(sampler, batch_size=4, drop_last=False)
        >>> loader = torch.utils.data.DataLoader(shared, batch_sampler=batches)
        >>> sorted(int(value) for batch, in loader for value in batch)
        [0, 1, 2, 3, 4, 5]
    """

    _own = faces.SharedDataset._own | {"terms"}

    def _set_up(self) -> None:
        if isinstance(self.dataset, SharedDataset):
            raise TypeError("a SharedDataset goes into a DataLoader as it is; or share its .dataset anew")
        if isinstance(self.dataset, torch.utils.data.IterableDataset):
            raise TypeError(f"a map-style dataset can be shared, but got {type(self.dataset).__name__}")
        if self.cache is not None and not isinstance(self.cache, str):
            raise TypeError(f'cache is "auto", a name or None, but got {self.cache!r}')
        self._inspection = Inspection()
        sweep_at_end()
        _ = self._options  # a wrong value raises here, not in the first epoch
        self._job_key = job_key(self.job)
        self._has_joined = False
        self._folder: str | None = None  # of the cache: the first that was joined; workers have the same
        self._cache: SampleCache | None = None  # held between epochs, so that what is kept stays
        self._warned = False
        self._reported = ""  # the last warning about examples
        self._last_compared: dict[Form, int] = {}
        self._preparer: Preparer | None = None
        self._proof_table = ProofTable()  # the verdict of examples; all processes see it
        self._marks: Marks | None = None  # what they have made themselves; likewise
        self._session = WorkersSession()

    @property
    def terms(self) -> Terms | None:
        """The terms by which this process shares the dataset; None: it does not."""
        return self._inspection.terms

    def __getitem__(self, index: Any) -> Any:
        # A dataset may make other items by batches than one by one. Then only batches are shared.
        made = None if getattr(self._beneath(), "__getitems__", None) else self._made_here([index])
        return self.dataset[index] if made is None else made[0]

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """The items of a batch, in its order; errors are the dataset's own."""
        made = self._made_here(indices)
        if made is not None:
            return made
        with self._session.timed():
            if getattr(self.dataset, "__getitems__", None):
                return self.dataset.__getitems__(list(indices) if isinstance(indices, Batch) else indices)
            return [self.dataset[index] for index in indices]

    def _beneath(self) -> Any:
        """The dataset beneath ``Subset``."""
        base = self.dataset
        while type(base) is Subset:
            base = base.dataset
        return base

    def _made_here(self, indices: Sequence[Any]) -> list[Any] | None:
        """The items of a batch; None: they are not shared, or an index is not one of a sample."""
        if not isinstance(indices, (list, tuple)) or not self._inspection.is_current(indices, self.look):
            return None
        if not isinstance(indices, PlannedBatch):
            count = len(self.dataset)
            if not all(type(index) is int and 0 <= index < count for index in indices):
                return None
        inspection = indices.inspection if isinstance(indices, Batch) else self._inspection.number
        maker = self._maker_here(inspection)
        made = maker.make(indices, inspection, alone=self._inspection.alone)
        if maker.distrusted:
            self._note_distrust(maker.terms, maker.cache)
        if not isinstance(indices, Batch):
            self.tell_of_proof()  # for a Batch, the loader's process does so
        if not self._inspection.alone and (changed := self._changed_by_items()):
            # Its items may depend on those made before. No other job makes the same.
            self._inspection.alone = True
            text = explained.changed_text(self._beneath(), changed)
            self._proof_table.write(maker.terms.names, ProofState.REFUSED, text)
            if not isinstance(indices, Batch):
                self.tell_of_proof()
        self._inspection.settle()
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if not name.startswith("_") and "_inspection" in vars(self):
            self._inspection.forget()  # even if a key says that items are the same

    def _identity(self) -> str | None:
        """The fingerprint of the samples in their order, as of the last inspection; None: it is not known."""
        support = self._inspection.support
        return None if support is None else support.identity()

    def explain(self, support: Support | None = None) -> str:
        """Say in plain words what of this dataset is shared, with whom, and why not more.

        This inspects the dataset. For ``support`` see :meth:`look`.
        """
        support = self.look(support)
        terms = self.terms
        if self._inspection.alone:
            return f"not shared: {self._proof_table.text}"
        if terms is None:
            return explained.not_shared_text(support, share=self.share, has_cache=self.cache is not None)
        name = cache_name(terms.name, terms.source)
        first = explained.shared_text(terms, support, name) + self._session.describe_job(self._cache)
        if self._session.makes_quicker(terms):
            first += f"; {explained.MADE_QUICKER}"
        lines = [
            first,
            sharers_text(name, job_key(self.job), self._folder),
            support.describe_fingerprint(),
        ]
        compared = explained.compared_text(terms, self._proof_table, self._compared())
        lines.append(compared + self._session.describe_servers())
        traits = Traits.of(support)
        if traits is not None and (text := neighbours_text(traits, name, job_key(self.job), self._folder)):
            lines.append(text)
        return "\n".join(lines)

    def _compared(self) -> dict[Form, int]:
        """How many samples of each form this job and others have made, which were equal."""
        segment = None if self._cache is None else self._cache.segment
        if self.terms is not None:
            self._last_compared = explained.compared_counts(self.terms, segment, self._last_compared)
        return {} if self.terms is None else self._last_compared

    def stats(self) -> dict[str, Any]:
        """Counters of this job's processes with this dataset so far.

        Returns:
            A dict:

            * ``served``: items by the form they came from.
            * ``prepared``: augmented copies made here.
            * ``staged``: copies in ``prepared`` that were made for other jobs too.
            * ``unshared``: items that cannot be laid out in shared memory.
            * ``damaged``: items made from storage because their payload in the cache was damaged.
            * ``delivered``: all items.
            * ``read_bytes``: bytes of ENCODED payloads that were read from storage.
            * ``checked``: items served from the cache that were made again.
            * ``different``: items that this job made, and that were not what other jobs had made.
            * ``compared``: samples that this job and another have made, and that were equal, by form.
            * ``remote``: as in :meth:`seneca.DataLoader.stats`.
        """
        counts = {form.name.lower(): count for form, count in self._compared().items()}
        remote = self._session.remote_stats()
        return Stats({**self._session.stats(), "compared": counts, "remote": remote})

    def look(self, support: Support | None = None, *, files_found: Seen | None = None) -> Support:
        """Inspect the dataset as it is now. Batches are planned and items made by what this finds.

        Args:
            support: What was just found about the dataset; None: this inspects it.
            files_found: See :func:`seneca.data.support.inspect_dataset`.
        """
        before = self.terms
        support = self._inspection.inspect(self.dataset, self._options, support, files_found)
        if get_worker_info() is None:
            self._job_key = job_key(self.job)  # this object may have been made in another process
        self._take_terms(before)
        return support

    def _take_terms(self, before: Terms | None) -> None:
        """Make items by the terms that were just found. ``before``: the terms until now."""
        terms = self.terms
        if self._cache is not None and not self._cache.segment.closed and self._cache.segment.distrusted:
            self._marks = None  # they are of samples that were compared with those in that cache
        if terms is not None and (self._marks is None or self._marks.names != terms.names):
            self._marks = Marks(terms.names, terms.n_samples)
        is_of_files = terms is not None and isinstance(terms.stages, Pictures)
        self._session.use_servers(self._options.remote_wanted if is_of_files else ())
        self._inspection.alone = self.tell_of_proof()
        if self._preparer is not None and self._preparer.distrusted:
            self._preparer = None  # its cache was given up; another may have been begun
        if terms is None or not terms.shares_as(before):
            self._session.copy_bytes = 0
        if self._marks is not None and self._cache is not None and get_worker_info() is None:
            self._marks.expect_suspects(self._cache.segment, terms)

    def loaded_with(self, worker_init_fn: Callable[[int], None] | None) -> None:
        """Set what worker processes run before they make items."""
        self._inspection.set_init(worker_init_fn)

    def look_for_workers_that_stay(self) -> None:
        """As :meth:`look`, for persistent workers, which have the dataset as it was when they began."""
        if not self._inspection.differs_from_workers():
            self.look()

    def batch(self, indices: list[int], epoch: tuple[int, int]) -> Batch:
        """These indices as a batch of this epoch, planned for the last inspection in this process."""
        return self._inspection.batch(indices, epoch if self.share == "exact" else None)

    def _note_distrust(self, terms: Terms, cache: SampleCache | None) -> None:
        """Note that the cache was distrusted. No process of this dataset shares while its names are these."""
        why = None if cache is None or cache.segment.closed else cache.segment.why_distrusted()
        if why is None or self._proof_table.read(terms.names) is ProofState.REFUSED:
            return
        if why[-1] == Form.STORAGE:
            return  # the dataset has changed: this segment is given up, and the next epoch begins another
        assert cache is not None
        text = distrust_text(cache.name, *why, own_job=why[0] == cache.segment.job_key)
        self._proof_table.write(terms.names, ProofState.REFUSED, text)

    def tell_of_proof(self) -> bool:
        """Whether nothing is shared because jobs make different items. If that is so, warn the user once."""
        if self._cache is not None and self.terms is not None and self._cache.segment.distrusted:
            self._note_distrust(self.terms, self._cache)
        if self.terms is None or self._proof_table.read(self.terms.names) is not ProofState.REFUSED:
            return False
        if self._reported != (text := self._proof_table.text):
            self._reported = text
            warn(text)
        return True

    def record(self, loader: Any, plan: EpochPlan, progress: EpochProgress) -> DeliveryRecorder | None:
        """Begin to write down what an epoch of ``loader`` delivers; None: no audit is wanted.

        Also begin to measure the epoch, and to publish it for those who watch the cache.
        """
        terms = self.terms
        workers = getattr(loader, "num_workers", 0)
        support = self._inspection.support
        traits = None if support is None or terms is None else Traits.of(support)
        self._session.begin(plan, progress, self._cache, traits, job=self.job, workers=workers)
        return record_deliveries(
            loader,
            plan,
            progress,
            samples=length_of(self),
            job=job_key(self.job),
            dataset=b"" if terms is None else terms.source,
            own=None if terms is None else terms.own,
            exact=terms.names_of_epoch(plan.seed, plan.number)[1] if terms is not None and terms.exact else 0,
        )

    def _changed_by_items(self) -> list[str]:
        """The attributes of the dataset that making items has changed, if its names may have changed."""
        inspection = self._inspection
        changed = [] if self.key is not None else inspection.changed_attributes()
        if (
            changed
            and self._proof_table.take_inspection()
            and inspection.has_same_names(self.dataset, self._options)
        ):
            return []
        return changed

    def join(
        self, *, batch_size: int | None = None, batches_ahead: int = 1, threads: int | None = None
    ) -> SampleCache | None:
        """Join the cache by the terms of the last inspection; None: nothing is shared.

        This process stays in the cache until this object is collected, even while no worker process is there.

        Args:
            batch_size: The batch size of an epoch that begins; None: no epoch begins.
            batches_ahead: The most batches of that epoch that are under way.
            threads: The number of processes that prepare it; None: it is not known.

        Raises:
            ValueError: Copies are to be exact, and cannot be.
            NoSpaceError: Shared memory has no room for the cache.
            SegmentMismatchError: The cache is another dataset's, and this process has not joined before.
            SegmentFolderError: Likewise, and ``SENECA_DIR`` names a folder that cannot hold a cache.
        """
        if not self._inspection.number:
            self.look()
        terms = self.terms
        if self.share == "exact" and (
            why := explained.why_not_exact(terms, self._inspection.support, has_cache=self.cache is not None)
        ):
            raise ValueError(f"share='exact' is not possible here, because {why}; give another share")
        if terms is None or self._inspection.alone:
            return None
        if get_worker_info() is not None:
            belong_to_job(self._job_key)
        if self._folder is None:
            self._folder = segment_folder()
        try:
            self._cache = shared_cache(
                terms.name,
                terms,
                cache_bytes=terms.cache_bytes,
                split=terms.split,
                keep=terms.keep,
                job=self.job,
                folder=self._folder,
                on_demand=terms.on_demand,
            )
        except SegmentError as error:
            # Before the first epoch it is the user's mistake. A job that runs does not end because of it.
            if isinstance(error, NoSpaceError) or (isinstance(error, MISTAKES) and not self._has_joined):
                raise
            if not self._warned:
                self._warned = True
                warn(f"going on without the shared cache: {error}")
            return None
        self._has_joined = True
        if get_worker_info() is None:
            job = None
            if batch_size is not None:
                size, ahead = min(batch_size, terms.n_samples), batches_ahead - 1
                job = Jobs(batch_size=size, ahead=ahead, threads=threads, share=self.share)
            self._session.joined(terms, self._cache, job, self.share)
        return self._cache

    def _maker_here(self, inspection: int) -> Preparer:
        """This process's preparer, for the present terms. A forked child makes its own."""
        assert self.terms is not None and self._marks is not None
        maker = self._preparer
        if maker is not None and maker.pid != os.getpid():
            maker = None
        if maker is not None and self.terms.shares_as(maker.terms) and not maker.is_outdated(inspection):
            if maker.terms is not self.terms:
                maker.terms = self.terms
            return maker
        if maker is not None:
            if maker.is_outdated(inspection):
                self._marks = Marks(self.terms.names, self.terms.n_samples)
            maker.close()
        cache = self.join()
        worker = get_worker_info()
        self._preparer = Preparer(
            self.terms,
            cache,
            self._session.counts_of(None if worker is None else worker.id),
            table=self._proof_table,
            marks=self._marks,
            vouched=self.key is not None,
            check_every=self._options.check_rate,
            first=self.check_every == "first",
            changed=functools.partial(_ask, weakref.ref(self._inspection), Inspection.has_changed),
            changed_elsewhere=functools.partial(
                _ask, weakref.ref(self._inspection), Inspection.has_changed_elsewhere
            ),
            remote=self._session.remote_here(),
        )
        return self._preparer

    def __fingerprint__(self) -> Any:
        """The value that names the items, for fingerprints of datasets that contain this one."""
        return self.dataset if self.key is None else (self.key, len(self))

    def __getstate__(self) -> dict[str, Any]:
        job = self._job_key if get_worker_info() is not None else job_key(self.job)
        own: dict[str, Any] = {"_preparer": None, "_cache": None, "_job_key": job}
        own["_folder"] = self._folder or segment_folder()  # a fork server may have another environment
        return {**vars(self), **own, "_inspection": copy.copy(self._inspection)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if not self._session.is_for_worker:  # pickled for another job
            self._proof_table = ProofTable()
            self._marks = None
            self._folder = None


def _ask(inspection: weakref.ref[Inspection], question: Callable[[Inspection], bool]) -> bool:
    """The last inspection's answer to a question; False: the dataset is gone."""
    here = inspection()
    return here is not None and question(here)
