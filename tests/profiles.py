"""Profiles of hosts that do not exist, for tests of models and commands."""

from __future__ import annotations

import dataclasses

from seneca.partition import Cost, Profile, Reading, Size

# 4 cores, 100,000 pictures of 100 kB (10 GB), storage of 50 MB/s: of round numbers, so that what a model
# must answer can be worked out by hand.
ROUND = Profile(
    host="a host",
    dataset="some files",
    pipeline="a transform",
    samples=100_000,
    cores=4,
    cache_bytes=5_000_000_000,
    free_memory_bytes=5_000_000_000,
    storage=(Reading(1, 20e6, 5e-3), Reading(2, 35e6, 6e-3), Reading(4, 50e6, 8e-3)),
    storage_cold=True,
    fetch=Cost(1e-4, 1e-4),
    decode=Cost(2e-3, 2e-3),
    augment=Cost(2e-4, 4e-4),
    prepare=Cost(1e-3, 1.6e-3),
    batch=Cost(1e-4, 1e-4),
    memory_bytes_per_s=10e9,
    encoded=Size(97_952.0, 30_000.0),  # and half a granule: 100,000
    decoded=Size(497_952.0, 100_000.0),
    augmented=Size(150_528.0),  # 37 granules, 151,552
    batch_bytes=602_112,
)


# The same pictures, of which nine tenths can be RECODED.
RECODED = {
    "recoded": Size(117_952.0),  # and half a granule: 120,000
    "recode": Cost(3e-3, 4e-3),
    "redraw": Cost(3e-4, 5e-4),
    "recodable": 0.9,
}


def round_profile(**changes) -> Profile:
    """``ROUND`` with some fields changed."""
    return dataclasses.replace(ROUND, **changes)
