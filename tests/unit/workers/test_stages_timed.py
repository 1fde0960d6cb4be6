"""What the stages of a dataset take, as worker processes count it."""

import itertools
from types import SimpleNamespace

import numpy as np

from seneca.data.stages import Payload
from seneca.workers import stages as timed


def test_each_stage_of_a_dataset_is_noted_under_its_own_name(monkeypatch):
    stages = SimpleNamespace(
        decoded=1,
        read=lambda index: b"bytes",
        decode=lambda index, data: Payload(b"decoded", 0, 0),
        augment=lambda index, decoded: "augmented",
        augment_encoded=lambda index, data: "prepared",
        present=lambda index, augmented: (augmented, index),
    )
    wall, cpu = itertools.count(step=1000), itertools.count(step=1)
    clocks = SimpleNamespace(perf_counter_ns=lambda: next(wall), thread_time_ns=lambda: next(cpu))
    monkeypatch.setattr(timed, "time", clocks)
    counts = np.zeros(len(timed.COUNTERS), np.int64)
    watched = timed.TimedStages(stages, counts)
    assert watched.read(0) == b"bytes"
    assert {watched.augment(0, watched.decode(0, b"")) for _ in range(2)} == {"augmented"}
    assert watched.present(3, "augmented") == ("augmented", 3)
    assert {watched.augment(0, None), watched.augment_encoded(0, b"")} == {"augmented", "prepared"}
    assert {name: count for name, count in zip(timed.COUNTERS, counts.tolist(), strict=True) if count} == {
        **{"reads": 1, "prepares": 1, "decodes": 2, "augments": 3},
        **{"read_ns": 1000, "prepare_ns": 1, "decode_ns": 2, "augment_ns": 3},
        **{"read_bytes": 5, "decoded_bytes": 14},
    }
