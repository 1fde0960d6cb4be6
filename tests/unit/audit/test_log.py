"""The files of ``SENECA_AUDIT``: what is written is read back, and nothing is lost on the way."""

from __future__ import annotations

import os

import numpy as np
import pytest
from audited_jobs import Squares, loader_of, native

from seneca import SenecaWarning
from seneca.audit.log import FORM_UNKNOWN, NO_SLOT, Header, Log, audit_folder, read, read_header

# The file


def a_header(**options):
    return Header(**({"kind": "delivered", "job": "ab", "dataset": "", "samples": 50} | options))


def test_what_is_written_is_read_back(tmp_path):
    header = a_header(count=50, batch_size=3, resumed=[{"log": "cd", "batches": 7}], attached=[1 << 40, 2])
    log = Log(tmp_path / "made" / "for it", header)
    log.gave([3, 1, 2], np.array([[0, 9, 3], [NO_SLOT, 0, 0], [2**32 - 2, 2**32 - 1, 2]], np.uint32))
    log.failed([4, 5])
    log.gave([6])
    log.skipped([7])
    log.failed([8])
    assert log.id == header.log
    (path,) = (tmp_path / "made" / "for it").iterdir()
    assert not read(path).done
    log.done()
    log.close()
    assert read_header(path) == header
    content = read(path)
    assert content.records.tolist() == [
        (3, 0, 9, 3), (1, NO_SLOT, 0, 0), (2, 2**32 - 2, 2**32 - 1, 2), (6, NO_SLOT, 0, FORM_UNKNOWN),
    ]  # fmt: skip
    assert content.sizes.tolist() == [3, 1]
    assert [part.tolist() for part in content.failures] == [[4, 5], [8]]
    assert content.skipped.tolist() == [7]
    assert (content.done, content.torn_bytes) == (True, 0)


def test_each_member_has_a_file_of_its_own_and_nothing_is_overwritten(tmp_path):
    for _ in range(3):
        Log(tmp_path, a_header()).done()
    assert len(list(tmp_path.iterdir())) == 3
    header = a_header()
    Log(tmp_path, header)
    written = sum(path.stat().st_size for path in tmp_path.iterdir())
    with pytest.warns(SenecaWarning, match="File exists"):
        Log(tmp_path, header).gave([1])
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == written


def test_other_users_may_not_read_it(tmp_path):
    before = os.umask(0)
    try:
        Log(tmp_path, a_header()).done()
    finally:
        os.umask(before)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


def test_through_a_link_that_another_user_has_planted_nothing_is_written(tmp_path):
    Log(tmp_path / "own", a_header()).done()
    shared, target, header = tmp_path / "shared", tmp_path / "target", a_header()
    shared.mkdir()
    target.write_bytes(b"kept")
    (shared / f"{header.job}-{header.pid}-{header.log}.audit").symlink_to(target)
    if os.geteuid() == 0:
        os.chown(shared, 65534, 65534)
    with pytest.warns(SenecaWarning, match="File exists"):
        Log(shared, header).gave([1])
    assert target.read_bytes() == b"kept"


@pytest.mark.small(1)
@pytest.mark.parametrize("value", [None, ""])
def test_nothing_is_written_unless_it_is_asked_for(tmp_path, monkeypatch, pictures, cache, value):
    if value is None:
        monkeypatch.delenv("SENECA_AUDIT", raising=False)
    else:
        monkeypatch.setenv("SENECA_AUDIT", value)
    monkeypatch.chdir(tmp_path)
    assert audit_folder() is None
    iterator = iter(native(pictures, cache))
    next(iterator)
    assert iterator._recorder is None
    del iterator
    list(loader_of(Squares(), cache + "-torch", num_workers=0))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["native", "torch"])
def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(
    tmp_path, monkeypatch, pictures, cache, kind
):
    (tmp_path / "file").write_text("in the way")
    folder = tmp_path / "file" / "logs"
    monkeypatch.setenv("SENECA_AUDIT", str(folder))
    loader = native(pictures, cache) if kind == "native" else loader_of(Squares(), cache, num_workers=0)
    with pytest.raises(NotADirectoryError, match=r"SENECA_AUDIT=.*file/logs.*or unset it"):
        next(iter(loader))


def on_a_full_disk(log):
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._fd)
    os.close(full)


def test_a_disk_that_is_full_makes_each_method_of_a_strict_audit_raise(tmp_path, monkeypatch):
    monkeypatch.setenv("SENECA_AUDIT_STRICT", "1")
    log = Log(tmp_path, a_header())
    log.gave([1])
    on_a_full_disk(log)
    for write in (lambda: log.gave([2]), lambda: log.failed([2]), lambda: log.skipped([2]), log.done):
        with pytest.raises(OSError, match=f"SENECA_AUDIT={tmp_path}: No space left"):
            write()
    assert log.id is None
    log.close()
    Log(tmp_path, a_header()).gave([3])  # there is room again, or another folder


def test_a_disk_that_is_full_ends_the_audit_with_one_warning_that_names_the_file(tmp_path):
    log, other = Log(tmp_path, a_header()), Log(tmp_path, a_header())
    log.gave([1])
    name, files = log.id, len(list(tmp_path.iterdir()))
    on_a_full_disk(log)
    with pytest.warns(SenecaWarning, match=f"SENECA_AUDIT={tmp_path}.*No space left.*{name}") as caught:
        log.gave([2])
        log.gave([3])
        log.done()
        Log(tmp_path, a_header()).gave([4])
    assert len(caught) == 1 and log.id is None and other.id is not None
    assert len(list(tmp_path.iterdir())) == files
    (path,) = tmp_path.glob(f"*{name}*")
    content = read(path)
    assert content.records["index"].tolist() == [1] and not content.done
