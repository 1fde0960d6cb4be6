"""Of disturbed measurements the least disturbed counts."""

import pytest
import quiet
from quiet import least_stolen, stolen_s


@pytest.mark.parametrize(
    ("stolen", "calls", "chosen"),
    [([0.001], 1, 0), ([0.2, 0.001], 2, 1), ([0.2, 0.05, 0.1], 3, 1)],
)
def test_a_disturbed_call_is_repeated_and_the_least_disturbed_counts(monkeypatch, stolen, calls, chosen):
    cores, clock, counter, made = 2, [0.0], [0.0], []
    monkeypatch.setattr(quiet.os, "cpu_count", lambda: cores)
    monkeypatch.setattr(quiet.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(quiet, "stolen_s", lambda: counter[0])

    def measure():
        clock[0] += 10
        counter[0] += stolen[len(made)] * 10 * cores
        made.append(len(made))
        return made[-1]

    result, share = least_stolen(measure)
    assert (len(made), result) == (calls, chosen) and share == pytest.approx(stolen[chosen])


def test_the_kernel_counts_what_is_stolen():
    assert 0 <= stolen_s() <= stolen_s()
