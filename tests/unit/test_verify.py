"""What ``seneca verify`` finds: every violation that is planted, and nothing in logs that are clean."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from seneca.audit import FORM_UNKNOWN, NO_SLOT, BadLog, Header, Log, read_header
from seneca.cli.app import app
from seneca.cli.invariants import check
from seneca.cli.orders import Orders
from seneca.cli.verify import SHOWN, lines

SAMPLES, BATCH, EPOCHS = 403, 16, 4
STORAGE, AUGMENTED = 0, 3
JOB, OTHER = f"{1:016x}", f"{2:016x}"


class Member:
    """One epoch of one member, as a list of batches that a test may spoil before it is written."""

    def __init__(self, header, order, copies=None):
        self.header = header
        size = header.batch_size or BATCH
        order = np.asarray(order)
        self.batches = [order[k : k + size].copy() for k in range(0, len(order), size)]
        self.copies = {} if copies is None else copies  # index: slot, generation, form
        self.failed, self.skipped = [], []
        self.done = True

    def write(self, folder):
        log = Log(folder, self.header)
        for batch in self.batches:
            copies = [self.copies.get(int(i), (NO_SLOT, 0, STORAGE)) for i in batch]
            log.gave(batch, np.array(copies, np.uint32).reshape(-1, 3))
        for batch in self.failed:
            log.failed(batch)
        if len(self.skipped):
            log.skipped(self.skipped)
        if self.done:
            log.done()
        return log


def header(job=JOB, turn=0, **options):
    defaults = {
        "kind": "delivered", "job": job, "dataset": "d0", "samples": SAMPLES, "turn": turn, "epoch": turn,
        "count": SAMPLES, "batch_size": BATCH, "shuffled": True, "segment": 77, "attached": [int(job, 16)],
        "began": float(turn),
    }  # fmt: skip
    return Header(**(defaults | options))


def clean(seed=0, jobs=(JOB, OTHER), **options):
    """Members by job and epoch. Jobs make copies for each other: each index has a slot of its own in
    an epoch, whose generation is the epoch's."""
    rng = np.random.default_rng(seed)
    members = {}
    count = options.get("count", SAMPLES)
    for turn in range(EPOCHS):
        makes = rng.integers(0, len(jobs), SAMPLES)
        for number, job in enumerate(jobs):
            copies = {
                i: (i, turn, STORAGE if makes[i] == number else AUGMENTED) for i in range(0, SAMPLES, 2)
            }
            order = rng.permutation(SAMPLES)[:count]
            members[job, turn] = Member(header(job, turn, **options), order, copies)
    return members


