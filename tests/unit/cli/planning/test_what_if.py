"""How a what-if is read."""

from __future__ import annotations

import pytest
from profiles import ROUND
from typer.testing import CliRunner

from seneca.cli.app import app
from seneca.cli.planning.what_if import (
    QUANTITIES,
    BadWhatIf,
    Times,
    WhatIf,
    parse_what_if,
    show_bytes,
    show_rate,
    span,
)
from seneca.partition import Hosts, Jobs

RUN = CliRunner()


@pytest.fixture
def saved(tmp_path):
    """A profile in a file."""
    path = tmp_path / "profile.json"
    ROUND.save(path)
    return path


# --- what-if


@pytest.mark.parametrize(
    ("text", "fixed", "over", "values"),
    [
        (
            "memory=64GiB cores=16 jobs=4 storage=1GB/s",
            {"memory": 64 << 30, "cores": 16, "jobs": 4, "storage": 10**9},
            None,
            (),
        ),
        ("step=1200.5,threads=3, batch=64", {"step": 1200.5, "threads": 3, "batch": 64}, None, ()),
        ("cores=2..4 samples=1281167", {"samples": 1281167}, "cores", (2, 3, 4)),
        ("workers=0 gpu=2x storage=1.5x", {"workers": 0, "gpu": 2.0, "storage": 1.5}, None, ()),
        (
            "hosts=4 nic=10Gb/s remote=64GiB",
            {"hosts": 4, "nic": 1.25e9, "remote": 64 << 30},
            None,
            (),
        ),
        ("nic=2.5Gbit/s hosts=1..3", {"nic": 312.5e6}, "hosts", (1, 2, 3)),
        ("nic=1.25GB/s remote=0.5TiB", {"nic": 1.25e9, "remote": 1 << 39}, None, ()),
        ("storage=1x..4x", {}, "storage", tuple(2 ** (k / 4) for k in range(9))),
        ("jobs=8 memory=1GiB..1GiB", {"jobs": 8}, "memory", (1 << 30,)),
    ],
)
def test_a_what_if_is_read(text, fixed, over, values):
    found = parse_what_if(text)
    assert (found.fixed, found.over, found.values) == (fixed, over, pytest.approx(values))


def test_hosts_are_those_of_the_jobs():
    profile, jobs = parse_what_if("hosts=4 nic=10Gb/s remote=64GiB").given(ROUND, Jobs())
    assert profile is ROUND and jobs.hosts == Hosts(4, 1.25e9, 64 << 30)
    assert QUANTITIES["nic"].show(jobs.hosts.nic_bytes_per_s) == "10 Gb/s"


def test_a_factor_multiplies_what_there_is():
    profile, jobs = parse_what_if("storage=2x gpu=0.5x").given(ROUND, Jobs(2, step_per_s=(900, 300)))
    assert profile.storage_bytes_per_s == 100e6 and jobs.paces == (450, 150)
    assert parse_what_if("storage=1x..2x").given(ROUND, Jobs(), Times(2))[0].storage_bytes_per_s == 100e6
    assert show_rate(Times(2.0)) == "2x"


def test_another_loader_is_no_quantity():
    assert parse_what_if("loader=torch") == WhatIf({}, loader="torch")
    assert parse_what_if("jobs=3 loader=seneca") == WhatIf({"jobs": 3}, loader="seneca")


@pytest.mark.small(5)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("gpus=4", "'gpus=4' is not one of memory=, cores="),
        ("cores", "'cores' is not one of"),
        ("cores=many", "cores=many is no such amount; write for example cores=16"),
        ("cores=0", "cores=0 is no such amount"),
        ("cores=1.5", "no such amount"),
        ("memory=lots", "write for example memory=64GiB"),
        ("storage=fast", "write for example storage=1GB/s"),
        ("step=nan", "no such amount"),
        ("cores=1 cores=2", "cores is there twice"),
        ("cores=1..2 jobs=1..2", "cores and jobs are both ranges"),
        ("cores=4..2", "cores=4..2 falls"),
        ("cores=1..", "no such amount"),
        ("gpu=2", "gpu=2 is no such amount; write for example gpu=2x"),
        ("gpu=2x", "gpu=2x: the pace of the training step is not known; give it with --step"),
        ("storage=1MB..4x", "both ends of a range are amounts"),
        ("loader=dali", "loader=dali is no loader that is known; write one of seneca, torch"),
        ("loader=torch loader=seneca", "loader is there twice"),
    ],
)
def test_nonsense_is_refused_in_one_line(saved, text, message):
    with pytest.raises(BadWhatIf) as raised:
        parse_what_if(text).given(ROUND, Jobs())
    assert message in str(raised.value) and "\n" not in str(raised.value)
    result = RUN.invoke(app, ["plan", "--profile", str(saved), "--what-if", text])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"seneca plan: --what-if: {raised.value}\n"


def test_a_range_is_all_values_or_nine_in_equal_ratios():
    assert span("jobs", 1, 9) == tuple(range(1, 10))
    assert span("cores", 1, 256) == (1, 2, 4, 8, 16, 32, 64, 128, 256)
    memory = span("memory", 1 << 30, 256 << 30)
    assert memory[0] == 1 << 30 and memory[-1] == 256 << 30 and len(memory) == 9
    assert memory[1] == pytest.approx(2 << 30, abs=1)


def test_amounts_are_written_as_people_do():
    assert [show_bytes(amount) for amount in (512, 1536, 64 << 30, 3 << 40)] == [
        "512 B",
        "1.5 KiB",
        "64 GiB",
        "3 TiB",
    ]
    assert [show_rate(rate) for rate in (120e6, 999.7e6, 5.5e3, 12.0)] == [
        "120 MB/s",
        "1 GB/s",
        "5.5 kB/s",
        "12 B/s",
    ]


def test_no_amount_is_written_as_a_power_of_ten():
    shown = [show_bytes(amount) for amount in (999, 999 << 20, 1000 << 20, 1023 << 30, 1500 << 40)]
    assert shown == ["999 B", "999 MiB", "0.977 GiB", "0.999 TiB", "1,500 TiB"]
    assert [show_rate(rate) for rate in (120.4e9, 1.5e12)] == ["120 GB/s", "1,500 GB/s"]


def test_the_jobs_of_a_what_if_keep_their_pace():
    profile, jobs = parse_what_if("jobs=3").given(ROUND, Jobs(1, step_per_s=70.0))
    assert (profile, jobs.paces) == (ROUND, (70.0,) * 3)
