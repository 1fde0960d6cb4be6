"""Folders and files that another user has made, or could change, are refused; what is made is private."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from rights import NOBODY, as_root

from seneca._runtime.private_files import NotPrivate, open_private, private_folder, write_private


def made(path, kind="folder", mode=None, owner=None):
    """A folder or a file that was there before, with this mode and owner."""
    path.mkdir() if kind == "folder" else path.write_text("planted")
    if mode is not None:
        path.chmod(mode)
    if owner is not None:
        os.chown(path, owner, owner)
    return path


def test_a_missing_folder_is_made_for_this_user_alone_with_those_that_lead_to_it(tmp_path):
    before = os.umask(0)
    try:
        assert private_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    finally:
        os.umask(before)
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert private_folder(tmp_path / "a" / "b").is_dir(), "a second time"


def test_a_relative_path_is_of_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert private_folder(Path("a")) == tmp_path / "a"


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o702, 0o1777])
def test_a_folder_in_which_others_may_write_is_refused(tmp_path, mode):
    folder = made(tmp_path / "a", mode=mode)
    with pytest.raises(
        NotPrivate, match=f"{folder} may be changed by other users: its mode is {mode:04o}; give"
    ):
        private_folder(folder)


def test_a_link_and_a_file_are_no_folders(tmp_path):
    (tmp_path / "link").symlink_to(made(tmp_path / "a"))
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    made(tmp_path / "file", "file")
    for name, kind in {"link": "a symbolic link", "dangling": "a symbolic link", "file": "a file"}.items():
        with pytest.raises(NotPrivate, match=f"{name} is {kind} and not a folder; give"):
            private_folder(tmp_path / name)
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_others_could_exchange_is_refused(tmp_path):
    outer = made(tmp_path / "outer", mode=0o777)
    with pytest.raises(NotPrivate, match=f"{outer} may be changed .* 0777, and {outer}/a lies in it; give"):
        private_folder(outer / "a")
    outer.chmod(0o1777)
    assert private_folder(outer / "a"), "with the sticky bit, as /tmp, nobody else can exchange it"


def test_what_leads_to_it_may_be_no_folder_at_all():
    with pytest.raises(NotADirectoryError, match="/dev/null"):
        private_folder(Path("/dev/null/.cache/seneca"))


def test_links_of_ones_own_may_lead_to_it_if_they_lead_nowhere_else(tmp_path):
    (tmp_path / "link").symlink_to("a")
    outer = made(tmp_path / "a")
    assert private_folder(tmp_path / "link" / "b")
    outer.chmod(0o777)
    with pytest.raises(NotPrivate, match=f"{outer} may be changed"):
        private_folder(tmp_path / "link" / "b")
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="round"):
        private_folder(tmp_path / "round" / "b")


@as_root
def test_a_folder_of_another_user_is_refused_and_so_is_what_lies_in_one(tmp_path):
    folder = made(tmp_path / "a", mode=0o700, owner=NOBODY)
    with pytest.raises(NotPrivate, match=f"{folder} belongs to another user, .*uid {NOBODY}.*; give"):
        private_folder(folder)
    with pytest.raises(NotPrivate, match=f"{folder} belongs to .*, and {folder}/b lies in it"):
        private_folder(folder / "b")
    (tmp_path / "link").symlink_to(made(tmp_path / "c"))
    os.lchown(tmp_path / "link", NOBODY, NOBODY)
    with pytest.raises(NotPrivate, match="link belongs to another user"):
        private_folder(tmp_path / "link" / "b")


def refused(path, match, flags=os.O_RDWR | os.O_CREAT):
    with pytest.raises(NotPrivate, match=match):
        open_private(path, flags)


def test_a_file_is_made_for_this_user_alone(tmp_path):
    os.close(open_private(tmp_path / "a", os.O_RDWR | os.O_CREAT))
    os.close(open_private(tmp_path / "a", os.O_RDWR | os.O_CREAT))
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    with pytest.raises(FileNotFoundError):
        open_private(tmp_path / "b", os.O_RDWR)


def test_what_is_no_file_of_ones_own_is_refused_at_once(tmp_path):
    refused(made(tmp_path / "folder"), "folder is a directory and not a regular file; remove it")
    os.mkfifo(tmp_path / "fifo", 0o600)
    refused(tmp_path / "fifo", "fifo is a FIFO and not")
    refused(tmp_path / "fifo", "fifo is a FIFO and not", os.O_RDONLY)
    made(tmp_path / "file", "file", 0o600)
    (tmp_path / "link").symlink_to("file")
    refused(tmp_path / "link", "link is a symbolic link and not")
    os.link(tmp_path / "file", tmp_path / "second")
    refused(tmp_path / "file", "file has another name")
    refused(made(tmp_path / "open", "file", 0o644), "open may be opened by other users: its mode is 0644")


@as_root
def test_a_file_of_another_user_is_refused(tmp_path):
    refused(
        made(tmp_path / "a", "file", 0o600, NOBODY), "a belongs to another user, .*; have its owner remove"
    )


def test_what_has_the_name_is_replaced_and_not_written_to(tmp_path):
    other = made(tmp_path / "other", "file")
    (tmp_path / "a").symlink_to(other)
    write_private(tmp_path / "a", "mine")
    assert other.read_text() == "planted" and (tmp_path / "a").read_text() == "mine"
    assert stat.S_IMODE((tmp_path / "a").lstat().st_mode) == 0o600
    folder = made(tmp_path / "folder")
    with pytest.raises(OSError, match="folder"):
        write_private(folder, "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder", "other"], "no draft is left"
