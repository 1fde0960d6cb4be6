"""The iterator of the native path: batches of pictures that this process's threads prepare."""

from __future__ import annotations

import functools
import secrets
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _BaseDataLoaderIter

from seneca._core import pool
from seneca._core.member import Member
from seneca._runtime.distributed import job_key
from seneca._runtime.finalizers import FIRST, finalize
from seneca._runtime.turns import InTurn
from seneca.audit.record import FROM_STORAGE, record_deliveries
from seneca.cache import SampleCache
from seneca.data.segmentation import read_pair
from seneca.data.stages import names_of_exact
from seneca.data.support import Support
from seneca.data.traits import Traits
from seneca.epochs.plan import EpochPlan
from seneca.native.buffers import ERASURE_BYTES, BatchBuffers
from seneca.native.byte_batches import unfinished
from seneca.native.collate import Collation, collates_plainly
from seneca.native.fetchers import Fetchers
from seneca.native.gap import Begun, Gap
from seneca.native.planned_order import PlannedOrder
from seneca.native.prefetch import Ready
from seneca.native.session import Inputs, Session
from seneca.native.user_order import UserOrder
from seneca.partition import Jobs, Spent
from seneca.transforms._apply import open_picture, open_sound
from seneca.tuning.controller import SplitController, profile_for
from seneca.tuning.telemetry import Telemetry, WorkDone

__all__ = ["NativeIterator"]

BATCHES_AHEAD = 2  # torch's default prefetch_factor


