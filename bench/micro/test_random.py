"""What it costs to make four random numbers, and to start the stream of a sample."""

import pytest
from stages import CLOCK

pytestmark = pytest.mark.benchmark(group="random", timer=CLOCK)


@pytest.mark.parametrize("stage", ["philox", "start-stream"])
def test_random(measure, stage):
    measure(stage)
