"""Sharing for torch's own DataLoader: a dataset whose items other jobs may have made.

::

    OpportunisticBatchSampler (the loader's process)        SharedDataset (worker processes)
        draws a batch  ------ PlannedBatch: indices, claims ------>  takes over what was drawn
                                                                     makes the rest, stages copies

A list of indices that nobody planned is served as well: what others made is then looked up.

Before it shares, each process makes sure that it knows the dataset as it is now: see
:meth:`SharedDataset._is_current`.
"""

from __future__ import annotations

import functools
import itertools
import os
import weakref
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, cast

import torch
from torch.utils.data import Dataset, Subset, get_worker_info

from seneca.adapt import Adapter, Progress, logger, profile_kept
from seneca.cache import SampleCache, cache_name, shared_cache
from seneca.callers import asking_fetcher, init_of_worker
from seneca.errors import NoSpaceError, SegmentError, SegmentMismatchError
from seneca.forms import Form
from seneca.grades import Grade, grade_of, seeds_only
from seneca.identity import Memory, Watch
from seneca.maker import COUNTERS, SPENT, Maker
from seneca.notices import warn
from seneca.options import CHECK_EVERY, Options
from seneca.partition import Jobs, Spent, Split
from seneca.proof import Board, Verdict
from seneca.ranks import belong_to_job, job_key
from seneca.stages import Pictures
from seneca.terms import Batch, Names, PlannedBatch, Terms

__all__ = ["SharedDataset", "distrust_text"]

# Public attributes that are this one's; all others are the dataset's. Another value of most is another
# look's.
OPTIONS = frozenset({"dataset", "cache", "cache_bytes", "split", "share", "key", "job", "check_every"})
OWN = OPTIONS | {"terms", "copy_bytes"}
# One for each worker process, the last for all beyond, the first for the loader's own. All of them are less
# than 32 KiB: more than that torch copies with threads, for which a forked process waits for ever.
COUNT_ROWS = 129


