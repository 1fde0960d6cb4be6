"""The recipes of docs/containers.md with SENECA_DIR, in the namespaces that make a container.

Each job has mounts, a /dev/shm and process ids of its own. What they have in common is one folder, and the
pictures.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing.util
import os
import subprocess
import tempfile
import time

import pytest
import torch
from engine import CLONE_NEWNS, MS_PRIVATE, MS_REC, Process, in_small_shm

import seneca
from seneca import segments
from seneca import transforms as T
from seneca.segments import State

CLONE_NEWPID = 0x20000000


def train(pipe, pictures, job, workers):
    """What a job does when it is asked to begin: two epochs. Sends what :meth:`Container.numbers` returns."""
    torch.set_num_threads(1)  # OpenMP's threads are the parent's and did not come along
    pipe.receive()
    dataset = seneca.ImageFolder(pictures, T.Compose([T.RandomResizedCrop(32)]))
    loader = seneca.DataLoader(
        dataset, batch_size=8, shuffle=True, cache="mine", cache_bytes="8MiB",
        split="0-100-0", job=job, num_workers=workers,
    )  # fmt: skip
    for _ in range(2):
        samples = sorted(int(index) for _ in loader for index in loader.last_indices)
        assert samples == list(range(48)), samples
    served = loader.stats()["served"]
    kept = served["decoded"] + served["encoded"]
    pipe.send([os.getpid(), len(os.listdir("/dev/shm")), kept, sum(served.values())])
    pipe.receive()


def in_a_container(pipe, environment, prepare, warned, *arguments):
    """Run :func:`train` as process 1 of new namespaces, whose /dev/shm is its own."""
    os.environ.update(environment)
    os.dup2(warned.fileno(), 2)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(CLONE_NEWNS | CLONE_NEWPID) == 0, os.strerror(ctypes.get_errno())

    def first(inner):
        assert libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
        assert libc.mount(b"proc", b"/proc", b"proc", 0, None) == 0
        mount_tmpfs("/dev/shm", 0o1777)
        subprocess.run(prepare or "true", shell=True, check=True)
        train(pipe, *arguments)
        multiprocessing.util._exit_function()  # as at the end of a script: the cache is let go of

    with Process(first) as job:
        if job.join(patience_s=600):
            job.receive()  # raises what failed there


class Container:
    """A job in mount and pid namespaces of its own, in which ``folder`` is what SENECA_DIR names."""

    def __init__(self, folder, pictures, job, prepare="", workers=0, environment=()):
        self.warned = tempfile.TemporaryFile("w+")  # noqa: SIM115 -- it lives as long as this does
        environment = {"SENECA_DIR": str(folder), **dict(environment)}
        self.process = Process(in_a_container, environment, prepare, self.warned, pictures, job, workers)

    def numbers(self):
        """Let it begin. Its process id inside, the files in its /dev/shm, samples from the cache, and all."""
        self.process.send("begin")
        return self.process.receive()

    def end(self):
        """What it has warned of."""
        self.process.send("end")
        while self.process.join() != 0:
            self.process.receive()  # raises what failed there
        self.warned.seek(0)
        return self.warned.read()

    def kill(self):
        self.process.kill()


def mount_tmpfs(folder, mode):
    libc = ctypes.CDLL(None, use_errno=True)
    options = b"size=64m,mode=%o" % mode
    assert libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options) == 0, os.strerror(
        ctypes.get_errno()
    )


def share(folder, pictures, first, second):
    """Two containers at once: the second gets all its samples from what the first has kept."""
    with contextlib.ExitStack() as stack:
        a, b = (Container(folder, pictures, job, **options) for job, options in (("a", first), ("b", second)))
        for one in (a, b):
            stack.callback(one.kill)
        pid, in_shm, from_cache, total = a.numbers()
        assert (pid, in_shm, total) == (1, 0, 96) and from_cache == 48, "its second epoch"
        pid, in_shm, from_cache, total = b.numbers()
        assert (pid, in_shm, total) == (1, 0, 96) and from_cache == 96, "both epochs: a has prepared all"
        (one,) = segments.segments()
        assert one.state is State.IN_USE and len(one.view.jobs) == 2
        assert a.end() == b.end() == ""
    assert os.listdir(folder) == [], "the last to leave has removed it"


def test_docker_a_folder_of_the_host_in_two_places(segment_folder, picture_folder, tmp_path):
    """-v FOLDER:/cache: a bind mount, at a place of its own in each container."""

    def work():
        at = {}
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            at[name] = {
                "prepare": f"mount --bind {segment_folder} {tmp_path / name}",
                "environment": {"SENECA_DIR": str(tmp_path / name)},
            }
        share(segment_folder, picture_folder, at["one"], at["two"])

    in_small_shm(1 << 20, work)


@pytest.mark.whole_size(shown_by="test_docker_a_folder_of_the_host_in_two_places")
@pytest.mark.small(1)
@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_kubernetes_a_volume_in_memory(segment_folder, picture_folder, mode):
    """An emptyDir of medium Memory, which has the mode 777, and a hostPath that is a tmpfs."""

    def work():
        mount_tmpfs(segment_folder, mode)
        share(segment_folder, picture_folder, {}, {})

    in_small_shm(1 << 20, work)


@pytest.mark.whole_size(shown_by="test_docker_a_folder_of_the_host_in_two_places")
def test_slurm_private_folders_and_one_of_the_node(segment_folder, picture_folder, tmp_path):
    """job_container/tmpfs hides /dev/shm and /tmp of other jobs; here another folder stands for /tmp."""
    (tmp_path / "private").mkdir()
    hide = {"prepare": f"mount -t tmpfs tmpfs {tmp_path / 'private'}"}
    in_small_shm(1 << 20, lambda: share(segment_folder, picture_folder, hide, hide))


def test_without_the_folder_containers_do_not_share(segment_folder, picture_folder):
    """What the tests above show does not come from elsewhere."""

    def work():
        a, b = (Container("", picture_folder, job) for job in "ab")
        try:
            for one in (a, b):
                _, in_shm, from_cache, total = one.numbers()
                assert (in_shm, from_cache, total) == (1, 48, 96), "a cache of its own"
            assert a.end() == b.end() == ""
        finally:
            a.kill()
            b.kill()

    in_small_shm(1 << 20, work)


def test_a_container_that_is_killed_leaves_nothing_to_the_next(segment_folder, picture_folder):
    """Who lives is known across pid namespaces: each job is process 1 of its own."""

    def work():
        a, b = (Container(segment_folder, picture_folder, job, workers=2) for job in "ab")
        c = Container(segment_folder, picture_folder, "c")
        try:
            assert a.numbers()[3] == b.numbers()[3] == 96
            a.kill()
            assert [one.state for one in segments.segments()] == [State.IN_USE], "b lives"
            b.kill()
            wait_until_dead()
            assert c.numbers()[2:] == [48, 96], "it began with nothing"
            assert c.end() == ""
        finally:
            for one in (a, b, c):
                one.kill()
        assert os.listdir(segment_folder) == []

    in_small_shm(1 << 20, work)


def wait_until_dead():
    """The kernel ends the processes of a pid namespace one after the other."""
    until = time.monotonic() + 60
    while [one.state for one in segments.segments()] != [State.DEAD]:
        assert time.monotonic() < until
        time.sleep(0.01)
