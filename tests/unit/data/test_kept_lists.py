"""Lists that are kept in files: which there are, and which nobody needs; ``seneca ls`` and ``prune``."""

import os
import shutil
import tarfile
import time

import pytest
from typer.testing import CliRunner

import seneca
from seneca.cli.app import app
from seneca.data import listed_folder
from seneca.data.kept_lists import kept_lists


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of pictures whose list is kept, and an archive with another."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(listed_folder, "WORTH_A_FILE", 1)
    folder = tmp_path / "pictures"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "1.jpg").write_bytes(b"x")
    with tarfile.open(tmp_path / "some.tar", "w") as archive:
        archive.add(folder, "pictures")
    seneca.ImageFolder(folder)
    seneca.open(str(tmp_path / "some.tar"))
    return folder


def printed(*arguments, status=0):
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    assert result.exit_code == status, result.output
    return result.stdout


def needless():
    return {os.path.basename(one.of.rstrip("/")): one.needless for one in kept_lists()}


def test_it_says_what_each_is_of(tmp_path, folder):
    assert sorted(one.of for one in kept_lists()) == [f"{folder}/", str(tmp_path / "some.tar")]
    assert set(needless().values()) == {None}
    assert all(one.size_bytes == one.path.stat().st_size > 0 for one in kept_lists())


def test_a_list_of_what_is_gone_is_needless(tmp_path, folder):
    shutil.rmtree(folder)
    assert needless() == {"pictures": "what it lists is gone", "some.tar": None}
    (tmp_path / "some.tar").unlink()
    assert set(needless().values()) == {"what it lists is gone"}


def test_a_list_that_nobody_has_used_for_30_days_is_needless(folder):
    for one in kept_lists():
        os.utime(one.path, (time.time(), time.time() - 29.9 * 86400))
    assert set(needless().values()) == {None}
    for one in kept_lists():
        os.utime(one.path, (time.time(), time.time() - 30.1 * 86400))
    assert set(needless().values()) == {"nobody has used it for 30 days"}
    assert kept_lists()[0].used_at < time.time() - 29 * 86400
    listed_folder.RACY_NS, before = -(10**18), listed_folder.RACY_NS
    try:
        seneca.ImageFolder(folder)
    finally:
        listed_folder.RACY_NS = before
    assert needless()["pictures"] is None, "it was used"


def test_what_is_no_such_file_is_needless_and_other_files_are_none(folder):
    first, other = kept_lists()[0].path, kept_lists()[0].path.parent / "notes.txt"
    first.write_bytes(b"something")
    other.touch()
    first.with_name("old.npz").touch()
    assert other not in [one.path for one in kept_lists()]
    assert [one.needless for one in kept_lists()].count("it is damaged, or of another version") == 2


def test_ls_says_how_many_there_are(folder):
    said = printed("ls")
    assert "\n\n2 lists of samples on disk (" in said and "\ufffd" not in said
    assert "lists of samples" not in printed("ls", "--json")


def test_prune_removes_those_that_nobody_needs(tmp_path, folder):
    held = seneca.ImageFolder(folder)
    shutil.rmtree(folder)
    assert f"would remove the list of {folder}/ (" in printed("prune", "--dry-run") and len(kept_lists()) == 2
    assert "on disk): what it lists is gone" in printed("prune") and len(kept_lists()) == 1
    assert "the list of" not in printed("prune")
    assert held.samples == [(f"{folder}/a/1.jpg", 0)], "who has mapped it goes on"
    assert "1 list of samples on disk" in printed("ls")


def test_prune_names_what_it_cannot_remove(folder, monkeypatch):
    shutil.rmtree(folder)

    def unlink(self, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.unlink", unlink)
    assert ": not removed: Permission denied" in printed("prune", status=1)


def test_without_any_nothing_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    assert kept_lists() == [] and "on disk" not in printed("ls")
