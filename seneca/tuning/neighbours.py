"""Jobs of this host whose datasets resemble this job's, and that do not share with it: what differs.

Two jobs that were meant to share, and do not, take twice the memory and time, and nothing fails. Therefore
each publishes in its row of the segment what its dataset is made of, part by part, as digests. A part that
differs is named.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from seneca._core.telemetry import publish_dataset
from seneca._runtime.distributed import world
from seneca.cache import SampleCache
from seneca.data.stages import number_of
from seneca.data.traits import Traits
from seneca.errors import SegmentError
from seneca.segments import DatasetSeen, State, find, segments

__all__ = ["neighbours_text", "publish_traits", "sharers_text"]

MOST_JOBS, MOST_PARTS = 3, 4  # that are named

logger = logging.getLogger("seneca.sharing")  # the name that users filter by

_logged: set[int] = set()  # of which datasets this process has logged it


class Neighbour(NamedTuple):
    """A job with a dataset of the same class and length, of which this job shares nothing, or not all.

    Attributes:
        name: What people call the job.
        pid: A process of it.
        cache: The name of its cache.
        differ: The parts of this job's dataset that differ, or that the other has not.
        shares_some: Whether both read the same samples from storage, so that they share these at least.
        is_equal: Whether the datasets are equal, so that only the caches are not the same.
    """

    name: str
    pid: int
    cache: str
    differ: tuple[str, ...]
    shares_some: bool
    is_equal: bool

    def __str__(self) -> str:
        name = f" ({self.name})" if self.name else ""
        part = "a part is shared, but " if self.shares_some and not self.is_equal else ""
        return f"process {self.pid}{name}: {part}{self._why()}"

    def _why(self) -> str:
        if self.is_equal:
            return f"it has another cache, {self.cache!r}"
        if not self.differ:
            return "something differs that has no name, or that only its dataset has"
        parts, more = ", ".join(self.differ[:MOST_PARTS]), len(self.differ) - MOST_PARTS
        if more > 0:
            return f"{parts} and {more} more differ"
        return f"{parts} differ{'' if len(self.differ) > 1 else 's'}"


def sharers_text(cache: str, job: int, folder: str | None = None) -> str:
    """Describe the other jobs that use a cache now, or say that there is none. For the arguments see
    :func:`neighbours_text`."""
    try:
        view = find(cache, None if folder is None else Path(folder)).view
    except (OSError, SegmentError):
        view = None  # no job has made it yet, or it cannot be read
    others = [one for one in view.jobs if one.key != f"{job:016x}"] if view is not None else []
    if not others:
        return "now no other job uses that cache"
    named = [
        f"process {one.pids[0] if one.pids else '?'}" + (f" ({one.work[0].name})" if one.work else "")
        for one in others[:MOST_JOBS]
    ]
    if len(others) > MOST_JOBS:
        named.append(f"and {len(others) - MOST_JOBS} more")
    return f"now {len(others)} other job{'s use' if len(others) > 1 else ' uses'} it: {', '.join(named)}"


def neighbours_text(traits: Traits, cache: str, job: int, folder: str | None = None) -> str:
    """Describe jobs that do not share with this one although their datasets resemble, and why; "": none.

    Args:
        traits: What this job's dataset is made of.
        cache: The name of its cache.
        job: The key of the job.
        folder: Where the segments are stored; None: where this process would make one.
    """
    try:
        found = _neighbours(traits, cache, job, None if folder is None else Path(folder))
    except (OSError, SegmentError):
        return ""  # the folder is gone, or cannot be listed
    if not found:
        return ""
    more = [f"and {len(found) - MOST_JOBS} jobs more"] if len(found) > MOST_JOBS else []
    jobs = "; ".join([*map(str, found[:MOST_JOBS]), *more])
    text = f"not shared with other jobs' datasets of the same class and length: {jobs}"
    if not all(one.shares_some for one in found) and traits.like not in _logged and world()[0] == 0:
        _logged.add(traits.like)
        logger.warning("seneca: %s", text)
    return text


def publish_traits(traits: Traits, cache: SampleCache) -> None:
    """Publish what this job's dataset is made of, and which jobs do not share with it."""
    text = neighbours_text(traits, cache.name, cache.job, cache.folder)
    parts = {number_of(name.encode()): digest for name, digest in traits.parts.items()}
    if not cache.segment.closed:
        publish_dataset(cache.segment, traits.like, traits.source, traits.kind, parts, text)


def _neighbours(traits: Traits, cache: str, job: int, folder: Path | None) -> list[Neighbour]:
    """All other jobs with a dataset of this class and length, and with none that is shared as a whole."""
    own_key = f"{job:016x}"
    like: dict[str, list[tuple[str, str, DatasetSeen]]] = {}
    for segment in segments(folder):
        if segment.view is None or segment.state is not State.IN_USE:
            continue
        for one in segment.view.jobs:
            names = {work.pid: work.name for work in one.work}
            for dataset in one.datasets:
                if one.key != own_key and dataset.like == traits.like:
                    found = segment.name, names.get(dataset.pid, ""), dataset
                    like.setdefault(one.key, []).append(found)
    return [
        _neighbour(traits, *datasets[0])
        for datasets in like.values()
        if not any(name == cache and seen.kind == traits.kind for name, _, seen in datasets)
    ]


def _neighbour(traits: Traits, cache: str, name: str, seen: DatasetSeen) -> Neighbour:
    differ = [
        part for part, digest in traits.parts.items() if seen.traits.get(number_of(part.encode())) != digest
    ]
    return Neighbour(
        name,
        seen.pid,
        cache,
        tuple(differ),
        shares_some=seen.source == traits.source,
        is_equal=seen.kind == traits.kind,
    )
