"""The gap between two epochs: what is prepared in it is what the next epoch prepares, or is never seen."""

import gc
import os
import signal
import time
from pathlib import Path

import audited_jobs
import numpy as np
import pair_folders
import pytest
import simplejpeg
import torch
from gap_loaders import CROP, alike, epoch, loader_of, prepared, used, validate
from torch.utils.data import DistributedSampler, RandomSampler, Subset, SubsetRandomSampler
from torchvision_here import torchvision, v2

import seneca
from seneca import transforms as T
from seneca._core import early
from seneca.audit.check import check
from seneca.errors import DecodeError
from seneca.native import gap

COUNT = 48


@pytest.fixture
def pictures(tmp_path):
    return audited_jobs.small_pictures(tmp_path / "pictures", COUNT)


@pytest.fixture(autouse=True)
def nothing_waits(monkeypatch):
    monkeypatch.setattr(gap, "_waiting", None)


SAMPLERS = {
    "as it is": lambda data: {"shuffle": False},
    "shuffled": lambda data: {"shuffle": True},
    "shuffled by a generator": lambda data: {"shuffle": True, "generator": torch.Generator().manual_seed(3)},
    "a sampler with a generator": lambda data: {
        "sampler": RandomSampler(data, generator=torch.Generator().manual_seed(3))
    },
    "a shard": lambda data: {"sampler": DistributedSampler(data, num_replicas=3, rank=1, seed=5)},
    "drop_last": lambda data: {"shuffle": True, "batch_size": 7, "drop_last": True},
    "persistent": lambda data: {"shuffle": True, "persistent_workers": True},
}


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("name_of_sampler", SAMPLERS)
def test_order_and_pixels_are_those_without_the_gap(pictures, name, monkeypatch, shares, name_of_sampler):
    runs = []
    for uses_gap in (True, False):
        if not uses_gap:
            monkeypatch.setattr(gap.Early, "begun", lambda *_: gap.NOTHING_EARLY)
        torch.manual_seed(1)
        data = seneca.ImageFolder(pictures, transform=T.Compose(CROP))
        cache = {"cache": f"{name}{uses_gap}", "cache_bytes": "64KiB", "split": "0-0-100"} if shares else {}
        loader = loader_of(pictures, dataset=data, **SAMPLERS[name_of_sampler](data), **cache)
        batches = []
        for number in range(3):
            if isinstance(loader.sampler, DistributedSampler):
                loader.sampler.set_epoch(number)
            batches += epoch(loader)
            prepared(loader)
            validate()
        runs.append(batches)
        size = loader.batch_size
        assert loader.stats()["early"] == (2 * 3 * size if uses_gap else 0)
        assert loader.stats()["delivered"] == sum(len(labels) for _, labels, _ in batches)
    assert alike(*runs)


def test_a_subset_in_random_order_is_foreseen(pictures, name):
    sampler = SubsetRandomSampler(range(5, 40))
    loader = loader_of(pictures, sampler=sampler, cache=name, cache_bytes="64KiB", split="0-0-100")
    assert used(loader) == [12]
    assert sorted(np.concatenate([indices for *_, indices in epoch(loader)])) == list(range(5, 40))


def test_samples_of_a_subset_are_foreseen(pictures):
    data = Subset(seneca.ImageFolder(pictures, transform=T.Compose(CROP)), range(40, 4, -2))
    loader = loader_of(pictures, dataset=data)
    assert used(loader) == [12]
    assert sorted(np.concatenate([indices for *_, indices in epoch(loader)])) == list(range(6, 41, 2))


def test_how_many_numbers_are_drawn_in_a_gap_is_learned(pictures):
    def three():
        for _ in range(3):
            validate()

    assert used(loader_of(pictures), three, epochs=4) == [0, 12, 12]


def test_nobody_knows_the_order_where_the_generator_is_set_in_the_gap(pictures):
    def seeded():
        torch.manual_seed(torch.seed() % 1000)

    assert used(loader_of(pictures), seeded, epochs=4) == [0, 0, 0]


