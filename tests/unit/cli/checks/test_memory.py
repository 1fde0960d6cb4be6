"""Traps of memory, planted."""

from __future__ import annotations

import platform

import pytest

from seneca.cli.checks import memory

GIB = 1 << 30
GROUP = "/sys/fs/cgroup/job/memory"


def group(planted, most_gib, used_gib=1):
    planted.write(f"{GROUP}.max", f"{int(most_gib * GIB)}\n")
    planted.write(f"{GROUP}.current", f"{int(used_gib * GIB)}\n")
    planted.write(f"{GROUP}.stat", "anon 1\n")


def test_without_a_group_s_limit_all_is_well(planted, says):
    says(memory.limit(planted.host), "ok", "no control group limits memory")
    group(planted, 1000)
    says(memory.limit(planted.host), "ok", "no control group limits memory")


def test_a_group_that_allows_less_than_shm_offers_is_a_warning(planted, says):
    group(planted, 9)
    says(memory.limit(planted.host), "warning", "first writes a page", 'cache_bytes="4 GiB" or less')
    planted.space(32 * GIB, 4 * GIB)
    says(memory.limit(planted.host), "ok", "allows 8 GiB more, /dev/shm 4 GiB")


def test_a_group_of_the_first_version_too(planted, says):
    planted.write("/proc/self/cgroup", "4:memory:/slurm/job\n")
    place = "/sys/fs/cgroup/memory/slurm/memory"
    planted.write(f"{place}.limit_in_bytes", f"{9 * GIB}\n")
    planted.write(f"{place}.usage_in_bytes", f"{GIB}\n")
    planted.write(f"{place}.stat", "total_shmem 0\n")
    says(memory.limit(planted.host), "warning", "cgroup/memory/slurm allows 8 GiB more", "4 GiB")


def test_a_group_that_is_nearly_full_is_a_problem(planted, says, monkeypatch):
    group(planted, 9, 8.9)
    says(memory.limit(planted.host), "problem", "allows 102 MiB more", "sbatch --mem")
    planted.write("/.dockerenv", "")
    says(memory.limit(planted.host), "problem", "102 MiB", "docker run --memory")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    says(memory.limit(planted.host), "problem", "102 MiB", "resources.limits.memory")


def test_memory_high_is_a_warning_where_it_is_near(planted, says):
    says(memory.throttled(planted.host), "ok", "no control group")
    planted.write(f"{GROUP}.current", f"{GIB}\n")
    for high, verdict, words, remedy in (
        ("max", "ok", "no control group", ""),
        (str(9 * GIB), "ok", "8 GiB are left", ""),
        (str(GIB + (100 << 20)), "warning", "100 MiB are left", "MemoryHigh=infinity"),
        (str(GIB // 2), "warning", "0 B are left", "MemoryHigh=infinity"),
    ):
        planted.write(f"{GROUP}.high", high + "\n")
        says(memory.throttled(planted.host), verdict, words, remedy)


def test_processes_that_the_kernel_killed_are_reported(planted, says):
    says(memory.kills(planted.host), "ok")
    planted.write(f"{GROUP}.events", "low 0\noom 3\noom_kill 2\n")
    says(memory.kills(planted.host), "warning", "killed 2 processes", "smaller cache_bytes")


def test_much_swap_in_use_is_a_warning(planted, says):
    says(memory.swapped(planted.host), "ok", "there is no swap")
    planted.meminfo(SwapTotal=16, SwapFree=15)
    says(memory.swapped(planted.host), "ok", "1 GiB of 16 GiB")
    planted.meminfo(SwapTotal=16, SwapFree=10)
    says(memory.swapped(planted.host), "warning", "6 GiB of 16 GiB", "swapoff -a")


def test_strict_overcommit_is_a_warning_where_it_allows_less_than_shm(planted, says):
    says(memory.overcommit(planted.host), "unknown")
    planted.write("/proc/sys/vm/overcommit_memory", "0\n")
    says(memory.overcommit(planted.host), "ok", "overcommit_memory=0")
    planted.write("/proc/sys/vm/overcommit_memory", "2\n")
    planted.meminfo(CommitLimit=40, Committed_AS=30)
    says(memory.overcommit(planted.host), "warning", "promises 10 GiB more, though", "vm.overcommit_memory=0")
    planted.meminfo(CommitLimit=80, Committed_AS=30)
    says(memory.overcommit(planted.host), "ok", "promises 50 GiB more")


@pytest.mark.parametrize(
    ("chosen", "release", "words", "remedy"),
    [
        ("always within_size [advise] never deny force", "5.4.0", "advise: the cache may lie in huge", ""),
        (
            "always within_size advise [never] deny force",
            "6.1.0-x",
            "never: the records alone",
            "echo advise",
        ),
        (
            "always within_size advise [never] deny force",
            "5.15.0",
            "never: the cache has none",
            "echo advise",
        ),
        ("always within_size advise never [deny] force", "6.8.0", "deny: the cache has none", "echo advise"),
    ],
)
def test_huge_pages_are_reported(planted, says, monkeypatch, chosen, release, words, remedy):
    monkeypatch.setattr(platform, "release", lambda: release)
    planted.write(memory.HUGE_PAGES, chosen + "\n")
    says(memory.huge_pages(planted.host), "ok", words, remedy)


def test_huge_pages_that_the_kernel_does_not_name_are_unknown(planted, says):
    says(memory.huge_pages(planted.host), "unknown")


def test_pressure_that_cannot_be_read_is_unknown(planted, says):
    says(memory.pressure(planted.host), "unknown", "keeps no schedstat", "psi=1")
    planted.write("/proc/self/schedstat", "1 2 3\n")
    assert "schedstat" not in memory.pressure(planted.host).found


def test_tasks_that_wait_for_memory_are_a_warning(planted, says):
    for what in ("memory", "io", "cpu"):
        planted.write(f"/proc/pressure/{what}", "some avg10=0.00 avg60=3.20 avg300=0 total=1\n")
    says(memory.pressure(planted.host), "ok", "memory 3 %, io 3 %, cpu 3 %")
    planted.write("/proc/pressure/memory", "some avg10=0.00 avg60=31.00 avg300=0 total=1\nfull avg60=0\n")
    says(memory.pressure(planted.host), "warning", "memory 31 %", "smaller cache_bytes")
