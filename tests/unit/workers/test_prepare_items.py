"""Items that are odd, too large or raise: delivered, or their error is, and nothing stays half written."""

import gc
import os
import signal

import numpy as np
import pytest
import torch
from PIL import Image
from shared_items import Drawn, Job, Sounds, assert_each_once, flat, inside, load

import seneca

# Items that are not as others


class Odd(Drawn):
    """Every other item holds what no buffer can; or all of them do."""

    def __init__(self, of_all=False):
        super().__init__(24)
        self.of_all = of_all

    def __getitem__(self, index):
        return (index, object()) if index % 2 or self.of_all else (index, 0.0)


# In the first batch it is not yet known what room one takes, nor tried again once one has been laid out.
@pytest.mark.small(1)
@pytest.mark.parametrize(("of_all", "unshared"), [(False, 10), (True, 24)])
def test_items_that_cannot_be_laid_out_are_delivered_and_counted(of_all, unshared, name):
    loader = load(Odd(of_all), name, shuffle=False)
    with Job(Odd(of_all), name, collate_fn=len_only, shuffle=False) as other:
        other.begin()
        items = flat(loader)
        assert [item[0] for item in items] == list(range(24))
        assert all(type(item[1]) is (object if item[0] % 2 or of_all else float) for item in items)
        assert loader.stats()["unshared"] == unshared
        assert loader.stats()["staged"] == 0 if of_all else loader.stats()["staged"] > 0
        assert inside(name)["writing"] == 0


def len_only(items):
    return [len(items)]


class Undecided(Sounds):
    """What is decoded is shared by no buffer."""

    def decode(self, data):
        return [object(), super().decode(data)]

    def augment(self, array, rng):
        return super().augment(array[1], rng)


@pytest.mark.whole_size(shown_by="test_items_that_cannot_be_laid_out_are_delivered_and_counted")
@pytest.mark.parametrize(("split", "encoded"), [("0-50-50", 0), ("50-50-0", 24)])
def test_what_is_decoded_and_cannot_be_laid_out_is_not_kept(split, encoded, name):
    loader = load(Undecided(), name, split=split)
    for _ in range(2):
        assert_each_once(flat(loader), 24)
    assert inside(name)["payloads"]["encoded"] == loader.stats()["served"]["encoded"] == encoded
    assert inside(name)["payloads"]["decoded"] == inside(name)["writing"] == 0
    assert loader.stats()["served"]["decoded"] == 0


class Silent(Sounds):
    def read(self, index):
        return b""

    def decode(self, data):
        return np.zeros(3)


@pytest.mark.small(1)
@pytest.mark.parametrize("split", ["100-0-0", "0-100-0", "0-0-100"])
def test_samples_without_bytes_are_samples(split, name):
    loader = load(Silent(), name, split=split)
    for _ in range(3):
        assert len(flat(loader)) == 24
    assert inside(name)["writing"] == 0


def test_pictures_of_more_pixels_than_a_record_can_say_are_delivered(tmp_path, name):
    (tmp_path / "long" / "only").mkdir(parents=True)
    for i in range(3):
        Image.new("RGB", (70_000, 1 + i)).save(tmp_path / "long" / "only" / f"{i}.png")
    loader = load(seneca.ImageFolder(tmp_path / "long", size_of), name, split="0-100-0", cache_bytes="4MiB")
    for _ in range(2):
        assert sorted(size for size, _ in flat(loader)) == [(70_000, 1), (70_000, 2), (70_000, 3)]
    assert inside(name)["writing"] == 0


def size_of(image):
    return image.size


class Growing(Drawn):
    """The later an item, the larger."""

    def __getitem__(self, index):
        return index, torch.full((1 + 700 * index,), index)


