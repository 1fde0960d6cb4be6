"""Jobs whose storage hangs, or has what is no file; :mod:`forker` runs each in a process of its own."""

import gc
import os
import signal
import socket
import threading
import time

import numpy as np
import torch
from engine import WRITING, Records

import seneca
from seneca import transforms as T


def say(*words):
    print(*words, flush=True)


def make_loader(folder, name, **options):
    options = {"batch_size": 4, "cache": name, "cache_bytes": "2MiB", "split": "0-0-100"} | options
    return seneca.DataLoader(make_dataset(folder), **{"shuffle": True} | options)


def make_dataset(folder):
    return seneca.ImageFolder(folder, T.Compose([T.RandomResizedCrop(32)]))


def wait_for_hang():
    """Until a thread has come to the file."""
    while not os.path.exists(os.environ["HANG_HERE"]):
        time.sleep(0.005)


def train(folder, name, loaders=1, **options):
    """For ever."""
    made = [make_loader(folder, name, **options) for _ in range(loaders)]
    while True:
        for _ in zip(*made, strict=True):
            say("batch")


def make_socket(path):
    socket.socket(socket.AF_UNIX).bind(path)


WHAT_IS_NO_FILE = {
    "a FIFO": os.mkfifo,
    "a socket": make_socket,
    "a device": lambda path: os.symlink("/dev/zero", path),
    "a directory": os.mkdir,
}


def epoch(folder, name, kind=None, transform=None, **options):
    """One epoch, and the errors in it.

    Args:
        folder, name, options: Of the loader.
        kind: What file 20 becomes before, one of :data:`WHAT_IS_NO_FILE`.
        transform: Whether there is one that the native core cannot run.
    """
    loader = make_loader(folder, name, **options)
    if transform is not None:
        loader.dataset.transform = to_tensor
    if kind is not None:
        path = loader.dataset.samples[20][0]
        os.unlink(path)
        WHAT_IS_NO_FILE[kind](path)
    batches, got = iter(loader), 0
    while True:
        try:
            images, _ = next(batches)
            got += len(images)
        except StopIteration:
            break
        except OSError as error:
            say("error", str(error).replace("\n", " "))
    say("samples", got)


def epoch_with_timer(folder, name):
    """One epoch while signals arrive; the gate opens when some have."""
    seen = []

    def ring(*_):
        seen.append(1)
        if len(seen) == 20:
            os.unlink(os.environ["HANG_GATE"])

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    epoch(folder, name)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert len(seen) >= 20


def to_tensor(picture):
    """Nothing that the native core could run."""
    return torch.from_numpy(np.array(picture.resize((8, 8))))


def end(folder, name, **options):
    """Come to the end of the script while a thread hangs."""
    batches = iter(make_loader(folder, name, shuffle=False, **options))
    next(batches)  # in which the file that hangs is not
    wait_for_hang()
    say("end")


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        return index


def end_with_daemons(folder, name, native, **options):
    """Come to the end of the script while daemon threads iterate, each over a loader of its own."""

    def iterate(loader):
        while True:
            for _ in loader:
                begun.release()

    begun = threading.Semaphore(0)
    for _ in range(2):
        if native:
            loader = make_loader(folder, name, **options)
        else:
            loader = seneca.DataLoader(Rows(), 4, shuffle=True, cache=name, cache_bytes="2MiB", **options)
        threading.Thread(target=iterate, args=(loader,), daemon=True).start()
    for _ in range(40):
        begun.acquire()
    say("end")


def check_flat(images, indices):
    """Picture i is one grey of value 4 i, whatever is cut out of it."""
    for image, index in zip(images, indices, strict=True):
        assert (image * 255 - 4 * int(index)).abs().max() < 3, f"sample {index}"


def epoch_is_exact(loader):
    indices = []
    for images, _ in loader:
        check_flat(images, loader.last_indices)
        indices += loader.last_indices.tolist()
    assert sorted(indices) == list(range(len(loader.dataset)))


def hang_beside_another(folder, name, gate):
    """Two jobs of one process: ``a`` is left while a thread of it hangs, ``b`` has drawn and wants copies.

    Returns:
        The cache, the loader of ``b``, and the slots that are being written.
    """
    del os.environ["HANG_GATE"]
    cache = seneca.SampleCache.create(name, make_dataset(folder), cache_bytes="2MiB", split="0-0-100")
    of_a, of_b = make_loader(folder, cache, num_workers=2), make_loader(folder, name, job="b")
    while of_b.last_indices is None or 20 in of_b.last_indices:  # b wants a copy of 20
        others = iter(of_b)
        images, _ = next(others)
        check_flat(images, of_b.last_indices)
    os.environ["HANG_GATE"] = gate

    def run_a(batches):
        for _ in batches:
            pass

    batches = iter(of_a)
    thread = threading.Thread(target=run_a, args=(batches,))
    thread.start()
    wait_for_hang()
    batches._close()
    thread.join()
    del batches, others
    of_a._iterator = None
    gc.collect()
    slots = Records(f"/dev/shm/seneca-{os.geteuid()}-{name}").slots
    return cache, of_b, slots, np.flatnonzero(slots["state"] == WRITING)


def come_back(folder, name, gate):
    """A thread that was left behind comes back, and only then are its slot and its row given back."""
    threads = len(os.listdir("/proc/self/task"))
    cache, of_b, slots, writing = hang_beside_another(folder, name, gate)
    assert len(writing) == 1, writing
    held = slots[writing[0]].copy()
    for _ in range(3):
        epoch_is_exact(of_b)
        assert (
            slots[writing[0]][["state", "generation", "sample", "pins"]]
            == held[["state", "generation", "sample", "pins"]]
        ), "nobody else is given the room"
    assert cache.segment.check() is None
    assert cache.stats()["members"] == 0, "what hangs wants no copies"
    os.unlink(gate)
    while len(os.listdir("/proc/self/task")) > threads:
        time.sleep(0.01)
    for _ in range(3):
        epoch_is_exact(of_b)
    stats = cache.stats()
    assert (stats["writing"], stats["members"], stats["processes"]) == (0, 0, 2), stats
    assert cache.segment.check() is None
    say("came back")


def close_and_come_back(folder, name, gate):
    """The cache is left before the thread comes back, which may still write to it."""
    threads = len(os.listdir("/proc/self/task"))
    cache = hang_beside_another(folder, name, gate)[0]
    gc.collect()
    assert cache.stats()["jobs"] == 1, "of the job b nothing is left"
    cache.close()
    assert not [entry for entry in os.listdir("/dev/shm") if name in entry], "its name is gone at once"
    with open("/proc/self/maps") as maps:
        assert name in maps.read(), "and it stays where it may still be written to"
    os.unlink(gate)
    while len(os.listdir("/proc/self/task")) > threads:
        time.sleep(0.01)
    epoch_is_exact(make_loader(folder, None))
    with open("/proc/self/maps") as maps:
        assert name not in maps.read()
    say("came back")
