"""CLRFU: which whole datasets stay, by recency, frequency and cost."""

from __future__ import annotations

from collections.abc import Hashable, Mapping


class LRFU:
    """LRFU (Lee et al., IEEE Transactions on Computers 50(12), 2001), as DLCache's artifact has it.

    What scores least is evicted. A use counts one, and half as much after every two units of time.
    """

    HALVES_AFTER = 2.0

    def __init__(self, costs: Mapping[Hashable, float]) -> None:
        self.costs = costs
        self.counted: dict[Hashable, tuple[float, float]] = {}  # the uses as they counted, and when

    def use(self, unit: Hashable, now: float, times: int = 1) -> None:
        """Note that ``times`` jobs use a unit, whether it is cached or not."""
        self.counted[unit] = (self.crf(unit, now) + times, now)

    def crf(self, unit: Hashable, now: float) -> float:
        """The combined recency and frequency of a unit."""
        counted, then = self.counted.get(unit, (0.0, now))
        return counted * 2 ** ((then - now) / self.HALVES_AFTER)

    def score(self, unit: Hashable, now: float) -> tuple[float, ...]:
        return (self.crf(unit, now),)


class CLRFU(LRFU):
    """CLRFU, the eviction of DLCache (Kang et al., ISORC '23): among equals in LRFU the cheaper one goes.

    It chooses among datasets, or among the archives that they consist of, and not among the samples of one
    dataset. Therefore it runs under ``kept_caches``, and not under the clock of the other policies.

    The cost is the time that it took to download a unit. Kinder than the original: time is counted in jobs.
    The artifact takes the clock of the machine that simulates, where all jobs begin within milliseconds and
    nothing is ever old. The same: uses are remembered after eviction.
    """

    def score(self, unit: Hashable, now: float) -> tuple[float, ...]:
        return (self.crf(unit, now), self.costs[unit])
