"""Every violation that is planted in logs is found, and named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audit_logs import (
    AUGMENTED,
    BATCH,
    EPOCHS,
    JOB,
    OTHER,
    SAMPLES,
    STORAGE,
    Member,
    clean,
    found,
    header,
    kinds,
    plant_missing,
    ranks,
    resumed,
)

from seneca.audit.check import check
from seneca.audit.log import Header, Log
from seneca.cli.verify import lines


def plant_doubled(members):
    """One twice, another not at all: the number is right."""
    spoilt = members[JOB, 2]
    spoilt.copies = {}
    spoilt.batches[4][3] = spoilt.batches[2][1]
    return spoilt.batches[2][1]


def plant_doubled_in_an_epoch_that_was_left(members):
    spoilt = members[JOB, 2]
    spoilt.copies, spoilt.done = {}, False
    spoilt.batches = spoilt.batches[:9]
    spoilt.batches[4][3] = spoilt.batches[2][1]
    return spoilt.batches[2][1]


def plant_foreign(members):
    members[JOB, 2].batches[4][3] = SAMPLES
    return SAMPLES


def plant_short_list(members):
    spoilt = members[JOB, 2]
    spoilt.header = replace(spoilt.header, count=SAMPLES - BATCH)
    order = np.concatenate(spoilt.batches)[: SAMPLES - BATCH]
    members[JOB, 2] = Member(spoilt.header, order, spoilt.copies)


def plant_copy_twice_in_an_epoch(members):
    spoilt = members[JOB, 2]
    spoilt.copies[1] = spoilt.copies[100] = (0, 99, AUGMENTED)
    return 1


def plant_copy_again_in_the_next(members):
    """Of another sample: it would be found by its slot and generation alone."""
    members[JOB, 3].copies[51] = members[JOB, 2].copies[50]
    return 51


def plant_copy_of_one_s_own(members):
    """Served back to the job that made it."""
    members[JOB, 2].copies[50] = (0, 99, STORAGE)
    members[JOB, 3].copies[51] = (0, 99, AUGMENTED)
    return 51


def plant_order_by_index(members):
    members[JOB, 2] = Member(members[JOB, 2].header, np.arange(SAMPLES))


def plant_the_same_order_again(members):
    for turn in (1, 2):
        members[JOB, turn].copies, members[JOB, turn].out_of_turn = {}, 0
    members[JOB, 2].batches = [batch.copy() for batch in members[JOB, 1].batches]


def plant_blocks(members):
    """Blocks of 13 in random order, each by index: places are as good as random."""
    rng = np.random.default_rng(5)
    order = np.concatenate([np.arange(13 * k, 13 * k + 13) for k in rng.permutation(31)])
    members[JOB, 2] = Member(members[JOB, 2].header, order, members[JOB, 2].copies)


def plant_the_same_first(members):
    """A third of the samples come in the first half of each epoch, in two thirds of the cases."""
    rng = np.random.default_rng(5)
    chosen = rng.permutation(SAMPLES)[:130]
    for turn in range(EPOCHS):
        weight = rng.random(SAMPLES)
        weight[chosen] *= 0.35
        members[JOB, turn] = Member(members[JOB, turn].header, np.argsort(weight))


def plant_short_batch(members):
    batches = members[JOB, 2].batches
    batches[4], batches[5] = batches[4][:-1], np.concatenate([batches[4][-1:], batches[5]])
    return batches[4][0]


def plant_last_batch_early(members):
    batches = members[JOB, 2].batches
    batches.insert(3, batches.pop())
    return batches[3][0]


PLANTED = [
    (plant_missing, 1, "missing", 2),
    (plant_doubled, 1, "repeated", 2),
    (plant_doubled_in_an_epoch_that_was_left, 1, "repeated", 2),
    (plant_foreign, 1, "foreign", 2),
    (plant_short_list, 1, "length", 2),
    (plant_copy_twice_in_an_epoch, 2, "copy twice", 2),
    (plant_copy_again_in_the_next, 2, "copy twice", 3),
    (plant_copy_of_one_s_own, 2, "copy twice", 3),
    (plant_order_by_index, 3, "order", 2),
    (plant_the_same_order_again, 3, "order", 2),
    (plant_blocks, 3, "order", 2),
    (plant_the_same_first, 3, "order", 3),
    (plant_short_batch, 4, "batch size", 2),
    (plant_last_batch_early, 4, "batch size", 2),
]


@pytest.mark.parametrize(("plant", "invariant", "kind", "epoch"), PLANTED)
@pytest.mark.parametrize("seed", range(2))
def test_what_is_planted_is_found_and_named(tmp_path, plant, invariant, kind, epoch, seed):
    members = clean(seed)
    index = plant(members)
    report = found(tmp_path, members)
    violations = [v for v in report.violations if (v.invariant, v.kind) == (invariant, kind) and v.job == JOB]
    assert violations, report.violations
    assert (JOB, epoch) in {(v.job, v.epoch) for v in violations} <= {(JOB, e) for e in range(epoch, EPOCHS)}
    assert all(JOB in v.text for v in violations)
    if index is not None:
        assert any(int(index) in v.indices for v in violations)
    allowed = {(invariant, kind)}
    if kind in ("repeated", "foreign"):
        allowed |= {(1, "missing")}  # of which it took the place
    if plant is plant_missing or plant is plant_short_list:
        allowed |= {(4, "batch size"), (1, "missing")}
    if kind == "copy twice":
        allowed |= {(1, "wrong sample")}  # it is of one, and came as two
    assert kinds(report) <= allowed


def test_a_copy_may_serve_a_job_again_once_all_its_processes_have_left(tmp_path):
    def members(*stays):
        orders = [np.random.default_rng(k).permutation(SAMPLES) for k in range(len(stays))]
        copy = {5: (1, 1, AUGMENTED)}
        return {k: Member(header(turn=k, attached=stay), orders[k], copy) for k, stay in enumerate(stays)}

    assert kinds(found(tmp_path / "left and came", members([1], [2]))) == set()
    assert kinds(found(tmp_path / "stayed", members([1], [1]))) == {(2, "copy twice")}
    assert kinds(found(tmp_path / "ranks", members([1], [2, 1]))) == {(2, "copy twice")}
    other = members([1], [1])
    other[1].header = replace(other[1].header, segment=78)
    assert kinds(found(tmp_path / "another segment", other)) == set()


def test_copies_that_workers_served_are_held_to_the_epoch_that_asked(tmp_path):
    member = Member(header(segment=None, attached=[]), np.random.default_rng(0).permutation(SAMPLES))
    for batch in member.batches:
        assert len(batch)
    log = Log(tmp_path, replace(member.header, log="a" * 16))
    for batch in member.batches:
        log.gave(batch)
    log.done()
    worker = {"kind": "served", "job": JOB, "dataset": "d0", "samples": SAMPLES, "segment": 77}
    for row in (2, 3):
        served = Log(tmp_path, Header(**worker, of="a" * 16, attached=[row, 1]))
        served.gave([row], np.array([[9, 9, AUGMENTED]], np.uint32))
    other, violation = check(tmp_path).violations  # of index 2 it cannot be, if it is of index 3
    assert (violation.invariant, violation.job, violation.epoch) == (2, JOB, 0)
    assert (other.invariant, other.kind) == (1, "wrong sample")
    assert sorted(violation.indices) == [2, 3]
    assert check(tmp_path).served["augmented"] == 2


@pytest.mark.parametrize("padded", [True, False])
def test_ranks_that_share_out_an_epoch_wrongly(tmp_path, padded):
    uneven = ranks(padded)
    uneven[1, 1].batches = [batch[:-1] if k == 8 else batch for k, batch in enumerate(uneven[1, 1].batches)][
        :-1
    ]
    report = found(tmp_path / "uneven", uneven)
    assert {(1, "missing"), (4, "batch count")} <= kinds(report)
    assert {v.epoch for v in report.violations} == {1}

    twice = ranks(padded)
    twice[1, 1].batches[3][0] = twice[0, 1].batches[3][0]  # not one of those that pad
    assert (1, "repeated") in kinds(found(tmp_path / "twice", twice))

    both = ranks(padded)
    both[1, 1].batches = [batch.copy() for batch in both[0, 1].batches]
    assert {(1, "repeated"), (1, "missing")} <= kinds(found(tmp_path / "the same part", both))

    one_gone = ranks(padded)
    del one_gone[2, 1]
    report = found(tmp_path / "a rank that never began", one_gone)
    assert (report.violations, report.epochs, report.incomplete) == ([], 1, 1)
    assert report.unchecked[1]["epochs of which some ranks' logs are not here"] == 1


def test_a_rank_that_goes_on_before_it_has_ended_while_another_has(tmp_path):
    def spoilt(turn, **options):
        members = ranks(padded=True)
        left = members[1, turn]
        left.batches, left.done = left.batches[:-1], False
        left.header = replace(left.header, **options)
        return members

    (violation,) = found(tmp_path / "went on", spoilt(0)).violations
    assert (violation.invariant, violation.kind, violation.epoch) == (4, "ended early", 0)
    assert "rank 1: it went on to its next epoch after 128 of 135 samples, where rank 0" in violation.text
    # Killed; then another process of that rank began.
    assert found(tmp_path / "killed", spoilt(0, pid=1)).violations == []
    assert found(tmp_path / "the last", spoilt(1)).violations == []
    all_left = ranks(padded=True)
    for rank in range(3):
        all_left[rank, 0].batches, all_left[rank, 0].done = all_left[rank, 0].batches[:4], False
    assert found(tmp_path / "all left it", all_left).violations == []


def test_a_process_that_is_run_again_has_not_gone_on(tmp_path):
    """In a container it has the same id: its turns begin anew."""
    members = ranks(padded=True)
    left = members[1, 0]
    left.batches, left.done = left.batches[:-1], False
    again = ranks(padded=True, seed=1)
    del members[0, 1], members[1, 1], members[2, 1]
    for (rank, turn), member in again.items():
        member.header = replace(member.header, began=10.0 + turn, attached=[rank + 4, 4])
    folder = tmp_path / "logs"
    found(folder, members)
    report = found(folder, again)
    assert report.violations == [] and sum(report.unchecked[1].values()) == 0


def test_a_log_that_is_gone_between_others_is_reported(tmp_path):
    members = clean()
    del members[JOB, 1]
    report = found(tmp_path, members)
    assert report.violations == []
    assert report.unchecked[1]["epochs whose logs are not here, between others of their loader"] == 1
    assert any("not checked: 1 epochs whose logs" in line for line in lines(report))


@pytest.mark.parametrize("part", ["", "another"])
def test_a_copy_that_comes_as_another_sample_than_it_was_made_of(tmp_path, part):
    """Where jobs go over different parts of a dataset, their indices are not the same samples'."""
    copies = {JOB: {3: (4, 9, STORAGE)}, OTHER: {5: (4, 9, AUGMENTED)}}
    for seed, (job, copy) in enumerate(copies.items()):
        about = header(job, part=part if job == OTHER else "")
        Member(about, np.random.default_rng(seed).permutation(SAMPLES), copy).write(tmp_path)
    report = check(tmp_path)
    violations = [(v.invariant, v.kind, v.job, v.indices) for v in report.violations]
    assert violations == ([] if part else [(1, "wrong sample", OTHER, [3, 5])])
    assert sum(report.unchecked[1].values()) == (1 if part else 0)


