"""Proves by examples that this process makes the same payloads as the other processes of a cache."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from seneca._core.codes import Unlinked
from seneca._core.segment import Segment
from seneca.data.stages import KeptStages, Pictures, number_of
from seneca.errors import SegmentError
from seneca.forms import Form
from seneca.workers.proof.board import Board, Verdict
from seneca.workers.proof.examples import (
    NOTHING,
    Example,
    example_of,
    hangs_on_its_batch,
    may_be_made_again,
    stays_the_same,
)
from seneca.workers.terms import Terms

__all__ = ["Proof"]

MOST = 4  # examples of a form; SN_EXAMPLE_SAMPLES in csrc/shm/sn_layout.h
AGAIN = 2  # of them are made again in each epoch, in turn, if the files behind the dataset are not looked at
MOST_BESIDE = 32  # samples of a batch, if the dataset makes items by batches
PATIENCE_S = 0.25  # after this time no other example is begun


class _Found(NamedTuple):
    """What a comparison of examples has shown. For ``text`` and ``lasts`` see :meth:`Board.write`."""

    verdict: Verdict
    text: str = ""
    lasts: bool = True


class Proof:
    """Finds out whether this process makes the same payloads as the other processes of a cache.

    Args:
        terms: The terms by which this process shares.
        segment: The segment of the cache.
        board: What other processes of this dataset have found.
        vouched: Whether the user has given a key, and so vouches for whatever else items depend on.
        changed: Tells whether the dataset has changed since it was looked at.
    """

    def __init__(
        self,
        terms: Terms,
        segment: Segment,
        board: Board,
        *,
        vouched: bool,
        changed: Callable[[], bool],
    ) -> None:
        self._terms = terms
        self._segment = segment
        self._board = board
        self._vouched = vouched
        self._changed = changed
        self._look: int | None = None  # the look for which ``_holds`` was found
        self._holds = True

    def holds(self, look: int) -> bool:
        """Whether to share, in an epoch for which the look of this number was made.

        Raises:
            BlockingIOError: The segment's lock could not be had; ask again later.
        """
        if look != self._look:
            self._holds = self._find(look)
            self._look = look
        return self._holds

    def _find(self, look: int) -> bool:
        names, stages = self._terms.names, self._terms.stages
        known = self._board.read(names)
        if known is Verdict.REFUSED:
            return False
        if not may_be_made_again(self._terms):
            why = "the dataset keeps a state, or a generator of its own, which examples would change"
            self._board.write(names, Verdict.UNPROVABLE, why, look=look)
            return True
        if known is Verdict.UNKNOWN:
            return self._prove(look, MOST, before=False)
        # A look sees the files of pictures, in every epoch. What other datasets read shows only in items.
        if (
            known is Verdict.PROVED
            and not isinstance(stages, Pictures)
            and self._board.read(names, look) is Verdict.UNKNOWN
        ):
            return self._prove(look, AGAIN, before=True)
        return True

    def _prove(self, look: int, most: int, *, before: bool) -> bool:
        """Make examples, compare them, and write the verdict. Returns whether to share.

        Args:
            look: See :meth:`holds`.
            most: How many examples to make of a form.
            before: Whether these names were proved for an earlier look.
        """
        samples = _chosen(self._terms)
        turn = look % len(samples)
        samples = (samples[turn:] + samples[:turn])[:most] if before else samples[:most]
        found = _Found(Verdict.PROVED)
        had_changed = self._changed()
        for form in self._forms():
            found = max(found, self._compare(form, samples, before), key=lambda one: one.verdict)
            if found.verdict is Verdict.REFUSED:
                break  # a process that differs leaves no examples of further forms
        else:
            if (
                not self._vouched
                and not before
                and (why := hangs_on_its_batch(self._terms.stages, _chosen(self._terms, MOST_BESIDE)))
            ):
                found = _Found(Verdict.REFUSED, why)
        if found.verdict is Verdict.UNPROVABLE and not self._vouched and self._changed() and not had_changed:
            found = _Found(Verdict.REFUSED, _changing(found.text))
        self._board.write(self._terms.names, found.verdict, found.text, look=look, lasts=found.lasts)
        return found.verdict is not Verdict.REFUSED

    def _forms(self) -> list[Form]:
        """The forms that are shared."""
        kept = [Form.ENCODED, Form.DECODED] if isinstance(self._terms.stages, KeptStages) else []
        return [*kept, Form.AUGMENTED] if self._terms.shares else kept

    def _kind(self, form: Form) -> int:
        """A number that names what payloads of a form hold."""
        stages = self._terms.stages
        if form == Form.ENCODED:
            return number_of(b"encoded", stages.source)
        return stages.decoded if form == Form.DECODED else stages.augmented

    def _compare(self, form: Form, samples: Sequence[int], before: bool) -> _Found:
        """Make examples of a form, and compare them with those in the segment."""
        mine = self._make(form, samples)
        places = _chosen(self._terms)
        digests = [mine.get(sample, NOTHING).digest for sample in places]
        shape = next((one.shape for one in mine.values() if one.digest), "")
        try:
            theirs = self._segment.compare_examples(self._kind(form), digests, shape)
        except (SegmentError, Unlinked):
            return _Found(Verdict.PROVED)  # the segment was given up, so nothing is shared
        if theirs is None:
            return _Found(Verdict.PROVED)
        of_them, their_shape, job, pid = theirs
        for sample, own, other in zip(places, digests, of_them, strict=False):
            if not own or not other or own == other:
                continue
            again = functools.partial(example_of, self._terms.stages, sample, form)
            if not stays_the_same(again, mine[sample]):
                return _Found(Verdict.UNPROVABLE, f"sample {sample} is another each time that it is made")
            is_own = job == self._segment.job_key
            if before:
                # The dataset has changed here since it was proved. The segment has payloads from before.
                self._segment.distrust(sample, Form.STORAGE)
            who = f"this job's process {pid}" if is_own else f"the job {job:016x} (process {pid})"
            text = _difference(sample, form, mine[sample].shape, their_shape, who)
            # If the examples are this job's own earlier ones, the job begins anew with its next look.
            return _Found(Verdict.REFUSED, text, lasts=not (before and is_own))
        return _Found(Verdict.PROVED)

    def _make(self, form: Form, samples: Sequence[int]) -> dict[int, Example]:
        """Make examples of these samples, as many as :data:`PATIENCE_S` allows."""
        made: dict[int, Example] = {}
        began = time.monotonic()
        for sample in samples:
            if made and time.monotonic() > began + PATIENCE_S:
                break
            made[sample] = example_of(self._terms.stages, sample, form)
        return made


def _changing(why: str) -> str:
    return (
        f"nothing is shared here: {why}, and the dataset changes as its items are made. If any that another "
        "job made will do, say so by key="
    )


def _difference(sample: int, form: Form, shape: str, their_shape: str, who: str) -> str:
    what = f"{shape} here and {their_shape} there" if shape != their_shape else f"{shape}, with other values"
    return (
        f"nothing is shared here: sample {sample} is not what {who} makes of it ({form.name}: {what}), "
        "though both datasets have equal names. Make what they differ in part of the dataset's state, or "
        "give each a cache= name of its own"
    )


def _chosen(terms: Terms, count: int = MOST) -> list[int]:
    """The samples that are made as examples. They are the same in all processes with this dataset."""
    generator = np.random.default_rng(int.from_bytes(terms.source, "little"))
    return generator.choice(terms.n_samples, min(count, terms.n_samples), replace=False).tolist()
