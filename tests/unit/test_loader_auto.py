"""``num_workers="auto"``: an int for frameworks, and batches that do not depend on how many prepare them."""

import copy
import math
import pickle
import random
import time
import weakref

import pytest
import torch

import seneca
from seneca import transforms as T
from seneca._runtime.cgroups import cores_allowed
from seneca.options import AutoWorkers, workers_of

CORES = math.ceil(cores_allowed().number)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 300

    def __getitem__(self, index):
        return index


class Stateful(Numbers):
    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@pytest.fixture
def pictures(picture_folder):
    return seneca.ImageFolder(picture_folder, T.Compose([T.RandomResizedCrop(32), T.ToTensor()]))


def loader_of(data, **options):
    generator = torch.Generator().manual_seed(3)
    return seneca.DataLoader(data, 4, shuffle=True, cache=None, generator=generator, **options)


def test_the_attribute_is_an_int_that_stays_auto_in_every_copy(segment_folder):
    loader = seneca.DataLoader(Numbers(), num_workers="auto")
    rebuilt = seneca.DataLoader(Numbers(), num_workers=loader.num_workers)
    for one in (loader, rebuilt, pickle.loads(pickle.dumps(loader)), copy.copy(loader)):
        assert isinstance(one.num_workers, int)
        assert isinstance(one.num_workers, AutoWorkers)
        assert one.num_workers == min(2 * CORES, CORES + 16)
        assert str(one.num_workers) == str(int(one.num_workers))


def test_another_text_is_refused():
    with pytest.raises(ValueError, match="num_workers is a number or \"auto\", but got 'many'"):
        seneca.DataLoader(Numbers(), num_workers="many")


def test_a_number_is_torchs_to_check():
    assert type(workers_of(3)) is int
    with pytest.raises(ValueError, match="non-negative"):
        seneca.DataLoader(Numbers(), num_workers=-1)


def test_nobody_is_warned_of_too_many(segment_folder, recwarn, pictures):
    for data in (Numbers(), pictures):
        list(loader_of(data, num_workers="auto"))
    assert [str(warning.message) for warning in recwarn if "suggested max" in str(warning.message)] == []


def test_threads_make_the_same_batches_however_many_there_are(segment_folder, pictures):
    wanted = list(loader_of(pictures, num_workers=1))
    loader = loader_of(pictures, num_workers="auto")
    batches, choose = iter(loader), random.Random(5)
    for images, labels in wanted:
        given = next(batches)
        assert torch.equal(given[0], images)
        assert torch.equal(given[1], labels)
        batches._prefetcher.limit(choose.randint(1, loader.num_workers))
    assert next(batches, None) is None
    assert 1 <= loader.stats()["workers"] <= loader.num_workers


def test_a_limit_comes_too_late_for_an_epoch_that_has_ended(segment_folder, pictures):
    batches = iter(loader_of(pictures, num_workers="auto"))
    assert len(list(batches)) > 0
    batches._prefetcher.limit(1)


@pytest.mark.small(1)
@pytest.mark.parametrize("native", [True, False])
def test_an_iterator_that_is_dropped_ends_its_workers(segment_folder, pictures, native):
    loader = loader_of(pictures if native else Numbers(), num_workers="auto")
    batches = iter(loader)
    next(batches)
    gone = weakref.ref(batches)
    del batches
    assert gone() is None


@pytest.mark.small(1)
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("persistent", [True, False])
def test_workers_are_paused_and_fed_again_and_no_batch_is_lost(segment_folder, in_order, persistent):
    options = {"persistent_workers": persistent, "in_order": in_order}
    loader = loader_of(Numbers(), num_workers="auto", **options)
    plain = torch.utils.data.DataLoader(
        Numbers(), 4, True, num_workers=1, generator=torch.Generator().manual_seed(3), **options
    )
    choose = random.Random(6)
    for _ in range(2):
        wanted, given = [batch.tolist() for batch in plain], []
        batches = iter(loader)
        for batch in batches:
            given.append(batch.tolist())
            fed = choose.randint(1, loader.num_workers)
            batches._feed(fed)
            assert batches._tasks_outstanding <= 2 * loader.num_workers
        assert sorted(given) == sorted(wanted)
        assert given == wanted or not in_order


def test_fast_workers_do_not_go_ever_farther_ahead_of_a_slow_one(segment_folder):
    class OneIsSlow(Numbers):
        def __getitem__(self, index):
            if index == 0:
                time.sleep(1)
            return index

    loader = seneca.DataLoader(OneIsSlow(), 1, cache=None, num_workers="auto", prefetch_factor=2)
    batches = iter(loader)
    for _ in batches:
        assert len(batches._drawn) <= 2 * batches._fed.workers


def test_a_paused_worker_gets_no_batch(segment_folder):
    class WhoMadeIt(Numbers):
        def __getitem__(self, index):
            return torch.utils.data.get_worker_info().id

    loader = loader_of(WhoMadeIt(), num_workers="auto", prefetch_factor=2)
    batches = iter(loader)
    batches._feed(1)
    under_way = 2 * loader.num_workers
    makers = {maker for batch in batches for maker in batch.tolist()}
    assert 0 in makers
    batches = iter(loader_of(WhoMadeIt(), num_workers="auto", prefetch_factor=2))
    batches._feed(1)
    late = [batch[0].item() for number, batch in enumerate(batches) if number >= under_way]
    assert set(late) == {0}


def test_workers_that_keep_a_state_get_their_turns_as_in_torch(segment_folder):
    loader = loader_of(Stateful(), num_workers="auto")
    batches = iter(loader)
    assert batches._cores is None
    assert batches._fed.workers == loader.num_workers
    assert len(list(batches)) == 75
