"""share="exact": what the seed alone names, prepared once for all jobs of that seed."""

import hashlib
import itertools
import random
import time

import numpy as np
import pytest
import torch
from sizes import size
from torch.utils._pytree import tree_leaves
from torch.utils.data import DistributedSampler

import seneca
from seneca import transforms as T
from seneca.audit.check import check
from seneca.audit.log import read_header
from seneca.errors import DecodeError

TRAIN = T.Compose(
    [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)]
)
ERASED = T.Compose([T.RandomResizedCrop(24), T.ToTensor(), T.RandomErasing(p=0.7)])
EVALUATE = T.Compose([T.Resize(40), T.CenterCrop(32)])
N = 48
pytestmark = pytest.mark.usefixtures("alone")


def load(dataset, seed=7, **options):
    generator = torch.Generator().manual_seed(seed)
    options = {"batch_size": 4, "shuffle": True, "cache_bytes": "2MiB", "split": "0-0-100"} | options
    return seneca.DataLoader(dataset, generator=generator, share=options.pop("share", "exact"), **options)


def digest(batch):
    found = hashlib.blake2b(digest_size=8)
    for part in tree_leaves(batch):
        found.update(np.ascontiguousarray(part.numpy()).tobytes())
    return found.hexdigest()


def digests(loader, epochs=3):
    """Of each batch of each epoch."""
    return [[digest(batch) for batch in loader] for _ in range(epochs)]


def in_step(loaders, epochs=3):
    """The same of several, whose batches are asked for in turn."""
    found = [[[] for _ in range(epochs)] for _ in loaders]
    for epoch in range(epochs):
        for batches in itertools.zip_longest(*loaders):
            for job, batch in zip(found, batches, strict=True):
                job[epoch].append(digest(batch))
    return found


class Drawing(torch.utils.data.Dataset):
    """Items that draw from all global generators, the label too."""

    def __len__(self):
        return N

    def __getitem__(self, index):
        return torch.rand(3) + random.random() + float(np.random.rand()), index


class Sounds:
    def __len__(self):
        return N

    def read(self, index):
        return bytes([index]) * 16

    def decode(self, data):
        return np.frombuffer(data, np.uint8).astype(np.float32)

    def augment(self, array, rng):
        return array * rng.uniform(0.5, 1)

    def label(self, index):
        return index, float(torch.rand(()))


class InBatches(Drawing):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Absent(Drawing):
    """Items of which every second is None."""

    def __getitem__(self, index):
        return None if index % 2 else float(torch.rand(()))


class Wild(Drawing):
    """Random numbers that nobody can name."""

    def __getitem__(self, index):
        return float(np.random.default_rng().random()), index


class Own(Drawing):
    """It draws from a generator of its own."""

    def __init__(self):
        self.rng = np.random.default_rng(3)

    def __getitem__(self, index):
        return self.rng.random(), index


MAKERS = {
    "native": lambda folder: seneca.ImageFolder(folder, TRAIN),
    "erased": lambda folder: seneca.ImageFolder(folder, ERASED),
    "whole items": lambda folder: Drawing(),
    "items by batches": lambda folder: InBatches(),
    "stages": lambda folder: Sounds(),
    "a transform in Python": lambda folder: seneca.ImageFolder(
        folder, lambda image: torch.rand(2) + float(np.asarray(image)[0, 0, 0])
    ),
    "the same each time": lambda folder: seneca.ImageFolder(folder, EVALUATE),
}
NATIVE = "native", "erased", "the same each time"


