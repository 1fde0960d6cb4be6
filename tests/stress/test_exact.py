"""Jobs of one seed, some of which are killed or stopped at random moments: others get what they get alone.

SENECA_TEST_KILLS says how many signals each setting of the test sends. There are five at the whole size.
"""

import os
import random
import signal
import time
import zlib

import numpy as np
import pytest
import torch
from job_processes import TIME_OUT_S, Host, transform
from sizes import size

import seneca

SIGNALS = int(os.environ.get("SENECA_TEST_KILLS") or size(6, 24))
PARTS = size(1, 2)
JOBS = 4
A_ROUND = 3  # signals while as many jobs as there are go through their epochs
EPOCHS = 3
STEP_S = 0.002  # of training
STOPPED_S = 0.4  # at the most: several times what anybody waits
SUMS = 9999  # in place of an epoch: what a job counted


class Drawing(torch.utils.data.Dataset):
    """Random items of any dataset."""

    def __len__(self):
        return 120

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.rand(64) + index, index


def crc(batch):
    return zlib.crc32(b"".join(np.ascontiguousarray(part.numpy()).tobytes() for part in batch))


def train(make, begin, name, options):
    """What a job does once the file ``begin`` exists: log the checksum of each batch, and what it counted."""

    def work(log):
        options_of_seed = {"shuffle": True, "generator": torch.Generator().manual_seed(11), "share": "exact"}
        loader = seneca.DataLoader(make(), 8, cache=name, **options_of_seed, **options)
        log(SUMS, [])  # it is ready
        deadline = time.monotonic() + TIME_OUT_S
        while not begin.exists():
            assert time.monotonic() < deadline
            time.sleep(0.001)
        for epoch in range(EPOCHS):
            for batch in loader:
                log(epoch, [crc(batch)])
                time.sleep(STEP_S)
        stats = loader.stats()
        log(SUMS, [stats["prepared"], stats["in_vain"], int(1e6 * stats["longest_peer_wait_s"])])

    return work


def checksums(job):
    """Of its batches, by epoch, and what it counted if it ended."""
    logged = {
        epoch: [int(word) for batch in batches for word in batch]
        for epoch, batches in job.delivered().items()
    }
    return logged, logged.pop(SUMS, None)


TWO_THREADS = {"num_workers": 2, "cache_bytes": "8MiB", "split": "0-0-100"}
SETTINGS = {
    **{f"two threads, part {part}": ("native", TWO_THREADS) for part in range(PARTS)},
    "a small stage": ("native", {"num_workers": 1, "cache_bytes": "1MiB", "split": "50-25-25"}),
    "no threads": ("native", TWO_THREADS | {"num_workers": 0}),
    "torch's workers": ("opaque", {"num_workers": 1, "cache_bytes": "8MiB"}),
}


