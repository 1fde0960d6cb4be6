"""Sharing for torch's own DataLoader: a dataset whose items other jobs may have made.

::

    OpportunisticBatchSampler (the loader's process)        SharedDataset (worker processes)
        draws a batch  ------ PlannedBatch: indices, claims ------>  takes over what was drawn
                                                                     makes the rest, stages copies

A list of indices that nobody planned is served as well: what others made is then looked up.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from operator import is_
from typing import Any, cast

import torch
from torch.utils.data import Dataset, get_worker_info

from seneca.adapt import Adapter, Progress, logger, profile_kept
from seneca.cache import SampleCache, cache_name, shared_cache
from seneca.errors import NoSpaceError, SegmentError, SegmentMismatchError
from seneca.forms import Form
from seneca.grades import Grade, grade_of
from seneca.maker import COUNTERS, SPENT, Maker
from seneca.notices import warn
from seneca.options import Options
from seneca.partition import Jobs, Spent, Split
from seneca.ranks import belong_to_job, job_key
from seneca.stages import Pictures
from seneca.terms import PlannedBatch, Terms

__all__ = ["SharedDataset"]

# Public attributes that are this one's; all others are the dataset's.
OWN = frozenset({"dataset", "cache", "cache_bytes", "split", "share", "key", "job", "terms", "copy_bytes"})
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
        key: Stands for what a fingerprint cannot be made of: jobs that say the same share,
            and that their items are interchangeable is then the user's word.
        job: As :class:`seneca.DataLoader`'s.

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
    ) -> None:
        if isinstance(dataset, SharedDataset):
            raise TypeError("a SharedDataset goes into a DataLoader as it is; or share its .dataset anew")
        if isinstance(dataset, torch.utils.data.IterableDataset):
            raise TypeError(f"a map-style dataset can be shared, but got {type(dataset).__name__}")
        self._options = Options(cache, cache_bytes, split, share, key=key, job=job)
        if cache is not None and not isinstance(cache, str):
            raise TypeError(f'cache is "auto", a name or None, but got {cache!r}')
        self.dataset = dataset
        self.cache = cache
        self.cache_bytes = cache_bytes
        self.split = split
        self.share = share
        self.key = key
        self.job = job
        self._job_key = job_key(job)
        self.terms: Terms | None = None
        self.copy_bytes = 0  # that an item takes, as far as is known; tells the next epoch
        self._cache: SampleCache | None = None  # held between epochs, so that what is kept stays
        self._looked = False
        self._planned = b""  # the source of the last planned batch
        self._base: Any = dataset
        self._seen: Grade | None = None
        self._state: list[Any] = []  # the values of its attributes when it was looked at
        self._warned = False
        self._maker: Maker | None = None
        self._adapter: Adapter | None = None  # the loader's process's
        # A row for each worker, so that none overwrites what another counts. Seen by all processes.
        self._counts = torch.zeros(COUNT_ROWS, len(COUNTERS), dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if not self._looked:
            self.look()
        # What a dataset makes by batches may not be what it makes one by one: then only batches are shared.
        made = None if getattr(self._base, "__getitems__", None) else self._made_here([index])
        return self.dataset[index] if made is None else made[0]

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """The items of a batch, in its order; errors are the dataset's own."""
        made = self._made_here(indices)
        if made is not None:
            return made
        if getattr(self.dataset, "__getitems__", None):
            return self.dataset.__getitems__(list(indices) if isinstance(indices, PlannedBatch) else indices)
        return [self.dataset[index] for index in indices]

    def _made_here(self, indices: Sequence[Any]) -> list[Any] | None:
        """The items of a batch; None where they are not shared, or an index is none of a sample."""
        if self._looked and (self._state_changed() or self._is_behind(indices)):
            self._look_again(indices)
        maker = self._maker_here()
        if maker is None or not isinstance(indices, (list, tuple)):
            return None
        if not isinstance(indices, PlannedBatch):
            count = len(self.dataset)
            if not all(type(index) is int and 0 <= index < count for index in indices):
                return None
        made = maker.make(indices)
        if self._state_changed():
            # By itself: what it makes hangs on what it made before, and is no other job's.
            self.terms = None
            self._warn(
                f"{type(self.dataset).__name__} changes as its items are made, so they are no longer shared; "
                "if they are the same all the same, say so by key="
            )
        return made

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
            self.terms, self._looked = None, False  # also where a key says that items are the same

    def _identity(self) -> str | None:
        """Names the samples in their order, as the last look found them; None: that cannot be told."""
        return None if self._seen is None else self._seen.identity()

    def explain(self, grade: Grade | None = None) -> str:
        """In plain words: what of this dataset is shared, with whom, and why not more. See :meth:`look`."""
        grade = self.look(grade)
        terms = self.terms
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
        return f"{grade.name}: {'; '.join(grade.why)}; shared in the cache {name!r}: {forms}"

    def stats(self) -> dict[str, Any]:
        """What this job's processes did with it so far.

        Returns:
            ``served``, items by the form they came from; ``prepared``, augmented copies made
            here; ``staged``, those of them made for other jobs too; ``unshared``, items that
            cannot be laid out in shared memory; ``damaged``, those made from storage because what the
            cache had of them was damaged; ``delivered``; ``read_bytes``, of ENCODED.
        """
        counts = dict(zip(COUNTERS, self._counts.sum(0).tolist(), strict=True))
        for name in (*SPENT, "decoded_bytes"):
            del counts[name]
        served = {form.name.lower(): counts.pop(form.name.lower()) for form in Form}
        return {"served": served, **counts, "delivered": sum(served.values())}

    def look(self, grade: Grade | None = None) -> Grade:
        """Look at the dataset as it is now: what is planned and made from now on is of that.

        Args:
            grade: What was found, where somebody has looked just now.
        """
        grade = grade or grade_of(self.dataset, key=self.key, shares=self.cache is not None)
        if get_worker_info() is None:
            self._job_key = job_key(self.job)  # this process's, wherever it was made
        self._base, self._seen = grade.base, grade
        self._state = list(getattr(self._base, "__dict__", {}).values())
        stages = grade.stages
        self._looked = True
        before, self.terms = self.terms, None
        shares = self.share == "augmented" and stages is not None and not stages.same
        if stages is not None and self.cache is not None and (shares or stages.decoded):
            self.terms = Terms(
                name=self.cache,
                source=stages.source,
                n_samples=len(grade.base),
                bytes_about=grade.total_bytes,
                cache_bytes=self.cache_bytes,
                split=self._options.split_wanted
                if stages.decoded or self.split != "auto"
                else Split(0, 0, 1),
                shares=shares,
                stages=stages,
                own=grade.own,
            )
            if self.terms.equals(before):
                self.terms = before  # what was made for it goes on
            else:
                self.copy_bytes = 0
        return grade

    def _look_again(self, indices: Sequence[Any]) -> None:
        """Somebody has set another transform, or files have changed, say."""
        sources = {self.terms.source if self.terms is not None else b"", getattr(indices, "source", b"")}
        self.look()
        if get_worker_info() is not None and self.terms is not None and self.terms.source not in sources:
            self.terms = None  # a worker_init_fn has made of it a dataset of this worker's own

    def _state_changed(self) -> bool:
        """Whether an attribute of the dataset is another object than when it was looked at."""
        if self.key is not None or self.terms is None:
            return False
        now = list(getattr(self._base, "__dict__", {}).values())
        return len(now) != len(self._state) or not all(map(is_, now, self._state))

    def _is_behind(self, indices: Sequence[Any]) -> bool:
        """Whether the sampler has seen other files than this process, a worker that stays; once for each."""
        if self.terms is None or not isinstance(indices, PlannedBatch) or indices.source == self._planned:
            return False
        self._planned = indices.source
        return indices.source != self.terms.source

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
        if not self._looked:
            self.look()
        terms = self.terms
        if terms is None:
            return None
        if get_worker_info() is not None:
            belong_to_job(self._job_key)
        try:
            self._cache = shared_cache(terms.name, terms, terms.cache_bytes, terms.split, self.job)
        except (NoSpaceError, SegmentMismatchError):
            raise
        except SegmentError as error:
            self._warn(f"going on without the shared cache: {error}")
            return None
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

    def _maker_here(self) -> Maker | None:
        """This process's, for the terms of now; a forked child makes its own."""
        if not self._looked:
            self.look()
        if self.terms is None:
            return None
        maker = self._maker
        if maker is None or maker.pid != os.getpid() or maker.terms is not self.terms:
            if maker is not None and maker.pid == os.getpid():
                maker.close()
            cache = self.join()
            worker = get_worker_info()
            row = 0 if worker is None else min(worker.id + 1, COUNT_ROWS - 1)
            maker = self._maker = Maker(self.terms, cache, self._counts[row].numpy())
        return maker

    def __fingerprint__(self) -> Any:
        """What items hang on, for datasets that are made of this one."""
        return self.dataset if self.key is None else (self.key, len(self))

    def __getstate__(self) -> dict[str, Any]:
        job = self._job_key if get_worker_info() is not None else job_key(self.job)
        own = dict.fromkeys(("_maker", "_adapter", "_cache", "_state", "_seen"))
        return {**vars(self), "_job_key": job, **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if not self._counts.is_shared():  # pickled for another job, not for a worker
            self._counts = torch.zeros_like(self._counts).share_memory_()
        self._state = list(getattr(self._base, "__dict__", {}).values())
