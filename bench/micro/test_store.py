"""What it costs to draw a batch of 64 places, to commit a copy, to take the lock and give it back.

``draw-alone`` is one job, which nobody else shares with; ``draw-shared`` are two that use each other's
copies, and the mean of their draws.
"""

import pytest
from stages import CLOCK

pytestmark = pytest.mark.benchmark(group="store", timer=CLOCK)


@pytest.mark.parametrize("stage", ["draw-alone", "draw-shared", "commit", "lock"])
def test_store(measure, stage):
    measure(stage)
