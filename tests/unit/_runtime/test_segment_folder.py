"""Where segments lie, and which folders are refused."""

from __future__ import annotations

import os

import pytest
from rights import ordinary_rights

from seneca._runtime import segment_folder as folders
from seneca._runtime.segment_folder import fault_of, lies_in_memory, segment_folder


@pytest.fixture
def host(tmp_path):
    """``host(kind)`` is a folder that stands for /, in which /cache is on a file system of that kind."""

    def make(kind, options="rw"):
        (tmp_path / "cache").mkdir(exist_ok=True)
        path = tmp_path / "proc/self/mountinfo"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"20 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 20 0:53 / /cache {options} - {kind} source rw\n"
        )
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("named", "folder"),
    [(None, "/dev/shm"), ("", "/dev/shm"), ("/cache", "/cache"), ("/dev/shm//", "/dev/shm"), ("/", "/")],
)
def test_the_environment_names_the_folder(monkeypatch, named, folder):
    monkeypatch.delenv("SENECA_DIR", raising=False)
    if named is not None:
        monkeypatch.setenv("SENECA_DIR", named)
    assert segment_folder() == folder


@pytest.mark.parametrize("kind", ["tmpfs", "ext4", "xfs"])
def test_file_systems_that_hold_caches(host, kind):
    assert fault_of("/cache", host(kind)) is None
    assert lies_in_memory("/cache", host(kind)) is (kind == "tmpfs")


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        *[(kind, "hosts do not see what others change") for kind in ("nfs", "nfs4", "cifs", "9p", "lustre")],
        *[(kind, "a program serves it") for kind in ("fuse", "fuse.sshfs", "fuseblk", "virtiofs")],
        *[(kind, "the room that a cache has reserved may be missing") for kind in ("btrfs", "zfs")],
        ("overlay", "no other container sees"),
        ("f2fs", "not known to work"),
    ],
)  # fmt: skip
def test_other_file_systems_are_refused_with_the_reason(host, kind, why):
    fault = fault_of("/cache", host(kind))
    assert fault.found.startswith(f"SENECA_DIR='/cache' is on {kind} (/cache): ") and why in fault.found
    assert "unset SENECA_DIR for /dev/shm" in fault.remedy and "\n" not in str(fault)
    expected = "docker run -v" if kind == "overlay" else "tmpfs, ext4 or xfs"
    assert expected in fault.remedy


def test_what_was_not_set_is_not_looked_at(host):
    assert fault_of("/dev/shm", host("nfs4")) is None and lies_in_memory("/dev/shm", host("nfs4"))


def test_a_read_only_mount_is_refused(host):
    assert "mounted read-only" in fault_of("/cache", host("ext4", "ro")).found


def test_a_kernel_that_does_not_say_is_refused(host):
    root = host("ext4")
    (root / "proc/self/mountinfo").unlink()
    assert "does not say" in fault_of("/cache", root).found


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("caches", "is no absolute path"),
        ("./caches", "is no absolute path"),
        ("/{tmp}/missing", "there is no such folder"),
        ("/{tmp}/file", "is no folder"),
        ("/{tmp}/file/below", "Not a directory"),
        ("/" + 5000 * "x", "File name too long"),
        ("/{tmp}/new\nline", r"new\nline'"),
    ],
)
def test_what_is_no_folder_is_refused(tmp_path, folder, found):
    (tmp_path / "file").write_text("")
    fault = fault_of(folder.format(tmp=tmp_path))
    assert found in fault.found and "unset SENECA_DIR" in fault.remedy and "\n" not in str(fault)


@pytest.mark.parametrize("mode", [0o500, 0o300, 0o600])
def test_a_folder_without_rights_is_refused(tmp_path, monkeypatch, mode):
    monkeypatch.setattr(folders, "FIT", (folders.mount_of(str(tmp_path)).kind, "tmpfs"))
    folder = tmp_path / "closed"
    folder.mkdir()
    assert fault_of(str(folder)) is None
    folder.chmod(mode)
    with ordinary_rights():
        fault = fault_of(str(folder))
    folder.chmod(0o700)
    assert f"user {os.geteuid()} may not list it and make files in it" in fault.found