def test_items_larger_than_the_room_for_one_are_delivered_and_the_next_have_room(name):
    loader = load(Growing(), name, batch_size=2, cache_bytes="4MiB")
    with Job(Growing(), name, collate_fn=digest, cache_bytes="4MiB") as other:
        other.begin()
        items = flat(loader)
        assert all(
            bool((tensor == index).all()) and len(tensor) == 1 + 700 * index for index, tensor in items
        )
        assert 0 < loader.stats()["staged"] < 24, "some came before their size was known"
        theirs = other.take(None)
        assert_each_once(items, 24)
        assert_each_once(theirs, 24)
        assert all(length == 1 + 700 * index and total == index * length for index, length, total in theirs)
        assert other.stats()["served"]["augmented"] == loader.stats()["staged"]
        assert inside(name)["writing"] == 0


def digest(items):
    return [(index, len(tensor), int(tensor.sum())) for index, tensor in items]


@pytest.mark.whole_size(
    shown_by="test_items_larger_than_the_room_for_one_are_delivered_and_the_next_have_room"
)
def test_items_larger_than_the_whole_stage_are_delivered(name):
    loader = load(Growing(), name, cache_bytes="16KiB")
    with Job(Growing(), name, collate_fn=digest) as other:
        other.begin()
        assert_each_once(flat(loader), 24)
        assert_each_once(other.take(None), 24)


# Failures


class Fails(Drawn):
    """Two that fail at other samples are taken for the same."""

    def __init__(self, at, how):
        super().__init__(24)
        self.at = at
        self.how = how

    def __fingerprint__(self):
        return "fails"

    def __getitem__(self, index):
        if index == self.at:
            self.how()
        return super().__getitem__(index)


def lose():
    raise LookupError("a row is lost")


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1])
def test_an_exception_of_a_sample_is_the_users_and_gives_its_room_back(workers, name):
    loader = load(Fails(9, lose), name, shuffle=False, num_workers=workers)
    with Job(Fails(100, lose), name) as other:
        other.begin()
        with pytest.raises(LookupError, match="a row is lost"):
            list(loader)
        gc.collect()
        assert inside(name)["writing"] == 0
    batches = iter(load(Fails(9, lose), name, shuffle=False, num_workers=workers))
    assert [item[0] for item in next(batches)] == [0, 1, 2, 3]


@pytest.mark.whole_size(shown_by="test_an_exception_of_a_sample_is_the_users_and_gives_its_room_back")
def test_after_an_exception_iterating_goes_on_with_the_next_batch(name):
    with Job(Fails(9, lose), name) as other:
        other.begin()
        batches = iter(load(Fails(9, lose), name, shuffle=False))
        got = []
        for _ in range(6):
            try:
                got += next(batches)
            except LookupError:
                assert inside(name)["writing"] == 0
        assert [item[0] for item in got] == [i for i in range(24) if i not in (8, 9, 10, 11)]
        assert inside(name)["writing"] == 0


class FailsLate(Sounds):
    """In one of the stages, once what came before has been offered to be kept."""

    def __init__(self, stage):
        super().__init__(24)
        self.stage = stage

    def decode(self, data):
        if self.stage == "decode" and data[0] == 9:
            lose()
        return super().decode(data)

    def augment(self, array, rng):
        if self.stage == "augment" and array[0] == 9:
            lose()
        return super().augment(array, rng)

    def label(self, index):
        if self.stage == "label" and index == 9:
            lose()
        return index


@pytest.mark.small(1)
@pytest.mark.parametrize("stage", ["decode", "augment", "label"])
def test_an_exception_in_any_stage_leaves_nothing_half_written(stage, name):
    with Job(FailsLate(stage), name, split="30-30-40") as other:
        other.begin()
        batches = iter(load(FailsLate(stage), name, shuffle=False))
        for k in range(6):
            if k == 2:
                with pytest.raises(LookupError, match="a row is lost"):
                    next(batches)
            else:
                next(batches)
            assert inside(name)["writing"] == 0


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_in_mid_batch_leaves_nothing_held(name):
    with Job(Fails(100, die), name) as other:
        other.begin()
        loader = load(Fails(9, die), name, shuffle=False, num_workers=1)
        with pytest.raises(RuntimeError, match=r"was ended by SIGKILL"):
            list(loader)
        gc.collect()
        left = inside(name)
        assert left["writing"] == 0 and left["members"] == 1
        assert_each_once(other.take(None), 24)
        assert inside(name)["payloads"]["augmented"] == 0
