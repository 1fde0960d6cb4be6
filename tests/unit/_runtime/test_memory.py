"""How much memory is free: by the kernel, and by control groups of both versions."""

from __future__ import annotations

import pytest

from seneca._runtime import cgroups as groups
from seneca._runtime import memory

MIB = 1 << 20


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A host with 1,000 MiB available; ``machine(path, text)`` writes one of its files."""

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    for module in (memory, groups):
        monkeypatch.setattr(module, "PROC", tmp_path / "proc")
    monkeypatch.setattr(groups, "GROUPS", tmp_path / "groups")
    write("proc/meminfo", f"MemTotal: {4000 * 1024} kB\nMemAvailable: {1000 * 1024} kB\n")
    return write


def test_without_control_groups_it_is_the_kernels(machine):
    assert memory.free_memory() == 1000 * MIB


def test_a_group_of_the_second_version_limits(machine):
    machine("proc/self/cgroup", "0::/job\n")
    machine("groups/job/memory.max", f"{500 * MIB}\n")
    machine("groups/job/memory.current", f"{400 * MIB}\n")
    machine("groups/job/memory.stat", f"anon {90 * MIB}\ninactive_file {200 * MIB}\nactive_file {50 * MIB}\n")
    assert memory.free_memory() == 350 * MIB
    machine("groups/job/memory.max", "max\n")
    assert memory.free_memory() == 1000 * MIB


def test_files_that_programs_run_from_are_not_free(machine):
    machine("proc/self/cgroup", "0::/job\n")
    machine("groups/job/memory.max", f"{500 * MIB}\n")
    machine("groups/job/memory.current", f"{400 * MIB}\n")
    of_files = f"inactive_file {100 * MIB}\nactive_file {50 * MIB}\nshmem {80 * MIB}\n"
    for mapped, free in ((0, 250), (80, 250), (120, 210), (400, 100)):
        machine("groups/job/memory.stat", f"{of_files}file_mapped {mapped * MIB}\n")
        assert memory.free_memory() == free * MIB


def test_a_group_of_the_first_version_limits_through_its_parents(machine):
    machine("proc/self/cgroup", "7:blkio:/other\n8:cpu,memory:/user/job\n")
    for place, limit in (("user/job", 900), ("user", 300)):
        machine(f"groups/memory/{place}/memory.limit_in_bytes", f"{limit * MIB}\n")
        machine(f"groups/memory/{place}/memory.usage_in_bytes", f"{100 * MIB}\n")
        machine(f"groups/memory/{place}/memory.stat", f"inactive_file 5\ntotal_inactive_file {20 * MIB}\n")
    assert memory.free_memory() == 220 * MIB


def test_in_a_container_the_root_is_what_limits(machine):
    machine("proc/self/cgroup", "0::/a/path/of/the/host\n")
    machine("groups/memory.max", f"{64 * MIB}\n")
    machine("groups/memory.current", f"{70 * MIB}\n")
    machine("groups/memory.stat", "anon 1\n")
    assert memory.free_memory() == 0


def test_most_is_what_is_had_when_files_give_way_and_the_rest_goes_to_swap(machine):
    machine(
        "proc/meminfo", "MemAvailable: 1000 kB\nMemFree: 900 kB\nInactive(file): 300 kB\nSwapFree: 70 kB\n"
    )
    limit = memory.most_memory()
    assert (limit.free, limit.most, limit.name) == (1000 << 10, 1270 << 10, "this host")


def test_most_is_the_least_that_any_group_leaves(machine):
    machine("proc/meminfo", f"MemAvailable: {4000 * 1024} kB\nSwapFree: {500 * 1024} kB\n")
    machine("proc/self/cgroup", "0::/slice/job\n")
    for place, most, used in (("slice/job", 800, 100), ("slice", 900, 500)):
        machine(f"groups/{place}/memory.max", f"{most * MIB}\n")
        machine(f"groups/{place}/memory.current", f"{used * MIB}\n")
        machine(f"groups/{place}/memory.stat", f"active_file {60 * MIB}\nfile_mapped {60 * MIB}\n")
    limit = memory.most_memory()
    assert (limit.free, limit.most) == (400 * MIB, 960 * MIB), "swap is not limited"
    assert limit.name.endswith("groups/slice")
    machine("groups/slice/memory.swap.max", f"{50 * MIB}\n")
    machine("groups/slice/memory.swap.current", f"{20 * MIB}\n")
    assert memory.most_memory().most == (460 + 30) * MIB


def test_most_of_a_group_of_the_first_version_is_limited_with_its_swap(machine):
    machine("proc/meminfo", f"MemAvailable: {4000 * 1024} kB\nSwapFree: {500 * 1024} kB\n")
    machine("proc/self/cgroup", "8:memory:/job\n")
    job = "groups/memory/job/memory"
    machine(f"{job}.limit_in_bytes", f"{300 * MIB}\n")
    machine(f"{job}.usage_in_bytes", f"{100 * MIB}\n")
    machine(f"{job}.kmem.usage_in_bytes", f"{5 * MIB}\n")
    machine(f"{job}.stat", f"total_inactive_file {20 * MIB}\n")
    assert memory.most_memory().most == (200 + 20 + 5 + 500) * MIB
    machine(f"{job}.memsw.limit_in_bytes", f"{320 * MIB}\n")
    machine(f"{job}.memsw.usage_in_bytes", f"{100 * MIB}\n")
    assert memory.most_memory().most == (220 + 20 + 5) * MIB


def test_the_nearest_soft_limit_is_found(machine):
    assert memory.until_throttled() is None
    machine("proc/self/cgroup", "0::/slice/job\n")
    for place, high, used in (
        ("slice/job", "max", 1),
        ("slice", 900 * MIB, 500 * MIB),
        ("", 800 * MIB, 700 * MIB),
    ):
        machine(f"groups/{place}/memory.high", f"{high}\n")
        machine(f"groups/{place}/memory.current", f"{used}\n")
    assert memory.until_throttled() == 100 * MIB


def test_another_root_stands_for_this_host(machine, tmp_path):
    machine("host/proc/meminfo", f"MemAvailable: {7 * 1024} kB\n")
    machine("host/proc/self/cgroup", "0::/\n")
    machine("host/sys/fs/cgroup/memory.max", f"{5 * MIB}\n")
    machine("host/sys/fs/cgroup/memory.current", f"{2 * MIB}\n")
    machine("host/sys/fs/cgroup/memory.stat", "anon 1\n")
    assert [limit.free for limit in memory.limits(tmp_path / "host")] == [7 * MIB, 3 * MIB]
    assert (memory.free_memory(tmp_path / "host"), memory.free_memory()) == (3 * MIB, 1000 * MIB)
    assert memory.meminfo(tmp_path / "host") == {"MemAvailable": 7 * MIB}
