"""Jobs that share pairs: each gets each pair once an epoch, and a mask is always that of its picture.

The red of a picture is the class in its mask, and green and blue name the sample. Crops and flips move both,
and the training loop of each job compares them.
"""

import random
import time

import numpy as np
import pytest
import torch
from job_processes import TIME_OUT_S, Host, assert_exactly_once
from PIL import Image
from sizes import size
from torchvision_here import torchvision, v2

import seneca
from seneca.audit.check import check

PAIRS = 120
Mask = torchvision.tv_tensors.Mask
TRANSFORMS = [
    v2.RandomCrop(24, padding=2, pad_if_needed=True, fill={Mask: 7, "others": [7, 0, 0]}),
    v2.RandomHorizontalFlip(),
    v2.RandomVerticalFlip(),
    v2.ToImage(),
    v2.ToDtype({Mask: torch.int64, "others": torch.uint8}),
]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Folders of pictures and masks."""
    folder = tmp_path_factory.mktemp("pairs")
    rng = np.random.default_rng(7)
    for name in ("images", "masks"):
        (folder / name).mkdir()
    for index in range(PAIRS):
        height, width = rng.integers(18, 50, 2)
        classes = rng.integers(0, 21, (height, width), np.uint8)
        named = np.full((height, width, 2), index, np.uint8)
        Image.fromarray(np.dstack([classes, named])).save(folder / "images" / f"{index:03}.png")
        Image.fromarray(classes).save(folder / "masks" / f"{index:03}.png")
    return folder / "images", folder / "masks"


def train(folders, name, *, epochs, until=None, **options):
    """What a job does: at least so many epochs, and until the file ``until`` exists."""

    def work(log):
        dataset = seneca.SegmentationFolder(*folders, v2.Compose(TRANSFORMS))
        loader = seneca.DataLoader(
            dataset,
            16,
            shuffle=True,
            num_workers=1,
            cache=name,
            cache_bytes="1MiB",
            split="20-30-50",
            **options,
        )
        assert loader.explain().startswith("native")
        epoch = 0
        while epoch < epochs or (until is not None and not until.exists()):
            for pictures, masks in loader:
                ids = loader.last_indices
                assert pictures.shape == (len(ids), 3, 24, 24) and masks.shape == (len(ids), 1, 24, 24)
                assert torch.equal(pictures[:, :1].long(), masks)
                named = torch.from_numpy(ids.astype(np.int64))[:, None, None]
                assert bool((pictures[:, 1].long() == named).logical_or(masks[:, 0] == 7).all())
                log(epoch, ids)
            epoch += 1

    return work


def test_two_jobs_share_pairs_and_one_is_killed(host: Host, pairs, seed, monkeypatch):
    monkeypatch.setenv("SENECA_AUDIT", str(host.folder / "audit"))
    rng = random.Random(seed)
    rounds, under_way = size(1, 20), 0
    for round_ in range(rounds):
        is_dead = host.folder / f"round {round_}: the victim is dead"
        work = train(pairs, host.name, epochs=3, until=is_dead, check_every=3)
        jobs = [host.start(work) for _ in range(3)]
        victim = jobs.pop(rng.randrange(3))
        deadline = time.monotonic() + TIME_OUT_S
        while round_ % 2 == 0 and not victim.delivered() and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.1))
        victim.kill()
        is_dead.touch()
        under_way += bool(victim.delivered())
        assert [job.wait() for job in jobs] == [0, 0], f"round {round_}"
        for job in jobs:
            assert_exactly_once(job, max(job.delivered()) + 1, PAIRS, 16)
        assert host.segments() == [], f"round {round_}"
    assert under_way > 0
    report = check(host.folder / "audit")
    assert report.violations == []
    assert report.epochs >= 6 * rounds and report.checked[2] > 0


def test_jobs_serve_each_other_copies_of_pairs(host: Host, pairs):
    def shares(log):
        dataset = seneca.SegmentationFolder(*pairs, v2.Compose(TRANSFORMS))
        options = {"num_workers": 1, "cache": host.name, "cache_bytes": "4MiB", "split": "10-10-80"}
        loader = seneca.DataLoader(dataset, 8, shuffle=True, **options)
        for epoch in range(12):
            for pictures, masks in loader:
                assert torch.equal(pictures[:, :1].long(), masks)
                log(epoch, loader.last_indices)
                time.sleep(0.002)
        (host.folder / f"served {loader.stats()['served']['augmented']}").touch()

    jobs = [host.start(shares) for _ in range(2)]
    assert [job.wait() for job in jobs] == [0, 0]
    for job in jobs:
        assert_exactly_once(job, 12, PAIRS, 8)
    served = [int(path.name.split()[1]) for path in host.folder.glob("served *")]
    print(f"{served} copies served")
    assert sum(served) > 0
