"""Regular files alone are opened; anything else is refused at once, and named."""

import os
import socket

import pytest

from seneca._runtime.regular_files import kind_of, open_regular, read_regular


def test_a_file_is_read_through_links(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link") == b"content"
    assert kind_of(os.stat(tmp_path / "link").st_mode) is None


@pytest.mark.parametrize("kind", ["a directory", "a FIFO", "a device", "a socket"])
def test_what_is_no_file_is_refused_without_waiting(tmp_path, kind):
    path = tmp_path / "it"
    listens = socket.socket(socket.AF_UNIX)
    if kind == "a directory":
        path.mkdir()
    elif kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a device":
        path = "/dev/null"
    else:
        listens.bind(str(path))
    before = os.listdir("/proc/self/fd")
    with pytest.raises(
        IsADirectoryError if kind == "a directory" else OSError, match=f"is {kind}.*not a reg"
    ):
        open_regular(path)
    assert os.listdir("/proc/self/fd") == before
    listens.close()
    assert kind_of(os.lstat(path).st_mode) == kind


def test_what_is_not_there_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"):
        open_regular(tmp_path / "gone")
