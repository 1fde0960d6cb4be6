"""Processes that inspect a cache from outside are killed and stopped while jobs use it: no job notices.

SENECA_TEST_SPECTATORS says how many are killed.
"""

import os
import random
import signal
import time

from job_processes import Host, assert_exactly_once, transform
from sizes import size

import seneca
from seneca.audit.check import check
from seneca.segments import State, find

SPECTATORS = int(os.environ.get("SENECA_TEST_SPECTATORS") or size(5, 150))
STOPPED = size(2, 10)


def watching(name):
    """A process that inspects the cache until it is killed."""
    pid = os.fork()
    if pid == 0:
        try:
            while True:
                find(name)
        finally:
            os._exit(1)  # it was not killed, and had nothing to inspect
    return pid


def train(data, name, until):
    def work(log):
        dataset = seneca.ImageFolder(data, transform=transform())
        loader = seneca.DataLoader(
            dataset, batch_size=16, shuffle=True, num_workers=1, cache=name, cache_bytes=1 << 20
        )
        epoch = 0
        while epoch < 2 or not until.exists():
            for _ in loader:
                log(epoch, loader.last_indices)
            epoch += 1

    return work


def test_jobs_do_not_notice_spectators(host: Host, small_pictures, seed, monkeypatch):
    monkeypatch.setenv("SENECA_AUDIT", str(host.folder / "audit"))
    rng = random.Random(seed)
    over = host.folder / "over"
    jobs = [host.start(train(small_pictures, host.name, over)) for _ in range(2)]
    while not all(job.delivered() for job in jobs):
        time.sleep(0.01)
    stopped = [watching(host.name) for _ in range(STOPPED)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    for _ in range(SPECTATORS):
        pid = watching(host.name)
        time.sleep(rng.uniform(0, 0.003))
        os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL, "it inspected until it was killed"
    seen = find(host.name)
    assert seen.state is State.IN_USE and len(seen.view.jobs) == 2
    over.touch()
    assert [job.wait() for job in jobs] == [0, 0]
    for pid in stopped:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for job in jobs:
        assert_exactly_once(job, max(job.delivered()) + 1, 300, 16)
    report = check(host.folder / "audit")
    assert report.violations == []
    assert report.served["augmented"] > report.samples / 10, "the jobs still share"
    assert host.segments() == []
