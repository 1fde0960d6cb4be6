"""Comparisons of a process while it shares: the samples that it makes, with those that other jobs have made.

::

    made anyway ----------------------> its digest meets the table's     in the time that is allowed for that
    served, one of a few -------------> made again, its digest meets it  until enough samples have agreed
    drawing random numbers -----------> a few are made again with fixed generators, the same in all jobs

A digest that differs is no proof. The sample is made as often as it takes to see that it is the same each
time and draws no random numbers. Then the jobs of the cache mean different things, and stop sharing.
"""

from __future__ import annotations

import functools
import os
import random
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from seneca import confidence
from seneca._core.codes import Unlinked
from seneca._core.digests import CHANGED, DIFFERS, Digests
from seneca._core.segment import Segment
from seneca.data.stages import KeptStages, Stages
from seneca.epochs.generators import drawing, set_generators
from seneca.errors import SegmentError
from seneca.forms import Form
from seneca.workers.proof.examples import (
    NOTHING,
    Example,
    compare_served,
    digest_of_payload,
    example_of,
    made_once,
    stays_the_same,
)
from seneca.workers.proof.marks import Marks
from seneca.workers.proof.table import ProofState, ProofTable
from seneca.workers.stages import SeededStages
from seneca.workers.terms import Terms

__all__ = ["Evidence", "unstable_text"]

# Of the time that a process spends on making and serving samples. Until enough samples have agreed, and then.
EAGER_SHARE, STEADY_SHARE = 0.04, 0.004
CHEAP_NS = 250_000_000  # If all comparisons together take less, they may be made within
CHEAP_EPOCHS = 2  # whatever share of the time that is, because nobody notices.
LEAST_NS = 8_000  # is allowed for each sample then, however many there are.
MOST_NS = 1_000_000_000  # that are saved up
RESERVE_NS = 200_000  # that are kept for samples that are made anyway
ONE_OF = 4  # served samples is made again at the most, and more of them if the dataset is small
AT_ONCE = 8  # samples are made again for a comparison: their code is then in the processor's cache
MOST_TO_COMPARE = 64  # samples that were served and wait for that
COUNT_EVERY = 8  # batches: how many samples have been compared by all
PROBES_SHARE = 0.25  # of the time for comparing, as long as other forms are compared too
NOT_COMPARED: tuple[Digests | None, bool] = (None, False)