def test_ranks_that_skip_may_repeat_good_samples_in_their_places(tmp_path):
    def members():
        known = ranks(padded=False)
        for (rank, turn), member in known.items():
            order = np.concatenate(member.batches)
            good = order[10:] if rank == 1 else order
            good = np.concatenate([good, good[:4]])[:128]
            about = replace(member.header, count=128, drop_last=True)
            known[rank, turn] = Member(about, np.random.default_rng(turn).permutation(good))
            known[rank, turn].skipped = order[:10] if rank == 1 else []
        return known

    report = found(tmp_path / "clean", members())
    assert (report.violations, report.epochs) == ([], 2)
    spoilt = members()
    for batch in spoilt[0, 1].batches[:3]:
        batch[:] = batch[0]
    assert {(1, "repeated"), (1, "missing")} <= kinds(found(tmp_path / "spoilt", spoilt))


def resume_repeats(members):
    last, killed = members["last"], members["killed"]
    last.batches[3][2] = killed.batches[0][0]
    return {(5, "resume repeated"), (5, "resume lost")}


def resume_begins_too_early(members):
    """From an older state than it says."""
    last, again = members["last"], members["again"]
    order = np.concatenate(again.batches)[64:96], *last.batches
    members["last"] = Member(last.header, np.concatenate(order))
    return {(5, "resume repeated")}


