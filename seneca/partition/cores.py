"""How the cores of a host are divided between the loaders that prepare samples on it.

::

    what each loader needs --shares()--> cores for each --threads()--> how many threads or workers

A need does not depend on what a loader was given: it is what the loader's training step would take if it
never waited. Therefore, loaders that all compute their shares by themselves, from the same needs, do not
chase each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["Need", "Threads", "shares"]

# Threads for each core of a share: as many as are wanted; fewer are too few; more are too many.
WANTED, TOO_FEW, TOO_MANY = 1.25, 1.1, 1.5  # samples are not equally hard
WANTED_IF_FULL, TOO_FEW_IF_FULL, TOO_MANY_IF_FULL = 1.0, 0.91, 1.0  # spare threads would only compete
LEAST = 0.05  # cores; a loader that needs less is taken to need so much


@dataclass(frozen=True)
class Need:
    """The cores that a loader needs to keep its training step from waiting.

    Args:
        prepare: Those that prepare its samples.
        loop: The rest of its process, mainly the training loop.
        takes_all: Whether its training step takes samples as fast as they come. ``prepare`` is then what it
            has now, and no limit.
    """

    prepare: float
    loop: float
    takes_all: bool = False


def shares(needs: Sequence[Need], cores: float) -> list[float]:
    """Divide the cores: how many each loader's samples are prepared by.

    Method: if there are enough cores, each loader gets what it needs, and those that take all share the rest.
    Else all are slowed down equally: each gets the same part of its need. No loader's need counts as more
    than all cores; one that is larger is made smaller as a whole, because a loop that waits needs less
    itself. A loader that takes all counts as if it needed an equal part of the cores, or of what the others
    leave, if that is more.

    This is Lobster's aim, threads to the job that waits (Lobster, ICPP 2022, Algorithm 1), as a closed
    formula over all jobs of the host. The training loops' own cores are set aside first, as measured.

    Args:
        needs: One for each loader.
        cores: What all of them may use together.

    Returns:
        Cores for each, in the same order. Their sum, with the loops', is at most ``cores``, but no loader
        gets less than some hundredths.

    Example:
        >>> shares([Need(0.3, 0.1), Need(1.0, 0.1, takes_all=True)], cores=2)
        [0.3, 1.5]
        >>> shares([Need(3, 0), Need(5, 0)], cores=6)
        [2.25, 3.75]
        >>> shares([Need(14, 2)], cores=2)
        [1.75]
    """
    needs = [_within(need, cores) for need in needs]
    greedy = sum(need.takes_all for need in needs)
    finite = sum(need.prepare + need.loop for need in needs if not need.takes_all)
    takes = max(cores / len(needs), (cores - finite) / greedy) if greedy else 0.0
    wanted = finite + greedy * takes
    slower = min(1.0, cores / wanted) if wanted > 0 else 1.0
    return [
        max(LEAST, round(slower * takes - need.loop if need.takes_all else slower * need.prepare, 9))
        for need in needs
    ]


def _within(need: Need, cores: float) -> Need:
    """The need of a loader that runs alone on so many cores."""
    if need.takes_all or need.prepare + need.loop <= cores:
        return need
    slower = cores / (need.prepare + need.loop)
    return replace(need, prepare=slower * need.prepare, loop=slower * need.loop)


class Threads:
    """How many threads a loader uses, which follows its share but not each of its tremors.

    A change needs two samples in a row that agree. It at most doubles, or halves, the number. While the
    number suits a share that is somewhat larger or smaller, nothing changes.

    Args:
        now: The number to begin with.
        most: The largest number.

    Example:
        >>> threads = Threads(now=2, most=8)
        >>> [threads.follow(3.5, full=False) for _ in range(4)]
        [2, 4, 4, 4]
    """

    def __init__(self, now: int, most: int) -> None:
        self.now, self.most = max(1, min(now, most)), most
        self._direction = 0

    def follow(self, share: float, *, full: bool) -> int:
        """Take note of the loader's share, and return the number from now on.

        Args:
            share: In cores; if those who prepare also wait for storage, as many times more as they wait
                longer. full: Whether all cores are given away.
        """
        each = WANTED, TOO_FEW, TOO_MANY
        if full:
            each = WANTED_IF_FULL, TOO_FEW_IF_FULL, TOO_MANY_IF_FULL
        wanted, few, many = (max(1, min(self.most, math.ceil(share * one))) for one in each)
        direction = 1 if few > self.now else -1 if many < self.now else 0
        if direction and direction == self._direction:
            self.now = min(wanted, 2 * self.now) if direction > 0 else max(wanted, self.now // 2, 1)
        else:
            self._direction = direction
        return self.now