@pytest.mark.small(3)
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("kind", MAKERS)
def test_each_of_two_jobs_gets_what_it_gets_alone_and_each_sample_is_made_about_once(
    picture_folder, name, kind, workers
):
    make = MAKERS[kind]
    alone = digests(load(make(picture_folder), cache=name + "-alone"))
    assert len({one for epoch in alone for one in epoch}) == 3 * N // 4 or kind == "the same each time"
    options = {"cache": name, "check_every": 5}
    jobs = [load(make(picture_folder), num_workers=workers, job=job, **options) for job in "ab"]
    assert in_step(jobs) == [alone, alone]
    stats = [job.stats() for job in jobs]
    prepared = sum(one["prepared"] for one in stats)
    assert prepared < 1.6 * 3 * N, f"{prepared} of {3 * N}, and {6 * N} by jobs that share nothing"
    assert sum(one["served"]["augmented"] for one in stats) == 6 * N - prepared
    assert sum(one["different"] for one in stats) == 0 and all(one["unshared"] == 0 for one in stats)
    if kind not in NATIVE:
        assert sum(one["checked"] for one in stats) > 0


def test_items_that_are_none_are_made_and_left_once(name):
    jobs = [load(Absent(), cache=name, job=job, collate_fn=list) for job in "ab"]
    for _ in range(3):
        for one, other in zip(*jobs, strict=True):
            assert one == other
    stats = [job.stats() for job in jobs]
    assert all(0 < one["staged"] <= one["prepared"] for one in stats)
    assert sum(one["served"]["augmented"] for one in stats) > 0


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", ["native", "erased", "the same each time"])
def test_alone_it_is_what_share_none_gives(picture_folder, name, kind):
    make = MAKERS[kind]
    exact = digests(load(make(picture_folder), cache=name))
    assert exact == digests(load(make(picture_folder), cache=name, share="none"))
    assert exact == digests(load(make(picture_folder), cache=None))


@pytest.mark.parametrize("step_s", [0, 0.1])
def test_only_a_job_that_waits_for_its_loader_lets_one_that_is_behind_come_near(picture_folder, name, step_s):
    """The one behind stands, as nobody asks it for batches. So it is waited for once."""
    # The stage is what both have in flight, twice.
    options = {"batch_size": 1, "cache": name, "split": "70-30-0", "cache_bytes": "64MiB"}
    large = seneca.ImageFolder(picture_folder, T.Compose([T.RandomResizedCrop(1000), T.ToTensor()]))
    ahead = {"num_workers": 1, "prefetch_factor": 1} if step_s else {}
    front, behind = load(large, job="a", **options, **ahead), load(large, job="b", **options)
    batches, late = iter(front), iter(behind)

    def train(steps):
        for _ in range(steps):
            next(batches)
            time.sleep(step_s)

    train(16)
    for _ in range(6):
        next(late)
    assert front.stats()["peer_wait_s"] == 0
    for _ in range(6):  # on a busy machine both may take longer for other things at first
        train(4)
        waited = front.stats()["peer_wait_s"]
        if waited:
            break
        next(late), next(late), next(late)
    assert (waited > 0) == (step_s == 0)
    assert front.stats()["longest_peer_wait_s"] == waited <= front.stats()["stall_s"]
    train(4)
    assert front.stats()["peer_wait_s"] == waited


def test_jobs_of_other_seeds_share_no_copies_and_get_their_own(picture_folder, name):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    jobs = [load(dataset, seed, cache=name, job=str(seed)) for seed in (1, 2)]
    found = in_step(jobs)
    assert found == [digests(load(dataset, seed, cache=name + "-alone")) for seed in (1, 2)]
    assert [job.stats()["prepared"] for job in jobs] == [3 * N, 3 * N]


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [(0, 2), (2, 0), (2, 1)])
@pytest.mark.parametrize("kind", ["native", "whole items", "stages"])
def test_a_resumed_job_goes_on_as_it_would_have_beside_another(picture_folder, name, kind, workers):
    make = MAKERS[kind]
    alone = digests(load(make(picture_folder), cache=name + "-alone"), 2)
    beside = load(make(picture_folder), cache=name, job="beside", num_workers=1)
    first = load(make(picture_folder), cache=name, job="first", num_workers=workers[0])
    found = [[], []]
    for ours, theirs in itertools.islice(zip(first, beside, strict=True), 5):
        found[0].append(digest(ours))
        found[1].append(digest(theirs))
    state = first.state_dict()
    del first
    again = load(make(picture_folder), seed=99, cache=name, job="again", num_workers=workers[1])
    again.load_state_dict(state)
    found[0] += [digest(batch) for batch in again]
    assert found[0] == alone[0] and found[1] == alone[0][:5]
    assert [digest(batch) for batch in again] == alone[1]


