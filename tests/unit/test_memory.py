"""How much memory is free: by the kernel, and by control groups of both versions."""

from __future__ import annotations

import pytest

from seneca import groups, memory

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
