"""Traps of SENECA_DIR, planted."""

from __future__ import annotations

import dataclasses
import os

import pytest

from seneca.cli import checks
from seneca.cli.checks import memory, process, shm
from seneca.cli.checks.host import Host

GIB = 1 << 30


@pytest.fixture
def host(planted):
    """``host(kind, mode)``: the planted host, whose jobs have SENECA_DIR=/cache on such a file system."""

    def make(kind, mode=0o700):
        (planted.root / "cache").mkdir(exist_ok=True)
        (planted.root / "cache").chmod(mode)
        planted.write(
            "/proc/self/mountinfo",
            f"20 1 8:1 / / rw - ext4 /dev/sda1 rw\n26 20 0:60 / /cache rw - {kind} source rw\n",
        )
        return dataclasses.replace(planted.host, folder="/cache")

    return make


def test_unset_is_fine(planted, says):
    says(shm.folder(planted.host), "ok", "not set: caches lie in /dev/shm")


@pytest.mark.parametrize(("kind", "where"), [("tmpfs", "memory"), ("ext4", "a disk"), ("xfs", "a disk")])
def test_a_folder_that_fits_is_fine(host, says, kind, where):
    says(shm.folder(host(kind)), "ok", f"caches lie in /cache ({kind}: {where}")
    says(shm.folder(host(kind, 0o1777)), "ok", "/cache")


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "overlay", "btrfs"])
def test_others_are_problems_and_what_rests_on_them_is_unknown(host, says, kind):
    here = host(kind)
    says(shm.folder(here), "problem", f"SENECA_DIR='/cache' is on {kind}", "unset SENECA_DIR")
    for check in (shm.size, shm.room, shm.kernel, shm.leftovers, memory.limit):
        says(check(here), "unknown", "SENECA_DIR cannot hold a cache")


def test_a_missing_folder_is_a_problem(host, says):
    here = host("ext4")
    os.rmdir(here.path("/cache"))
    says(shm.folder(here), "problem", "there is no such folder", "mkdir")


def test_a_folder_that_every_user_may_change_is_a_warning(host, says):
    says(shm.folder(host("tmpfs", 0o777)), "warning", "every user may remove", "chmod 1777 /cache")


def test_the_other_checks_look_at_the_folder(host, planted, says):
    disk = host("ext4")
    planted.space(32 * GIB, GIB)
    says(shm.size(disk), "ok", "32 GiB on a disk")
    says(shm.room(disk), "warning", "1 GiB of 32 GiB", "du -sh /cache/*")
    says(shm.shared_with(disk), "ok", "by the jobs that name /cache")
    says(shm.remove_ipc(disk), "ok", "systemd removes nothing in /cache")
    says(memory.limit(disk), "ok", "the cache lies on a disk (/cache)")
    planted.write("/proc/sys/vm/overcommit_memory", "2")
    says(memory.overcommit(disk), "ok", "vm.overcommit_memory=2")
    says(process.address_space(disk), "ok", "a cache of 512 MiB")
    planted.space(32 * GIB, 32 * GIB, 1000, 10)
    says(shm.room(disk), "problem", "10 of 1,000 files", "remove files from the file system of /cache")
    in_memory = host("tmpfs")
    says(shm.room(in_memory), "problem", "10 of 1,000 files", "nr_inodes=100000 /cache")
    planted.space(GIB, GIB)
    says(shm.size(in_memory), "warning", "1 GiB; jobs may use 60 GiB", "remount,size=30G /cache")


def test_on_this_host_the_kernel_is_tried_there(segment_folder, says):
    here = Host()
    assert here.folder == segment_folder
    says(shm.folder(here), "ok", segment_folder)
    says(shm.kernel(here), "ok", "finds which processes live")


def test_the_checks_are_named_after_the_folder(segment_folder):
    names = [name for name, _ in checks.examine(Host())]
    assert "folder size" in names and not any("/dev/shm" in name for name in names)
