"""Jobs that share pictures with boxes: each gets each once an epoch, and its boxes are where it is white."""

import random
import time

import pytest
from box_folders import make_coco, white_of, wrapped
from job_processes import TIME_OUT_S, Host, assert_exactly_once
from sizes import size
from torchvision_here import v2

import seneca
from seneca.audit.check import check

PICTURES = 120
EPOCHS = size(3, 8)
TRANSFORMS = [
    v2.RandomCrop(40, padding=2, pad_if_needed=True),
    v2.RandomHorizontalFlip(),
    v2.RandomVerticalFlip(),
    v2.ToImage(),
]


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
    return make_coco(tmp_path_factory.mktemp("coco"), PICTURES, v2.Compose(TRANSFORMS))


def assert_shown(picture, boxes):
    """Nothing but crops and flips: the box is white to the pixel."""
    left, top, right, bottom = boxes[0].tolist()
    white = white_of(picture)
    assert white == [left, top, right, bottom] if white else (right == left or bottom == top)


def train(coco, name, *, epochs, until=None, sleep_s=0.0, notes=None, **options):
    """What a job does: at least so many epochs, and until the file ``until`` exists."""

    def work(log):
        options.setdefault("cache_bytes", "1MiB")
        options.setdefault("split", "20-30-50")
        loader = seneca.DataLoader(
            wrapped(coco), 8, shuffle=True, num_workers=1, cache=name, collate_fn=list, **options
        )
        assert loader.explain().startswith("native")
        epoch = 0
        while epoch < epochs or (until is not None and not until.exists()):
            for batch in loader:
                ids = loader.last_indices
                assert [target["image_id"] for _, target in batch] == [coco.ids[one] for one in ids]
                for picture, target in batch:
                    assert_shown(picture, target["boxes"])
                log(epoch, ids)
                time.sleep(sleep_s)
            epoch += 1
        if notes is not None:
            (notes / f"served {loader.stats()['served']['augmented']}").touch()

    return work


@pytest.mark.whole_size(shown_by="test_jobs_serve_each_other_copies_with_boxes")
def test_jobs_share_boxes_and_one_is_killed(host: Host, coco, seed, monkeypatch):
    monkeypatch.setenv("SENECA_AUDIT", str(host.folder / "audit"))
    rng = random.Random(seed)
    rounds, under_way = size(2, 10), 0
    for round_ in range(rounds):
        is_dead = host.folder / f"round {round_}: the victim is dead"
        work = train(coco, host.name, epochs=3, until=is_dead, check_every=3)
        jobs = [host.start(work) for _ in range(3)]
        victim = jobs.pop(rng.randrange(3))
        deadline = time.monotonic() + TIME_OUT_S
        while not victim.delivered() and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.1))
        victim.kill()
        is_dead.touch()
        under_way += bool(victim.delivered())
        assert [job.wait() for job in jobs] == [0, 0], f"round {round_}"
        for job in jobs:
            assert_exactly_once(job, max(job.delivered()) + 1, PICTURES, 8)
        assert host.segments() == [], f"round {round_}"
    assert under_way > 0
    report = check(host.folder / "audit")
    assert report.violations == []
    assert report.epochs >= 6 * rounds and report.checked[2] > 0


def test_jobs_serve_each_other_copies_with_boxes(host: Host, coco):
    work = train(
        coco, host.name, epochs=EPOCHS, sleep_s=0.002, notes=host.folder, cache_bytes="4MiB", split="10-10-80"
    )  # fmt: skip
    jobs = [host.start(work) for _ in range(2)]
    assert [job.wait() for job in jobs] == [0, 0]
    for job in jobs:
        assert_exactly_once(job, EPOCHS, PICTURES, 8)
    served = [int(path.name.split()[1]) for path in host.folder.glob("served *")]
    print(f"{served} copies served")
    assert sum(served) > 0
