"""Folders and files that a command is given: one line says what is wrong with one, and what to do."""

import errno
import os
from pathlib import Path

import pytest

from seneca.cli.paths import cannot_list, cannot_write, in_a_line


def test_what_can_be_used_is_not_refused(tmp_path):
    assert cannot_list(tmp_path) is None
    assert cannot_write(tmp_path / "new") is None
    (tmp_path / "file").touch()
    assert cannot_write(tmp_path / "file") is None


def test_a_folder_that_cannot_be_listed(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    assert cannot_list(tmp_path / "missing") == f"there is no folder {tmp_path}/missing; give another"
    assert cannot_list(tmp_path / "file").startswith(f"{tmp_path}/file is no folder; give the folder")

    def refuse(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "scandir", refuse)  # root may list everything
    assert (
        cannot_list(tmp_path)
        == f"{tmp_path} cannot be listed: Permission denied; give another, or get the right to read it"
    )


def test_a_file_that_cannot_be_written(tmp_path, monkeypatch):
    assert cannot_write(tmp_path) == f"{tmp_path} is a folder; give a file in it"
    missing = tmp_path / "missing"
    assert cannot_write(missing / "file") == f"there is no folder {missing}; make it, or give another file"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert cannot_write(tmp_path / "file") == f"{tmp_path}/file cannot be written; give another file"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("a size\n  and a unit"), "a size and a unit"),
        (OSError("no file is named"), "no file is named"),
        (OSError(errno.ENOSPC, "No space", "x"), "x: No space; free some room, or give another"),
        (OSError(errno.EACCES, "Denied", "x"), "x: Denied; give another, or get the right to it"),
    ],
)
def test_an_error_is_a_line_with_the_remedy(error, line):
    assert in_a_line(error) == line


def test_a_url_is_no_folder_of_this_host():
    assert cannot_list(Path("s3://bucket/train")).endswith("this command reads folders")
