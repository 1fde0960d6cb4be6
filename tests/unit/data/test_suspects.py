"""Which samples a cache may hold as they were before: one comparison each, until the file changes again."""

import os

import numpy as np
import pytest
from engine import Place

from seneca import ImageFolder
from seneca.data.files import files_of
from seneca.data.suspects import COMPARED, SUSPECT, UNCHANGED, Suspects

N = 10


@pytest.fixture
def folder(tmp_path):
    for index in range(N):
        path = tmp_path / "a" / f"{index}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path


@pytest.fixture
def files(folder):
    return files_of(ImageFolder(folder))


@pytest.fixture
def place():
    with Place(N) as place:
        yield place


def touch(files, *samples):
    """Move the ctimes of these files, and ask for them."""
    before = files.newest_ctime()
    for sample in samples:
        while files.ctime(sample) <= before:  # the kernel's clock of files goes by milliseconds
            os.chmod(files.path_of(sample), 0o600)
    files.stat()


def states(suspects):
    return [UNCHANGED] * N if suspects.changes is None else suspects.changes.tolist()


def test_files_that_have_not_changed_since_are_no_suspects(files, place):
    segment = place.attach(newest_ctime=files.newest_ctime())
    suspects = Suspects(np.zeros(N, np.uint32))
    assert suspects.begin(files, segment) is None and suspects.files_name == files.seen().name != 0
    assert not any(suspects.has(sample) or suspects.has_changed(sample) for sample in range(N))


def test_a_segment_that_knows_of_no_ctime_has_none(files, place):
    suspects = Suspects(np.zeros(N, np.uint32))
    assert suspects.begin(files, place.attach()) is None


def test_each_that_has_changed_is_one_until_it_was_compared(files, place):
    segment = place.attach(newest_ctime=files.newest_ctime())
    suspects = Suspects(np.zeros(N, np.uint32))
    touch(files, 2, 7)
    assert suspects.begin(files, segment) is suspects.changes
    assert states(suspects) == [SUSPECT if sample in (2, 7) else UNCHANGED for sample in range(N)]
    suspects.clear(2)
    assert [sample for sample in range(N) if suspects.has(sample)] == [7]
    assert [sample for sample in range(N) if suspects.has_changed(sample)] == [2, 7]
    files.stat()
    suspects.begin(files, segment)
    assert (states(suspects)[2], states(suspects)[7]) == (COMPARED, SUSPECT), "also after another stat()"
    touch(files, 2)
    suspects.begin(files, segment)
    assert (states(suspects)[2], states(suspects)[7]) == (SUSPECT, SUSPECT), "it has changed again"


def test_what_the_native_core_has_compared_stays_compared(files, place):
    segment = place.attach(newest_ctime=files.newest_ctime())
    suspects = Suspects(np.zeros(N, np.uint32))
    touch(files, 3, 4)
    suspects.begin(files, segment)[4] = COMPARED
    suspects.begin(files, segment)
    assert (states(suspects)[3], states(suspects)[4]) == (SUSPECT, COMPARED)


def test_processes_of_a_job_compare_each_once_together(files, place):
    segment = place.attach(newest_ctime=files.newest_ctime())
    compared = np.zeros(N, np.uint32)
    one, other = Suspects(compared), Suspects(compared)
    touch(files, 3, 4)
    one.begin(files, segment)
    other.begin(files, segment)
    one.clear(3)
    assert not other.has(3) and other.has(4)
    later = Suspects(compared)
    later.begin(files, segment)
    assert (states(later)[3], states(later)[4]) == (COMPARED, SUSPECT)


def test_what_was_compared_with_one_segment_was_not_with_another(files, place):
    reference = files.newest_ctime()
    suspects = Suspects(np.zeros(N, np.uint32))
    touch(files, 5)
    suspects.begin(files, place.attach(newest_ctime=reference))
    suspects.clear(5)
    with Place(N) as another:
        suspects.begin(files, another.attach(newest_ctime=reference))
        assert suspects.has(5)


def test_a_segment_that_is_made_after_the_change_knows_it_but_servers_may_not(files, folder, place):
    suspects = Suspects(np.zeros(N, np.uint32))
    files.stat()
    touch(files, 5)
    segment = place.attach(newest_ctime=files.newest_ctime())
    suspects.begin(files, segment)
    assert [sample for sample in range(N) if suspects.are_others_older(sample)] == [5]
    assert not any(suspects.has(sample) or suspects.has_changed(sample) for sample in range(N))
    later = files_of(ImageFolder(folder))  # this process has never seen these otherwise
    assert Suspects(np.zeros(N, np.uint32)).begin(later, segment) is None