def ranks(padded, seed=0, count=3):
    """Two epochs of a job of several ranks, uneven: as DistributedSampler shares them out."""
    rng = np.random.default_rng(seed)
    share = -(-SAMPLES // count) if padded else SAMPLES // count
    members = {}
    for turn in range(2):
        order = rng.permutation(SAMPLES)
        order = np.concatenate([order, order])[: share * count]
        for rank in range(count):
            told = header(
                turn=turn, rank=rank, ranks=count, padded=padded, count=share, attached=[rank + 1, 1]
            )
            members[rank, turn] = Member(told, order[rank::count])
    return members


def resumed(seed=0, first=160, second=96):
    """An epoch that was killed, resumed, killed and resumed: each time the state is older than what was
    delivered last."""
    order = np.random.default_rng(seed).permutation(SAMPLES)
    a = Member(header(epoch=3), order[: first + 48])
    parts = [{"log": a.header.log, "batches": first // BATCH}]
    rest = order[first:][::-1]  # exact as a set
    b = Member(
        header(epoch=3, resumed=parts, count=SAMPLES - first, began=1.0, attached=[5]), rest[: second + 10]
    )
    parts = [*parts, {"log": b.header.log, "batches": second // BATCH}]
    rest = rest[second:]
    c = Member(header(epoch=3, resumed=parts, count=len(rest), began=2.0, attached=[6]), rest)
    a.done = b.done = False
    a.batches, b.batches = a.batches[:-1], b.batches[:-1]
    return {"killed": a, "again": b, "last": c}


def found(folder, members, **expected):
    """The kinds of violation that are found, and where."""
    for member in members.values():
        member.write(folder)
    return check(folder)


def kinds(report):
    return {(v.invariant, v.kind) for v in report.violations}


# Clean


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_found_in_clean_logs(tmp_path, seed):
    report = found(tmp_path, clean(seed))
    assert report.violations == []
    assert (report.jobs, report.epochs, report.incomplete) == (2, 8, 0)
    assert report.samples == 8 * SAMPLES and sum(report.served.values()) == 8 * SAMPLES
    # Of the order: three tests an epoch, and neighbours in two that follow each other.
    assert report.checked == {1: 8, 2: 8 * 202, 3: 2 * (3 * 4 + 3), 4: 8 * 26, 5: 0}
    # With so many of each other's copies; and of some it was not written who made them.
    assert {i: dict(what) for i, what in report.unchecked.items() if sum(what.values())} == {
        3: {"epochs beside the one before by place: copies of other jobs came out of turn": 6}
    }


def shared_apart(seed, epochs=EPOCHS, parts=2, samples=SAMPLES, substitutes=None):
    """Epochs of a job whose samples always come in the same part of it, in a new order each time, as where
    jobs of equal pace that are apart share each copy."""
    rng = np.random.default_rng(seed)
    part = rng.integers(0, parts, samples)
    members = {}
    for turn in range(epochs):
        chosen = range(samples) if substitutes is None else rng.permutation(samples)[:substitutes].tolist()
        copies = {i: (i, turn, AUGMENTED) for i in chosen}
        order = np.argsort(part + rng.random(samples))
        told = header(turn=turn, samples=samples, count=samples)
        members[turn] = Member(told, order, copies)
    return members


def test_epochs_are_held_beside_each_other_by_place_where_no_other_job_s_copies_were_served(tmp_path):
    members = clean()
    for turn in range(EPOCHS):
        members[JOB, turn].copies = {}
    # Two for each epoch that follows another, and one of all.
    assert found(tmp_path / "own", members).checked[3] == (3 * 4 + 2 * 3 + 1) + (3 * 4 + 3)
    apart = found(tmp_path / "apart", shared_apart(0, substitutes=200))
    assert apart.violations == [] and sum(apart.unchecked[3].values()) == EPOCHS - 1
    assert any("not checked: 3 epochs beside the one before" in line for line in lines(apart))
    assert kinds(found(tmp_path / "no reason", shared_apart(0, substitutes=0))) == {(3, "order")}


@pytest.mark.parametrize("parts", [2, 8, 40])
def test_what_comes_in_the_same_part_of_each_epoch_is_no_violation_where_jobs_share(tmp_path, parts):
    """Also where a part is no more than ten samples."""
    for seed in range(5):
        assert found(tmp_path / str(seed), shared_apart(seed, parts=parts)).violations == []


@pytest.mark.parametrize("substitutes", [0, 1, 10, 30, SAMPLES // 4 + 1])
@pytest.mark.parametrize("how", ["all", "reversed", "pairs"])
def test_neighbours_may_stay_where_copies_of_others_may_be_the_cause(tmp_path, substitutes, how):
    """A substitute has two neighbours, which may be those of the epoch before."""
    rng = np.random.default_rng(3)
    fixed = rng.permutation(SAMPLES - 1)
    for turn in range(EPOCHS):
        order = {
            "all": lambda: fixed,
            "reversed": lambda turn=turn: fixed[:: (-1) ** turn],
            "pairs": lambda: rng.permutation(fixed.reshape(-1, 2)).ravel(),
        }[how]()
        copies = {int(i): (int(i), turn, AUGMENTED) for i in rng.permutation(SAMPLES)[:substitutes]}
        Member(header(turn=turn), np.append(order, SAMPLES - 1), copies).write(tmp_path)
    told = check(tmp_path).violations
    is_found = 4 * substitutes < SAMPLES
    assert {v.epoch for v in told if "pairs are neighbours" in v.text} == ({1, 2, 3} if is_found else set())
    assert {(v.invariant, v.kind) for v in told} == ({(3, "order")} if is_found else set())


def test_an_order_that_comes_again_is_found_though_a_few_copies_of_others_were_served(tmp_path):
    """By place: neighbours are others, which is how it differs from the same order."""
    members = shared_apart(0, substitutes=2, parts=20)
    told = found(tmp_path, members).violations
    assert {v.epoch for v in told if "goes with that of the epoch before" in v.text} == {1, 2, 3}


def test_neighbours_by_chance_are_as_many_as_they_should_be():
    """Of permutations; the mean tells, and what a test gives for it is no rarer than it is."""
    rng = np.random.default_rng(0)
    orders = Orders(300)
    places = (np.arange(300) + 0.5) / 300
    counts, least = [], 1.0
    for turn in range(400):
        for test in orders.judge(turn, rng.permutation(300), places):
            least = min(least, test.p)
            if "pairs are neighbours" in test.what:
                counts.append(int(test.what.split()[0]))
    assert len(counts) == 399 and abs(np.mean(counts) - 2 * (1 - 1 / 300)) < 4 * np.sqrt(2 / 399)
    assert least > 1e-6


def test_what_workers_served_of_other_jobs_tells_why_epochs_are_alike(tmp_path):
    for member in shared_apart(0, samples=400).values():
        told = replace(member.header, segment=None, attached=[])
        log = Log(tmp_path / "apart", told)
        worker = Header("served", JOB, "d0", 400, of=told.log, segment=77, attached=[1])
        served = Log(tmp_path / "apart", worker)
        for batch in member.batches:
            log.gave(batch)
            served.gave(batch, np.array([member.copies[int(i)] for i in batch], np.uint32))
        log.done()
    report = check(tmp_path / "apart")
    assert report.violations == [] and report.epochs == EPOCHS
    for path in (tmp_path / "apart").iterdir():
        if read_header(path).kind == "served":
            path.unlink()
    assert kinds(check(tmp_path / "apart")) == {(3, "order")}


def test_what_is_dropped_or_padded_or_skipped_or_failed_is_no_violation(tmp_path):
    whole = SAMPLES - SAMPLES % BATCH
    assert found(tmp_path / "dropped", clean(count=whole, drop_last=True)).violations == []
    for padded in (True, False):
        report = found(tmp_path / f"padded {padded}", ranks(padded))
        assert (report.violations, report.epochs, report.checked[1]) == ([], 2, 2)

    members = clean()
    skips, fails = members[JOB, 0], members[JOB, 1]
    order = np.setdiff1d(np.concatenate(skips.batches), [7, 9])
    members[JOB, 0] = Member(skips.header, np.random.default_rng(1).permutation(order), skips.copies)
    members[JOB, 0].skipped = [7, 9]
    fails.failed = [fails.batches.pop(5)]
    report = found(tmp_path / "bad samples", members)
    assert report.violations == [] and report.epochs == 8

    members = clean(count=whole, drop_last=True)
    skips = members[JOB, 0]
    order = np.setdiff1d(np.random.default_rng(2).permutation(SAMPLES), [1, 2, 3, 4])
    fits = len(order) // BATCH * BATCH
    members[JOB, 0] = Member(skips.header, np.random.default_rng(3).permutation(order)[:fits])
    members[JOB, 0].skipped = [1, 2, 3, 4]
    assert found(tmp_path / "skipped and dropped", members).violations == []


def test_an_epoch_that_was_left_may_lack_samples_and_is_not_judged_by_its_order(tmp_path):
    members = clean()
    left = members[JOB, 1]
    left.batches, left.done = [np.arange(k, k + BATCH) for k in range(0, 320, BATCH)], False
    report = found(tmp_path, members)
    assert (report.violations, report.epochs, report.incomplete) == ([], 7, 1)


def test_all_delivered_is_whole_though_nobody_asked_for_more(tmp_path):
    members = clean()
    members[JOB, 1].done = False
    report = found(tmp_path, members)
    assert (report.violations, report.epochs, report.incomplete) == ([], 8, 0)


def test_resumed_epochs_are_clean_and_counted(tmp_path):
    report = found(tmp_path, resumed())
    assert (report.violations, report.checked[5], report.epochs) == ([], 2, 1)


def test_a_resume_by_other_ranks_is_held_to_what_all_had_before(tmp_path):
    order = np.random.default_rng(0).permutation(SAMPLES)
    before = [
        Member(header(rank=r, ranks=2, padded=True, count=202, attached=[r]), order[r:200:2])
        for r in range(2)
    ]
    parts = [{"log": member.header.log, "batches": 6} for member in before]
    rest = np.concatenate([order[192:], order[:2]])  # 211, and one of three ranks' 71 is short of two
    after = [
        Member(header(OTHER, rank=r, ranks=3, padded=True, count=71, resumed=parts, attached=[r]), rest[r::3])
        for r in range(3)
    ]
    for member in before:
        member.done = False
        member.batches.pop()
    members = dict(enumerate(before + after))
    report = found(tmp_path / "clean", members)
    assert (report.violations, report.checked[5]) == ([], 1)
    after[1].batches[2][0] = after[0].batches[0][0]
    spoilt = check_written(tmp_path / "spoilt", members)
    assert kinds(spoilt) == {(5, "resume repeated"), (5, "resume lost")}


def check_written(folder, members):
    for member in members.values():
        member.write(folder)
    return check(folder)


def test_an_order_of_the_user_s_promises_nothing_but_its_copies(tmp_path):
    members = clean(count=None, batch_size=None, shuffled=False)
    report = found(tmp_path / "fine", {0: Member(members[JOB, 0].header, np.zeros(40, int))})
    assert (report.violations, report.own_order) == ([], 1)
    twice = Member(header(count=None, batch_size=None), [3, 3], {3: (0, 0, AUGMENTED)})
    assert kinds(found(tmp_path / "spoilt", {0: twice})) == {(2, "copy twice")}


# Planted: what is spoilt, and what is said of it


def plant_missing(members):
    spoilt = members[JOB, 2]
    lost = int(spoilt.batches[-1][-1])
    spoilt.batches[-1] = spoilt.batches[-1][:-1]
    return lost


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
        members[JOB, turn].copies = {}
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
    told = [v for v in report.violations if (v.invariant, v.kind) == (invariant, kind) and v.job == JOB]
    assert told, report.violations
    assert (JOB, epoch) in {(v.job, v.epoch) for v in told} <= {(JOB, e) for e in range(epoch, EPOCHS)}
    assert all(JOB in v.text for v in told)
    if index is not None:
        assert any(int(index) in v.indices for v in told)
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


def test_a_log_that_is_gone_between_others_is_told(tmp_path):
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
        told = header(job, part=part if job == OTHER else "")
        Member(told, np.random.default_rng(seed).permutation(SAMPLES), copy).write(tmp_path)
    report = check(tmp_path)
    told = [(v.invariant, v.kind, v.job, v.indices) for v in report.violations]
    assert told == ([] if part else [(1, "wrong sample", OTHER, [3, 5])])
    assert sum(report.unchecked[1].values()) == (1 if part else 0)


def test_ranks_that_skip_may_repeat_good_samples_in_their_places(tmp_path):
    def members():
        known = ranks(padded=False)
        for (rank, turn), member in known.items():
            order = np.concatenate(member.batches)
            good = order[10:] if rank == 1 else order
            good = np.concatenate([good, good[:4]])[:128]
            told = replace(member.header, count=128, drop_last=True)
            known[rank, turn] = Member(told, np.random.default_rng(turn).permutation(good))
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


# Torn and damaged


def test_a_log_may_break_off_at_any_byte(tmp_path):
    Member(replace(header(), log="b" * 16), np.random.default_rng(0).permutation(SAMPLES)).write(tmp_path)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    keeps = Member(header(OTHER), np.random.default_rng(1).permutation(SAMPLES))
    last = None
    for size in [*range(30), *range(30, len(content), 37), len(content) - 1]:
        folder = tmp_path / str(size)
        keeps.write(folder)
        (folder / path.name).write_bytes(content[:size])
        report = check(folder)
        assert report.violations == []
        assert (report.epochs, report.incomplete) in ((1, 0), (1, 1), (2, 0))
        assert report.torn_files <= 1
        last = report
    assert last.epochs == 2  # of the end alone one byte is lacking, and all is there
    assert last.torn_files == 1


def test_a_torn_record_is_told(tmp_path):
    for member in clean().values():
        member.write(tmp_path)
    paths = sorted(tmp_path.iterdir())
    paths[0].write_bytes(paths[0].read_bytes()[:-100])
    report = check(tmp_path)
    assert report.torn_files == 1 and report.violations == []
    assert any("1 log broke off" in line for line in lines(report))


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda content: content.replace(b"SENECA-AUDIT   2", b"SENECA-AUDIT   3"), "is of version 3"),
        (lambda content: b"something else" + content, "is no audit log"),
        (lambda content: content[:40].replace(b"HEAD", b"TAIL") + content[40:], "damaged"),
        (lambda content: content.replace(b'"kind"', b'"king"'), "header cannot be read"),
        (lambda content: content[:-400] + b"\0" * 400, "damaged: there is no record at byte"),
    ],
)
def test_what_cannot_be_read_is_bad_input_in_one_line(tmp_path, spoil, text):
    """Also where all other logs are fine: of mixed versions, say."""
    for member in clean().values():
        member.write(tmp_path)
    path = sorted(tmp_path.iterdir())[3]
    path.write_bytes(spoil(path.read_bytes()))
    answer = CliRunner().invoke(app, ["verify", str(tmp_path)])
    assert answer.exit_code == 2
    assert text in answer.stderr and str(path) in answer.stderr and answer.stderr.count("\n") == 1


# The command


def test_no_folder_and_no_logs_are_bad_input(tmp_path):
    (tmp_path / "notes.txt").write_text("no log")
    for folder, text in ((tmp_path / "none", "there is no folder"), (tmp_path, "there is no audit log in")):
        answer = CliRunner().invoke(app, ["verify", str(folder)])
        assert answer.exit_code == 2
        assert text in answer.stderr and str(folder) in answer.stderr and answer.stderr.count("\n") == 1
    with pytest.raises(BadLog):
        check(tmp_path)


def test_the_command_says_what_holds_and_what_broke(tmp_path):
    members = clean()
    for member in members.values():
        member.write(tmp_path / "clean")
    answer = CliRunner().invoke(
        app, ["verify", str(tmp_path / "clean"), "--json", str(tmp_path / "clean.json")]
    )
    assert answer.exit_code == 0, answer.output
    assert "NO" not in answer.output and "each sample exactly once an epoch" in answer.output
    told = json.loads((tmp_path / "clean.json").read_text())
    assert told["holds"] and told["violations"] == [] and told["checked"]["1"] == 8

    members = clean(1)
    lost = plant_missing(members)
    for member in members.values():
        member.write(tmp_path / "spoilt")
    answer = CliRunner().invoke(
        app, ["verify", str(tmp_path / "spoilt"), "--json", str(tmp_path / "spoilt.json")]
    )
    assert answer.exit_code == 1
    assert f"epoch 2: sample {lost} not delivered" in answer.output and JOB in answer.output
    told = json.loads((tmp_path / "spoilt.json").read_text())
    assert not told["holds"]
    first = told["violations"][0]
    assert [first[name] for name in ("invariant", "kind", "epoch", "indices")] == [1, "missing", 2, [lost]]


def test_of_many_violations_the_first_are_told(tmp_path):
    members = {}
    for turn in range(SHOWN + 5):
        members[turn] = Member(header(turn=turn), np.random.default_rng(turn).permutation(SAMPLES))
        members[turn].batches[0][0] = SAMPLES + 1
    report = found(tmp_path, members)
    text = lines(report)
    assert sum(f"sample {SAMPLES + 1} delivered" in line for line in text) <= SHOWN
    assert any("more; --json FILE has them" in line for line in text)


def test_a_form_that_is_not_known_is_not_counted(tmp_path):
    log = Log(tmp_path, header())
    log.gave(np.random.default_rng(0).permutation(SAMPLES)[:BATCH])
    log.close()
    report = check(tmp_path)
    assert report.samples == BATCH and sum(report.served.values()) == 0 and FORM_UNKNOWN > 3
