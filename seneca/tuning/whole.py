"""Puts a profile together from the rates of storage and the work of threads."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from seneca.data.files import PictureFiles
from seneca.partition import Profile
from seneca.transforms._pipeline import Pipeline
from seneca.tuning import host
from seneca.tuning.storage import StorageRates
from seneca.tuning.work import NUMPY_TYPES, Work, batch_shape, costs

__all__ = ["profile_by"]


def profile_by(
    files: PictureFiles,
    what_runs: Pipeline,
    storage: StorageRates,
    alone: Work,
    together: Work,
    **others: Any,
) -> Profile:
    """Make the profile of this host with these files and this pipeline.

    Args:
        files: All files of the dataset.
        what_runs: The compiled transform.
        storage: The rates of storage.
        alone: The work of one thread.
        together: The work of all threads, on at least one picture.
        others: The profile's other fields.
    """
    found: dict[str, Any] = costs(alone, together)  # by the profile's field names
    if together.recoded:
        found["recoded"] = together.size("recoded")
        found["recodable"] = len(together.recoded) / len(together.encoded)
    return Profile(
        host=host.fingerprint(),
        dataset=files.fingerprint().hex(),
        samples=len(files),
        cores=host.cores(),
        storage=storage.readings,
        storage_cold=storage.cold,
        **found,
        encoded=dataclasses.replace(together.size("encoded"), mean_bytes=files.total_bytes() / len(files)),
        decoded=together.size("decoded"),
        augmented=together.size("augmented"),
        batch_bytes=math.prod(batch_shape(what_runs)) * np.dtype(NUMPY_TYPES[what_runs.dtype]).itemsize,
        deterministic=what_runs.deterministic,
        measured_samples=min(len(together.encoded), len(files)),
        **others,
    )