class NativeIterator(InTurn, _BaseDataLoaderIter):
    """Iterates over one epoch of a loader; with persistent workers, over one epoch after the other.

    torch's own base class draws the seed, warns, counts and profiles as for torch's iterators.

    Args:
        loader: The loader. This reads only the attributes of torch's loader, and the epochs.
        session: The session of the loader.
        inputs: The inputs of the epoch.
        gap: What the loader does between its epochs.

    Attributes:
        next_inputs: The inputs of the epoch that begins with the next reset.
    """

    def __init__(self, loader: Any, session: Session, inputs: Inputs, gap: Gap) -> None:
        assert loader.num_workers > 0 or loader.timeout == 0, (
            "DataLoader requires timeout == 0 without workers"
        )
        assert loader.num_workers == 0 or loader.prefetch_factor, "prefetch_factor must be greater than 0"
        self._session, self._gap = session, gap
        self._progress = loader._epoch_of_iterator()
        gap.close(loader)
        super().__init__(loader)
        self.next_inputs: Inputs | None = inputs
        self._begin_next: Callable[[Session], None] | None = None  # once this epoch has ended
        # As in torch's iterator, nothing is drawn before the first batch if there are no workers.
        self._begin_with: Any = loader
        if loader.num_workers > 0:
            self._begin()

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        with self._turn:
            self._gap.close(loader)
            super()._reset(loader, first_iter)
            self._close()
            self._progress = loader._epoch_of_iterator()
            self._begin_with = loader
            self._begin()

    def _begin(self) -> None:
        loader, inputs = self._begin_with, self.next_inputs
        assert loader is not None and inputs is not None
        support, options, cache, *_ = inputs
        files, pipeline = support.files, support.pipeline
        assert files is not None and pipeline is not None
        self._session.cache = cache
        kind = PlannedOrder if inputs.is_planned else UserOrder
        self._source: Any = kind(loader, inputs, self._progress, int(self._base_seed))
        plan = self._source.plan
        begun = self._gap.take(self._source, inputs, self._progress)
        self._source.ask(loader.num_workers * (loader.prefetch_factor or 0))
        cores = self._session.core_share(loader.num_workers)
        threads = 0 if cores is None else cores.threads
        stream = self._stream(loader, plan, inputs, threads, begun)
        objects = files.objects()
        fetchers = None if objects is None else Fetchers(stream, objects, inputs.remote is not None)
        self._close = finalize(self, _end, stream, cache, fetchers, order=FIRST)  # before a Ctrl-C could come
        if fetchers is not None:
            fetchers.start()
        self._source.begin(self._recorder)
        ahead = _batches_ahead(loader, objects is not None)
        self._collation = None
        if collates_plainly(loader, support) and loader.batch_sampler is not None:
            self._labels = None if files.are_pairs else files.labels()
        else:
            self._collation = Collation(loader, support, self._source.seed, plan.number)
            self._pins = inputs.pinned
        self._copy_bytes = pipeline.plan.copy_bytes
        self._travel = inputs.travel
        self._in_hand = 0  # samples of the batch that the training loop has
        buffers = BatchBuffers(
            pipeline.item_shape,
            dtype=getattr(torch, pipeline.dtype),
            channels_last=pipeline.channels_last,
            at_once=ahead + 1,
            pinned=inputs.pinned,
            masks=None if pipeline.mask is None else getattr(torch, pipeline.mask),
            moves=pipeline.plan.beside_bytes // 4 if pipeline.moves else 0,
            erasures=pipeline.plan.erasure_bytes // ERASURE_BYTES,
        )
        self._prefetcher = self._source.prefetcher(
            stream,
            ahead=ahead,
            buffers=buffers,
            decode=functools.partial(_decoded, support),
            path_of=lambda index, of_mask: files.path_of(index, of_mask=of_mask),
            skip=options.on_error == "skip",
            counts=self._session.counts,
            begun=begun.batches,
        )
        self._early = begun.early
        self._session.counts.early += len(begun.samples)
        if loader.num_workers > 0 and inputs.is_planned:
            self._begin_next = functools.partial(
                _begin_next,
                weakref.ref(loader),
                self._gap,
                inputs,
                buffers,
                seed=int(self._base_seed) if loader.persistent_workers else None,
                batches=ahead + 1,
            )
        self._begin_control(
            Jobs(
                batch_size=self._source.batch_size,
                ahead=ahead,
                threads=max(1, threads),
                reads_ahead=pool.READS_AHEAD if loader.num_workers else 0,
                share=options.share,
            ),
            inputs,
        )
        self._begin_reporting(plan, inputs, max(1, threads))
        if cores is not None:
            cores.applied_by(self._prefetcher.limit)
            self._session.begin_cores()
        self._begin_with = self.next_inputs = None

    def _stream(
        self, loader: Any, plan: EpochPlan, inputs: Inputs, threads: int, begun: Begun
    ) -> pool.Stream:
        """The stream that draws the epoch's batches, but for those begun, and prepares them in threads."""
        support, options, cache, remote = inputs.support, inputs.options, inputs.cache, inputs.remote
        files, pipeline = support.files, support.pipeline
        assert files is not None and pipeline is not None
        is_exact = options.share == "exact" and options.cache is not None
        # Exact copies are those that each job of the seed would make for itself.
        nonce = 0 if is_exact else self._progress.name("nonce", lambda: secrets.randbits(64) | 1)
        augmented, family = pipeline.augmented_fingerprint, 0
        if is_exact:
            family, augmented = names_of_exact(augmented, plan.seed, plan.number)
        height, width = (0, 0) if pipeline.sound else pipeline.output_size
        suspects = self._session.suspects(files, cache)
        member = Member(
            None if cache is None else cache.segment,
            n_samples=len(files),
            seed=self._source.seed,
            epoch=plan.number,
            decoded=pipeline.head_fingerprint,
            augmented=augmented,
            height=height,
            width=width,
            copy_bytes=pipeline.plan.copy_bytes,
            in_flight=self._source.batch_size * (_batches_ahead(loader, files.objects() is not None) + 1),
            keeps=True,
            recodes=pipeline.recodes,
            exact_family=family,
            files_name=suspects.files_name,
            **begun.draws(self._source.draws(pipeline.augmented_fingerprint), len(files)),
        )
        if cache is not None and not member.shared:
            self._session.warn(f"this epoch shares nothing: {member.why_private}")
        others: dict[str, Any] = {}
        if is_exact and member.shared:
            sequence = files.fingerprint(), family, plan.rank, plan.ranks, plan.count
            others = self._session.sharing(inputs, sequence, augmented)
        self._recorder = record_deliveries(
            loader,
            plan,
            self._progress,
            samples=len(loader.dataset),
            job=job_key(options.job),
            dataset=b"" if cache is None else cache.segment.fingerprint,
            own=support.own,
            cache=cache,
            n_samples=len(files),
            exact=augmented if is_exact else 0,
        )
        if self._recorder is not None and self._recorder.copies is not None:
            self._recorder.copies[begun.samples] = FROM_STORAGE
        return pool.Stream(
            member,
            pipeline.plan,
            *files.places(),
            seed=self._source.seed,
            epoch=plan.number,
            nonce=nonce,
            threads=threads,
            most=loader.num_workers,
            max_pixels=support.max_pixels,
            copies=None if self._recorder is None else self._recorder.copies,
            check_every=0 if cache is None else options.check_rate or 0,
            checked=None if cache is None else self._session.checked(files, options),
            unrecoded=None if cache is None else self._session.unrecoded(files),
            changes=None if cache is None else suspects.changes,
            largest=0 if remote is None else files.seen().largest,
            remote=None if remote is None else remote.handle,
            dataset=b"" if remote is None else files.fingerprint(),
            boxes=None if support.targets is None else support.targets.table,
            **others,
        )

    def _begin_control(self, job: Jobs, inputs: Inputs) -> None:
        """Take part in the choice of the cache's split."""
        session, cache, support = self._session, inputs.cache, inputs.support
        if cache is None:
            session.controller = None
            return
        if session.controller is None or not session.controller.suits(cache):
            files, pipeline = support.files, support.pipeline
            assert files is not None and pipeline is not None
            known = profile_for(files, pipeline, support.max_pixels)
            session.controller = SplitController(cache, known, job, len(files))
        session.controller.begin(self._work_done, job)

    def _begin_reporting(self, plan: EpochPlan, inputs: Inputs, threads: int) -> None:
        """Begin to measure the epoch, and to publish it for those who watch the cache."""
        session = self._session
        if session.telemetry is None or not session.telemetry.suits(inputs.cache):
            session.telemetry = Telemetry(inputs.cache, inputs.options.job)
        session.telemetry.begin(
            self._work_done,
            None if inputs.cache is None else Traits.of(inputs.support),
            epoch=plan.number,
            places=plan.count or 0,
            threads=threads,
            batch_size=plan.batch_size or 0,
        )

    def _next_data(self) -> Any:
        if self._begin_with is not None:
            self._begin()
        if not self._close.alive:
            raise StopIteration
        self._source.ask(1)
        session = self._session
        try:
            ready = next(self._prefetcher)
            data = self._as_it_travels(ready, self._collated(ready))
        except (StopIteration, pool.StreamClosed) as end:
            if self._recorder is not None and isinstance(end, StopIteration):
                self._recorder.out_of_turn = self._prefetcher.out_of_turn
            self._close()
            self._early = None  # and what it has not done is not needed
            self._in_hand = 0
            if isinstance(end, pool.StreamClosed):
                self._progress.recorder = None  # half-way
            else:
                session.tick(self._work_done, ended=True)
            self._report()
            self._progress.end()
            if self._begin_next is not None and isinstance(end, StopIteration):
                self._begin_next(session)
            raise StopIteration from None
        except Exception:
            self._report(failed=True)
            raise
        self._note_distrust()
        self._report(ready)
        indices = ready.indices
        self._in_hand = len(indices)
        session.tick(self._work_done)
        session.last_indices = indices
        return data

    def _collated(self, ready: Ready) -> Any:
        count = len(ready.indices)
        pictures = ready.out.tensor[:count]
        masks = None if ready.out.masks is None else ready.out.masks[:count]
        if self._collation is None:
            if self._labels is None:
                return [pictures, masks]
            return pictures, torch.from_numpy(self._labels[ready.indices])
        place = self._source.place(self._prefetcher)
        moves = None if ready.out.moves is None else ready.out.moves[:count]
        data = self._collation(pictures, ready.indices, place, masks, moves)
        return pin_memory(data) if self._pins else data

    def _as_it_travels(self, ready: Ready, data: Any) -> Any:
        """A batch, or what :class:`CopiedAhead` makes one of."""
        if self._travel.normalizer is None or not self._travel.on_device:
            return data
        erasures = ready.out.erasures
        if erasures is not None:
            erasures = erasures[: len(ready.indices)]
        return unfinished(data, self._travel.normalizer, erasures)

    def _note_distrust(self) -> None:
        """Record served samples that differed when made again. Stop sharing if the cache is distrusted."""
        different, self._prefetcher.different = self._prefetcher.different, []
        if different and self._recorder is not None:
            self._recorder.differed(np.asarray(different))
        self._session.give_up_distrusted()

    def _work_done(self) -> WorkDone:
        counts = self._session.counts
        spent = Spent(
            counts.times,
            counts.spent_s,
            counts.read_bytes,
            counts.decoded_bytes,
            counts.blocked_s,
            counts.from_servers,
            counts.from_servers_s,
            0 if self._session.remote is None else self._session.remote.stored,
        )
        worked_on = counts.delivered - self._in_hand
        return WorkDone(
            spent,
            worked_on,
            counts.stall_s,
            reads_here=True,
            copy_bytes=self._copy_bytes,
            served=tuple(counts.served.values()),
            unrecoded=counts.unrecoded,
            counts={name: getattr(counts, name) for name in ("prepared", "staged", "skipped", "damaged")},
            place=max(0, self._progress.yielded - self._in_hand),  # one that is copied ahead is not yielded
            preparers=self._prefetcher.threads if self._close.alive else (),
            peer_wait_s=counts.peer_wait_s,
        )

    def _report(self, ready: Ready | None = None, *, failed: bool = False) -> None:
        """Report to the epoch's progress a batch that was made, or has failed."""
        self._source.report(self._prefetcher, ready, failed)


