"""FileVerdicts are kept for a file as it is, and nothing that happens to the database is an error."""

from __future__ import annotations

import os
import sqlite3

import pytest
from rights import NOBODY, as_root, ordinary_rights

from seneca.data.file_verdicts import FileVerdict, FileVerdicts

GOOD = FileVerdict(None, "JPEG", True, 480_000)
BAD = FileVerdict("image file is truncated")


@pytest.fixture
def database(tmp_path):
    return tmp_path / "made" / "verdicts.db"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    return path


def kept(database, file, verdict=GOOD, **options):
    verdicts = FileVerdicts(database, "terms", **options)
    verdicts.add(os.stat(file), verdict)
    verdicts.close()
    assert verdicts.problem is None


def known(database, file, terms="terms", **options):
    verdicts = FileVerdicts(database, terms, **options)
    verdict = verdicts.of(os.stat(file))
    verdicts.close()
    return verdict


@pytest.mark.parametrize("verdict", [GOOD, BAD])
def test_a_verdict_is_known_to_the_next_check(database, file, verdict):
    kept(database, file, verdict)
    assert known(database, file) == verdict


def test_it_is_known_under_another_name_of_the_file(database, file, tmp_path):
    kept(database, file)
    os.link(file, tmp_path / "other name")
    assert known(database, tmp_path / "other name") == GOOD


def replace(file):
    os.replace(file, f"{file}.before")
    file.write_bytes(b"content")
    before = os.stat(f"{file}.before")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def grow(file):
    before = os.stat(file)
    file.write_bytes(b"content and more")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def touch(file):
    before = os.stat(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


@pytest.mark.parametrize("change", [replace, grow, touch])
def test_a_file_that_has_changed_is_not_known_until_it_is_judged_again(database, file, change):
    kept(database, file)
    change(file)
    assert known(database, file) is None
    kept(database, file, BAD)
    assert known(database, file) == BAD


def test_numbers_beyond_63_bits_are_kept(database, file):
    huge = list(os.stat(file))
    huge[1] = 2**64 - 1  # the inode
    status = os.stat_result(huge, {"st_mtime_ns": 2**63 + 1})
    verdicts = FileVerdicts(database, "terms")
    verdicts.add(status, GOOD)
    verdicts.save()
    assert verdicts.of(status) == GOOD
    verdicts.close()


def test_under_other_terms_or_afresh_nothing_is_known(database, file):
    kept(database, file)
    assert known(database, file, terms="other terms") is None
    kept(database, file)
    assert known(database, file, fresh=True) is None
    assert known(database, file) is None


def test_what_was_not_saved_is_not_there_and_what_was_is(database, file, tmp_path):
    """As if the process were killed between the two."""
    (tmp_path / "second").write_bytes(b"content")
    verdicts = FileVerdicts(database, "terms")
    verdicts.add(os.stat(file), GOOD)
    verdicts.save()
    verdicts.add(os.stat(tmp_path / "second"), GOOD)
    assert (known(database, file), known(database, tmp_path / "second")) == (GOOD, None)
    verdicts.close()


def test_two_checks_at_once_use_one_database(database, tmp_path):
    checks = [FileVerdicts(database, "terms") for _ in range(2)]
    for number in range(20):
        path = tmp_path / f"{number}"
        path.touch()
        checks[number % 2].add(os.stat(path), GOOD)
        checks[number % 2].save()
        assert checks[1 - number % 2].of(os.stat(path)) == GOOD
    for one in checks:
        one.close()
        assert one.problem is None


@pytest.mark.parametrize("content", [b"no database at all " * 100, b""])
def test_a_damaged_database_is_made_anew(database, file, content):
    kept(database, file)
    database.write_bytes(content)
    assert known(database, file) is None
    kept(database, file)
    assert known(database, file) == GOOD


@as_root
def test_verdicts_in_a_folder_of_another_user_are_not_believed(database, file):
    kept(database, file)
    os.chown(database.parent, NOBODY, NOBODY)
    verdicts = FileVerdicts(database, "terms")
    assert verdicts.of(os.stat(file)) is None
    assert f"{database.parent} belongs to another user" in verdicts.problem
    verdicts.close()


def test_a_folder_that_cannot_be_written_keeps_nothing_and_says_so(tmp_path, file):
    tmp_path.chmod(0o500)
    try:
        with ordinary_rights():
            verdicts = FileVerdicts(tmp_path / "made" / "verdicts.db", "terms")
            verdicts.add(os.stat(file), GOOD)
            verdicts.save()
            assert verdicts.of(os.stat(file)) is None
            assert "Permission denied" in verdicts.problem
            verdicts.close()
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("step", ["of", "save"])
def test_a_database_that_fails_later_keeps_nothing_and_says_so(database, file, step):
    verdicts = FileVerdicts(database, "terms")
    with sqlite3.connect(database) as other:
        other.execute("DROP TABLE verdicts")
    verdicts.add(os.stat(file), GOOD)
    assert verdicts.of(os.stat(file)) is None if step == "of" else verdicts.save() is None
    assert "no such table" in verdicts.problem
    verdicts.close()
