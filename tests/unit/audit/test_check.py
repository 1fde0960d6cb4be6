"""Nothing is found in clean logs, whatever was resumed, dropped, skipped or shared."""

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
    Member,
    clean,
    found,
    header,
    kinds,
    ranks,
    resumed,
)
from sizes import size as at_size
from typer.testing import CliRunner

from seneca.audit.check import check
from seneca.audit.log import BadLog
from seneca.cli.app import app
from seneca.cli.verify import lines

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
        3: {"epochs beside the one before by place: samples came out of turn": 6}
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
        about = header(turn=turn, samples=samples, count=samples)
        members[turn] = Member(about, order, copies)
    return members


def test_epochs_are_held_beside_each_other_by_place_where_no_other_job_s_copies_were_served(tmp_path):
    members = clean()
    for turn in range(EPOCHS):
        members[JOB, turn].out_of_turn = 0
    # Two for each epoch that follows another, and one of all.
    assert found(tmp_path / "own", members).checked[3] == (3 * 4 + 2 * 3 + 1) + (3 * 4 + 3)
    apart = found(tmp_path / "apart", shared_apart(0, substitutes=200))
    assert apart.violations == [] and sum(apart.unchecked[3].values()) == EPOCHS - 1
    assert any("not checked: 3 epochs beside the one before" in line for line in lines(apart))
    assert kinds(found(tmp_path / "no reason", shared_apart(0, substitutes=0))) == {(3, "order")}


@pytest.mark.small(1)
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
    violations = check(tmp_path).violations
    is_found = 4 * substitutes < SAMPLES
    assert {v.epoch for v in violations if "pairs are neighbours" in v.text} == (
        {1, 2, 3} if is_found else set()
    )
    assert {(v.invariant, v.kind) for v in violations} == ({(3, "order")} if is_found else set())


def test_an_order_that_comes_again_is_found_though_a_few_copies_of_others_were_served(tmp_path):
    """By place: neighbours are others, which is how it differs from the same order."""
    members = shared_apart(0, substitutes=2, parts=20)
    violations = found(tmp_path, members).violations
    assert {v.epoch for v in violations if "goes with that of the epoch before" in v.text} == {1, 2, 3}


def test_an_epoch_is_not_compared_if_its_log_does_not_say_how_much_came_out_of_turn(tmp_path):
    """Killed between its last batch and the end of the epoch."""
    members = shared_apart(0, substitutes=0)
    for member in members.values():
        member.done = False
    report = found(tmp_path, members)
    assert report.violations == [] and report.epochs == EPOCHS
    assert sum(report.unchecked[3].values()) == EPOCHS - 1


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


# Torn and damaged


def test_a_log_may_break_off_at_any_byte(tmp_path):
    Member(replace(header(), log="b" * 16), np.random.default_rng(0).permutation(SAMPLES)).write(tmp_path)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    keeps = Member(header(OTHER), np.random.default_rng(1).permutation(SAMPLES))
    last = None
    for size in [*range(30), *range(30, len(content), at_size(97, 37)), len(content) - 1]:
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


def test_a_torn_record_is_reported(tmp_path):
    for member in clean().values():
        member.write(tmp_path)
    paths = sorted(tmp_path.iterdir())
    paths[0].write_bytes(paths[0].read_bytes()[:-100])
    report = check(tmp_path)
    assert report.torn_files == 1 and report.violations == []
    assert any("1 log broke off" in line for line in lines(report))


@pytest.mark.small(2)
@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda content: content.replace(b"SENECA-AUDIT   4", b"SENECA-AUDIT   5"), "is of version 5"),
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


# Orders that the seed alone decides


def of_one_seed(jobs=(JOB, OTHER)):
    """Epochs of two jobs that have the same order, and the same again when the first job was resumed."""
    members = {}
    for turn in range(2):
        order = np.random.default_rng(turn).permutation(SAMPLES)
        for job in jobs:
            about = header(job, turn, exact=f"epoch {turn}", batch_size=BATCH if job == JOB else 2 * BATCH)
            members[job, turn] = Member(about, order)
    return members


def test_jobs_of_one_seed_have_the_same_order(tmp_path):
    assert found(tmp_path, of_one_seed()).violations == []


def test_another_order_than_that_of_the_seed_is_found_wherever_it_begins(tmp_path):
    members = of_one_seed()
    batch = members[OTHER, 1].batches[3]
    batch[:2] = batch[1::-1].copy()
    report = found(tmp_path, members)
    assert kinds(report) == {(3, "exact order")}
    (violation,) = report.violations
    assert f"differs from sample {3 * 2 * BATCH} on" in violation.text and JOB in violation.text
    assert (violation.job, violation.epoch) == (OTHER, 1)


@pytest.mark.parametrize(
    "spoil", [{"in_order": False}, {"resumed": [{"log": None, "batches": 1}]}, {"exact": ""}]
)
def test_an_order_that_nothing_is_promised_of_is_not_compared(tmp_path, spoil):
    members = of_one_seed()
    spoilt = members[OTHER, 1]
    spoilt.header = replace(spoilt.header, **spoil)
    spoilt.batches.reverse()
    spoilt.batches.append(spoilt.batches.pop(0))  # the short one stays last
    assert (3, "exact order") not in kinds(found(tmp_path, members))


def test_a_killed_job_is_not_compared(tmp_path):
    members = of_one_seed()
    members[OTHER, 1].batches = members[OTHER, 1].batches[:2]
    members[OTHER, 1].done = False
    assert found(tmp_path, members).violations == []
