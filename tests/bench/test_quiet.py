"""Of disturbed measurements the least disturbed counts."""

import subprocess
import sys
import time

import pytest
import quiet
from quiet import host_s, least_disturbed, own_s
from sizes import size

CORES = 2
PASSES_S = 10
BUSY_S = size(0.25, 0.5)
BUSY = f"import time\nwhile time.process_time() < {BUSY_S}: pass"


@pytest.mark.parametrize(
    ("stolen", "others", "calls", "chosen"),
    [
        ([0.001], [0.001], 1, 0),
        ([0.2, 0.001], [0.0, 0.001], 2, 1),
        ([0.0, 0.0], [0.2, 0.001], 2, 1),
        ([0.2, 0.05, 0.1], [0.0, 0.1, 0.0], 3, 2),
    ],
)
def test_a_disturbed_call_is_repeated_and_the_least_disturbed_counts(
    monkeypatch, stolen, others, calls, chosen
):
    clock, counters, own, made = [0.0], [0.0, 0.0], [0.0], []
    monkeypatch.setattr(quiet.os, "cpu_count", lambda: CORES)
    monkeypatch.setattr(quiet.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(quiet, "host_s", lambda: tuple(counters))
    monkeypatch.setattr(quiet, "own_s", lambda: own[0])

    def measure():
        used = 3.0
        clock[0] += PASSES_S
        counters[0] += stolen[len(made)] * PASSES_S * CORES
        counters[1] += others[len(made)] * PASSES_S * CORES + used
        own[0] += used
        made.append(len(made))
        return made[-1]

    result, share = least_disturbed(measure)
    assert (len(made), result) == (calls, chosen)
    assert share == pytest.approx(stolen[chosen] + others[chosen])


def test_what_a_process_that_was_waited_for_has_used_is_its_own():
    before = own_s()
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    assert own_s() - before > BUSY_S - 0.05  # it is counted in ticks


def test_the_kernel_counts_what_is_stolen_and_what_is_used():
    stolen, used = host_s()
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    assert 0 <= stolen <= host_s()[0] and used + 0.05 <= host_s()[1]
