"""What the servers of ``remote=`` give, as one process sees it while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

__all__ = ["ENOUGH", "Asked", "Served"]

ENOUGH = 64  # the mean of fewer measurements tells nothing
FEWER = 0.5  # reads of which so many fewer ran at a time say nothing of the time that many take


@dataclass(frozen=True)
class Asked:
    """What was asked of servers, and what they answered.

    Args:
        times: The samples that were asked for, or would have been if their server had not failed.
        hits: How many of them a server had.
        stored: The samples that were left there because it had them not.
        read_bytes: The bytes of the files that came.
        seconds: How long these reads took in all, by the wall clock.
    """

    times: int = 0
    hits: int = 0
    stored: int = 0
    read_bytes: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, stats: Iterable[Mapping[str, Any]]) -> Asked:
        """The sum of what was asked of each server: the values of ``stats()["remote"]``."""
        parts = [
            cls(
                one["hits"] + one["misses"] + one["skipped"],
                *(one["hits"], one["stored"], one["bytes"], one["get_s"]),
            )
            for one in stats
        ]
        return sum(parts, cls())

    def __add__(self, more: Asked) -> Asked:
        return Asked(*(a + b for a, b in zip(astuple(self), astuple(more), strict=True)))

    def since(self, before: Asked) -> Asked:
        """What has been added since ``before``."""
        return Asked(*(a - b for a, b in zip(astuple(self), astuple(before), strict=True)))


@dataclass(frozen=True)
class Served:
    """The servers as they were measured.

    Args:
        share: The share of the files that they have, from 0 to 1.
        read_s: The seconds from asking for a file to having it, by the wall clock; 0: no file came yet.
        at_a_time: How many files were asked for at a time when a file took so long.

    Example:
        >>> found = Served.after(None, Asked(100, hits=80, stored=10, read_bytes=8_000_000, seconds=0.4), 2.0)
        >>> found
        Served(share=0.9, read_s=0.005, at_a_time=1.0)
        >>> found.bytes_per_s(4, file_bytes=100_000)
        80000000.0
    """

    share: float
    read_s: float = 0.0
    at_a_time: float = 1.0

    def __str__(self) -> str:
        if self.share == 0:
            return "nothing"
        return f"{self.share:.0%} of the files" + (
            f", one in {1e3 * self.read_s:.3g} ms" if self.read_s else ""
        )

    def bytes_per_s(self, readers: float, file_bytes: float) -> float:
        """Bytes a second for so many readers. Twice as many get twice as much, until more were seen."""
        return readers * file_bytes / self.read_s if self.read_s else float("inf")

    @classmethod
    def after(cls, before: Served | None, asked: Asked, seconds: float, jobs: int = 1) -> Served | None:
        """What is known of the servers, after one process has asked so much of them in so many seconds.

        A file that was left there will be there, and counts as one that they have. If a network is full, many
        files at a time take longer each. Later reads, of which fewer run at a time, do not make that undone.

        Args:
            before: What was known before; None: nothing.
            asked: What was asked since.
            seconds: The length of the time.
            jobs: The jobs of the host. Each is assumed to ask as much.
        """
        if asked.times < ENOUGH:
            return before
        share = min(1.0, (asked.hits + asked.stored) / asked.times)
        read_s, at_a_time = (before.read_s, before.at_a_time) if before else (0.0, 1.0)
        if asked.hits >= ENOUGH:
            now_s, now = asked.seconds / asked.hits, max(1.0, jobs * asked.seconds / max(seconds, 1e-9))
            if now_s > read_s or now >= FEWER * at_a_time:
                read_s, at_a_time = now_s, now
        return cls(share, read_s, at_a_time)
