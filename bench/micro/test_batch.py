"""What it costs to write one picture of 224 x 224 into its batch, for each type and layout."""

import pytest
from stages import CLOCK

pytestmark = pytest.mark.benchmark(group="batch", timer=CLOCK)


@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16", "bfloat16"])
def test_write(measure, dtype, layout):
    measure(f"write-{dtype}-{layout}")
