"""The findings of a process about a shared dataset, and whether these still hold.

::

    dataset --inspect()--> Support, Terms --is_current()--> whether items may be shared for those who ask now

A dataset may change between epochs, in worker processes, and while items are made. Therefore each inspection
has a number, and a batch says for which inspection it was planned.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from torch.utils.data import get_worker_info

from seneca.data.file_lists import Seen
from seneca.data.kinds.fingerprints import seeds_only
from seneca.data.stages import Pictures
from seneca.data.support import Support, inspect_dataset
from seneca.identity import Attributes, Memory, Watch
from seneca.options import Options, VerifyFiles
from seneca.workers.callers import asking_fetcher, init_of_worker
from seneca.workers.terms import Batch, Names, Terms

__all__ = ["Inspection"]

_numbers = itertools.count(1)


class Inspection:
    """The last inspection of a dataset in this process.

    Attributes:
        number: Its number; 0: there was none.
        support: What it found; None: there was none here.
        terms: By which the dataset is shared; None: nothing is.
        alone: Whether items are made as ``terms`` say, but not shared.
    """

    def __init__(self) -> None:
        self._init: Callable[[int], None] | None = None  # what worker processes run first
        self._is_init_known = False
        self._memory = Memory()
        self.forget()

    def forget(self) -> None:
        """Forget every inspection."""
        self.number = 0
        self.support: Support | None = None
        self.terms: Terms | None = None
        self.alone = False
        self._differs = False  # whether persistent workers still hold an old version of the dataset
        self._current: set[int] = set()  # numbers for which ``terms`` are right
        self._asker: weakref.ref[Any] | None = None  # the fetcher for which ``terms`` are right
        self._attributes: Attributes | None = None
        self._watch: Watch | None = None
        self._process = 0  # that has inspected last

    def set_init(self, worker_init_fn: Callable[[int], None] | None) -> None:
        """Set what worker processes run before they make items."""
        self._init, self._is_init_known = worker_init_fn, True

    def inspect(
        self, dataset: Any, options: Options, support: Support | None = None, files_found: Seen | None = None
    ) -> Support:
        """Inspect the dataset as it is now.

        Args:
            dataset: The dataset.
            options: Those of the :class:`SharedDataset`.
            support: What was just found about it; None: this finds it.
            files_found: See :func:`inspect_dataset`.
        """
        support = support or self._inspected(dataset, options, options.verify_files, files_found)
        self.number = next(_numbers)
        self._current = {self.number}
        self._asker = None
        self._process = os.getpid()
        self._note(support)
        self.terms = Terms.of(support, options)
        return support

    def differs_from_workers(self) -> bool:
        """Whether the dataset has changed here, while persistent workers still hold the old version.

        Batches are then planned for what the workers have, and the workers inspect it for themselves.
        """
        self._differs = bool(self.number) and self.has_changed()
        if self._differs:
            self.number = next(_numbers)
            self._current = {self.number}
        return self._differs

    def is_current(self, indices: Sequence[Any], inspect: Callable[..., Any]) -> bool:
        """Whether items may be shared: there are ``terms``, and they are those of the dataset as it is now.

        This inspects again if needed. For that it has to know the epoch for which items are asked. If
        Seneca's loader or batch sampler asks, it says which inspection it made for the epoch. If torch's own
        loader asks, it has one fetcher for each epoch in each process. If anybody else asks, the epoch is not
        known, and nothing is shared.

        Args:
            indices: Of the items.
            inspect: Inspects the dataset in this process, given ``files_found``.
        """
        if isinstance(indices, Batch):
            asker, is_known = None, indices.inspection in self._current
            if not is_known and self.number and self.terms is not None and indices.found == self.terms.names:
                is_known = self._knows_files(indices)  # that inspection found what this process knows
        else:
            asker = asking_fetcher()
            if asker is None:
                return False
            is_known = self._asker is not None and self._asker() is asker
        if self._process != os.getpid():
            is_known = self._is_as_in_the_parent() and is_known
        elif is_known and self.has_changed():
            is_known = False  # it was changed in mid-epoch, by the training loop or through shared memory
        if not is_known:
            self._inspect_here(indices, inspect)
        if asker is not None:
            self._asker = weakref.ref(asker)
        return self.terms is not None

    def has_changed(self) -> bool:
        """Whether the dataset has changed since, as far as can be seen without another inspection."""
        return self._watch is not None and self._watch.changed()

    def has_changed_elsewhere(self) -> bool:
        """Whether another process has changed it."""
        return self._watch is not None and self._watch.changed_elsewhere()

    def changed_attributes(self) -> list[str]:
        """The attributes of the dataset that making items has changed."""
        return [] if self.terms is None or self._attributes is None else self._attributes.changed()

    def has_same_names(self, dataset: Any, options: Options) -> bool:
        """Whether the dataset has the names of ``terms`` still. If so, its attributes count as unchanged."""
        support = self._inspected(dataset, options, "run")  # no file has changed by that
        found = Terms.of(support, options)
        if found is None or self.terms is None or found.names != self.terms.names:
            return False
        self._note(support)
        return True

    def settle(self) -> None:
        """Take changes as they are now. Making items may make some, and so may the dataset's __getstate__."""
        if self._watch is not None:
            self._watch.settle()

    @property
    def found(self) -> Names | None:
        """The names that it found, as a :class:`Batch` has them."""
        return None if self.terms is None or self._differs else self.terms.names

    @property
    def files_name(self) -> int:
        """The name of the files as they were last seen, as a :class:`Batch` has it."""
        stages = None if self.terms is None else self.terms.stages
        return stages.files.seen().name if isinstance(stages, Pictures) else 0

    def batch(self, indices: list[int], epoch: tuple[int, int] | None) -> Batch:
        """These indices as a batch (see :class:`Batch`), planned for this inspection."""
        return Batch.of(indices, self.number, self.found, self.files_name, epoch)

    def _inspected(
        self, dataset: Any, options: Options, verify_files: VerifyFiles, files_found: Seen | None = None
    ) -> Support:
        return inspect_dataset(
            dataset,
            key=options.key,
            shares=options.cache is not None,
            worker_init_fn=self._init,
            memory=self._memory,
            verify_files=verify_files,
            files_found=files_found,
        )

    def _note(self, support: Support) -> None:
        self.support, self._watch = support, support.watch
        self._attributes = support.attributes or Attributes(support.base)

    def _knows_files(self, batch: Batch) -> bool:
        """Whether this process knows the files as the inspection for this batch found them. It may ask."""
        assert self.terms is not None
        stages = self.terms.stages
        if isinstance(stages, Pictures) and stages.files.seen().name != batch.files:
            stages.files.stat()  # some have changed, though they have the sizes and times that they had
            if stages.files.fingerprint() != self.terms.source:
                return False
        self._current.add(batch.inspection)
        return True

    def _is_as_in_the_parent(self) -> bool:
        """In a process that has just begun: whether the dataset is as the parent process knew it.

        In a spawned process the dataset was made anew. In a forked one a ``worker_init_fn`` may have changed
        it, or something that it depends on.
        """
        self._process = os.getpid()
        if not self._is_init_known:  # in torch's own loader
            self.set_init(init_of_worker())
            if not seeds_only(self._init):
                return False
        return self._watch is not None and not self._watch.changed()

    def _inspect_here(self, indices: Sequence[Any], inspect: Callable[..., Any]) -> None:
        """Inspect again, in the process that makes items."""
        is_worker = get_worker_info() is not None
        found = indices.found if isinstance(indices, Batch) else None
        sources = {None if self.terms is None else self.terms.source, None if found is None else found[0]}
        is_first = self.number == 0
        files_found = None
        if self.terms is not None and isinstance(self.terms.stages, Pictures) and isinstance(indices, Batch):
            seen = self.terms.stages.files.seen()
            if (seen.fingerprint, seen.name) == (found and found[0], indices.files):
                files_found = seen  # the loader's process asked for their state, for this epoch
        inspect(files_found=files_found)
        if isinstance(indices, Batch):
            self._current.add(indices.inspection)
        if is_worker and not is_first and self.terms is not None and self.terms.source not in sources:
            self.alone = True  # a worker_init_fn has made it a dataset that only this worker has

    def __getstate__(self) -> dict[str, Any]:
        # The dataset is made anew where this is unpickled, and is inspected there.
        here = dict.fromkeys(("support", "_attributes", "_watch", "_asker"))
        return {**vars(self), **here, "_process": 0, "_memory": Memory()}
