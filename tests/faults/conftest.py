"""Fixtures of the tests of faults: caches and jobs of a test's own, of which nothing may be left."""

import pytest
import torch
from engine import Process, enter_small_shm

import seneca
from seneca import transforms as T


@pytest.fixture
def load(picture_folder, name):
    """Makes loaders of 48 pictures, in batches of 8, that share the test's own cache."""

    def make(**options):
        dataset = seneca.ImageFolder(picture_folder, T.Compose([T.RandomResizedCrop(32)]))
        options = {"batch_size": 8, "shuffle": True, "cache": name, "cache_bytes": "2MiB"} | options
        return seneca.DataLoader(dataset, **options)

    return make


@pytest.fixture
def in_small_shm():
    """Runs a function in a child that has a /dev/shm of its own: its size, the function, its arguments."""

    def run(size, function, *args):
        def work(pipe):
            torch.set_num_threads(1)  # OpenMP's threads are the parent's and did not come along
            denied = enter_small_shm(size)
            pipe.send(denied)
            if not denied:
                function(*args)
                pipe.send("done")

        with Process(work) as child:
            denied = child.receive()
            if denied:
                pytest.skip(f"a file system of its own cannot be had: {denied}")
            assert child.receive() == "done"

    return run
