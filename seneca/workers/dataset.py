"""A dataset whose items other jobs may have made, also for torch's own DataLoader.

::

    OpportunisticBatchSampler (the loader's process)        SharedDataset (worker processes)
        draws a batch  ------ PlannedBatch: indices, claims ------>  takes over what was drawn
                                                                     makes the rest, stages copies

A list of indices that nobody planned is served as well. Copies that others made are then looked up.

Before a process shares, it makes sure that it knows the dataset as it is now: see
:meth:`SharedDataset._is_current`.
"""

from __future__ import annotations

import functools
import itertools
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
from seneca.data.files import Seen
from seneca.data.kinds.fingerprints import seeds_only
from seneca.data.stages import Pictures
from seneca.data.support import Support, inspect_dataset
from seneca.data.traits import Traits
from seneca.epochs.lengths import length_of
from seneca.epochs.plan import EpochPlan
from seneca.epochs.progress import EpochProgress
from seneca.errors import NoSpaceError, SegmentError
from seneca.forms import Form
from seneca.identity import Attributes, Memory, Watch
from seneca.partition import Jobs
from seneca.tuning.neighbours import neighbours_text
from seneca.workers import explained
from seneca.workers.callers import asking_fetcher, init_of_worker
from seneca.workers.prepare import Preparer
from seneca.workers.proof import Board, Marks, Verdict
from seneca.workers.session import WorkersSession
from seneca.workers.terms import Batch, Names, PlannedBatch, Terms

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
        sweep_at_end()
        self._init: Callable[[int], None] | None = None  # what worker processes run first
        self._is_init_known = False
        _ = self._options  # a wrong value raises here, not in the first epoch
        self._job_key = job_key(self.job)
        self._has_joined = False
        self._folder: str | None = None  # of the cache: the first that was joined; workers have the same
        self._cache: SampleCache | None = None  # held between epochs, so that what is kept stays
        self._memory = Memory()
        self._warned = False
        self._told = ""  # the last warning about examples
        self._last_compared: dict[Form, int] = {}
        self._maker: Preparer | None = None
        self._board = Board()  # the verdict of examples; all processes see it
        self._marks: Marks | None = None  # what they have made themselves; likewise
        self._session = WorkersSession()

    def _forget(self) -> None:
        """Forget every look at the dataset."""
        self.terms: Terms | None = None
        self._stays = False  # whether the dataset has changed here, while persistent workers have the former
        self._looks = 0  # the number of the last look; 0: there was none
        self._current: set[int] = set()  # looks for which ``terms`` are right
        self._asker: weakref.ref[Any] | None = None  # the fetcher for which ``terms`` are right
        self._seen: Support | None = None
        self._attributes: Attributes | None = None  # of the dataset, as of the last look
        self._watch: Watch | None = None
        self._alone = False  # whether items are made as ``terms`` say, but not shared
        self._looked_in = 0  # the process that looked last

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
        if not isinstance(indices, (list, tuple)) or not self._is_current(indices):
            return None
        if not isinstance(indices, PlannedBatch):
            count = len(self.dataset)
            if not all(type(index) is int and 0 <= index < count for index in indices):
                return None
        look = indices.look if isinstance(indices, Batch) else self._looks
        maker = self._maker_here(look)
        made = maker.make(indices, look, alone=self._alone)
        if maker.distrusted:
            self._note_distrust(maker.terms, maker.cache)
        if not isinstance(indices, Batch):
            self.tell_of_proof()  # for a Batch, the loader's process tells
        if not self._alone and (changed := self._changed_by_items()):
            # Its items may depend on those made before. No other job makes the same.
            self._alone = True
            text = explained.changed_text(self._beneath(), changed)
            self._board.write(maker.terms.names, Verdict.REFUSED, text)
            if not isinstance(indices, Batch):
                self.tell_of_proof()
        if self._watch is not None:
            self._watch.settle()  # making items may change what it has changed, and so may its __getstate__
        return made

    def _is_current(self, indices: Sequence[Any]) -> bool:
        """Whether items may be shared: there are ``terms``, and they are those of the dataset as it is now.

        This looks again if needed. For that it has to know the epoch for which items are asked. If Seneca's
        loader or batch sampler asks, it says which look it made for the epoch. If torch's own loader asks, it
        has one fetcher for each epoch in each process. If anybody else asks, the epoch is not known, and
        nothing is shared.
        """
        if isinstance(indices, Batch):
            asker, is_known = None, indices.look in self._current
            if not is_known and self._looks and self.terms is not None and indices.found == self.terms.names:
                is_known = self._knows_files(indices)  # that look found what this process knows
        else:
            asker = asking_fetcher()
            if asker is None:
                return False
            is_known = self._asker is not None and self._asker() is asker
        if self._looked_in != os.getpid():
            is_known = self._is_as_in_the_parent() and is_known
        elif is_known and self._watch is not None and self._watch.changed():
            is_known = False  # it was changed in mid-epoch, by the training loop or through shared memory
        if not is_known:
            self._look_here(indices)
        if asker is not None:
            self._asker = weakref.ref(asker)
        return self.terms is not None

    def _knows_files(self, indices: Batch) -> bool:
        """Whether this process knows the files as the look for this batch has found them; it may look."""
        assert self.terms is not None
        stages = self.terms.stages
        if isinstance(stages, Pictures) and stages.files.seen().name != indices.files:
            stages.files.look()  # some have changed, though they have the sizes and times that they had
            if stages.files.fingerprint() != self.terms.source:
                return False
        self._current.add(indices.look)
        return True

    def _is_as_in_the_parent(self) -> bool:
        """In a process that has just begun: whether the dataset is as the parent process knew it.

        In a spawned process the dataset was made anew. In a forked one a ``worker_init_fn`` may have changed
        it, or something that it depends on.
        """
        self._looked_in = os.getpid()
        if not self._is_init_known:  # in torch's own loader
            self.loaded_with(init_of_worker())
            if not seeds_only(self._init):
                return False
        return self._watch is not None and not self._watch.changed()

    def _look_here(self, indices: Sequence[Any]) -> None:
        """Look again, in the process that makes items."""
        is_worker = get_worker_info() is not None
        found = indices.found if isinstance(indices, Batch) else None
        sources = {None if self.terms is None else self.terms.source, None if found is None else found[0]}
        never = self._looks == 0
        terms, files_found = self.terms, None
        if terms is not None and isinstance(terms.stages, Pictures) and isinstance(indices, Batch):
            seen = terms.stages.files.seen()
            if (seen.fingerprint, seen.name) == (found and found[0], indices.files):
                files_found = seen  # the loader's process looked, for this epoch
        self.look(files_found=files_found)
        if isinstance(indices, Batch):
            self._current.add(indices.look)
        if is_worker and not never and self.terms is not None and self.terms.source not in sources:
            self._alone = True  # a worker_init_fn has made it a dataset that only this worker has

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if not name.startswith("_") and name != "terms":
            self._forget()  # even if a key says that items are the same

    def _identity(self) -> str | None:
        """The fingerprint of the samples in their order, as of the last look; None: it is not known."""
        return None if self._seen is None else self._seen.identity()

    def explain(self, support: Support | None = None) -> str:
        """Say in plain words what of this dataset is shared, with whom, and why not more.

        This looks at the dataset. For ``support`` see :meth:`look`.
        """
        support = self.look(support)
        terms = self.terms
        if self._alone:
            return f"not shared: {self._board.text}"
        if terms is None:
            return explained.not_shared_text(support, share=self.share, has_cache=self.cache is not None)
        name = cache_name(terms.name, terms.source)
        first = explained.shared_text(terms, support, name) + self._session.told_of_job(self._cache)
        lines = [first, support.describe_fingerprint()]
        compared = explained.compared_text(terms, self._board, self._compared())
        lines.append(compared + self._session.told_of_servers())
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
        """What this job's processes did with this dataset so far.

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
        return {**self._session.stats(), "compared": counts, "remote": self._session.remote_stats()}

    def look(self, support: Support | None = None, *, files_found: Seen | None = None) -> Support:
        """Look at the dataset as it is now. Batches are planned and items made by what this finds.

        Args:
            support: What a look just now has found; None: this looks.
            files_found: See :func:`seneca.data.support.inspect_dataset`.
        """
        support = support or self._inspected(files_found=files_found, verify_files=self.verify_files)
        if get_worker_info() is None:
            self._job_key = job_key(self.job)  # this object may have been made in another process
        self._looks = next(_looks)
        self._current = {self._looks}
        self._asker = None
        self._looked_in = os.getpid()
        self._note(support)
        before, self.terms = self.terms, Terms.of(support, self._options)
        if self._cache is not None and not self._cache.segment.closed and self._cache.segment.distrusted:
            self._marks = None  # they are of samples that were compared with those in that cache
        if self.terms is not None and (self._marks is None or self._marks.names != self.terms.names):
            self._marks = Marks(self.terms.names, self.terms.n_samples)
        is_of_files = self.terms is not None and isinstance(self.terms.stages, Pictures)
        self._session.use_servers(self._options.remote_wanted if is_of_files else ())
        self._alone = self.tell_of_proof()
        if self._maker is not None and self._maker.distrusted:
            self._maker = None  # its cache was given up; another may have been begun
        if self.terms is None or not self.terms.shares_as(before):
            self._session.copy_bytes = 0
        if self._marks is not None and self._cache is not None and get_worker_info() is None:
            self._marks.expect_suspects(self._cache.segment, self.terms)
        return support

    def _inspected(self, **options: Any) -> Support:
        """What :func:`inspect_dataset` finds with these options."""
        return inspect_dataset(
            self.dataset,
            key=self.key,
            shares=self.cache is not None,
            worker_init_fn=self._init,
            memory=self._memory,
            **options,
        )

    def _note(self, support: Support) -> None:
        self._seen, self._watch = support, support.watch
        self._attributes = support.attributes or Attributes(support.base)

    def loaded_with(self, worker_init_fn: Callable[[int], None] | None) -> None:
        """Tell this dataset what worker processes run before they make items."""
        self._init, self._is_init_known = worker_init_fn, True

    def look_for_workers_that_stay(self) -> None:
        """As :meth:`look`, for persistent worker processes, which have the dataset as it was when they began.

        If it has changed here since, batches are planned for what the workers have, and the workers look for
        themselves.
        """
        if self._looks and self._watch is not None and self._watch.changed():
            self._looks = next(_looks)
            self._current = {self._looks}
            self._stays = True
            return
        self._stays = False
        self.look()

    @property
    def looks(self) -> int:
        """The number of the last look."""
        return self._looks

    @property
    def files_name(self) -> int:
        """The name of the files as they were last seen, as a :class:`Batch` has it."""
        stages = None if self.terms is None else self.terms.stages
        return stages.files.seen().name if isinstance(stages, Pictures) else 0

    def batch(self, indices: list[int], epoch: tuple[int, int]) -> Batch:
        """These indices as a batch of this epoch (see :class:`Batch`), with the last look in this process."""
        seeds = epoch if self.share == "exact" else None
        return Batch.of(indices, self._looks, self.found, self.files_name, seeds)

    @property
    def found(self) -> Names | None:
        """The names that the last look found, as a :class:`Batch` has them."""
        return None if self.terms is None or self._stays else self.terms.names

    def _note_distrust(self, terms: Terms, cache: SampleCache | None) -> None:
        """Note that the cache was distrusted. No process of this dataset shares while its names are these."""
        why = None if cache is None or cache.segment.closed else cache.segment.why_distrusted()
        if why is None or self._board.read(terms.names) is Verdict.REFUSED:
            return
        if why[-1] == Form.STORAGE:
            return  # the dataset has changed: this segment is given up, and the next epoch begins another
        assert cache is not None
        text = distrust_text(cache.name, *why, own_job=why[0] == cache.segment.job_key)
        self._board.write(terms.names, Verdict.REFUSED, text)

    def tell_of_proof(self) -> bool:
        """Whether nothing is shared because jobs make different items. If that is so, warn the user once."""
        if self._cache is not None and self.terms is not None and self._cache.segment.distrusted:
            self._note_distrust(self.terms, self._cache)
        if self.terms is None or self._board.read(self.terms.names) is not Verdict.REFUSED:
            return False
        if self._told != (text := self._board.text):
            self._told = text
            warn(text)
        return True

    def record(self, loader: Any, plan: EpochPlan, progress: EpochProgress) -> DeliveryRecorder | None:
        """Begin to write down what an epoch of ``loader`` delivers; None: no audit is wanted.

        Also begin to measure the epoch, and to tell those who watch the cache.
        """
        terms = self.terms
        workers = getattr(loader, "num_workers", 0)
        traits = None if self._seen is None or terms is None else Traits.of(self._seen)
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
        """The attributes of the dataset that making items has changed, if its names may be others now."""
        if self.key is not None or self.terms is None or self._attributes is None:
            return []
        changed = self._attributes.changed()
        if changed and self._board.take_look():
            support = self._inspected(verify_files="run")  # no file has changed by that
            found = Terms.of(support, self._options)
            if found is not None and found.names == self.terms.names:
                self._note(support)
                return []
        return changed

    def join(
        self, *, batch_size: int | None = None, batches_ahead: int = 1, threads: int | None = None
    ) -> SampleCache | None:
        """Join the cache by the terms of the last look; None: nothing is shared.

        This process stays in the cache until this object is collected, even while no worker process is there.

        Args:
            batch_size: The batch size of an epoch that begins; None: no epoch begins.
            batches_ahead: The most batches of that epoch that are under way.
            threads: The number of processes that prepare it; None: it is not known.

        Raises:
            ValueError: Copies are to be exact, and cannot be.
            NoSpaceError: Shared memory has no room for the cache.
            SegmentMismatchError: The cache is another dataset's, and this process has not joined before.
            SegmentFolderError: Likewise, and ``SENECA_DIR`` names a folder in which no cache can lie.
        """
        if not self._looks:
            self.look()
        terms = self.terms
        if self.share == "exact" and (
            why := explained.why_not_exact(terms, self._seen, has_cache=self.cache is not None)
        ):
            raise ValueError(f"share='exact' is not possible here, because {why}; give another share")
        if terms is None or self._alone:
            return None
        if get_worker_info() is not None:
            belong_to_job(self._job_key)
        if self._folder is None:
            self._folder = segment_folder()
        try:
            self._cache = shared_cache(
                *(terms.name, terms, terms.cache_bytes, terms.split, terms.keep, self.job, self._folder),
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

    def _maker_here(self, look: int) -> Preparer:
        """This process's preparer, for the present terms. A forked child makes its own."""
        assert self.terms is not None and self._marks is not None
        maker = self._maker
        if maker is not None and maker.pid != os.getpid():
            maker = None
        if maker is not None and self.terms.shares_as(maker.terms) and not maker.is_outdated(look):
            if maker.terms is not self.terms:
                maker.terms = self.terms
            return maker
        if maker is not None:
            if maker.is_outdated(look):
                self._marks = Marks(self.terms.names, self.terms.n_samples)
            maker.close()
        cache = self.join()
        worker = get_worker_info()
        self._maker = Preparer(
            self.terms,
            cache,
            self._session.counts_of(None if worker is None else worker.id),
            board=self._board,
            marks=self._marks,
            vouched=self.key is not None,
            check_every=self._options.check_rate,
            first=self.check_every == "first",
            changed=functools.partial(_ask_watch, weakref.ref(self), Watch.changed),
            changed_elsewhere=functools.partial(_ask_watch, weakref.ref(self), Watch.changed_elsewhere),
            remote=self._session.remote_here(),
        )
        return self._maker

    def __fingerprint__(self) -> Any:
        """What items depend on, for the fingerprints of datasets that contain this one."""
        return self.dataset if self.key is None else (self.key, len(self))

    def __getstate__(self) -> dict[str, Any]:
        job = self._job_key if get_worker_info() is not None else job_key(self.job)
        own = dict.fromkeys(("_maker", "_cache", "_seen", "_watch", "_attributes", "_asker"))
        own["_folder"] = self._folder or segment_folder()  # a fork server may have another environment
        # The dataset is made anew where this is unpickled, and is looked at there.
        return {**vars(self), "_job_key": job, "_looked_in": 0, "_memory": Memory(), **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if not self._session.is_for_worker:  # pickled for another job
            self._board = Board()
            self._marks = None
            self._folder = None


def _ask_watch(shared: weakref.ref[SharedDataset], question: Callable[[Watch], bool]) -> bool:
    """What the watch of the last look says; False: there is none."""
    here = shared()
    return here is not None and here._watch is not None and question(here._watch)


_looks = itertools.count(1)
