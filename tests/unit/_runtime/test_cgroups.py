"""Control groups may allow fewer cores."""

from __future__ import annotations

import os

import pytest

from seneca._runtime import cgroups as groups
from seneca.tuning import host
from seneca.tuning import profile as measure


@pytest.fixture(autouse=True)
def short(tmp_path, monkeypatch):
    """Measurements of a moment, kept in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("STORAGE_S", "ALONE_S", "TOGETHER_S", "STEP_S"):
        monkeypatch.setattr(measure, name, 0.2)
    monkeypatch.setattr(measure, "MEMORY_S", 0.02)


@pytest.fixture
def grouped(tmp_path, monkeypatch):
    """A host of 8 cores; ``grouped(path, text)`` writes a file of its control groups."""

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    monkeypatch.setattr(groups, "PROC", tmp_path / "proc")
    monkeypatch.setattr(groups, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    return write


@pytest.mark.parametrize("place", ["", "user/job/", "user/"])
def test_a_control_group_may_allow_fewer_cores(grouped, place):
    grouped("proc/self/cgroup", "0::/user/job\n")
    assert host.cores() == 8
    for text, cores in (
        ("max 100000\n", 8),
        ("250000 100000\n", 3),
        ("50000 100000\n", 1),
        ("9900000 100000", 8),
    ):
        grouped(f"groups/{place}cpu.max", text)
        assert host.cores() == cores


def test_the_group_that_allows_least_decides(grouped):
    grouped("proc/self/cgroup", "0::/user/job\n")
    grouped("groups/user/job/cpu.max", "500000 100000\n")
    grouped("groups/user/cpu.max", "300000 100000\n")
    assert host.cores() == 3
    grouped("groups/user/job/cpu.max", "200000 100000\n")
    assert host.cores() == 2


@pytest.mark.parametrize(("quota", "cores"), [(-1, 8), (250000, 3), (1000, 1)])
def test_a_control_group_of_the_first_version_may_allow_fewer_cores(grouped, quota, cores):
    grouped("proc/self/cgroup", "7:memory:/other\n4:cpu,cpuacct:/user/job\n")
    grouped("groups/cpu/user/job/cpu.cfs_quota_us", f"{quota}\n")
    grouped("groups/cpu/user/job/cpu.cfs_period_us", "100000\n")
    assert host.cores() == cores


def test_the_quota_is_given_in_parts_of_a_core_and_below_another_root(grouped, tmp_path):
    assert groups.cpu_quota() is None
    grouped("proc/self/cgroup", "0::/user/job\n")
    grouped("groups/user/cpu.max", "max 100000\n")
    assert groups.cpu_quota() is None
    grouped("groups/user/job/cpu.max", "250000 100000\n")
    assert groups.cpu_quota() == 2.5
    grouped("host/proc/self/cgroup", "0::/\n")
    grouped("host/sys/fs/cgroup/cpu.max", "50000 100000\n")
    assert groups.cpu_quota(tmp_path / "host") == 0.5


def test_what_the_kernel_killed_is_counted_below_another_root(grouped, tmp_path):
    grouped("host/proc/self/cgroup", "0::/\n")
    grouped("host/sys/fs/cgroup/memory.events", "oom 9\noom_kill 4\n")
    assert (groups.oom_kills(), groups.oom_kills(tmp_path / "host")) == (0, 4)