@pytest.mark.parametrize("kind", size(["native"], ["native", "whole items"]))
def test_ranks_get_their_shards_as_they_would_alone(picture_folder, name, kind):
    def ranks(cache, job):
        dataset = MAKERS[kind](picture_folder)
        samplers = [DistributedSampler(dataset, 2, rank, shuffle=True, seed=3) for rank in range(2)]
        return [
            load(dataset, cache=cache, job=job, shuffle=None, sampler=sampler, num_workers=1)
            for sampler in samplers
        ]

    alone = [digests(rank, 1) for rank in ranks(name + "-alone", "alone")]
    jobs = [*ranks(name, "a"), *ranks(name, "b")]
    assert in_step(jobs, 1) == alone + alone
    assert sum(job.stats()["served"]["augmented"] for job in jobs) > N // 4


def test_a_job_of_another_batch_size_gets_the_same_samples(picture_folder, name):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)

    def samples(loader):
        return [digest(image) for images, _ in loader for image in images]

    loaders = [load(dataset, batch_size=size, cache=name, job=str(size), num_workers=1) for size in (4, 6)]
    threads = [iter(loader) for loader in loaders]
    found = [[], []]
    for first, second in itertools.zip_longest(*threads):
        for job, batch in ((0, first), (1, second)):
            if batch is not None:
                found[job] += [digest(image) for image in batch[0]]
    assert found[0] == found[1] == samples(load(dataset, cache=name + "-alone"))


def test_a_damaged_picture_fails_in_each_job_and_is_not_waited_for(picture_folder, name):
    broken = picture_folder / "class_1" / "03.jpg"
    broken.write_bytes(broken.read_bytes()[:200])
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    for loader in [load(dataset, cache=name, job=job, num_workers=1) for job in "ab"]:
        with pytest.raises(DecodeError, match=r"03\.jpg"):
            list(loader)
    # Which sample takes a bad one's place depends on how many batches are made ahead, alone too.
    alone = digests(load(dataset, cache=name + "-alone", num_workers=1, on_error="skip"), 1)
    jobs = [load(dataset, cache=name, job=job, num_workers=1, on_error="skip") for job in "ab"]
    assert in_step(jobs, 1) == [alone, alone]


def test_the_training_loop_s_own_random_numbers_are_left_alone(name):
    for options in ({}, {"num_workers": 1}):
        torch.manual_seed(1), np.random.seed(1), random.seed(1)
        for _ in load(Drawing(), cache=name, **options):
            pass
        drawn = float(torch.rand(())), np.random.rand(), random.random()
        torch.manual_seed(1), np.random.seed(1), random.seed(1)
        assert drawn == (float(torch.rand(())), np.random.rand(), random.random())


def test_explain_says_with_whom_and_what_the_seed_is(picture_folder, name):
    for make in (MAKERS["native"], MAKERS["whole items"]):
        loader = load(make(picture_folder), cache=name)
        assert "AUGMENTED, with the jobs whose generator= gives the same numbers" in loader.explain()
        unseeded = seneca.DataLoader(make(picture_folder), share="exact", cache=name, cache_bytes="2MiB")
        assert "give generator=torch.Generator().manual_seed(seed)" in unseeded.explain()


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        (Wild(), {}, r"share='exact' is not possible here, because sample \d+ differs each time"),
        (Drawing(), {"cache": None}, "torch's workers make its items, and cache=None"),
        (Own(), {}, "because Own.rng is .* whose state changes as items are made"),
        (Own(), {"key": "own"}, "because Own keeps a state, or draws from a generator of its own"),
    ],
)
@pytest.mark.parametrize("workers", [0, 1])
def test_what_cannot_be_exact_says_why(name, dataset, options, message, workers):
    with pytest.raises(ValueError, match=message):
        list(load(dataset, **{"cache": name, "num_workers": workers} | options))