def test_how_the_epoch_of_a_shard_is_set_is_learned(pictures):
    data = seneca.ImageFolder(pictures, transform=T.Compose(CROP))
    never_set = DistributedSampler(data, num_replicas=2, rank=0)
    assert used(loader_of(pictures, dataset=data, sampler=never_set), epochs=4) == [0, 12, 12]

    by_two = DistributedSampler(data, num_replicas=2, rank=0)
    later = iter((2, 4, 6))

    def set_epoch():
        validate()
        by_two.set_epoch(next(later))

    assert used(loader_of(pictures, dataset=data, sampler=by_two), set_epoch, epochs=4) == [0, 12, 12]


def test_the_generators_of_the_user_are_left_alone_in_the_gap(pictures):
    generator = torch.Generator().manual_seed(3)
    data = seneca.ImageFolder(pictures, transform=T.Compose(CROP))
    loader = loader_of(pictures, dataset=data, sampler=RandomSampler(data, generator=generator))
    batches = iter(loader)
    for _ in range(COUNT // 4):
        next(batches)
    before = generator.get_state(), torch.get_rng_state()
    assert next(batches, None) is None
    assert prepared(loader) == 3
    assert torch.equal(before[0], generator.get_state()) and torch.equal(before[1], torch.get_rng_state())


def test_the_state_in_the_gap_is_that_at_the_end_of_the_epoch(pictures, monkeypatch):
    states = []
    for uses_gap in (True, False):
        if not uses_gap:
            monkeypatch.setattr(gap.Gap, "open", lambda *_, **__: None)
        torch.manual_seed(2)
        loader = loader_of(pictures)
        epoch(loader)
        assert prepared(loader) == (3 if uses_gap else None)
        states.append(loader.state_dict())
        stats = loader.stats()
        assert (stats["prepared"], stats["delivered"], stats["early"]) == (COUNT, COUNT, 0)
    assert states[0] == states[1]


def test_a_state_within_the_first_batches_counts_what_was_delivered(pictures):
    loader = loader_of(pictures)
    torch.manual_seed(2)
    epoch(loader)
    prepared(loader)
    validate()
    batches = iter(loader)
    first = [labels_of(next(batches), loader) for _ in range(2)]
    state = loader.state_dict()
    rest = [labels_of(batch, loader) for batch in batches]
    assert loader.stats()["early"] == 12

    resumed = loader_of(pictures)
    resumed.load_state_dict(state)
    assert [labels_of(batch, resumed) for batch in resumed] == rest
    assert sorted(np.concatenate(first + rest)) == list(range(COUNT))


def labels_of(batch, loader):
    assert len(batch[1]) == len(loader.last_indices)
    return loader.last_indices.tolist()


def other_transform(loader, pictures):
    loader.dataset.transform = T.Compose((*CROP, T.ColorJitter(0.5)))


def other_normalisation(loader, pictures):
    loader.dataset.transform = T.Compose((*CROP, T.ToTensor(), T.Normalize((0.1,) * 3, (0.5,) * 3)))


def other_samples(loader, pictures):
    loader.dataset.samples = loader.dataset.samples[::-1]


def fewer_samples(loader, pictures):
    del loader.dataset.samples[-1]
    loader.dataset.targets = [label for _, label in loader.dataset.samples]


def a_file_in_the_place_of_another(loader, pictures):
    path = Path(loader.dataset.samples[int(loader._gap._early.batches[0].batch.indices[0])][0])
    status = path.stat()
    pixels = np.random.default_rng(5).integers(0, 256, (24, 30, 3), np.uint8)
    path.write_bytes(simplejpeg.encode_jpeg(pixels, 80))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def a_state(loader, pictures):
    other = loader_of(pictures)
    next(iter(other))
    loader.load_state_dict(other.state_dict())


def more_draws(loader, pictures):
    validate()


def other_epoch(loader, pictures):
    loader._epochs += 1


def channels_last(loader, pictures):
    loader.memory_format = torch.channels_last


CHANGES = [
    *(other_transform, other_normalisation, other_samples, a_file_in_the_place_of_another),
    *(a_state, more_draws, other_epoch, channels_last),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_suit_the_epoch_is_dropped(pictures, monkeypatch, change):
    runs = []
    for uses_gap in (True, False):
        folder = audited_jobs.small_pictures(pictures.parent / f"{uses_gap}", COUNT)
        if not uses_gap:
            monkeypatch.setattr(gap.Early, "begun", lambda *_: gap.NOTHING_EARLY)
        torch.manual_seed(4)
        loader = loader_of(folder)
        epoch(loader)
        assert prepared(loader) == 3
        validate()
        change(loader, folder)
        runs.append(epoch(loader))
        assert loader.stats()["early"] == 0
    assert alike(*runs)


@pytest.mark.parametrize("shares", [False, True])
def test_only_batches_whose_files_are_the_same_are_used(pictures, name, shares):
    loader = loader_of(
        pictures, **({"cache": name, "cache_bytes": "64KiB", "split": "0-0-100"} if shares else {})
    )
    epoch(loader)
    assert prepared(loader) == 3
    validate()
    Path(loader.dataset.samples[int(loader._gap._early.batches[1].batch.indices[2])][0]).chmod(0o600)
    epoch(loader)
    assert loader.stats()["early"] == 4


def test_batches_that_are_not_complete_are_left_to_the_epoch(pictures, monkeypatch):
    loader = loader_of(pictures)
    epoch(loader)
    prepared(loader)
    validate()
    second = loader._gap._early.batches[1]

    class Late:
        indices = second.batch.indices

        def wait(self, timeout_ms):
            return False

    loader._gap._early.batches[1] = second._replace(batch=Late())
    found = epoch(loader)
    assert loader.stats()["early"] == 4
    assert sorted(np.concatenate([indices for *_, indices in found])) == list(range(COUNT))


def test_an_error_comes_in_the_place_of_its_batch(pictures):
    loader = loader_of(pictures, shuffle=False)
    for sample in (5, 30):
        Path(loader.dataset.samples[sample][0]).write_bytes(b"no picture")
    for _ in range(2):
        batches, errors = iter(loader), []
        for number in range(COUNT // 4):
            try:
                next(batches)
            except DecodeError as error:
                errors.append((number, error.path))
        assert errors == [(1, loader.dataset.samples[5][0]), (7, loader.dataset.samples[30][0])]
        assert next(batches, None) is None
        assert prepared(loader) == 3
        validate()
    assert loader.stats()["early"] == 12


def test_a_bad_sample_of_the_first_batches_is_skipped(pictures):
    loader = loader_of(pictures, on_error="skip", drop_last=True)
    Path(loader.dataset.samples[5][0]).write_bytes(b"no picture")
    loader.sampler.generator = torch.Generator().manual_seed(1)
    with pytest.warns(UserWarning, match="skipped"):
        for _ in range(6):
            found = np.concatenate([indices for *_, indices in epoch(loader)])
            assert len(found) == len(set(found.tolist())) == 44
            assert 5 not in found
            prepared(loader)
    assert loader.stats()["early"] > 0


def test_an_epoch_that_is_left_is_followed_by_no_gap(pictures):
    loader = loader_of(pictures)
    for _ in loader:
        break
    assert prepared(loader) is None
    batches = iter(loader)
    next(batches)
    batches._close()
    assert next(batches, None) is None
    assert prepared(loader) is None


def test_without_threads_nothing_is_prepared(pictures):
    loader = loader_of(pictures, num_workers=0)
    epoch(loader)
    assert prepared(loader) is None


def test_nothing_is_prepared_for_a_loader_that_is_gone(pictures):
    batches = iter(loader_of(pictures))
    gc.collect()
    assert sum(len(labels) for _, labels in batches) == COUNT
    assert batches._gap._early is None


def test_nothing_is_left_of_a_loader_that_goes(pictures):
    before = len(os.listdir("/proc/self/task"))
    loader = loader_of(pictures)
    epoch(loader)
    assert prepared(loader) == 3
    assert len(os.listdir("/proc/self/task")) > before
    del loader
    gc.collect()
    assert len(os.listdir("/proc/self/task")) <= before


def test_the_cache_can_be_closed_in_the_gap(pictures, name):
    data = seneca.ImageFolder(pictures, transform=T.Compose(CROP))
    cache = seneca.SampleCache.create(name, data, cache_bytes="64KiB", split="0-0-100")
    loader = loader_of(pictures, dataset=data, cache=cache)
    epoch(loader)
    assert prepared(loader) == 3
    cache.close()


def test_if_most_is_kept_nothing_is_prepared(pictures, name):
    loader = loader_of(pictures, cache=name, cache_bytes="16MiB")
    for _ in range(3):
        epoch(loader)
        assert prepared(loader) == 0
        assert early.brought(loader._gap._early.stream) == 0
        validate()
    assert loader.stats()["read_bytes"] == sum(path.stat().st_size for path in pictures.rglob("*.jpg"))


def test_no_more_files_are_brought_once_an_epoch_of_jobs_that_share_is_asked_for(pictures, name, monkeypatch):
    """Whichever job needs them reads them."""
    shared = {"cache": name, "cache_bytes": "64KiB", "split": "0-0-100"}
    other = loader_of(pictures, **shared, job="other", num_workers=0)
    epoch(other)
    busy = iter(loader_of(pictures, num_workers=0))
    busy._begin()
    busy._prefetcher._draw()  # the gap gives way to it
    loader = loader_of(pictures, **shared, job="one")
    epoch(loader)
    found = []
    inspect = type(loader)._inputs

    def inputs(loader, support):
        waiting = loader._gap._early
        assert waiting.own_seed
        before = early.brought(waiting.stream)
        next(busy)
        time.sleep(0.2)  # in which it would have brought them all
        found.append((before, early.brought(waiting.stream)))
        return inspect(loader, support)

    monkeypatch.setattr(type(loader), "_inputs", inputs)
    assert len(epoch(loader)) == COUNT // 4
    assert found == [(0, 0)]
    assert loader.stats()["early"] == 0


def test_exact_copies_are_not_made_in_the_gap(pictures, name):
    loader = loader_of(pictures, cache=name, cache_bytes="64KiB", split="0-0-100", share="exact")
    for _ in range(2):
        epoch(loader)
        assert prepared(loader) == 0
        assert loader._gap._early.stream is not None


def test_a_forked_child_prepares_for_itself(pictures):
    loader = loader_of(pictures)
    torch.manual_seed(6)
    epoch(loader)
    assert prepared(loader) == 3
    validate()
    state = torch.get_rng_state()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            torch.set_num_threads(1)
            found = np.concatenate([indices for *_, indices in epoch(loader)])
            status = int(sorted(found) != list(range(COUNT)) or loader.stats()["early"] != 0)
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    torch.set_rng_state(state)
    epoch(loader)
    assert loader.stats()["early"] == 12


def test_one_loader_of_a_process_prepares_at_a_time(pictures):
    train, validation = loader_of(pictures), loader_of(pictures, shuffle=False)
    for number in range(3):
        epoch(train)
        assert prepared(train) == 3
        epoch(validation)
        assert prepared(validation) is None
        assert train.stats()["early"] == 12 * number


def test_a_loader_that_waits_through_two_epochs_of_another_makes_room(pictures):
    once, often = loader_of(pictures), loader_of(pictures)
    epoch(once)
    epoch(often)
    assert (prepared(once), prepared(often)) == (3, None)
    epoch(often)
    assert prepared(often) == 3
    assert not once._gap._early.end.alive
    epoch(once)
    assert once.stats()["early"] == 0


def test_the_batches_of_others_come_first(pictures):
    """As long as another iterator of the process has a sample that is not ready."""
    other = iter(loader_of(pictures, num_workers=0))
    other._begin()
    other._prefetcher._draw()  # nobody waits for the batch yet, and no thread prepares it
    loader = loader_of(pictures)
    epoch(loader)
    waiting = loader._gap._early
    assert not waiting.batches[0].batch.wait(50)
    assert early.brought(waiting.stream) == 0
    next(other)
    assert prepared(loader) == 3
    while early.brought(waiting.stream) < COUNT - 12:
        time.sleep(0.001)


def test_what_a_thread_of_another_iterator_has_in_hand_comes_first(pictures, tmp_path):
    path = tmp_path / "large.jpg"
    path.write_bytes(simplejpeg.encode_jpeg(np.zeros((8000, 8000, 3), np.uint8)))
    large = seneca.PictureList([(str(path), 0)], T.Compose(CROP))
    loader = loader_of(pictures)
    epoch(loader)
    prepared(loader)
    other = iter(loader_of(pictures, dataset=large, batch_size=1))
    other._prefetcher._draw()
    time.sleep(0.02)  # its one thread has taken its one sample
    epoch(loader)
    first, others = loader._gap._early.batches[0].batch, other._prefetcher._under_way[0].batch
    while not first.wait(1):
        pass
    assert others.wait(0)


def test_children_that_read_come_first(pictures):
    """They may be the workers of another loader."""
    pid = os.fork()
    if pid == 0:
        with open("/dev/zero", "rb", buffering=0) as zeros:
            while True:
                zeros.read(1 << 20)
                time.sleep(0.005)
    try:
        other = iter(loader_of(pictures, num_workers=0))
        other._begin()
        other._prefetcher._draw()  # holds up what follows until it has seen the child read
        loader = loader_of(pictures)
        epoch(loader)
        time.sleep(0.5)
        next(other)
        assert not loader._gap._early.batches[0].batch.wait(100)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert prepared(loader) == 3


def test_a_job_that_is_killed_in_the_gap_takes_nothing_from_others(pictures, name, tmp_path, monkeypatch):
    monkeypatch.setenv("SENECA_AUDIT", str(tmp_path / "audit"))
    shared = {"cache": name, "cache_bytes": "64KiB", "split": "0-0-100"}
    come, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            torch.set_num_threads(1)
            killed = loader_of(pictures, **shared, job="killed")
            epoch(killed)
            os.write(told, bytes([prepared(killed)]))
            time.sleep(300)
        finally:
            os._exit(1)
    assert os.read(come, 1) == bytes([3])
    other = loader_of(pictures, **shared, job="other")
    epoch(other)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for _ in range(2):
        epoch(other)
    report = check(tmp_path / "audit")
    assert report.violations == []
    assert (report.epochs, report.incomplete, report.samples) == (4, 0, 4 * COUNT)
    os.close(come)
    os.close(told)


def test_pairs_are_prepared_with_their_masks(tmp_path, monkeypatch):
    (tmp_path / "pairs").mkdir()
    folders = pair_folders.make_pairs(tmp_path / "pairs", COUNT)
    to_floats = v2.ToDtype({torchvision.tv_tensors.Mask: torch.int64, "others": torch.float32}, scale=True)
    steps = v2.Compose([v2.ToImage(), v2.RandomResizedCrop(16), v2.RandomHorizontalFlip(), to_floats])
    runs = []
    for uses_gap in (True, False):
        if not uses_gap:
            monkeypatch.setattr(gap.Early, "begun", lambda *_: gap.NOTHING_EARLY)
        torch.manual_seed(1)
        loader = loader_of(None, dataset=seneca.SegmentationFolder(*folders, steps))
        batches = []
        for _ in range(2):
            batches += [(pictures.clone(), masks.clone()) for pictures, masks in loader]
            prepared(loader)
            validate()
        runs.append(batches)
        assert loader.stats()["early"] == (12 if uses_gap else 0)
    assert all(torch.equal(a, b) and torch.equal(c, d) for (a, c), (b, d) in zip(*runs, strict=True))


def test_the_audit_finds_each_sample_once(pictures, name, tmp_path, monkeypatch):
    monkeypatch.setenv("SENECA_AUDIT", str(tmp_path / "audit"))
    shared = {"cache": name, "cache_bytes": "64KiB", "split": "0-0-100"}
    first = loader_of(pictures, **shared, job="first")
    second = loader_of(pictures, **shared, job="second", share="decoded", shuffle=False)
    for number in range(4):
        epoch(first)
        prepared(first)
        epoch(second)
        if number == 2:
            validate()
    assert first.stats()["early"] == 24
    report = check(tmp_path / "audit")
    assert report.violations == []
    assert (report.epochs, report.incomplete, report.samples) == (8, 0, 8 * COUNT)
