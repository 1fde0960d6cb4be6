"""The published model: what equations 1 to 9 give for the paper's own machines and datasets."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from paper_tables import DATASETS, EVALUATION_CACHE_BYTES, MACHINES, TABLE_6, ring_reduce_bytes
from profiles import ROUND

from seneca.partition import PAPER, Jobs, Split, paper
from seneca.partition.estimate import shares_of
from seneca.partition.paper import (
    Dataset,
    Machine,
    throughputs,
)
from seneca.partition.solve import shares_grid

# What the equations give, in place of what Table 6 prints: docs/models.md shows both.
FOUND = {
    ("imagenet-1k", "in-house", 1): ("100-0-0", 2132.0, 2131.9),
    ("imagenet-1k", "in-house", 2): ("100-0-0", 4264.0, 4071.0),
    ("imagenet-1k", "aws", 1): ("100-0-0", 3432.0, 2179.2),
    ("imagenet-1k", "azure", 1): ("100-0-0", 9783.0, 4387.9),
    ("imagenet-1k", "azure", 2): ("100-0-0", 19566.0, 4387.9),
    ("openimages-v7", "in-house", 1): ("100-0-0", 1688.3, 1636.8),
    ("openimages-v7", "in-house", 2): ("100-0-0", 2038.1, 1834.3),
    ("openimages-v7", "aws", 1): ("100-0-0", 2557.9, 1716.8),
    ("openimages-v7", "azure", 1): ("100-0-0", 6784.9, 1280.1),
    ("openimages-v7", "azure", 2): ("100-0-0", 8178.1, 1421.7),
    ("imagenet-22k", "in-house", 1): ("0-100-0", 2141.5, 2132.0),
    ("imagenet-22k", "in-house", 2): ("100-0-0", 4264.0, 4264.0),
    ("imagenet-22k", "aws", 1): ("100-0-0", 2998.4, 2998.4),
    ("imagenet-22k", "azure", 1): ("100-0-0", 4938.8, 4938.8),
    ("imagenet-22k", "azure", 2): ("100-0-0", 7997.3, 7997.3),
}


def overall(machine, dataset, shares):
    return throughputs(machine, dataset, np.asarray(shares, float)).overall(dataset.samples)


@pytest.mark.parametrize(("name", "machine", "nodes"), FOUND)
def test_table_6_does_not_come_out_of_table_5(name, machine, nodes):
    best, rate, printed_rate = FOUND[name, machine, nodes]
    host = dataclasses.replace(MACHINES[machine], nodes=nodes, cache_bytes=EVALUATION_CACHE_BYTES[machine])
    printed = Split.parse(TABLE_6[name][machine, nodes])
    rates = overall(host, DATASETS[name], shares_grid(0.01))
    assert rates.max() == pytest.approx(rate, abs=0.05)
    wanted = Split.parse(best)
    for split, expected in ((wanted, rate), (printed, printed_rate)):
        assert overall(host, DATASETS[name], shares_of(split))[0] == pytest.approx(expected, abs=0.05)


def test_a_share_for_a_form_that_the_paper_does_not_have_is_refused():
    with pytest.raises(ValueError, match="the paper's model has no RECODED form"):
        paper(ROUND, Split(0.5, 0.25, 0.0, recoded=0.25), Jobs())
    with pytest.raises(ValueError, match="no RECODED form"):
        PAPER.estimate(ROUND, shares_grid(0.1, recoded=True), Jobs())


def test_the_tables_are_whole():
    assert FOUND.keys() == {(name, *where) for name, row in TABLE_6.items() for where in row}
    assert TABLE_6.keys() == DATASETS.keys() and MACHINES.keys() == EVALUATION_CACHE_BYTES.keys()


# A machine on which every term of a path can be made the least.
PLAIN = Machine(
    gpu_per_s=1e9,
    decode_augment_per_s=1e9,
    augment_per_s=1e9,
    nic_bytes_per_s=1e15,
    pcie_bytes_per_s=1e15,
    cache_bytes_per_s=1e15,
    storage_bytes_per_s=1e15,
    cache_bytes=1000.0,
    nodes=2,
)
SMALL = Dataset(samples=20, encoded_bytes=100.0, inflation=4.0)
PATHS = ("augmented_per_s", "decoded_per_s", "encoded_per_s", "storage_per_s")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"gpu_per_s": 10}, (20, 20, 20, 20)),
        ({"augment_per_s": 10}, (2e9, 20, 2e9, 2e9)),
        ({"decode_augment_per_s": 10}, (2e9, 2e9, 20, 20)),
        ({"cache_bytes_per_s": 4000}, (10, 10, 40, 40)),
        ({"nic_bytes_per_s": 4000}, (20, 20, 80, 80)),
        ({"nic_bytes_per_s": 4000, "nic_overhead_bytes": 100}, (16, 16, 40, 40)),
        ({"pcie_bytes_per_s": 4000}, (20, 20, 20, 20)),
        ({"pcie_bytes_per_s": 4000, "pcie_overhead_bytes": 400}, (10, 10, 10, 10)),
        ({"storage_bytes_per_s": 500}, (2e9, 2e9, 2e9, 5)),
    ],
)
def test_each_component_limits_the_paths_that_it_is_on(changes, expected):
    found = throughputs(dataclasses.replace(PLAIN, **changes), SMALL, np.array([[1.0, 0, 0, 0]]))
    assert [getattr(found, path) for path in PATHS] == pytest.approx(expected)


def test_samples_are_counted_augmented_first_and_never_twice():
    found = throughputs(
        dataclasses.replace(PLAIN, cache_bytes=10_000.0),
        SMALL,
        np.array([[0.2, 0, 0.4, 0.4], [0.1, 0, 0.1, 0.8]]),
    )
    assert found.augmented.tolist() == [10, 20]
    assert found.decoded.tolist() == [10, 0]
    assert found.encoded.tolist() == [0, 0] and found.storage.tolist() == [0, 0]
    half = throughputs(PLAIN, SMALL, np.array([[0.5, 0, 0.2, 0.3]]))
    assert [x[0] for x in half[4:]] == pytest.approx([0.75, 0.5, 5, 13.75])


def test_the_whole_is_the_mean_of_throughputs_where_times_would_add_up():
    slow = dataclasses.replace(PLAIN, gpu_per_s=500, storage_bytes_per_s=1000)
    assert overall(slow, SMALL, [[1.0, 0, 0, 0]])[0] == pytest.approx(0.5 * 1000 + 0.5 * 10)


def test_gradients_go_round_the_ring():
    assert ring_reduce_bytes(1, 1e8) == 0
    assert ring_reduce_bytes(4, 1e8) == 1.5e8


def test_a_profile_in_the_papers_symbols():
    found = paper(ROUND, Split(1.0, 0.0, 0.0), Jobs())
    # 5 GB / 97,952 of 100,000 files at T_D+A, the others at B_storage.
    share = 5e9 / 97_952 / 100_000
    assert found.mix["encoded"] == pytest.approx(share)
    assert found.samples_per_s == pytest.approx(share * 4 / 1.7e-3 + (1 - share) * 50e6 / 97_952)
    assert found.limited_by == "storage"
    assert paper(ROUND, Split(0.0, 0.0, 1.0), Jobs(2, step_per_s=(30.0, 10.0))).per_job == pytest.approx(
        (30, 10)
    )
