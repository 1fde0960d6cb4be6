"""Traps of /dev/shm, planted."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

import engine
import pytest
from engine import Place, Remote

from seneca.cli.checks import shm
from seneca.cli.checks.host import Host

GIB = 1 << 30


def in_small_shm(size_bytes, check, prepare=lambda: None):
    """What a check finds in a child whose /dev/shm is a real tmpfs of that size."""

    def work():
        prepare()
        return check(Host())

    return engine.in_small_shm(size_bytes, work)


# --- size


def test_a_shm_of_the_usual_size_is_fine(planted, says):
    says(shm.size(planted.host), "ok", "32 GiB; jobs may use 60 GiB")
    (planted.root / "proc/self/mountinfo").unlink()
    says(shm.size(planted.host), "ok", "32 GiB; jobs may use 60 GiB")


def test_docker_s_default_is_found_in_a_real_tmpfs(says):
    finding = in_small_shm(64 << 20, shm.size)
    says(finding, "problem", "64 MiB; jobs may use", "size")


def test_the_remedy_is_that_of_the_place(planted, says, monkeypatch):
    planted.space(64 << 20, 64 << 20)
    says(shm.size(planted.host), "problem", "64 MiB", "sudo mount -o remount,size=30G /dev/shm")
    planted.write("/.dockerenv", "")
    says(shm.size(planted.host), "problem", "64 MiB", "docker run --shm-size=30g")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    says(shm.size(planted.host), "problem", "64 MiB", "emptyDir: {medium: Memory, sizeLimit: 30Gi}")


def test_a_shm_far_smaller_than_memory_is_a_warning(planted, says):
    planted.space(14 * GIB, 14 * GIB)
    says(shm.size(planted.host), "warning", "14 GiB", "size=30G")
    planted.space(16 * GIB, 16 * GIB)
    says(shm.size(planted.host), "ok")


def test_a_missing_shm_is_a_problem(planted, says):
    (planted.root / "dev/shm").rmdir()
    says(shm.size(planted.host), "problem", "missing", "mkdir -p /dev/shm && sudo mount -t tmpfs")


def test_a_shm_on_a_disk_is_a_problem(planted, says):
    planted.write("/proc/self/mountinfo", "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    says(shm.size(planted.host), "problem", "it is ext4 and no tmpfs", "mount -t tmpfs")
    planted.write("/proc/self/mountinfo", "20 1 8:1 / /dev/shm rw - xfs /dev/sda1 rw\n")
    says(shm.size(planted.host), "problem", "it is xfs and no tmpfs", "mount -t tmpfs")
    planted.write("/proc/self/mountinfo", "20 1 0:5 / /dev rw - devtmpfs udev rw\n")
    says(shm.size(planted.host), "ok")


def test_a_shm_that_others_may_not_write_is_a_problem(says):
    def as_nobody():
        os.chmod("/dev/shm", 0o755)
        os.setuid(65534)

    says(in_small_shm(1 << 20, shm.size, as_nobody), "problem", "user 65534 may not make files", "chmod 1777")


# --- room


def test_a_file_system_without_a_limit_on_files_is_fine(planted, says):
    says(shm.room(planted.host), "ok", "30 GiB of 32 GiB are free")


def test_a_full_shm_is_found_in_a_real_tmpfs(says):
    def fill():
        with open("/dev/shm/other", "wb") as file:
            file.write(bytes(15 << 20))

    says(in_small_shm(16 << 20, shm.room), "ok", "16 MiB of 16 MiB are free")
    says(in_small_shm(16 << 20, shm.room, fill), "warning", "only 1 MiB of 16 MiB", "du -sh /dev/shm/*")


def test_a_lack_of_inodes_is_found_in_a_real_tmpfs(says):
    def few():
        subprocess.run(["mount", "-o", "remount,nr_inodes=50", "/dev/shm"], check=True)

    says(
        in_small_shm(16 << 20, shm.room, few), "problem", "of 50 files can still be made", "nr_inodes=100000"
    )


# --- who shares


def test_a_private_mount_namespace_is_reported(planted, says):
    says(shm.shared_with(planted.host), "unknown", "only root can see")
    of_init = planted.root / "proc/1/root/dev"
    of_init.mkdir(parents=True)
    (of_init / "shm").symlink_to("/dev/shm")  # another file system than the planted one
    says(shm.shared_with(planted.host), "ok", "private to this mount namespace", "/proc/1/root/dev/shm")
    (of_init / "shm").unlink()
    (of_init / "shm").symlink_to(planted.root / "dev/shm")
    says(shm.shared_with(planted.host), "ok", "shared by all processes")


def test_a_container_s_private_shm_is_reported_with_the_option_that_shares(planted, says):
    planted.write("/.dockerenv", "")
    says(shm.shared_with(planted.host), "ok", "not private")
    planted.write("/proc/self/mountinfo", "25 1 0:22 / /dev/shm rw - tmpfs shm rw,size=65536k\n")
    says(shm.shared_with(planted.host), "ok", "private to this container", "--ipc=host")


def test_what_nobody_says_is_unknown(planted, says):
    (planted.root / "proc/self/mountinfo").unlink()
    says(shm.shared_with(planted.host), "unknown", "does not say")


# --- kernel


def test_this_kernel_can_do_it(says):
    says(shm.kernel(Host()), "ok", "finds which processes live")


@pytest.mark.parametrize(
    ("call", "lacks", "words"),
    [
        ("posix_fallocate", None, "reserving memory"),
        ("flock", None, "the lock (flock)"),
        ("fcntl", fcntl.F_OFD_SETLK, "proof of life (F_OFD_SETLK)"),
        ("fcntl", fcntl.F_OFD_GETLK, "asking for it (F_OFD_GETLK)"),
    ],
)
def test_a_kernel_that_lacks_a_call_is_a_problem(planted, says, monkeypatch, call, lacks, words):
    module = os if call == "posix_fallocate" else fcntl
    real = getattr(module, call)

    def refused(fd, command, *rest):
        if lacks in (None, command):
            raise OSError(22, "Invalid argument")
        return real(fd, command, *rest)

    monkeypatch.setattr(module, call, refused)
    says(shm.kernel(planted.host), "problem", words, "Linux 3.15")
    planted.write("/.dockerenv", "")
    says(shm.kernel(planted.host), "problem", words, "--runtime=runc")


# --- RemoveIPC


def test_remove_ipc_is_yes_where_nothing_is_said(planted, says):
    says(shm.remove_ipc(planted.host), "ok", "no systemd-logind")
    (planted.root / "run/systemd/seats").mkdir(parents=True)
    says(shm.remove_ipc(planted.host), "warning", "RemoveIPC=yes", "loginctl enable-linger")
    planted.uid = 0
    says(shm.remove_ipc(planted.host), "ok", "system user")


@pytest.mark.parametrize(
    ("files", "verdict"),
    [
        ({"/etc/systemd/logind.conf": "#RemoveIPC=no\n[Login]\n"}, "warning"),
        ({"/etc/systemd/logind.conf": "[Login]\nRemoveIPC=no\n"}, "ok"),
        ({"/etc/systemd/logind.conf": "[Login]\nRemoveIPC=yes\n"}, "warning"),
        (
            {
                "/etc/systemd/logind.conf": "[Login]\nRemoveIPC=yes\n",
                "/usr/lib/systemd/logind.conf.d/50-hpc.conf": "[Login]\nRemoveIPC=no\n",
            },
            "ok",
        ),
        (
            {
                "/usr/lib/systemd/logind.conf.d/50-hpc.conf": "[Login]\nRemoveIPC=no\n",
                "/etc/systemd/logind.conf.d/50-hpc.conf": "[Login]\nKillUserProcesses=no\n",
            },
            "warning",
        ),
        (
            {
                "/etc/systemd/logind.conf": "[Login]\nRemoveIPC=no\n",
                "/etc/systemd/logind.conf.d/50-hpc.conf": "[Login]\nRemoveIPC\n",
            },
            "ok",
        ),
        ({"/etc/systemd/logind.conf": "no section\nRemoveIPC=no\n"}, "warning"),
    ],
)
def test_the_last_file_that_says_it_counts(planted, says, files, verdict):
    (planted.root / "run/systemd/seats").mkdir(parents=True)
    for name, text in files.items():
        planted.write(name, text)
    says(shm.remove_ipc(planted.host), verdict, "RemoveIPC", "enable-linger" if verdict == "warning" else "")


def test_a_user_who_lingers_keeps_the_segments(planted, says):
    (planted.root / "run/systemd/seats").mkdir(parents=True)
    planted.uid = 54321
    says(shm.remove_ipc(planted.host), "warning", "", "enable-linger 54321")
    planted.write("/var/lib/systemd/linger/54321", "")
    says(shm.remove_ipc(planted.host), "ok", "lingers")


# --- leftovers


def test_a_segment_of_a_dead_job_is_reported_and_stays(says):
    def check(host):
        with Place(100) as place:
            remote = Remote(place, 1)
            alive = shm.leftovers(host)
            remote.process.kill()
            dead, stays = shm.leftovers(host), place.exists
            subprocess.run([sys.executable, "-m", "seneca.cli", *dead.remedy.split()[1:]], check=True)
            return alive, dead, stays, place.exists

    # In a /dev/shm of its own, where no other test's cache sweeps.
    alive, dead, stays, afterwards = in_small_shm(64 << 20, check)
    says(alive, "ok", "no segment")
    says(dead, "warning", "1 segment of dead jobs", "seneca prune")
    assert stays and not afterwards, "doctor only reports, and its remedy removes"


def test_other_users_segments_are_not_reported(planted, says):
    planted.write(f"/dev/shm/seneca-{planted.uid}-a b;c", "")
    planted.write("/dev/shm/seneca-77-another", "")
    says(shm.leftovers(planted.host), "warning", "1 segment of dead jobs", "seneca prune")


def test_what_is_no_file_is_left_out(planted, says):
    (planted.root / f"dev/shm/seneca-{planted.uid}-folder").mkdir()
    says(shm.leftovers(planted.host), "ok", "no segment")


def test_what_cannot_be_read_is_reported_with_what_removes_it(planted, says):
    text = "another program's file, by its first 64 bytes" * 400
    path = planted.write(f"/dev/shm/seneca-{planted.uid}-other one", text)
    words = "1 segment that cannot be read and nobody uses: "
    says(shm.leftovers(planted.host), "warning", words, f"rm '{path}'")
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        says(shm.leftovers(planted.host), "ok", "no segment")  # one that is being made may look so
    planted.write(f"/dev/shm/seneca-{planted.uid}-dead", "")
    both = shm.leftovers(planted.host)
    says(both, "warning", f"; {words}", f"seneca prune && rm '{path}'")
    assert both.found.startswith("1 segment of dead jobs: ")
