"""Batches in an order that the plan knows: torch's samplers, over the whole dataset or over a shard."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from seneca._core.pool import Stream
from seneca.audit.record import DeliveryRecorder
from seneca.cache import seed_beside_others
from seneca.data.support import Support
from seneca.epochs.plan import EpochPlan, plan_epoch
from seneca.epochs.progress import EpochProgress
from seneca.native.prefetch import Prefetcher, Ready
from seneca.native.session import Inputs

__all__ = ["PlannedOrder"]


class PlannedOrder:
    """One epoch whose order is planned. The native core draws each batch.

    Args:
        loader: The loader.
        inputs: The inputs of the epoch.
        progress: The progress of the epoch, which begins here.
        seed: What torch's iterator has drawn for the epoch.
        foreseen: Takes the place of the loader's sampler. The epoch does not begin here then: this finds out
            what it will be. None: it begins.

    Attributes:
        plan: The plan of the epoch.
        seed: Names the random numbers of samples.
        batch_size: Samples of a batch.
    """

    def __init__(
        self, loader: Any, inputs: Inputs, progress: EpochProgress, seed: int, foreseen: Any = None
    ) -> None:
        self._inputs, self._progress = inputs, progress
        self.plan = self._plan(loader, seed, foreseen)
        self.seed = self.plan.seed
        self.batch_size = self.plan.batch_size or 1
        self._samples = _samples_of(self.plan, inputs.support)
        self._rest = self.plan.yields
        self._asked, self._whole = 0, self.plan.left // self.batch_size
        self._gone = 0 if self.plan.count is None else self.plan.count - self.plan.left

    def _plan(self, loader: Any, seed: int, foreseen: Any) -> EpochPlan:
        options, progress = self._inputs.options, self._progress
        if foreseen is None:
            loader._begin_epoch(progress)
        if options.on_error == "skip":
            progress.in_turn = False  # a rank gives the place of a bad sample to another
        batches: Any = loader.batch_sampler
        return plan_epoch(
            progress,
            batches.sampler if foreseen is None else foreseen,
            len(loader.dataset),
            batch_size=batches.batch_size,
            drop_last=batches.drop_last,
            exchanges=self.exchanges(self._inputs),
            has_cache=self._inputs.cache is not None,
            seed=seed if getattr(batches.sampler, "generator", None) is None else None,
            fixed_seed=seed,
            subset=not loader._goes_over_dataset(),
            repeats=True,
        )

    @staticmethod
    def exchanges(inputs: Inputs) -> bool:
        """Whether copies of other jobs may take the places of samples."""
        options, pipeline = inputs.options, inputs.support.pipeline
        assert pipeline is not None
        return options.share == "augmented" and not pipeline.deterministic and options.cache is not None

    def begin(self, recorder: DeliveryRecorder | None) -> None:
        """Note in the progress that the order is settled, and who writes down what is delivered."""
        support = self._inputs.support
        self._progress.recorder = self._recorder = recorder
        self._progress.begin(self.plan.order, self.plan.sampler, support.identity, self._samples)

    def draws(self, augmented: int) -> dict[str, Any]:
        """What a :class:`Member` needs of the order. ``augmented`` names the pipeline."""
        plan, inputs = self.plan, self._inputs
        assert inputs.support.files is not None
        n_samples = len(inputs.support.files)
        # A sample that drop_last would leave out may replace a bad one.
        skips = inputs.options.on_error == "skip"
        is_exact = inputs.options.share == "exact" and inputs.options.cache is not None
        return {
            "samples": self._samples,
            "places": plan.left if skips else min(plan.left, plan.batches * self.batch_size),
            "taken": plan.taken(self._samples, n_samples),
            "fixed": plan.fixed,
            "own_seed": seed_beside_others(inputs.cache if plan.exchanges else None, augmented),
            "shares": plan.exchanges or is_exact,
            "substitutes": plan.exchanges,
        }

    def prefetcher(self, stream: Stream, **options: Any) -> Prefetcher:
        """The prefetcher that keeps the batches of ``stream`` under way."""
        plan = self.plan
        return Prefetcher(
            stream,
            batches=plan.batches,
            batch_size=self.batch_size,
            drop_last=plan.drop_last,
            evenly=None if plan.shard is None else plan.delivers,
            **options,
        )

    def ask(self, batches: int) -> None:
        """Run the sampler to its end once torch would have. It draws a random number there.

        Args:
            batches: How many more batches torch would now have asked for.
        """
        self._asked += batches
        if self._asked > self._whole:
            next(self._rest, None)

    def place(self, prefetcher: Prefetcher) -> int:
        """How many samples of the epoch were used up before the batch which :meth:`report` will report."""
        return self._gone

    def report(self, prefetcher: Prefetcher, ready: Ready | None, failed: bool) -> None:
        """Report to the progress which samples a batch has used up.

        Args:
            prefetcher: What has made the batch.
            ready: The batch; None: there is none, or it has failed.
            failed: Whether it has failed.
        """
        gone, prefetcher.gone = prefetcher.gone, []
        if gone:
            used = gone[0] if len(gone) == 1 else np.concatenate(gone)
            indices = None if ready is None else ready.indices
            write = None
            if self._recorder is not None:
                write = functools.partial(self._recorder.batch, used, indices, failed=failed)
            self._progress.made(used, len(used) if indices is None else len(indices), write)
            self._gone += len(used)


def _samples_of(plan: EpochPlan, support: Support) -> np.ndarray | None:
    """The sample at each place of the epoch, uint32; None: it is the place itself."""
    own = support.own
    if plan.indices is None:
        return own
    return plan.indices.astype(np.uint32) if own is None else own[plan.indices]
