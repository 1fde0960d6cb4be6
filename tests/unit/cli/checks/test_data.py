"""Traps of a dataset's file system, planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from seneca.cli.checks.data import storage


@pytest.mark.parametrize(
    ("kind", "options", "ahead_kib", "verdict", "words", "remedy"),
    [
        ("ext4", "rw", 128, "ok", "ext4 at /planted, read-ahead 128 KiB", ""),
        ("nfs4", "rw", 15360, "ok", "nfs4 at /planted, read-ahead 15 MiB", ""),
        ("nfs4", "rw", 128, "warning", "several round trips", "echo 15360 | sudo tee /sys/class/bdi/0:53/"),
        (
            "nfs",
            "rw,noac",
            15360,
            "warning",
            "noac: each epoch asks the server",
            "remount,ac,actimeo=600 /planted",
        ),
        ("lustre", "rw", 128, "warning", "several round trips", "read_ahead_kb"),
        (
            "fuse.gcsfuse",
            "rw",
            128,
            "warning",
            "a program answers every open",
            "cp -r /planted/train /var/tmp/",
        ),
        ("overlay", "rw", 128, "ok", "a layer of a container", "docker run -v"),
        ("tmpfs", "rw", None, "ok", "in the cache are there twice", ""),
    ],
)
def test_a_file_system_is_shown_with_what_makes_it_slow(
    planted, says, kind, options, ahead_kib, verdict, words, remedy
):
    planted.write("/proc/self/mountinfo", f"30 1 0:53 / /planted {options} - {kind} source rw\n")
    if ahead_kib is not None:
        planted.write("/sys/class/bdi/0:53/read_ahead_kb", f"{ahead_kib}\n")
    says(storage(planted.host, Path("/planted/train")), verdict, words, remedy)


def test_a_link_leads_to_where_the_files_are(planted, says, tmp_path):
    (tmp_path / "link").symlink_to("/planted/train")
    planted.write("/proc/self/mountinfo", "30 1 0:53 / /planted rw - xfs source rw\n")
    says(storage(planted.host, tmp_path / "link"), "ok", "xfs at /planted")


def test_a_file_system_that_the_kernel_does_not_name_is_unknown(planted, says):
    planted.write("/proc/self/mountinfo", "")
    says(storage(planted.host, Path("/data")), "unknown")
