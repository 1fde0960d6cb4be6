"""The state that the native iterators of one loader share, epoch after epoch."""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import PIL
from PIL import features

from seneca._core import codec
from seneca._core.remote import Hosts
from seneca._runtime.distributed import job_key
from seneca._runtime.warn import warn
from seneca.cache import MISTAKES, SampleCache, distrust_text, note_user, shared_cache
from seneca.cache.objects import identity_of
from seneca.cache.remote import RemoteCache, remote_cache
from seneca.data.files import PictureFiles
from seneca.data.support import Support
from seneca.data.suspects import Suspects
from seneca.errors import NoSpaceError, SegmentError, SegmentMismatchError
from seneca.forms import Form
from seneca.native.byte_batches import COMPLETE, Travel, of_bytes
from seneca.native.prefetch import Counts
from seneca.options import AutoWorkers, Options
from seneca.tuning.controller import SplitController
from seneca.tuning.cores import CoreShare
from seneca.tuning.diagnosis import Diagnosis, diagnose, logger
from seneca.tuning.telemetry import Telemetry, WorkDone

__all__ = ["Inputs", "Session"]


class Inputs(NamedTuple):
    """The inputs from which an epoch is prepared.

    Attributes:
        support: The support of the dataset, which is native.
        options: The options of the loader.
        cache: The cache that the epoch shares; None: it shares nothing.
        pinned: Whether batches are in page-locked memory.
        remote: The memory of other hosts; None: there is none.
        is_planned: Whether the plan knows the order of the epoch.
        travel: How batches leave the threads.
    """

    support: Support
    options: Options
    cache: SampleCache | None
    pinned: bool
    remote: RemoteCache | None
    is_planned: bool
    travel: Travel = COMPLETE


