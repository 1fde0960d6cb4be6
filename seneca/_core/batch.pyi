from typing import Any

import numpy as np
import numpy.typing as npt

from seneca._core.plan import Plan

def batch_write(
    plan: Plan,
    augmented: npt.NDArray[np.uint8],
    out: npt.NDArray[Any],
    seed: int = 0,
    epoch: int = 0,
    index: int = 0,
) -> None: ...
def mix_up(pictures: npt.NDArray[np.float32], share: float) -> None: ...