def resume_loses(members):
    last = members["last"]
    last.batches[0] = last.batches[0][1:]
    return {(5, "resume lost"), (4, "batch size")}


def resume_of_more_than_was_delivered(members):
    last = members["last"]
    parts = [last.header.resumed[0], last.header.resumed[1] | {"batches": 5000}]
    last.header = replace(last.header, resumed=parts)
    return {(5, "resume lost"), (1, "length"), (5, "resume repeated")}


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (resume_repeats, "resume repeated"),
        (resume_begins_too_early, "resume repeated"),
        (resume_loses, "resume lost"),
        (resume_of_more_than_was_delivered, "resume lost"),
    ],
)
def test_a_resume_that_repeats_or_loses(tmp_path, plant, kind):
    members = resumed()
    may = plant(members)
    report = found(tmp_path, members)
    assert (5, kind) in kinds(report) and kinds(report) <= may
    assert {v.epoch for v in report.violations} == {3}


def test_a_resume_from_logs_that_are_not_here_is_held_to_the_number(tmp_path):
    members = resumed()
    del members["killed"], members["again"]
    report = found(tmp_path / "clean", members)
    assert (report.violations, report.checked[5], report.checked[1]) == ([], 0, 0)
    assert sum(report.unchecked[5].values()) == 1
    answer = next(line for line in lines(report) if line.startswith("5 "))
    assert "not checked" in answer and "yes" not in answer
    members["last"].batches = members["last"].batches[:-2]
    assert kinds(found(tmp_path / "lost", members)) == {(5, "resume lost")}
