"""Arrays in a file: what was written is read, and what was damaged is not."""

import contextlib
import os
import random
import socket
from pathlib import Path

import numpy as np
import pytest
from rights import NOBODY, as_root

from seneca._runtime.mounts import Mount
from seneca.data.sources import kept_arrays
from seneca.data.sources.kept_arrays import Draft, about_of, keep, opened

PAIRS = np.array([(1, -2), (3, 4)], [("size", "<u8"), ("time", "<i8")])
ARRAYS = {"none": np.zeros(0, np.int64), "bytes": np.arange(5, dtype=np.uint8), "pairs": PAIRS}
ABOUT = {"of": ["/data/\udcff"], "number": 5, "yes": True}


@pytest.fixture
def path(tmp_path):
    (tmp_path / "private").mkdir(mode=0o700)
    return tmp_path / "private" / "some.arrays"


def write(path, text, arrays=ARRAYS):
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    draft = Draft(fd)
    for piece in text:
        draft.write(piece)
    digest = draft.finish(ABOUT, arrays)
    assert draft.text() == b"".join(text)
    os.close(fd)
    return digest


@pytest.mark.parametrize("kind", ["ext4", "nfs4"])
def test_what_was_written_is_read(path, monkeypatch, kind):
    monkeypatch.setattr(kept_arrays, "mount_of", lambda path: Mount("/", "0:1", kind, "x", frozenset()))
    digest = write(path, [b"one\0", b"", b"two\0"])
    for known in (None, digest):
        kept = opened(path, digest=known)
        assert (kept.digest, kept.about, bytes(kept.text)) == (digest, ABOUT, b"one\0two\0")
        assert kept.arrays.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            assert kept.arrays[name].dtype == array.dtype and kept.arrays[name].tolist() == array.tolist()
        with pytest.raises(ValueError, match="read-only"):
            kept.arrays["bytes"][0] = 1
    assert about_of(path) == ABOUT and opened(path, digest=b"other" * 3 + b"!") is None


def test_a_file_that_is_replaced_or_removed_stays_with_those_who_have_it(path):
    keep(path, ABOUT, ARRAYS)
    first = opened(path)
    keep(path, ABOUT, {"bytes": np.zeros(5, np.uint8)})
    assert opened(path).digest != first.digest
    path.unlink()
    assert first.arrays["bytes"].tolist() == [0, 1, 2, 3, 4] and list(path.parent.iterdir()) == []


def test_any_wrong_byte_is_seen(path):
    write(path, [b"text"])
    whole = path.read_bytes()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << random.randrange(8)
        path.write_bytes(damaged)
        assert opened(path) is None, at
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert opened(path) is None
        about_of(path)  # says something else, or nothing
    path.write_bytes(whole)
    assert opened(path) is not None


def test_a_file_that_others_could_write_is_not_read(path):
    write(path, [b"text"])
    path.chmod(0o666)
    assert opened(path) is None and about_of(path) is None
    path.chmod(0o600)
    path.parent.chmod(0o777)
    assert opened(path) is None


def become_link(path):
    os.symlink(path.rename(path.with_name("moved")), path)


def become_fifo(path):
    path.unlink()
    os.mkfifo(path, 0o600)


def become_folder(path):
    path.unlink()
    path.mkdir(0o700)


def become_socket(path):
    path.unlink()
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(os.fspath(path.relative_to(Path.cwd())))


@pytest.mark.parametrize(
    "become",
    [
        become_link,
        become_fifo,
        become_folder,
        become_socket,
        lambda path: os.link(path, path.with_name("another")),
        pytest.param(lambda path: os.chown(path, NOBODY, -1), marks=as_root),
    ],
    ids=["a link", "a FIFO", "a folder", "a socket", "two names", "another user's"],
)
def test_what_is_no_file_of_ones_own_is_not_read_and_nobody_waits_for_it(path, monkeypatch, become):
    monkeypatch.chdir(path.parent)  # the path of a socket may have 107 bytes
    digest = write(path, [b"text"])
    become(path)
    assert opened(path) is None and opened(path, digest=digest) is None and about_of(path) is None
    if not path.is_dir():
        keep(path, ABOUT, ARRAYS)
        assert opened(path) is not None, "it is replaced, and not written to"


def test_what_cannot_be_written_leaves_nothing(path, monkeypatch):
    def no_room(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", no_room)
    with pytest.raises(OSError, match="No space left"):
        keep(path, ABOUT, ARRAYS)
    assert list(path.parent.iterdir()) == [] and opened(path) is None


def test_who_reads_a_file_has_used_it(path):
    write(path, [b"text"])
    os.utime(path, (1, 1))
    about_of(path)
    assert os.stat(path).st_mtime == 1
    opened(path)
    assert os.stat(path).st_mtime > 10**9
