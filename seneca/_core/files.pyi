from typing import Any

import numpy as np

FILE_STAT: np.dtype[Any]

def stat_many(paths: bytes | memoryview, offsets: np.ndarray, threads: int) -> np.ndarray: ...
