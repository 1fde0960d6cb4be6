"""What is read from a host."""

from __future__ import annotations

import os

import pytest

from seneca.cli.checks.host import Host


def test_the_innermost_and_last_mount_is_the_one(planted):
    planted.write(
        "/proc/self/mountinfo",
        "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "21 20 0:30 / /data rw,relatime shared:1 - nfs4 server:/x rw,actimeo=0\n"
        "22 21 0:31 / /data/my\\040set rw - ext4 /dev/a rw\n"
        "23 21 0:32 / /data/my\\040set ro - xfs /dev/b rw\n",
    )
    mount_of = planted.host.mount_of
    assert mount_of("/database").point == "/"
    nfs = mount_of("/data/other")
    assert mount_of("/data") == nfs
    assert (nfs.kind, nfs.device, nfs.source) == ("nfs4", "0:30", "server:/x")
    assert {"relatime", "actimeo=0"} <= nfs.options
    assert mount_of("/data/my set/a.jpg").kind == "xfs"


def test_a_file_that_is_not_there_is_none(planted):
    assert planted.host.read("/proc/nothing") is None


@pytest.mark.parametrize(("online", "cores"), [("0", 1), ("0-63", 64), ("0-3,8-11,15", 9)])
def test_the_cores_of_the_machine(planted, online, cores):
    planted.write("/sys/devices/system/cpu/online", online + "\n")
    assert planted.host.machine_cores == cores


def test_the_cores_of_this_process_are_limited_by_its_groups(planted):
    assert planted.host.cores == 8
    planted.write("/sys/fs/cgroup/job/cpu.max", "250000 100000\n")
    assert planted.host.cores == 3


def test_a_container_is_known_by_its_mark(planted, monkeypatch):
    assert not planted.host.in_container
    planted.write("/.dockerenv", "")
    assert planted.host.in_container and not planted.host.in_kubernetes
    (planted.root / ".dockerenv").unlink()
    assert not planted.host.in_container
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert planted.host.in_container and planted.host.in_kubernetes


def test_the_real_host_is_read():
    host = Host()
    assert host.affinity == os.sched_getaffinity(0) and host.uid == os.geteuid()
    assert host.mount_of("/proc/self").kind == "proc"
    assert host.space("/dev/shm").total_bytes > 0