class Evidence:
    """Compares what this process makes.

    Args:
        terms: The terms by which this process shares.
        segment: The segment of the cache.
        table: What the processes of this dataset have found.
        marks: What the processes of this job have made themselves.
        check_every: One of so many served samples is made again in any case; None: none is, and none because
            too few were compared.
        first: Whether a sample is taken from the cache only if this job has made it itself, and it agreed.
        differed: Called if a sample differs for certain, with its number.
        changes: Returns whether making items changes the dataset, and the user has not vouched for it.
        has_changed: Returns whether a sample's file has changed since the segment was made.

    Attributes:
        terms: As in the arguments. Other terms may replace them if these share the same; if copies are exact,
            :meth:`name_epoch` follows.
        forms: The forms that are compared.
        first: As in the arguments.
        refuted: Whether samples were found that no other job can make, because items depend on those before.
    """

    def __init__(
        self,
        terms: Terms,
        segment: Segment,
        table: ProofTable,
        marks: Marks,
        *,
        check_every: int | None,
        first: bool,
        differed: Callable[[int], None],
        changes: Callable[[], bool],
        has_changed: Callable[[int], bool],
    ) -> None:
        self.terms = terms
        self._segment, self._proof_table, self.marks = segment, table, marks
        self._differed = differed
        self._changes, self._has_changed = changes, has_changed
        self.refuted = False
        self._check_every, self.first = check_every, first
        # Random, so that processes check at different times, and some check even if none serves so many.
        self._until_due = 0 if check_every is None else random.Random(os.urandom(8)).randint(1, check_every)
        kept = [Form.ENCODED, Form.DECODED] if isinstance(terms.stages, KeptStages) else []
        shared = [*kept, Form.AUGMENTED] if terms.shares else kept
        self.forms = tuple(form for form in shared if first or form in terms.stages.users_forms)
        n = terms.n_samples if terms.own is None else len(terms.own)
        self._wanted = confidence.wanted(n)
        self._tables: dict[int, Digests] = {}
        self._comparable: dict[int, tuple[Digests | None, bool]] = {}
        # Nanoseconds that may be spent; below 0: that were spent too early.
        self._steady_ns = self._made_ns = self._check_ns = self._probe_ns = 0
        self._again_ns = 0  # What making a sample again costs, as the last few did; 0: not known.
        self._cheap_ns = max(LEAST_NS, CHEAP_NS // (CHEAP_EPOCHS * max(1, n)))
        self._cpu_ns = time.thread_time_ns()
        self._batches = -1
        self._one_of = self._until_check = max(1, min(ONE_OF, n // confidence.WANTED))
        self._to_compare: deque[int] = deque(maxlen=MOST_TO_COMPARE)
        self._order: np.ndarray | None = None
        self._draws = marks.draws

    @property
    def terms(self) -> Terms:
        return self._terms

    @terms.setter
    def terms(self, terms: Terms) -> None:
        self._terms = terms
        self._seeded = SeededStages(terms.stages) if terms.exact else None

    def name_epoch(self, epoch: tuple[int, int]) -> None:
        """If copies are exact: name the seed and the number of the epoch whose samples are checked."""
        if self._seeded is not None:
            self._seeded.epoch = epoch

    def table(self, form: int, shape: str = "") -> Digests:
        """The digests of a form. ``shape`` describes a sample to people, if this process is the first.

        Raises:
            BlockingIOError: The segment's lock could not be had; ask again later.
            SegmentError: There is no memory for them.
            Unlinked: The segment was given up.
        """
        if form not in self._tables:
            kind = self.terms.stages.kind(Form(form))
            self._tables[form] = Digests(self._segment, kind, form, shape, self.marks.of(Form(form)))
        return self._tables[form]

    def open_tables(self) -> None:
        """Open the tables of all forms. Errors are those of :meth:`table`."""
        for form in self.forms:
            self.table(form)

    @property
    def draws(self) -> bool:
        """Whether items draw random numbers, as far as is known."""
        return self._draws

    # Time

    def begin_batch(self) -> None:
        """Called before a batch is made."""
        self._batches += 1
        if self._batches % COUNT_EVERY != 0:
            return
        self._draws = self.marks.draws
        # The forms whose payloads can be compared as they are, each with whether too few have been.
        self._comparable = {
            form: (table, table.compared < self._wanted)
            for form, table in self._tables.items()
            if form != Form.AUGMENTED or not self._draws
        }

    def end_batch(self, made_ns: int, samples: int) -> None:
        """Called after a batch. Uses up what time that allows.

        Args:
            made_ns: How long it took to make, by the wall clock.
            samples: The number of its samples.
        """
        cpu_before, self._cpu_ns = self._cpu_ns, time.thread_time_ns()
        if not self._tables:
            return
        # Of this thread's work, with all that comes between batches; or of its waiting for storage.
        worked_ns = max(made_ns, self._cpu_ns - cpu_before)
        self._steady_ns = min(MOST_NS, self._steady_ns + int(STEADY_SHARE * worked_ns))
        earned = int(EAGER_SHARE * worked_ns)
        if self._again_ns * self._wanted < CHEAP_NS:
            earned = max(earned, self._cheap_ns * samples)
        eager = any(is_eager for _, is_eager in self._comparable.values())
        items = self._tables.get(Form.AUGMENTED) if self._draws else None
        if items is not None and items.have_company and items.compared < self._wanted:
            for_probes = int(PROBES_SHARE * earned) if eager else earned
            earned -= for_probes
            self._probe_ns = min(MOST_NS, self._probe_ns + for_probes)
            self._probe(items)
        if eager:  # samples that are made anyway come first, because comparing these costs least
            self._made_ns += earned
            rest = max(0, self._made_ns - RESERVE_NS)
            self._made_ns -= rest
            self._check_ns = min(MOST_NS, self._check_ns + rest)

    # Samples that are made anyway

    def wants_some_made(self, form: int) -> bool:
        """Whether any payload that this process has made now may have to be compared."""
        table, eager = self._comparable.get(form, NOT_COMPARED)
        return self.first or (table is not None and (self._steady_ns > 0 or (eager and self._made_ns > 0)))

    def wants_made(self, sample: int, form: int) -> bool:
        """Whether to compare a payload that this process has made: then :meth:`made` is to be called."""
        table, eager = self._comparable.get(form, NOT_COMPARED)
        if table is None:
            return False
        if self._steady_ns > 0:
            return True
        return (self.first or (eager and self._made_ns > 0)) and not table.is_marked(sample)

    def made(self, sample: int, form: int, digest: int, began_ns: int) -> None:
        """Compare a payload that this process has made.

        Args:
            sample: The sample.
            form: The payload's form.
            digest: Its digest, as :func:`digest_of_payload` gives it.
            began_ns: When the work for its digest began (``time.perf_counter_ns()``).
        """
        is_steady = self._steady_ns > 0
        self._meet(sample, form, Example(digest), fixed=False)
        spent = time.perf_counter_ns() - began_ns
        if is_steady:
            self._steady_ns -= spent
        else:
            self._made_ns -= spent

    # Samples that are served

    def is_to_check(self, sample: int, form: int) -> bool:
        """Whether a sample that is served from this form is to be checked now.

        One of ``check_every`` is. Others are noted, to be made again later if too few have been compared.
        """
        if self._check_every is None:
            return False
        self._until_due -= 1
        if self._until_due <= 0:
            self._until_due = self._check_every
            self._until_check = self._one_of
            return True
        table, eager = self._comparable.get(form) or self._comparable.get(Form.DECODED, NOT_COMPARED)
        if table is not None and eager:
            self._until_check -= 1
            if self._until_check <= 0 and not table.is_marked(sample):
                self._until_check = self._one_of
                self._to_compare.append(sample)
        return False

    def compare_served(self) -> int:
        """Make samples again that were served, as many as there is time for. Returns how many."""
        if self._check_ns <= 0 or len(self._to_compare) < AT_ONCE:
            return 0
        began, n = time.perf_counter_ns(), 0
        forms = tuple(form for form, (_, eager) in self._comparable.items() if eager)
        while self._to_compare and self._check_ns > time.perf_counter_ns() - began:
            sample = self._to_compare.popleft()
            for form, found in self._made_again(sample, forms).items():
                self._meet(sample, form, found, fixed=False)
            n += 1
        spent = time.perf_counter_ns() - began
        self._check_ns -= spent
        if n:
            self._again_ns = spent // n
        return n

    def check(self, sample: int, form: int, payload: Any) -> bool | None:
        """Make a served sample again, and compare. If it differs, all jobs of the cache stop sharing.

        Args:
            sample: The sample.
            form: The form that it is served from.
            payload: What is served.

        Returns:
            Whether it is the same. None: that cannot be known.
        """
        stages, digest = self.terms.stages, digest_of_payload(form, payload)
        if form == Form.AUGMENTED and self._seeded is not None:
            outcome = compare_served(self._seeded, sample, form, digest, is_seeded=True)
        elif form in self._comparable:
            found = self._made_again(sample, (form,)).get(form, NOTHING)
            agreed = self._meet(sample, form, found, fixed=False)
            if found.digest == digest or not agreed:
                return agreed
            outcome = compare_served(stages, sample, form, digest)
        elif form == Form.AUGMENTED and self._draws:
            return None
        else:
            outcome = compare_served(stages, sample, form, digest)
        if outcome is False:
            self._give_up(sample, form, DIFFERS)
        return outcome

    def _made_again(self, sample: int, forms: Collection[int]) -> dict[int, Example]:
        try:
            return made_once(self.terms.stages, sample, forms)
        except Exception:
            return {}  # for example, the file is gone: there is nothing to compare with

    # Samples that are made for nothing else

    def _probe(self, items: Digests) -> None:
        """Make samples with fixed generators, because those that are made anyway draw random numbers."""
        if self._probe_ns <= 0:
            return
        began, order, left = time.perf_counter_ns(), self._probe_order(), AT_ONCE
        with drawing():
            while left and (k := self.marks.next_probe()) < len(order) and not self._segment.distrusted:
                sample = int(order[k])
                if not items.is_marked(sample):
                    self._compare_fixed(sample)
                    left -= 1
        spent = time.perf_counter_ns() - began
        self._probe_ns -= spent
        if left < AT_ONCE:
            self._again_ns = spent // (AT_ONCE - left)

    def _probe_order(self) -> np.ndarray:
        """The samples that are made in turn. They are the same in all processes with this dataset."""
        if self._order is None:
            chosen = np.random.default_rng(int.from_bytes(self.terms.source, "little"))
            n = self.terms.n_samples
            self._order = chosen.choice(n, confidence.wanted(n), replace=False)
        return self._order

    def _compare_fixed(self, sample: int) -> None:
        """Make a sample with fixed generators, and compare it in all forms. The caller puts these back."""
        set_generators(sample + 1)
        try:
            made = made_once(self.terms.stages, sample, self.forms)
        except Exception:
            return  # the error is raised when somebody asks for the sample
        for form, example in made.items():
            self._meet(sample, form, example, fixed=True, draws=self._draws and form == Form.AUGMENTED)

    # Certainty

    def may_take(self, sample: int, form: int) -> bool:
        """Whether this job has made the sample itself in this form, and it agreed."""
        return form in self._tables and self._tables[form].is_marked(sample)

    def vouches(self, sample: int, form: int, payload: Any) -> bool:
        """Whether a payload is what this job has made itself, as far as items that draw can be known."""
        if form == Form.AUGMENTED and self._draws:
            return self.may_take(sample, form)
        return form in self._tables and self._tables[form].vouch(sample, digest_of_payload(form, payload))

    def make_sure(self, sample: int) -> None:
        """After this job has made a sample: compare it in all forms in which it was not yet compared."""
        if not all(self.may_take(sample, form) for form in self.forms):
            with drawing():
                self._compare_fixed(sample)

    # Outcomes

    def _meet(
        self, sample: int, form: int, found: Example, *, fixed: bool, draws: bool = False
    ) -> bool | None:
        """Compare a sample with what it came to before. Give the cache up if it differs for certain.

        Returns:
            Whether it is the same. None: that cannot be known.
        """
        if not found.digest or form not in self._tables:
            return None
        met = self._tables[form].meet(sample, found.digest, fixed, draws)
        if met not in (CHANGED, DIFFERS):
            return True
        again: Callable[[], Example]
        if fixed:
            again = functools.partial(example_of, self.terms.stages, sample, form)
        else:
            again = functools.partial(_once, self.terms.stages, sample, form)
        try:
            with drawing() as drawn:
                same = stays_the_same(again, found)
                draws_after_all = drawn()
        except Exception:
            return None  # it cannot be made now
        if draws_after_all:
            self.marks.draws = self._draws = True
        elif same:
            self._give_up(sample, form, met)
            return False
        elif same is False:
            why, self.refuted = unstable_text(sample), self._changes()
            if self.refuted:
                self._proof_table.write(self.terms.names, ProofState.REFUSED, changing_text(why))
            else:
                self._proof_table.write(self.terms.names, ProofState.UNPROVABLE, why)
            self._tables.clear()
            self._comparable.clear()
            self.forms = ()
        return None

    def is_stale(self, sample: int, form: int, met: int) -> bool:
        """Whether a sample that differs only says that the cache is of an earlier time, and no job disagrees.

        This job had made it differently before (a file has changed, for example), or a job that has ended,
        and no other is here. Or its file has changed since the segment was made.
        """
        if met == CHANGED or self._has_changed(sample):
            return True
        return self._tables[form].maker(sample) == 0 and self._segment.stats()["jobs"] == 1

    def _give_up(self, sample: int, form: int, met: int) -> None:
        """A sample differs for certain: give the cache up. If it is stale, the jobs begin another."""
        try:
            is_stale = self.is_stale(sample, form, met)
        except (BlockingIOError, SegmentError, Unlinked):
            is_stale = False
        self._segment.distrust(sample, Form.STORAGE if is_stale else form)
        if not is_stale:
            self._differed(sample)


def _once(stages: Stages, sample: int, form: int) -> Example:
    return made_once(stages, sample, (form,)).get(form, NOTHING)


def unstable_text(sample: int) -> str:
    """Why nothing can be compared: a sample differs each time it is made."""
    return (
        f"sample {sample} differs each time it is made, and draws from none of the global generators "
        "of Python, NumPy and torch"
    )


def changing_text(why: str) -> str:
    """Why nothing is shared: items depend on those that were made before. ``why`` is what was found."""
    return (
        f"nothing is shared here: {why}, and the dataset changes as its items are made. If any that another "
        "job made will do, say so by key="
    )