class SharedDataset(Dataset[Any]):
    """A map-style dataset whose items the jobs of this host make together.

    Goes into any ``torch.utils.data.DataLoader``, with torch's worker processes and the user's
    ``collate_fn``. With an :class:`OpportunisticBatchSampler` it shares as much as can be; with
    any other sampler, what another job happens to have made is looked up. Equal datasets in
    several jobs meet by themselves, wherever they can be told from others; :meth:`explain` says
    what was found.

    Args:
        dataset: Any map-style dataset; ``torch.utils.data.Subset`` shares with what it is of.
        cache: As :class:`seneca.DataLoader`'s, a :class:`seneca.SampleCache` excepted; so are the next three.
        cache_bytes: Likewise.
        split: Likewise.
        share: Likewise.
        key: Stands for each part of the dataset that cannot be fingerprinted: jobs that say the same, and
            whose datasets are equal in all other parts, share. That their items are interchangeable is the
            user's word.
        job: As :class:`seneca.DataLoader`'s, as is the next.
        check_every: Likewise.

    Raises:
        TypeError: An ``IterableDataset``, which has no indices, or what is shared already.

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

    def __init__(
        self,
        dataset: Any,
        *,
        cache: str | None = "auto",
        cache_bytes: int | str = "auto",
        split: Any = "auto",
        share: Any = "augmented",
        key: str | None = None,
        job: str | None = None,
        check_every: int | None = CHECK_EVERY,
    ) -> None:
        if isinstance(dataset, SharedDataset):
            raise TypeError("a SharedDataset goes into a DataLoader as it is; or share its .dataset anew")
        if isinstance(dataset, torch.utils.data.IterableDataset):
            raise TypeError(f"a map-style dataset can be shared, but got {type(dataset).__name__}")
        if cache is not None and not isinstance(cache, str):
            raise TypeError(f'cache is "auto", a name or None, but got {cache!r}')
        self._forget()
        self.dataset = dataset
        self.cache = cache
        self.cache_bytes = cache_bytes
        self.split = split
        self.share = share
        self.key = key
        self.job = job
        self.check_every = check_every
        self._init: Callable[[int], None] | None = None  # what worker processes run first
        self._is_init_known = False
        _ = self._options  # a slip surfaces here and not in the first epoch
        self._job_key = job_key(job)
        self.copy_bytes = 0  # that an item takes, as far as is known; tells the next epoch
        self._has_joined = False
        self._cache: SampleCache | None = None  # held between epochs, so that what is kept stays
        self._memory = Memory()
        self._warned = False
        self._told = ""  # of what was found of examples
        self._maker: Maker | None = None
        self._adapter: Adapter | None = None  # the loader's process's
        self._board = Board()  # of examples; seen by all processes
        # A row for each worker, so that none overwrites what another counts. Seen by all processes.
        self._counts = torch.zeros(COUNT_ROWS, len(COUNTERS), dtype=torch.int64).share_memory_()

    def _forget(self) -> None:
        """Nothing was looked at."""
        self.terms: Terms | None = None
        self._stays = False  # whether the dataset has changed here, and workers that stay have the former
        self._looks = 0  # the number of the last look; 0: there was none
        self._current: set[int] = set()  # looks for which ``terms`` are right
        self._asker: weakref.ref[Any] | None = None  # likewise, the fetcher
        self._base: Any = None
        self._seen: Grade | None = None
        self._state: list[Any] = []  # the values of the dataset's attributes then
        self._watch: Watch | None = None
        self._alone = False  # whether samples are made by the terms, and nothing is shared
        self._looked_in = 0  # the process

    @property
    def _options(self) -> Options:
        return Options(
            *(self.cache, self.cache_bytes, self.split, self.share),
            key=self.key,
            job=self.job,
            check_every=self.check_every,
        )

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        # What a dataset makes by batches may not be what it makes one by one: then only batches are shared.
        made = None if getattr(self._beneath(), "__getitems__", None) else self._made_here([index])
        return self.dataset[index] if made is None else made[0]

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """The items of a batch, in its order; errors are the dataset's own."""
        made = self._made_here(indices)
        if made is not None:
            return made
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
        """The items of a batch; None where they are not shared, or an index is none of a sample."""
        if not isinstance(indices, (list, tuple)) or not self._is_current(indices):
            return None
        if not isinstance(indices, PlannedBatch):
            count = len(self.dataset)
            if not all(type(index) is int and 0 <= index < count for index in indices):
                return None
        maker = self._maker_here()
        look = indices.look if isinstance(indices, Batch) else self._looks
        made = maker.make(indices, look, alone=self._alone)
        if maker.distrusted:
            self._note_distrust(maker.terms, maker.cache)
        if not isinstance(indices, Batch):
            self.tell_of_proof()  # else the loader's process tells
        if self._watch is not None:
            self._watch.settle()  # what making items has changed, it may change
        if not self._alone and self._state_changed():
            # What it makes may hang on what it made before, and is no other job's.
            self._alone = True
            text = (
                f"{type(self._beneath()).__name__} is no longer shared, because its attributes changed while "
                "items were made; if its items are the same all the same, say so by key="
            )
            self._board.write(maker.terms.names, Verdict.REFUSED, text)
            if not isinstance(indices, Batch):
                self.tell_of_proof()
        return made

    def _is_current(self, indices: Sequence[Any]) -> bool:
        """Whether ``terms`` are those of the dataset as it is now, after another look if need be; and there
        are any.

        Who asks for items says for which epoch. Seneca's loader and batch sampler say which look they have
        made for it. Of torch's own loader the fetcher tells: it has one for each epoch in each process. Of
        anybody else nothing is known, and nothing is shared with them.
        """
        if isinstance(indices, Batch):
            asker, is_known = None, indices.look in self._current
            if not is_known and self._looks and self.terms is not None and indices.found == self.terms.names:
                self._current.add(indices.look)  # that look has found what this process knows
                is_known = True
        else:
            asker = asking_fetcher()
            if asker is None:
                return False
            is_known = self._asker is not None and self._asker() is asker
        if self._looked_in != os.getpid():
            is_known = self._is_as_in_the_parent() and is_known
        elif is_known and self._watch is not None and self._watch.changed():
            is_known = (
                False  # somebody has changed it in mid-epoch: the training loop, or through shared memory
            )
        if not is_known:
            self._look_here(indices)
        if asker is not None:
            self._asker = weakref.ref(asker)
        return self.terms is not None

    def _is_as_in_the_parent(self) -> bool:
        """In a process that has just begun: whether the dataset is as its parent knew it.

        In a spawned process it was made anew, in a forked one a ``worker_init_fn`` may have changed it, or
        what it stands on.
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
        if (
            terms is not None
            and isinstance(terms.stages, Pictures)
            and found is not None
            and found[0] == terms.source
        ):
            files_found = terms.source, terms.bytes_about  # the loader's process has asked, for this epoch
        self.look(files_found=files_found)
        if isinstance(indices, Batch):
            self._current.add(indices.look)
        if is_worker and not never and self.terms is not None and self.terms.source not in sources:
            self._alone = True  # a worker_init_fn has made of it a dataset of this worker's own

    def __getattr__(self, name: str) -> Any:
        # Attributes of the dataset (classes, targets, ...) are found here too. Not private names, and
        # not a state of its own, for which others would take this.
        if name.startswith("_") or name in ("dataset", "state_dict", "load_state_dict"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # And are set there: timm makes a loader of a dataset and then gives it its `transform`.
        if name.startswith("_") or name in OWN:
            super().__setattr__(name, value)
        else:
            setattr(self.dataset, name, value)
        if not name.startswith("_") and name not in ("terms", "copy_bytes"):
            self._forget()  # also where a key says that items are the same

    def _identity(self) -> str | None:
        """Names the samples in their order, as the last look found them; None: that cannot be told."""
        return None if self._seen is None else self._seen.identity()

    def explain(self, grade: Grade | None = None) -> str:
        """In plain words: what of this dataset is shared, with whom, and why not more. See :meth:`look`."""
        grade = self.look(grade)
        terms = self.terms
        if self._alone:
            return f"not shared: {self._board.text}"
        if terms is None:
            why = "; ".join(grade.why)
            if self.cache is None:
                why = "cache=None"
            elif grade.stages is not None:
                why = f"whole items are all that could be, but share={self.share!r}"
            return f"not shared: {why}"
        forms = "ENCODED, DECODED" if grade.stages is not None and grade.stages.decoded else ""
        if terms.shares:
            forms = f"{forms}, AUGMENTED" if forms else "AUGMENTED"
        name = cache_name(terms.name, terms.source)
        first = f"{grade.name}: {'; '.join(grade.why)}; shared in the cache {name!r}: {forms}"
        return f"{first}\n{grade.told_by()}\n{self._shown()}"

    def _shown(self) -> str:
        """In plain words: what examples have shown so far."""
        assert self.terms is not None
        found = self._board.read(self.terms.names)
        if found is Verdict.UNPROVABLE:
            return f"sharing rests on that alone: {self._board.text}"
        if found is Verdict.PROVED:
            return "shown by examples: samples that this job made itself are what the others make of them"
        return "before the first batch is shared, some samples are made here and compared with other jobs'"

    def stats(self) -> dict[str, Any]:
        """What this job's processes did with it so far.

        Returns:
            ``served``, items by the form they came from; ``prepared``, augmented copies made
            here; ``staged``, those of them made for other jobs too; ``unshared``, items that
            cannot be laid out in shared memory; ``damaged``, those made from storage because what the
            cache had of them was damaged; ``delivered``; ``read_bytes``, of ENCODED; ``checked``, those
            served from the cache that were made again; ``different``, those of them that were others.
        """
        counts = dict(zip(COUNTERS, self._counts.sum(0).tolist(), strict=True))
        for name in (*SPENT, "decoded_bytes"):
            del counts[name]
        served = {form.name.lower(): counts.pop(form.name.lower()) for form in Form}
        return {"served": served, **counts, "delivered": sum(served.values())}

    def look(self, grade: Grade | None = None, *, files_found: tuple[bytes, int] | None = None) -> Grade:
        """Look at the dataset as it is now: what is planned and made from now on is of that.

        Args:
            grade: What was found, where somebody has looked just now.
            files_found: See :func:`seneca.grades.grade_of`.
        """
        grade = grade or grade_of(
            self.dataset,
            key=self.key,
            shares=self.cache is not None,
            worker_init_fn=self._init,
            memory=self._memory,
            files_found=files_found,
        )
        if get_worker_info() is None:
            self._job_key = job_key(self.job)  # this process's, wherever it was made
        self._looks = next(_looks)
        self._current = {self._looks}
        self._asker = None
        self._looked_in = os.getpid()
        self._base, self._seen, self._watch = grade.base, grade, grade.watch
        self._state = list(getattr(self._base, "__dict__", {}).values())
        before, self.terms = self.terms, self._terms_of(grade)
        self._alone = self.tell_of_proof()
        if self._maker is not None and self._maker.distrusted:
            self._maker = None  # its cache was given up; another may have been begun
        if self.terms is None or not self.terms.shares_as(before):
            self.copy_bytes = 0
        return grade

    def loaded_with(self, worker_init_fn: Callable[[int], None] | None) -> None:
        """Say what worker processes run before they make items."""
        self._init, self._is_init_known = worker_init_fn, True

    def look_for_workers_that_stay(self) -> None:
        """As :meth:`look`, where worker processes have the dataset as it was when they began.

        Where it has changed here since, what is planned is of what they have: they look for themselves.
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

    def batch(self, indices: list[int]) -> Batch:
        """Indices that the last look in this process is for."""
        return Batch.of(indices, self._looks, self.found)

    @property
    def found(self) -> Names | None:
        """What the last look found, as a batch says it."""
        return None if self.terms is None or self._stays else self.terms.names

    def _note_distrust(self, terms: Terms, cache: SampleCache | None) -> None:
        """Somebody has found that what lies in the cache is not to be trusted: all processes of this dataset
        go on without, as long as its names are these."""
        why = None if cache is None or cache.segment.closed else cache.segment.why_distrusted()
        if why is None or self._board.read(terms.names) is Verdict.REFUSED:
            return
        job, pid, sample, form = why
        if form == Form.STORAGE:
            return  # the dataset has changed: what was kept is given up, and the next epoch begins anew
        assert cache is not None
        own = job == cache.segment.job_key
        self._board.write(
            terms.names, Verdict.REFUSED, distrust_text(cache.name, job, pid, sample, form, own_job=own)
        )

    def tell_of_proof(self) -> bool:
        """Tell the user, once, that nothing is shared because what jobs make is not the same; whether that is
        so."""
        if self._cache is not None and self.terms is not None and self._cache.segment.distrusted:
            self._note_distrust(self.terms, self._cache)
        if self.terms is None or self._board.read(self.terms.names) is not Verdict.REFUSED:
            return False
        if self._told != (text := self._board.text):
            self._told = text
            warn(text)
        return True

    def _terms_of(self, grade: Grade) -> Terms | None:
        stages = grade.stages
        shares = self.share == "augmented" and stages is not None and not stages.same
        if stages is None or self.cache is None or not (shares or stages.decoded):
            return None
        wanted = self._options.split_wanted
        return Terms(
            name=self.cache,
            source=stages.source,
            n_samples=len(grade.base),
            bytes_about=grade.total_bytes,
            cache_bytes=self.cache_bytes,
            split=wanted if stages.decoded or self.split != "auto" else Split(0, 0, 1),
            shares=shares,
            stages=stages,
            own=grade.own,
            own_generator=grade.made_of is not None and grade.made_of.own_generator,
        )

    def _state_changed(self) -> bool:
        """Whether an attribute of the dataset is another object than when it was looked at."""
        if self.key is not None or self.terms is None:
            return False
        now = list(getattr(self._base, "__dict__", {}).values())
        return len(now) != len(self._state) or not all(map(is_, now, self._state))

    def _warn(self, text: str) -> None:
        """Once a process."""
        if not self._warned:
            self._warned = True
            warn(text)

    def join(
        self, *, batch_size: int | None = None, batches_ahead: int = 1, threads: int | None = None
    ) -> SampleCache | None:
        """This process's cache on the terms of the last look; None: nothing is shared.

        It is held until this is collected, also while no worker process is there.

        Args:
            batch_size: Of an epoch that begins; None: none does.
            batches_ahead: Its batches under way, at most.
            threads: Its processes that prepare; None: not known.

        Raises:
            NoSpaceError, SegmentMismatchError: As :meth:`seneca.SampleCache.join`'s.
        """
        if not self._looks:
            self.look()
        terms = self.terms
        if terms is None or self._alone:
            return None
        if get_worker_info() is not None:
            belong_to_job(self._job_key)
        try:
            self._cache = shared_cache(terms.name, terms, terms.cache_bytes, terms.split, self.job)
        except SegmentError as error:
            # Before the first epoch it is the user's mistake; a job that runs is not ended for it.
            if isinstance(error, NoSpaceError) or (
                isinstance(error, SegmentMismatchError) and not self._has_joined
            ):
                raise
            self._warn(f"going on without the shared cache: {error}")
            return None
        self._has_joined = True
        if get_worker_info() is None:
            job = None
            if batch_size is not None:
                job = Jobs(batch_size=batch_size, ahead=batches_ahead - 1, threads=threads, share=self.share)
            self._adapt_from(terms, self._cache, job)
        return self._cache

    def _adapt_from(self, terms: Terms, cache: SampleCache, job: Jobs | None) -> None:
        """Look after the split."""
        if self._adapter is None or not self._adapter.suits(cache):
            stages = terms.stages
            if stages.decoded == 0:
                logger.info("cache %r: all of it is for whole items, the one form there is", cache.name)
            native = isinstance(stages, Pictures) and stages.then is None and stages.static is None
            known = profile_kept(terms.source, cast(Pictures, stages).pipeline if native else None)
            # Leads not back here: no cycle.
            self._adapter = Adapter(cache, known, job or Jobs(share=self.share), terms.n_samples)
        if job is not None:
            self._adapter.begin(self._progress, job)
        self.adapt()

    def adapt(self, *, ended: bool = False) -> None:
        """After a batch, in the loader's process: change the split if it is time to."""
        if self._adapter is not None:
            self._adapter.tick(self._progress, ended=ended)

    def _progress(self) -> Progress:
        counts = dict(zip(COUNTERS, self._counts.sum(0).tolist(), strict=True))
        n = len(SPENT) // 2
        times = tuple(counts[name] for name in SPENT[:n])
        seconds = tuple(counts[name] * 1e-9 for name in SPENT[n:])
        spent = Spent(times, seconds, counts["read_bytes"], counts["decoded_bytes"])
        delivered = sum(counts[form.name.lower()] for form in Form)
        return Progress(spent, delivered, None, reads_here=False, copy_bytes=self.copy_bytes)

    def _maker_here(self) -> Maker:
        """This process's, for the terms of now; a forked child makes its own."""
        assert self.terms is not None
        maker = self._maker
        if maker is not None and maker.pid != os.getpid():
            maker = None
        if maker is not None and self.terms.shares_as(maker.terms):
            maker.terms = self.terms
            return maker
        if maker is not None:
            maker.close()
        cache = self.join()
        worker = get_worker_info()
        row = 0 if worker is None else min(worker.id + 1, COUNT_ROWS - 1)
        self._maker = Maker(
            self.terms,
            cache,
            self._counts[row].numpy(),
            board=self._board,
            vouched=self.key is not None,
            check_every=self.check_every,
            changed=functools.partial(_has_changed, weakref.ref(self)),
        )
        return self._maker

    def __fingerprint__(self) -> Any:
        """What items hang on, for datasets that are made of this one."""
        return self.dataset if self.key is None else (self.key, len(self))

    def __getstate__(self) -> dict[str, Any]:
        job = self._job_key if get_worker_info() is not None else job_key(self.job)
        own = dict.fromkeys(("_maker", "_adapter", "_cache", "_seen", "_watch", "_asker"))
        # The dataset is made anew where this is unpickled, and its state is looked at there.
        return {**vars(self), "_job_key": job, "_state": [], "_looked_in": 0, "_memory": Memory(), **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if not self._counts.is_shared():  # pickled for another job, not for a worker
            self._counts = torch.zeros_like(self._counts).share_memory_()
            self._board = Board()


def _has_changed(shared: weakref.ref[SharedDataset]) -> bool:
    """Whether anything that the last look saw is another by now."""
    here = shared()
    return here is not None and here._watch is not None and here._watch.changed()


def distrust_text(name: str, job: int, pid: int, sample: int, form: int, *, own_job: bool) -> str:
    """That a cache is no longer shared, why, and what to do."""
    who = "this job" if own_job else f"the job {job:016x}"
    return (
        f"the jobs of the cache {name!r} no longer share: {who} (process {pid}) was served sample {sample} "
        f"as {Form(form).name}, made it again, and it was another. Each job goes on with what it makes "
        "itself. Find out in what the jobs' code, files or settings differ, and give each a cache= name of "
        "its own"
    )


_looks = itertools.count(1)
