"""On what terms processes share, and batches that were drawn for them."""

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from seneca.workers.terms import Batch, PlannedBatch, Terms

TERMS = Terms(
    "cache",
    b"s" * 16,
    10,
    1000,
    False,
    "auto",
    None,
    0.0,
    True,
    SimpleNamespace(decoded=1, augmented=2),
    None,
)


def test_terms_answer_as_a_dataset_does():
    assert (len(TERMS), TERMS.fingerprint(), TERMS.total_bytes()) == (10, b"s" * 16, 1000)
    assert TERMS.newest_ctime() == 0, "it has no files"
    assert TERMS.names == (b"s" * 16, 1, 2)


def test_what_was_made_is_good_on_terms_of_the_same_names():
    assert TERMS.shares_as(replace(TERMS, own=np.arange(3, dtype=np.uint32), cache_bytes=5))
    for other in (
        None,
        replace(TERMS, name="other"),
        replace(TERMS, source=b"t" * 16),
        replace(TERMS, shares=False),
        replace(TERMS, stages=SimpleNamespace(decoded=1, augmented=3)),
    ):
        assert not TERMS.shares_as(other)


def test_a_batch_is_a_list_that_keeps_its_inspection_in_a_pickle():
    batch = PlannedBatch.of([3, 1], 7, TERMS.names, 5)
    batch.names, batch.row, batch.generation, batch.claims = TERMS.names, 4, 9, None
    again = pickle.loads(pickle.dumps(batch))
    assert again == [3, 1] and type(again) is PlannedBatch
    assert (again.inspection, again.found, again.row, again.generation, again.log) == (
        7,
        TERMS.names,
        4,
        9,
        None,
    )
    assert (again.files, again.epoch) == (5, None)
    assert type(Batch.of((), 0, None)) is Batch
