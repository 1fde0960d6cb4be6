"""What storage says about many files at once: what os.stat says of each."""

import os
import signal

import numpy as np
import pytest
from rights import ordinary_rights
from sizes import size

from seneca._core.files import FILE_STAT, stat_many


def table(paths):
    """Paths as the native reader takes them."""
    paths = [os.fsencode(path) for path in paths]
    offsets = np.cumsum([0, *(len(path) + 1 for path in paths)]).astype(np.uint64)
    return b"".join(path + b"\0" for path in paths), offsets


def stated(paths):
    stats = map(os.stat, paths)
    found = [(one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_mode) for one in stats]
    return np.array(found, FILE_STAT)


@pytest.mark.small(1)
@pytest.mark.parametrize("threads", [1, 2, 64])
def test_every_file_is_as_os_stat_has_it(tmp_path, threads):
    paths = []
    for i in range(300):
        path = tmp_path / str(i // 50) / os.fsdecode(b"%d \xff.jpg" % i)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * i)
        os.utime(path, ns=(0, (i - 150) * 10**12 + i))
        paths.append(path)
    os.truncate(paths[7], 5 << 32)
    (tmp_path / "link").symlink_to(paths[7])
    (tmp_path / "folder").symlink_to(tmp_path / "3")
    paths += [tmp_path / "link", tmp_path / "folder" / paths[150].name, tmp_path, "/", f"{tmp_path}/3/"]
    assert (stat_many(*table(paths), threads) == stated(paths)).all()


def test_no_files_are_none():
    assert len(stat_many(*table([]), 2)) == 0


def gone(path):
    path.unlink()


def cut(path):
    path.unlink()
    path.symlink_to("nowhere")


def round_about(path):
    path.unlink()
    path.symlink_to(path.name)


def into_a_folder_that_is_closed(path):
    path.parent.chmod(0)


@pytest.mark.parametrize("spoil", [gone, cut, round_about, into_a_folder_that_is_closed])
def test_the_first_file_that_cannot_be_asked_is_named_with_its_reason(tmp_path, spoil):
    paths = [tmp_path / str(i) / "file" for i in range(200)]
    for path in paths:
        path.parent.mkdir()
        path.touch()
    with ordinary_rights():
        spoil(paths[140])
        paths[199].unlink()
        with pytest.raises(OSError) as wanted:
            os.stat(paths[140])
        for threads in (1, 8):
            with pytest.raises(type(wanted.value)) as raised:
                stat_many(*table(paths), threads)
            assert (raised.value.errno, raised.value.filename) == (wanted.value.errno, 140)
        paths[140].parent.chmod(0o700)


def test_ctrl_c_ends_a_long_stat_many():
    class Interrupted(Exception):
        pass

    def interrupt(number, frame):
        raise Interrupted

    blob, offsets = table(["/"] * size(500_000, 2_000_000))
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupted):
            stat_many(blob, offsets, 1)
            pytest.fail("it went to its end")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