class Session:
    """The cache, the counters and the split's controller of one loader.

    Attributes:
        counts: What the loader did, in all its epochs.
        cache: The cache that the loader shares; None: it shares nothing, or has not begun.
        controller: The controller of the cache's split; None: there is no cache.
        remote: The memory of other hosts that the loader uses; None: there is none, or no epoch has begun.
        telemetry: What the loader publishes of itself; None: no epoch has begun.
        cores: The loader's share of the host's cores; None: no epoch has begun, or there are no threads.
        last_indices: The indices of the samples in the batch that was yielded last.
    """

    def __init__(self) -> None:
        self.counts = Counts()
        self.cache: SampleCache | None = None
        self.controller: SplitController | None = None
        self.remote: RemoteCache | None = None
        self.telemetry: Telemetry | None = None
        self.cores: CoreShare | None = None
        self.last_indices: np.ndarray | None = None
        self._hosts: tuple[Any, Hosts] | None = None  # what they share, and they
        self._checked: tuple[bytes, np.ndarray] | None = None  # of these files
        self._unrecoded: tuple[bytes, np.ndarray] | None = None  # likewise
        self._suspects: tuple[bytes, Suspects] | None = None  # of the files of these names
        self._given_up: tuple[bytes, str] | None = None  # files that are no longer shared, and why
        self._outdated: SampleCache | None = None  # the last that was found to be of an earlier time
        self._warned = False

    def tick(self, progress: Callable[[], WorkDone], *, ended: bool = False) -> None:
        """Called between two batches: take part in the choice of the split, and publish what was done."""
        if self.controller is not None:
            self.controller.tick(progress, ended=ended)
        telemetry = self.telemetry
        if telemetry is not None and telemetry.tick(progress, ended=ended) and self.cores is not None:
            self.cores.tick(telemetry.done.stall_s or 0.0, telemetry.spent_ns, ended=ended)
            telemetry.uses(self.cores.threads)
        if ended and logger.isEnabledFor(logging.INFO):
            logger.info("%s", self.diagnosis(may_measure=False))

    def checked(self, files: PictureFiles, options: Options) -> np.ndarray | None:
        """With ``check_every="first"``: a bit for each sample whose payload was compared with its file."""
        if options.check_every != "first":
            return None
        name = files.fingerprint()
        if self._checked is None or self._checked[0] != name:
            self._checked = name, np.zeros(-(-len(files) // 64), np.uint64)
        return self._checked[1]

    def unrecoded(self, files: PictureFiles) -> np.ndarray:
        """A bit for each file that was found to have no RECODED payload."""
        name = files.fingerprint()
        if self._unrecoded is None or self._unrecoded[0] != name:
            self._unrecoded = name, np.zeros(-(-len(files) // 64), np.uint64)
        return self._unrecoded[1]

    def suspects(self, files: PictureFiles, cache: SampleCache | None) -> Suspects:
        """The samples of an epoch of which ``cache`` may hold what their files were before."""
        if self._suspects is None or self._suspects[0] != files.names():
            self._suspects = files.names(), Suspects(np.zeros(len(files), np.uint32))
        suspects = self._suspects[1]
        if cache is not None:
            suspects.begin(files, cache.segment)
        return suspects

    def core_share(self, workers: int) -> CoreShare | None:
        """The share of a loader with so many threads at the most; None: the calling thread prepares."""
        is_auto = isinstance(workers, AutoWorkers)
        if workers == 0:
            self.cores = None
        elif self.cores is None or not self.cores.suits(workers, is_auto=is_auto):
            self.cores = CoreShare(workers, is_auto=is_auto, here=True)
        return self.cores

    def begin_cores(self) -> None:
        """Begin to measure what an epoch needs, once its telemetry has begun."""
        if self.cores is not None and self.telemetry is not None:
            self.cores.begin(self.telemetry.done.stall_s or 0.0, self.telemetry.spent_ns)

    def diagnosis(self, *, may_measure: bool) -> Diagnosis | None:
        """Why the training loop waited in the last epoch; None: none has begun.

        Args:
            may_measure: As in :meth:`SplitController.model_inputs`.
        """
        times = None if self.telemetry is None else self.telemetry.epoch_times()
        known = None if self.controller is None else self.controller.model_inputs(may_measure=may_measure)
        return None if times is None else diagnose(times, known)

    def copied(self) -> Session:
        """For a copy of the loader: it joins and counts for itself, but knows what the user has read."""
        copy = Session()
        copy.last_indices = self.last_indices
        copy._given_up, copy._warned = self._given_up, self._warned
        return copy

    def warn(self, text: str) -> None:
        """Warn the user, once a loader."""
        if not self._warned:
            self._warned = True
            warn(text)

    def why_given_up(self, files: Any) -> str | None:
        """Why these files are no longer shared; None: they may be shared."""
        if self._given_up is None or self._given_up[0] != files.fingerprint():
            return None
        return self._given_up[1]

    def inputs(
        self,
        support: Support,
        options: Options,
        *,
        pinned: bool,
        is_planned: bool,
        travel: Travel = COMPLETE,
    ) -> Inputs:
        """Join the cache that ``options`` name, for an epoch that begins.

        Args:
            support, options: Of the loader.
            pinned: Whether batches are in page-locked memory.
            is_planned: Whether the epoch may take copies of other jobs in place of its samples.
            travel: How batches leave the threads.

        Raises:
            NoSpaceError: There is no room for the cache: the user has asked for too much.
            SegmentMismatchError: The cache holds another dataset, and the loader has not shared one before.
            SegmentFolderError: Likewise, and ``SENECA_DIR`` names a folder that cannot hold a cache.
        """
        self.remote = remote_cache(options.remote_wanted)
        if self.remote is not None:
            self.remote.begin()
            if options.cache is None and options.verify_files == "epoch" and support.files is not None:
                support.files.stat()  # what other hosts have left is of files as they were
        cache, pipeline = self._join(support.files, options), support.pipeline
        if cache is not None and pipeline is not None:
            exchanges = is_planned and options.share == "augmented" and not pipeline.deterministic
            note_user(cache, self, pipeline.augmented_fingerprint if exchanges else 0)
        if travel.normalizer is not None:
            support = of_bytes(support)
        return Inputs(support, options, cache, pinned, self.remote, is_planned, travel)

    def sharing(self, inputs: Inputs, sequence: tuple[Any, ...], epoch: int) -> dict[str, Any]:
        """What a :class:`Stream` needs of other hosts that share its exact copies.

        Args:
            inputs: What the epoch is prepared from.
            sequence: Names the copies of all epochs, and the order in which hosts come to them.
            epoch: The name of the epoch's copies.

        Returns:
            Keyword arguments; none if there are no servers, or if this host's cache cannot be named.
        """
        if inputs.cache is None or inputs.remote is None:
            return {}
        try:
            host = identity_of(inputs.cache.path)
        except OSError:
            return {}
        key = sequence, host, inputs.remote
        if self._hosts is None or self._hosts[0] != key:
            self._hosts = key, Hosts(inputs.remote.handle, _digest(sequence, _decoders()), host)
        return {"hosts": self._hosts[1], "exact_copies": _digest(sequence, _decoders(), epoch)}

    def _join(self, files: Any, options: Options) -> SampleCache | None:
        name, folder, cache_bytes = options.cache, None, options.cache_bytes
        if isinstance(name, SampleCache):
            if name.owned_here and not name.segment.closed and name.segment.distrusted:
                cache_bytes = name.segment.payload_bytes  # it was given up: another is begun in its place
            elif name.owned_here and name.job == job_key(options.job):
                if name.segment.fingerprint == files.fingerprint():
                    return name
                self._go_on_without_cache(
                    SegmentMismatchError(f"{name!r} holds another dataset than {files.root}")
                )
                return None
            folder = name.folder
            name = name.name  # or a forked child's copy, or another job's: join for itself
        if name is None or self.why_given_up(files) is not None:
            return None
        try:
            return shared_cache(
                name,
                files,
                cache_bytes=cache_bytes,
                split=options.split_wanted,
                keep=options.keep_wanted,
                job=options.job,
                folder=folder,
            )
        except SegmentError as error:
            self._go_on_without_cache(error)
            return None

    def _go_on_without_cache(self, error: SegmentError) -> None:
        """Share nothing in this epoch. A job that runs does not end because of that.

        What the user has to mend is raised: shared memory has no room; or, before the first epoch, the cache
        holds another dataset or ``SENECA_DIR`` names a folder that cannot hold one.
        """
        first = self.cache is None
        if isinstance(error, NoSpaceError) or (first and isinstance(error, MISTAKES)):
            raise error
        self.warn(f"going on without the shared cache: {error}")

    def give_up_distrusted(self) -> None:
        """Stop sharing if a job has found that the cache holds wrong samples. The user is warned once.

        If it only is of an earlier time than the files, no job disagrees. The next epoch begins another.
        """
        cache = self.cache
        if self._given_up is not None or cache is None:
            return
        if cache.segment.closed or not cache.segment.distrusted:
            return
        if (why := cache.segment.why_distrusted()) is None or cache is self._outdated:
            return
        if why[3] == Form.STORAGE:
            self._outdated = cache
            logger.info(
                "the cache %r holds sample %d as it was before its file changed: each job goes on with what "
                "it makes itself, and begins another cache with its next epoch",
                cache.name,
                why[2],
            )
        else:
            text = distrust_text(cache.name, *why, own_job=why[0] == cache.segment.job_key)
            self._given_up = cache.segment.fingerprint, text
            warn(text)


@functools.cache
def _decoders() -> tuple[Any, ...]:
    """The versions of what decodes pictures here, besides libjpeg-turbo, which pipelines name."""
    found = tuple((name, features.version(name)) for name in sorted(features.get_supported()))
    return PIL.__version__, found, codec.libwebp(), codec.libpng()


def _digest(*names: Any) -> bytes:
    """16 bytes that name what these texts, bytes and numbers do."""
    return hashlib.blake2b(repr(names).encode(), digest_size=16).digest()
