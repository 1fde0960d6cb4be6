"""Proves by examples that this process makes the same payloads as the other processes of a cache."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from seneca._core.codes import Unlinked
from seneca._core.digests import CHANGED, DIFFERS
from seneca._core.segment import Segment
from seneca.data.stages import Pictures
from seneca.errors import SegmentError
from seneca.forms import Form
from seneca.workers.proof.evidence import Evidence, changing_text, unstable_text
from seneca.workers.proof.examples import (
    Example,
    depends_on_its_batch,
    example_of,
    examples_of,
    may_be_made_again,
    stays_the_same,
)
from seneca.workers.proof.table import ProofState, ProofTable
from seneca.workers.terms import Terms

__all__ = ["Proof"]

MOST = 4  # examples
AGAIN = 2  # of them are made again in each epoch, in turn, if the files behind the dataset are not examined
MOST_BESIDE = 32  # samples of a batch, if the dataset makes items by batches
PATIENCE_S = 0.25  # after this time no other example is begun


class _Found(NamedTuple):
    """The result of a comparison of examples. For ``text`` and ``lasts`` see :meth:`ProofTable.write`."""

    verdict: ProofState
    text: str = ""
    lasts: bool = True


class Proof:
    """Finds out whether this process makes the same payloads as the other processes of a cache.

    Args:
        terms: The terms by which this process shares.
        segment: The segment of the cache.
        table: What other processes of this dataset have found.
        evidence: Compares the examples.
        vouched: Whether the user has given a key, and so vouches for whatever else items depend on.
        changed: Says whether the dataset has changed since it was inspected.

    Attributes:
        terms: As in the arguments. Other terms may replace them if these share the same.
    """

    def __init__(
        self,
        terms: Terms,
        segment: Segment,
        table: ProofTable,
        evidence: Evidence,
        *,
        vouched: bool,
        changed: Callable[[], bool],
    ) -> None:
        self.terms = terms
        self._segment = segment
        self._proof_table = table
        self._evidence = evidence
        self._vouched = vouched
        self._changed = changed
        self._inspection: int | None = None  # the inspection for which ``_holds`` was found
        self._holds = True

    def holds(self, inspection: int) -> bool:
        """Whether to share, in an epoch for which the inspection of this number was made.

        Raises:
            BlockingIOError: The segment's lock could not be had; ask again later.
        """
        if inspection != self._inspection:
            self._holds = self._find(inspection)
            self._inspection = inspection
        return self._holds and not self._evidence.refuted

    def _find(self, inspection: int) -> bool:
        names, stages = self.terms.names, self.terms.stages
        known = self._proof_table.read(names)
        if known is ProofState.REFUSED:
            return False
        if not may_be_made_again(self.terms):
            why = "the dataset keeps a state, or a generator of its own, which examples would change"
            self._proof_table.write(names, ProofState.UNPROVABLE, why, inspection=inspection)
            return True
        try:
            if known is ProofState.UNKNOWN:
                return self._prove(inspection, MOST, before=False)
            # Every inspection sees the files of pictures. What other datasets read shows only in items.
            if (
                known is ProofState.PROVED
                and not isinstance(stages, Pictures)
                and self._proof_table.read(names, inspection) is ProofState.UNKNOWN
            ):
                return self._prove(inspection, AGAIN, before=True)
            if known is ProofState.PROVED:
                self._evidence.open_tables()
        except Unlinked:
            return True  # the segment was given up, so nothing is shared
        except SegmentError as error:
            self._proof_table.write(names, ProofState.REFUSED, f"nothing is shared here: {error}")
            return False
        return True

    def _prove(self, inspection: int, most: int, *, before: bool) -> bool:
        """Make examples, compare them, and write the verdict. Returns whether to share.

        Args:
            inspection: See :meth:`holds`.
            most: How many examples to make.
            before: Whether these names were proved for an earlier inspection.
        """
        samples = _chosen(self.terms)
        turn = inspection % len(samples)
        samples = (samples[turn:] + samples[:turn])[:most] if before else samples[:most]
        had_changed = self._changed()
        found = self._compare(samples, before) if self._evidence.forms else _Found(ProofState.PROVED)
        if (
            found.verdict is not ProofState.REFUSED
            and not before
            and (why := depends_on_its_batch(self.terms.stages, _chosen(self.terms, MOST_BESIDE)))
        ):
            found = _Found(ProofState.UNPROVABLE if self._vouched else ProofState.REFUSED, why)
        if (
            found.verdict is ProofState.UNPROVABLE
            and not self._vouched
            and self._changed()
            and not had_changed
        ):
            found = _Found(ProofState.REFUSED, changing_text(found.text))
        self._proof_table.write(
            self.terms.names, found.verdict, found.text, inspection=inspection, lasts=found.lasts
        )
        return found.verdict is not ProofState.REFUSED

    def _compare(self, samples: Sequence[int], before: bool) -> _Found:
        """Make examples, as many as :data:`PATIENCE_S` allows, and compare them with what others made."""
        evidence = self._evidence
        began = time.monotonic()
        for sample in samples:
            if sample != samples[0] and time.monotonic() > began + PATIENCE_S:
                break
            making = examples_of(self.terms.stages, sample, evidence.forms)
            if making.draws:
                evidence.marks.draws = True
            for form, example in making.examples.items():
                table = evidence.table(form, example.shape())
                draws = making.draws and form == Form.AUGMENTED
                met = table.meet(sample, example.digest, True, draws) if example.digest else None
                if met in (CHANGED, DIFFERS):
                    found = self._differs(sample, form, example, met, before)
                    if found.verdict is not ProofState.PROVED:
                        return found
        evidence.open_tables()
        return _Found(ProofState.PROVED)

    def _differs(self, sample: int, form: int, mine: Example, met: int, before: bool) -> _Found:
        """The verdict if an example differs from what this job, or another, has made."""
        again = functools.partial(example_of, self.terms.stages, sample, form)
        same = stays_the_same(again, mine)
        if same is None:
            return _Found(ProofState.PROVED)
        if not same:
            return _Found(ProofState.UNPROVABLE, unstable_text(sample))
        table = self._evidence.table(form)
        maker = table.maker(sample)
        who = "this job" if met == CHANGED else f"the job {maker:016x}" if maker else "a job that has ended"
        text = _difference(sample, Form(form), mine.shape(), table.shape, who)
        is_stale = self._evidence.is_stale(sample, form, met)
        if before or is_stale:
            # The dataset has changed since its payloads were made. The next inspection begins anew.
            self._segment.distrust(sample, Form.STORAGE)
        return _Found(ProofState.REFUSED, text, lasts=not is_stale)


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
