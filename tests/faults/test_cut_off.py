"""The file of a cache that jobs use is cut off: they go on without it, with the right samples."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
from pathlib import Path

import pytest
from ready import Script

import seneca
from seneca import transforms as T
from seneca.cache.sample_cache import SampleCache
from seneca.testing import make_pictures

JOB = """
import json, os, sys
import torch
import seneca
from seneca import transforms as T

kind, folder, name, split, workers, cut_to = sys.argv[1:]
path = f"/dev/shm/seneca-{os.getuid()}-{name}"


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, index):
        return torch.full((5000,), index)


if kind == "pictures":
    data = seneca.ImageFolder(folder, transform=T.Compose([T.Resize(40), T.CenterCrop(32)]))
else:
    data = Items()
loader = seneca.DataLoader(
    data, batch_size=8, num_workers=int(workers), shuffle=True, cache=name, cache_bytes="32MiB", split=split
)
found = []
for epoch in range(3):
    for k, batch in enumerate(loader):
        pixels, indices = (batch[0], loader.last_indices) if kind == "pictures" else (batch, batch[:, 0])
        found += [(epoch, int(i), float(p.double().sum())) for i, p in zip(indices, pixels, strict=True)]
        if epoch == 1 and k == 4 and cut_to != "nothing":
            os.truncate(path, int(os.path.getsize(path) * float(cut_to)))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("pictures"), count=96, classes=2, sides=(50, 90))


@functools.cache
def sums(kind: str, pictures: Path) -> list[float]:
    """Of each sample, as one job alone gets it."""
    if kind == "items":
        return [5000.0 * index for index in range(96)]
    data = seneca.ImageFolder(str(pictures), transform=T.Compose([T.Resize(40), T.CenterCrop(32)]))
    batches = seneca.DataLoader(data, batch_size=96, cache=None)
    return [float(picture.double().sum()) for picture in next(iter(batches))[0]]


@pytest.mark.small(2)
@pytest.mark.parametrize("cut_to", [0, 0.3, 0.9])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("kind", "split"),
    [("pictures", "100-0-0"), ("pictures", "0-100-0"), ("pictures", "0-0-100"), ("items", "0-0-100")],
)
def test_jobs_go_on_with_the_right_samples(kind, split, workers, cut_to, pictures, name):
    arguments = [kind, str(pictures), name, split, str(workers)]
    jobs = [Script("-c", JOB, *arguments, cut) for cut in (str(cut_to), "nothing")]
    for job in jobs:
        said, errors = job.communicate()
        assert job.returncode == 0, errors[-3000:]
        expected = [(epoch, index, of) for epoch in range(3) for index, of in enumerate(sums(kind, pictures))]
        assert sorted(json.loads(said)) == [list(each) for each in expected]


def test_without_the_handler_it_is_a_bus_error(pictures, name):
    job = Script(
        "-c", JOB, "pictures", str(pictures), name, "0-0-100", "0", "0",
        env={**os.environ, "SENECA_SIGBUS": "default"},
    )  # fmt: skip
    job.communicate()
    assert job.returncode == -signal.SIGBUS
    with contextlib.suppress(FileNotFoundError):  # a job of another test may have removed what is of the dead
        SampleCache.remove(name)


FOREIGN = """
import faulthandler, mmap, os, signal, sys, tempfile
import seneca
from seneca import transforms as T

how, folder, name = sys.argv[1:]
caches = []
for k in range(2):
    data = seneca.ImageFolder(folder, transform=T.CenterCrop(16 + k))
    loader = seneca.DataLoader(data, batch_size=8, cache=f"{name}-{k}", cache_bytes="16MiB")
    caches.append((loader, next(iter(loader))))
    faulthandler.enable()
if how == "sent":
    os.kill(os.getpid(), signal.SIGBUS)
else:
    with tempfile.TemporaryFile() as file:
        file.truncate(4096)
        mapped = mmap.mmap(file.fileno(), 4096)
        file.truncate(0)
        mapped[0]
print("still here")
"""


@pytest.mark.parametrize("how", ["sent", "met"])
def test_a_bus_error_that_is_not_the_segments_ends_the_process(how, pictures, name):
    """Also where another handler was set between two caches: each has the other as the one before it."""
    job = Script("-c", FOREIGN, how, str(pictures), name)
    said, errors = job.communicate()
    assert (job.returncode, said) == (-signal.SIGBUS, "")
    assert "Bus error" in errors
    for k in range(2):
        SampleCache.remove(f"{name}-{k}")