@pytest.mark.small(1)
@pytest.mark.parametrize("setting", SETTINGS)
def test_survivors_of_kills_and_stops_get_what_they_get_alone(host: Host, small_pictures, seed, setting):
    kind, options = SETTINGS[setting]
    rng = random.Random(seed)
    make = Drawing if kind == "opaque" else (lambda: seneca.ImageFolder(small_pictures, transform()))
    alone = host.folder / "alone"
    alone.touch()
    lone = host.start(train(make, alone, host.name + "-alone", options))
    assert lone.wait() == 0
    expected, counted = checksums(lone)
    samples = counted[0]  # it prepares all of them itself
    killed = stopped = survivors = prepared = in_vain = longest = 0
    round_ = 0
    while killed + stopped < max(SIGNALS, size(2, 3) * A_ROUND):
        begin = host.folder / f"begin{round_}"
        jobs = [host.start(train(make, begin, f"{host.name}-{round_}", options)) for _ in range(JOBS)]
        deadline = time.monotonic() + TIME_OUT_S
        while not all(job.delivered() for job in jobs):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        begin.touch()
        alive, was_stopped = list(jobs), set()
        for _ in range(A_ROUND):
            victim = rng.choice(alive)
            time.sleep(rng.uniform(0.0, 0.12))
            if not victim.runs():
                continue
            if rng.random() < 0.5 and len(alive) > 2:
                victim.kill()
                alive.remove(victim)
                killed += 1
            else:
                os.kill(victim.pid, signal.SIGSTOP)
                time.sleep(rng.uniform(0.0, STOPPED_S))
                os.kill(victim.pid, signal.SIGCONT)
                was_stopped.add(victim)
                stopped += 1
        for job in jobs:
            if job in alive:
                assert job.wait() == 0
            logged, counts = checksums(job)
            for epoch, batches in logged.items():
                assert batches == expected[epoch][: len(batches)], f"{job.log.name}, epoch {epoch}"
            if job not in alive:
                continue
            assert logged == expected, job.log.name
            survivors += 1
            prepared += counts[0]
            in_vain += counts[1]
            longest = max(longest, 0 if job in was_stopped else counts[2])
            job.log.unlink()
        begin.unlink()
        host.jobs = [lone]
        round_ += 1
    print(
        f"{killed} kills, {stopped} stops, {survivors} survivors, each of which prepared "
        f"{prepared / samples / survivors:.2f} of its samples; {in_vain} awaited in vain; longest extra wait "
        f"of a survivor that was not stopped: {longest / 1000:.0f} ms"
    )
    assert prepared < samples * survivors, "some were shared"
    deadline = time.monotonic() + TIME_OUT_S
    while host.segments():  # a worker of a killed job was its last user; whoever comes next removes it
        assert time.monotonic() < deadline, host.segments()
        assert host.start(train(make, alone, host.name + "-last", options)).wait() == 0


def losses(folder, begin, name, options):
    """What a job does that trains a small network: log the bits of each loss."""

    def work(log):
        torch.manual_seed(5)
        network = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, 2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(3)
        )
        optimizer = torch.optim.SGD(network.parameters(), 0.05, 0.9)
        generator = torch.Generator().manual_seed(11)
        pictures = seneca.ImageFolder(folder, transform())
        of_seed = {"shuffle": True, "generator": generator, "share": "exact"}
        loader = seneca.DataLoader(pictures, 16, cache=name, **of_seed, **options)
        log(SUMS, [])
        while not begin.exists():
            time.sleep(0.001)
        for epoch in range(EPOCHS):
            for images, labels in loader:
                loss = torch.nn.functional.cross_entropy(network(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                log(epoch, [int(np.float32(loss.item()).view(np.uint32))])
        log(SUMS, [loader.stats()["served"]["augmented"]])

    return work


def test_a_network_has_the_same_losses_to_the_bit_alone_and_beside_three_others(host: Host, small_pictures):
    """The others have other numbers of threads."""
    torch.optim.SGD([torch.zeros(1)], 0.05)  # it imports torch's compiler, which each job would
    begin = host.folder / "begin"
    begin.touch()
    options = {"cache_bytes": "8MiB", "split": "0-0-100"}
    alone = host.start(losses(small_pictures, begin, host.name + "-alone", {**options, "num_workers": 1}))
    assert alone.wait() == 0
    begin.unlink()
    jobs = [
        host.start(losses(small_pictures, begin, host.name, {**options, "num_workers": workers}))
        for workers in (1, 2, 0, 1)
    ]
    while not all(job.delivered() for job in jobs):
        assert all(job.runs() for job in jobs)
        time.sleep(0.001)
    begin.touch()
    assert [job.wait() for job in jobs] == [0] * 4
    expected, _ = checksums(alone)
    assert len(set(expected[0] + expected[1] + expected[2])) == 3 * 19, (
        "no two losses are equal by themselves"
    )
    found = [checksums(job) for job in jobs]
    assert [logged for logged, _ in found] == [expected] * 4
    assert sum(served for _, (served,) in found) > 0
    assert host.segments() == []
