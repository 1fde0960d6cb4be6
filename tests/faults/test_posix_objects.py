"""Segments are POSIX shared memory objects: posix_ipc, which knows nothing of Seneca, opens and unlinks them.

POSIX has no call that lists objects. Linux shows them in /dev/shm, and `seneca ls` lists that.
"""

import os
import stat

import posix_ipc
import pytest
from small_jobs import epoch_of

from seneca.segments import State, find, segments

ALL = list(range(48))


def object_of(name):
    return f"/seneca-{os.geteuid()}-{name}"


def opened(name, **options):
    memory = posix_ipc.SharedMemory(object_of(name), **options)
    os.set_inheritable(memory.fd, False)
    return memory


def exists(name):
    try:
        opened(name).close_fd()
    except posix_ipc.ExistentialError:
        return False
    return True


def test_a_segment_is_an_object_of_that_name_size_and_mode(load, name):
    assert not exists(name)
    loader = load()
    samples, _ = epoch_of(loader)
    assert samples == ALL
    memory = opened(name)
    try:
        assert memory.name == object_of(name)
        assert stat.S_IMODE(memory.mode) == 0o600, "its user alone"
        seen = os.fstat(memory.fd)
        assert (seen.st_uid, seen.st_nlink) == (os.geteuid(), 1) and stat.S_ISREG(seen.st_mode)
        assert memory.size == find(name).path.stat().st_size >= 2 << 20
        assert os.path.samestat(seen, os.stat(f"/dev/shm{object_of(name)}"))
    finally:
        memory.close_fd()
    assert name in [one.name for one in segments()]
    with pytest.raises(posix_ipc.ExistentialError):
        opened(name, flags=posix_ipc.O_CREX)
    del loader


def test_the_last_job_that_leaves_unlinks_the_object(load, name):
    loader, other = load(), load()
    epoch_of(loader)
    epoch_of(other)
    del loader
    assert exists(name)
    del other
    assert not exists(name)


def test_a_kept_object_can_be_unlinked_and_is_made_again(load, name):
    loader = load(keep=True)
    epoch_of(loader)
    del loader
    assert exists(name) and find(name).state is State.KEPT
    posix_ipc.unlink_shared_memory(object_of(name))
    assert name not in [one.name for one in segments()]
    loader = load()
    assert epoch_of(loader)[0] == ALL and exists(name)
    del loader
    assert not exists(name)


def test_jobs_go_on_with_an_object_that_somebody_has_unlinked_and_new_ones_make_another(load, name):
    loader = load()
    epoch_of(loader)
    held = opened(name)
    posix_ipc.unlink_shared_memory(object_of(name))
    other = load()
    try:
        assert epoch_of(loader)[0] == epoch_of(other)[0] == ALL
        assert os.fstat(held.fd).st_nlink == 0
        assert not os.path.samestat(os.fstat(held.fd), os.stat(f"/dev/shm{object_of(name)}"))
    finally:
        held.close_fd()
    del loader, other
    assert not exists(name)
