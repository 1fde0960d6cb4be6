"""Jobs as real processes that train until they are asked to end, for tests of what watches them."""

import contextlib
import time

from job_processes import Host, transform

import seneca

STEP_S = 0.005


def train(data, name, over):
    """The work of a job on one cache: epochs, until the file ``over`` is there."""

    def work(log):
        dataset = seneca.ImageFolder(data, transform=transform())
        loader = seneca.DataLoader(
            dataset, batch_size=8, shuffle=True, num_workers=1, cache=name, cache_bytes=1 << 20
        )
        epoch = 0
        while not over.exists():
            for _ in loader:
                log(epoch, loader.last_indices)
                time.sleep(STEP_S)
            epoch += 1

    return work


@contextlib.contextmanager
def training(folder, data, jobs=2):
    """Jobs that train on ``data`` until the block ends. Gives the name of their cache, and what ends them."""
    host, over = Host(folder), folder / "over"
    try:
        started = [host.start(train(data, host.name, over)) for _ in range(jobs)]
        yield host.name, over
        over.touch()
        assert [job.wait() for job in started] == [0] * jobs
        assert host.segments() == []
    finally:
        host.close()