def test_torchs_own_loader_is_exact_with_our_batch_sampler_and_says_so_without(name):
    def torchs(job, cache, **options):
        shared = seneca.SharedDataset(Drawing(), cache=cache, cache_bytes="2MiB", share="exact", job=job)
        sampler = torch.utils.data.RandomSampler(shared, generator=torch.Generator().manual_seed(3))
        batches = seneca.OpportunisticBatchSampler(sampler, 4, False)
        return torch.utils.data.DataLoader(shared, batch_sampler=batches, **options)

    epochs = size(1, 3)
    alone = digests(torchs("alone", name + "-alone"), epochs)
    assert in_step([torchs(job, name, num_workers=1) for job in "ab"], epochs) == [alone, alone]
    shared = seneca.SharedDataset(Drawing(), cache=name, cache_bytes="2MiB", share="exact")
    with pytest.raises(ValueError, match=r"batch_sampler=seneca\.OpportunisticBatchSampler"):
        next(iter(torch.utils.data.DataLoader(shared, 4)))


@pytest.mark.parametrize("kind", size(["native"], ["native", "whole items"]))
def test_the_audit_finds_one_order_of_each_epoch_in_all_jobs(
    picture_folder, name, kind, tmp_path, monkeypatch
):
    monkeypatch.setenv("SENECA_AUDIT", str(tmp_path / "audit"))
    jobs = [load(MAKERS[kind](picture_folder), cache=name, job=job, num_workers=1) for job in "ab"]
    in_step(jobs)
    report = check(tmp_path / "audit")
    assert report.violations == [] and report.epochs == 6
    assert report.served["augmented"] > 0
    names = [read_header(path).exact for path in (tmp_path / "audit").iterdir()]
    assert len(set(names) - {""}) == 3, "one a seed and epoch"


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", ["native", "whole items"])
def test_an_order_of_the_user_s_is_kept_and_its_items_are_exact(picture_folder, name, kind):
    order = [*range(0, N, 2), *range(1, N, 2)]

    def job(cache, job):
        return load(MAKERS[kind](picture_folder), cache=cache, job=job, shuffle=None, sampler=order)

    alone = digests(job(name + "-alone", "alone"), 2)
    assert in_step([job(name, "a"), job(name, "b")], 2) == [alone, alone]


class Labelled:
    """A dataset of stages with labels."""

    def __len__(self):
        return 12

    def read(self, index):
        return bytes([index] * 4)

    def decode(self, data):
        return np.frombuffer(data, np.uint8).astype(np.float32)

    def augment(self, array, rng):
        return array + 1

    def label(self, index):
        return index * 10


@pytest.mark.small(1)
@pytest.mark.parametrize("sampler", [None, [3, 1, 2]], ids=["shuffled", "given"])
@pytest.mark.parametrize("kind", ["stages", "pictures"])
def test_workers_give_labels_too(picture_folder, name, kind, sampler):
    dataset = Labelled() if kind == "stages" else seneca.ImageFolder(picture_folder, T.Resize((8, 8)))
    order = {"sampler": sampler} if sampler else {"shuffle": True}
    init = {"worker_init_fn": print, "collate_fn": list} if kind == "pictures" else {"collate_fn": list}
    loader = seneca.DataLoader(
        dataset, 4, **order, **init, cache=name, cache_bytes="2MiB", share="exact",
        generator=torch.Generator().manual_seed(1),
    )  # fmt: skip
    assert not loader.explain().startswith("native") or "loaded by torch's workers" in loader.explain()
    items = [item for batch in loader for item in batch]
    expected = [dataset.label(index) for index in range(12)] if kind == "stages" else dataset.targets
    assert all(len(item) == 2 for item in items)
    labels = [expected[index] for index in sampler] if sampler else sorted(expected)
    assert (sorted if sampler is None else list)(item[1] for item in items) == labels
