"""What ``seneca verify`` says."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from audit_logs import BATCH, JOB, SAMPLES, Member, clean, found, header, plant_missing
from typer.testing import CliRunner

from seneca.audit.check import check
from seneca.audit.log import FORM_UNKNOWN, Log
from seneca.cli.app import app
from seneca.cli.verify import SHOWN, lines


def test_the_command_says_what_holds_and_what_broke(tmp_path):
    members = clean()
    for member in members.values():
        member.write(tmp_path / "clean")
    answer = CliRunner().invoke(
        app, ["verify", str(tmp_path / "clean"), "--json", str(tmp_path / "clean.json")]
    )
    assert answer.exit_code == 0, answer.output
    assert "NO" not in answer.output and "each sample exactly once an epoch" in answer.output
    report = json.loads((tmp_path / "clean.json").read_text())
    assert report["holds"] and report["violations"] == [] and report["checked"]["1"] == 8

    members = clean(1)
    lost = plant_missing(members)
    for member in members.values():
        member.write(tmp_path / "spoilt")
    answer = CliRunner().invoke(
        app, ["verify", str(tmp_path / "spoilt"), "--json", str(tmp_path / "spoilt.json")]
    )
    assert answer.exit_code == 1
    assert f"epoch 2: sample {lost} not delivered" in answer.output and JOB in answer.output
    report = json.loads((tmp_path / "spoilt.json").read_text())
    assert not report["holds"]
    first = report["violations"][0]
    assert [first[name] for name in ("invariant", "kind", "epoch", "indices")] == [1, "missing", 2, [lost]]


def test_codes_that_a_terminal_obeys_are_not_printed(tmp_path):
    members = clean(1)
    plant_missing(members)
    for member in members.values():
        member.header = dataclasses.replace(member.header, job="\x1b[31mjob")
        member.write(tmp_path)
    answer = CliRunner().invoke(app, ["verify", str(tmp_path)])
    assert "\ufffd[31mjob" in answer.output and "\x1b" not in answer.output
    (tmp_path / "a\x1b[31m.audit").write_text("no log")
    answer = CliRunner().invoke(app, ["verify", str(tmp_path)])
    assert answer.exit_code == 2 and "\ufffd[31m" in answer.output and "\x1b" not in answer.output


def test_of_many_violations_the_first_are_shown(tmp_path):
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/etc/passwd"], "/etc/passwd is a file; give the folder that SENECA_AUDIT named when the jobs ran"),
        (["/tmp", "--json", "/tmp"], "--json: /tmp is a folder; give a file in it"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_status_2(arguments, message):
    result = CliRunner().invoke(app, ["verify", *arguments])
    assert (result.exit_code, result.stderr) == (2, f"seneca verify: {message}\n")
