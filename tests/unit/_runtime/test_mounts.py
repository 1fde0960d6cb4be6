"""Which file system a path lies on."""

from __future__ import annotations

import os

import pytest
from engine import in_small_shm

from seneca._runtime import mounts
from seneca._runtime.mounts import mount_of

LINES = r"""20 1 8:1 / / rw,noatime - ext4 /dev/sda1 rw,errors=remount-ro
31 20 0:53 / /data rw - nfs4 server:/data rw,vers=4.2
32 20 8:17 / /data/my\040set ro - xfs /dev/sdb1 rw
33 20 0:60 / /mnt rw shared:7 - autofs systemd-1 rw
34 33 0:61 / /mnt rw shared:8 - fuse.sshfs me@there:/ rw
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(LINES)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/database", "ext4"),
        ("/data", "nfs4"),
        ("/data/other", "nfs4"),
        ("/data/my set/a.jpg", "xfs"),
        ("/mnt/far", "fuse.sshfs"),
    ],
)
def test_the_nearest_mount_counts_and_of_two_on_one_folder_the_later(root, path, kind):
    assert mount_of(path, root).kind == kind


def test_a_mount_has_its_options_and_its_source(root):
    mount = mount_of("/data/my set", root)
    assert (mount.point, mount.device, mount.source) == ("/data/my set", "8:17", "/dev/sdb1")
    assert {"ro", "rw"} <= mount.options
    assert "errors=remount-ro" in mount_of("/", root).options


@pytest.mark.parametrize("space", ["\xa0", "\u3000", "\u2028", "\r", "\f"])
def test_a_name_may_hold_white_space_that_the_kernel_does_not_escape(root, space):
    lines = LINES + f"35 20 0:70 / /my{space}disk ro - tmpfs my{space}source rw\n"
    (root / "proc/self/mountinfo").write_bytes(lines.encode())
    mount = mount_of(f"/my{space}disk/cache", root)
    assert (mount.point, mount.kind, mount.source) == (f"/my{space}disk", "tmpfs", f"my{space}source")
    assert mount.options == {"ro", "rw"}


def test_a_kernel_that_does_not_say_is_no_error(tmp_path):
    assert mount_of("/data", tmp_path) is None


def test_of_this_host_links_are_followed(tmp_path):
    os.symlink("/proc/self", tmp_path / "link")
    assert mount_of(str(tmp_path / "link")).kind == "proc"
    assert mount_of(str(tmp_path)).kind == mount_of(str(tmp_path / "missing")).kind != "proc"


def test_the_device_decides_where_a_mount_further_up_hides_another(tmp_path, monkeypatch):
    """/dev/shm in a list that has an NFS below: what lies there is no NFS, or its device would say so."""
    number = os.stat("/dev/shm").st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    (tmp_path / "list").write_text(
        f"20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"21 20 0:999999 / /dev/shm rw - nfs4 server:/ rw\n"
        f"22 20 {device} / /dev rw - tmpfs tmpfs rw\n"
    )
    monkeypatch.setattr(mounts, "MOUNTS", str(tmp_path / "list").lstrip("/"))
    assert mount_of("/dev/shm").kind == "tmpfs"


def test_a_mount_namespace_has_its_own():
    found = in_small_shm(1 << 20, mount_of, "/dev/shm/x")
    assert found.kind == "tmpfs" and "size=1024k" in found.options
