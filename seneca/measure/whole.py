"""A profile, put together from storage's rates and the work of threads."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from seneca._pipeline.plan import Pipeline
from seneca.measure import host
from seneca.measure.storage import StorageRates
from seneca.measure.work import NUMPY_TYPES, Work, batch_shape, costs
from seneca.partition import Profile
from seneca.sources.files import PictureFiles

__all__ = ["profile_by"]


def profile_by(
    files: PictureFiles,
    what_runs: Pipeline,
    storage: StorageRates,
    alone: Work,
    together: Work,
    **others: Any,
) -> Profile:
    """What was measured of this host, these files and what is done to them.

    Args:
        files: All of them.
        what_runs: What is done to them.
        storage: Its rates.
        alone: The work of one thread.
        together: Of all, on a picture at least.
        others: The profile's other fields.
    """
    cost: dict[str, Any] = costs(alone, together)  # by the names of the fields
    return Profile(
        host=host.fingerprint(),
        dataset=files.fingerprint().hex(),
        samples=len(files),
        cores=host.cores(),
        storage=storage.readings,
        storage_cold=storage.cold,
        **cost,
        encoded=dataclasses.replace(together.size("encoded"), mean_bytes=files.total_bytes() / len(files)),
        decoded=together.size("decoded"),
        augmented=together.size("augmented"),
        batch_bytes=math.prod(batch_shape(what_runs)) * np.dtype(NUMPY_TYPES[what_runs.dtype]).itemsize,
        deterministic=what_runs.deterministic,
        measured_samples=min(len(together.encoded), len(files)),
        **others,
    )
