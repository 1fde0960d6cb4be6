"""Splits, and profiles of any host."""

from __future__ import annotations

import dataclasses

from hypothesis import strategies as st
from profiles import ROUND

from seneca.partition import (
    Cost,
    Jobs,
    Reading,
    Size,
    Split,
)

ENCODED, DECODED, AUGMENTED = Split(1, 0, 0), Split(0, 1, 0), Split(0, 0, 1)

rates = st.floats(1e5, 1e10)

seconds = st.floats(1e-6, 0.05)

costs = st.builds(lambda one, more: Cost(one, one * more), seconds, st.floats(1.0, 3.0))

profiles = st.builds(
    lambda reads, latency, cache, spare, augment, decoding, **fields: dataclasses.replace(
        ROUND,
        augment=augment,
        prepare=Cost(augment.one_s + decoding.one_s, augment.all_s + decoding.all_s),
        storage=tuple(Reading(1 << i, value, latency * 1.5**i) for i, value in enumerate(reads)),
        cache_bytes=cache,
        free_memory_bytes=cache + spare,
        **fields,
    ),
    reads=st.lists(rates, min_size=1, max_size=4),
    latency=st.floats(0.0, 0.1),
    cache=st.integers(1 << 20, 1 << 36),
    spare=st.integers(0, 1 << 36),
    samples=st.integers(10, 10**7),
    cores=st.integers(1, 64),
    fetch=costs,
    augment=costs,
    decoding=costs,
    batch=costs,
    memory_bytes_per_s=st.floats(1e8, 1e12),
    encoded=st.builds(Size, st.floats(1e3, 1e6)),
    recoded=st.builds(Size, st.floats(1e3, 1e6)),
    decoded=st.builds(Size, st.floats(1e4, 1e7)),
    recode=costs,
    redraw=costs,
    recodable=st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0)),
    deterministic=st.booleans(),
)

paces = st.one_of(st.none(), st.floats(1.0, 1e5))

all_jobs = st.integers(1, 8).flatmap(
    lambda count: st.builds(
        Jobs,
        st.just(count),
        step_per_s=st.one_of(paces, st.tuples(*[st.floats(1.0, 1e5)] * count)),
        batch_size=st.integers(1, 1024),
        ahead=st.integers(0, 4),
        threads=st.integers(1, 64),
        reads_ahead=st.sampled_from([0, 0, 64]),
        share=st.sampled_from(["augmented", "decoded", "none"]),
    )
)