def _batches_ahead(loader: Any, are_fetched: bool) -> int:
    """The number of batches prepared ahead of the one that is asked for.

    Pictures that are fetched need as many as torch has, so many for each worker: a request takes long.
    """
    if loader.num_workers == 0:
        return 0
    factor = loader.prefetch_factor or BATCHES_AHEAD
    return factor * loader.num_workers if are_fetched else factor


def _decoded(support: Support, index: int, data: bytes | None) -> Any:
    """Decode by Pillow a file that the native core leaves to it; of a pair ``(picture, mask)``. Sounds are
    decoded by soundfile."""
    files, pipeline = support.files, support.pipeline
    assert files is not None and pipeline is not None
    data = files.read(index) if data is None else data
    if pipeline.sound:
        return open_sound(data)
    if files.are_pairs:
        paths = files.path_of(index), files.path_of(index, of_mask=True)
        picture, mask = read_pair(data, *paths, support.max_pixels)
        return np.ascontiguousarray(picture), mask
    orientation = pipeline.apply_orientation
    return np.ascontiguousarray(
        open_picture(data, apply_orientation=orientation, max_pixels=support.max_pixels)
    )


def _begin_next(
    loader: weakref.ref[Any],
    gap: Gap,
    inputs: Inputs,
    buffers: BatchBuffers,
    session: Session,
    *,
    seed: int | None,
    batches: int,
) -> None:
    """Begin to prepare the epoch after one that has ended, unless the loader is gone.

    Args:
        loader: The loader, which an iterator does not keep alive.
        gap, inputs, buffers, session, seed, batches: See :meth:`Gap.open`.
    """
    following = loader()
    if following is not None:
        threads = 1 if session.cores is None else max(1, session.cores.threads)
        gap.open(following, inputs, buffers, seed=seed, threads=threads, batches=batches)


def _end(stream: pool.Stream, cache: SampleCache | None, fetchers: Fetchers | None) -> None:
    """Close the stream before the cache, which this reference keeps. Then end its fetchers."""
    stream.close()
    if fetchers is not None:
        fetchers.end()
