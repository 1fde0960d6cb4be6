"""seneca doctor: what it prints, and with which status."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from pages import ROOT
from typer.testing import CliRunner

from seneca.cli import checks, doctor
from seneca.cli.app import app
from seneca.cli.checks.finding import CheckStatus, ok, problem, unknown, warning
from seneca.cli.checks.host import Host

RUN = CliRunner()


@pytest.fixture
def examined(monkeypatch):
    """``examined(finding, ...)`` lets the checks find that."""

    def plant(*findings):
        planted = {f"check {number}": lambda host, one=one: one for number, one in enumerate(findings)}
        monkeypatch.setattr(checks, "CHECKS", planted)

    return plant


@pytest.mark.parametrize(
    ("findings", "status"),
    [
        ([ok("fine"), ok("fine", "an offer"), unknown("not said")], 0),
        ([ok("fine"), warning("slow", "mend it")], 1),
        ([problem("broken", "mend it")], 1),
    ],
)
def test_the_status_is_1_if_a_warning_or_a_problem_is_found(examined, findings, status):
    examined(*findings)
    assert RUN.invoke(app, ["doctor"]).exit_code == status
    result = RUN.invoke(app, ["doctor", "--json"])
    assert result.exit_code == status and json.loads(result.stdout)["good"] is (status == 0)


def test_each_check_is_a_line_and_each_remedy_another_that_can_be_copied(examined):
    remedy = "sudo mount -o remount,size=8G /dev/shm  # " + "long " * 40 + "[bold]"
    examined(ok("fine"), problem("broken", remedy))
    first, second, third, last = RUN.invoke(app, ["doctor"]).stdout.splitlines()
    assert first.split(maxsplit=3) == ["ok", "check", "0", "fine"]
    assert second.split(maxsplit=3) == ["problem", "check", "1", "broken"]
    assert third.strip() == f"-> {remedy}"
    assert last == "1 ok, 1 problem"


def test_codes_that_a_terminal_obeys_are_not_printed():
    found = doctor.lines({"storage": problem("a\x1b[31m is slow", "rm a\x1b[31m")})
    assert not [line for line in found if not line.plain.isprintable()]


def test_json_has_all_that_was_found(examined):
    examined(ok("fine"), warning("slow", "mend it"))
    assert json.loads(RUN.invoke(app, ["doctor", "--json"]).stdout) == {
        "good": False,
        "checks": [
            {"check": "check 0", "verdict": "ok", "found": "fine", "remedy": None},
            {"check": "check 1", "verdict": "warning", "found": "slow", "remedy": "mend it"},
        ],
    }


def test_a_folder_adds_a_check_and_one_that_is_not_there_is_bad_use(examined, tmp_path):
    examined(ok("fine"))
    names = [one["check"] for one in json.loads(run_json("--data", str(tmp_path)))["checks"]]
    assert names == ["check 0", "storage"]
    result = RUN.invoke(app, ["doctor", "--data", "/nowhere"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "seneca doctor: --data: there is no folder /nowhere; give another\n"


def run_json(*arguments):
    return RUN.invoke(app, ["doctor", "--json", *arguments]).stdout


def test_what_cannot_be_read_is_unknown_and_the_rest_is_checked(monkeypatch):
    def fails(host):
        raise PermissionError(13, "Permission denied", "/proc/secret")

    monkeypatch.setattr(checks, "CHECKS", {"one": fails, "two": lambda host: ok("fine")})
    found = dict(doctor.examine(Host()))
    assert found["one"].verdict is CheckStatus.UNKNOWN and "/proc/secret" in found["one"].found
    assert found["two"] == ok("fine")


def test_another_system_is_bad_use(monkeypatch):
    monkeypatch.setattr(doctor.sys, "platform", "darwin")
    result = RUN.invoke(app, ["doctor"])
    assert result.exit_code == 2 and result.stderr.startswith(
        "seneca doctor: it examines Linux, and this is darwin"
    )


def test_every_check_runs_on_this_host():
    found = json.loads(run_json())["checks"]
    assert [one["check"] for one in found] == list(checks.CHECKS)
    for one in found:
        assert one["found"] and "\n" not in one["found"], one
        assert one["verdict"] in ("ok", "unknown") or one["remedy"], f"no remedy: {one}"


def test_it_runs_without_torch():
    code = (
        "import sys, seneca.cli.doctor as d; status = d.run(None); "
        "print(sorted(m for m in sys.modules if m == 'torch')); sys.exit(0)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.endswith(
        "\n[]\n"
    )


def test_the_page_has_every_check_with_its_symptom_and_remedy():
    page = (ROOT / "docs" / "doctor.md").read_text().partition("## The checks")[2]
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| ")]
    cells = {row[0].strip(): row[1:] for row in rows if re.match(r" (?!check |---)", row[0])}
    assert list(cells) == [*checks.CHECKS, checks.STORAGE]
    assert all(len(cell.strip()) > 10 for row in cells.values() for cell in row)
