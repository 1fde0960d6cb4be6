"""Datasets that have a state of their own: each process that loads is asked for it, and given it back."""

import copy
import gc
import json
import logging
import multiprocessing
import os
import pickle
import secrets
import threading
import types
import warnings
import weakref
from itertools import chain

import numpy as np
import pytest
import torch
from torch.utils.data import (
    Dataset,
    DistributedSampler,
    IterableDataset,
    IterDataPipe,
    Subset,
    get_worker_info,
)

import seneca
from seneca import fallback
from seneca.errors import StateError

pytestmark = pytest.mark.filterwarnings("ignore:.*plain torch", "ignore:.*keeps a state")


@pytest.fixture(autouse=True)
def seed():
    """Of torch's random numbers: SENECA_TEST_SEED, or a fresh one that a failure prints."""
    seed = int(os.environ.get("SENECA_TEST_SEED") or secrets.randbits(32))
    print(f"SENECA_TEST_SEED={seed}")
    torch.manual_seed(seed)
    return np.random.default_rng(seed)


def share():
    """This process's: ``(number, of how many)``."""
    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


class Shuffled(IterableDataset):
    """Shuffles its share with a seed that it draws, and forgets seed and place at its end."""

    def __init__(self, count=22):
        self.count = count
        self.seed, self.place = None, 0

    def __iter__(self):
        if self.seed is None:
            self.seed = int(torch.randint(2**31, ()))
        number, of = share()
        generator = torch.Generator().manual_seed(self.seed)
        order = (torch.randperm(-(-(self.count - number) // of), generator=generator) * of + number).tolist()
        while self.place < len(order):
            self.place += 1
            yield order[self.place - 1]
        self.seed, self.place = None, 0

    def state_dict(self):
        return {"seed": self.seed, "place": self.place}

    def load_state_dict(self, state):
        self.seed, self.place = state["seed"], state["place"]


class ItsOwnIterator(IterableDataset):
    """Shuffles its share by the number of the epoch."""

    def __init__(self, count=22):
        self.count = count
        self.epoch, self.place, self.order = 0, 0, []

    def __iter__(self):
        number, of = share()
        generator = torch.Generator().manual_seed(100 * self.epoch + number)
        indices = torch.arange(number, self.count, of)
        self.order = indices[torch.randperm(len(indices), generator=generator)].tolist()
        self.epoch, self.place = self.epoch + 1, 0
        return self

    def __next__(self):
        if self.place == len(self.order):
            raise StopIteration
        self.place += 1
        return self.order[self.place - 1]

    def state_dict(self):
        return {"epoch": self.epoch, "place": self.place, "order": self.order}

    def load_state_dict(self, state):
        self.epoch, self.place, self.order = state["epoch"], state["place"], state["order"]


class Drawing:
    """An iterator that draws its samples with replacement from torch's random numbers, and restores these."""

    def __init__(self, count):
        self.left = count

    def __next__(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return int(torch.randint(1000, ()))

    def __iter__(self):
        return self

    def state_dict(self):
        return {"left": self.left, "generator": torch.get_rng_state()}

    def load_state_dict(self, state):
        self.left = state["left"]
        torch.set_rng_state(state["generator"])


class OfIterators(IterableDataset):
    """Has no state; its iterators have."""

    def __iter__(self):
        number, of = share()
        return Drawing(len(range(number, 22, of)))


class Curriculum(Dataset):
    """Items hang on how many were made before."""

    def __init__(self, count=22):
        self.count = count
        self.made = {"items": 0}

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.made["items"] += 1
        return index, share()[0], self.made["items"]

    def state_dict(self):
        return self.made

    def load_state_dict(self, state):
        self.made = state


class Plain(IterableDataset):
    """Deterministic, without a state."""

    def __init__(self):
        self.read = []

    def __iter__(self):
        number, of = share()
        for index in range(number, 22, of):
            self.read.append(index)
            yield index


class PlainShuffled(IterableDataset):
    """Shuffles with the random numbers of its process, and has no state."""

    def __iter__(self):
        number, of = share()
        indices = torch.arange(number, 22, of)
        return iter(indices[torch.randperm(len(indices))].tolist())


def loader_of(dataset, cls=seneca.DataLoader, **options):
    return cls(dataset, **{"batch_size": 4, "collate_fn": list, **options})


def sent(state):
    """A state as it comes out of a checkpoint."""
    return pickle.loads(pickle.dumps(state))


def flat(batches):
    return list(chain.from_iterable(batches))


def taken(iterator, count):
    return [next(iterator) for _ in range(count)]


def goes_on(make, *, epochs=2, then=False):
    """Save after every batch; another loader with another dataset yields what the run has yielded from there.

    ``then``: and its next epoch is the run's too.
    """
    torch.manual_seed(1)
    loader, whole, states = make(), [], []
    for epoch in range(epochs):
        whole.append([])
        batches = iter(loader)
        states.append((epoch, 0, sent(loader.state_dict())))
        for batch in batches:
            whole[epoch].append(batch)
            states.append((epoch, len(whole[epoch]), sent(loader.state_dict())))
    assert len(whole[0]) >= 4
    for number, (epoch, step, state) in enumerate(states):
        if step == 0 and "order" not in state and loader.num_workers == 0 and not then:
            continue  # the dataset draws from torch's global generator, which is the user's to save
        torch.manual_seed(100 + number)
        resumed = make()
        resumed.load_state_dict(state)
        assert resumed.state_dict().keys() == state.keys()
        assert list(resumed) == whole[epoch][step:], (epoch, step)
        if then and epoch + 1 < epochs:
            assert list(resumed) == whole[epoch + 1], (epoch, step)


WORKERS = pytest.mark.parametrize(
    "options",
    [{}, {"num_workers": 2}, {"num_workers": 3, "persistent_workers": True}],
    ids=["alone", "workers", "workers that stay"],
)


# --- what the run itself would have yielded -----------------------------------------------------


@WORKERS
@pytest.mark.parametrize(
    ("cls", "size"),
    [(seneca.DataLoader, 4), (seneca.DataLoader, None), (fallback.DataLoader, 4)],
    ids=["batches", "single", "where Seneca is off"],
)
def test_a_stream_that_shuffles_yields_exactly_the_rest(cls, options, size):
    single = {"collate_fn": lambda item: [item]} if size is None else {}
    # Workers that stay draw the seed of their second epoch from random numbers that are nobody's to save.
    epochs = 1 if "persistent_workers" in options else 2
    goes_on(lambda: loader_of(Shuffled(), cls, batch_size=size, **options, **single), epochs=epochs)


@WORKERS
def test_the_rest_and_what_was_yielded_are_each_sample_once(options):
    for step in range(1, 6):
        first, second = (loader_of(Shuffled(), drop_last=False, **options) for _ in range(2))
        batches = iter(first)
        seen = taken(batches, step)
        second.load_state_dict(sent(first.state_dict()))
        assert sorted(flat(seen + list(second))) == list(range(22))
        assert sorted(flat(second)) == list(range(22)), "and so is the next epoch"


@WORKERS
def test_a_dataset_that_is_its_own_iterator_goes_on(options):
    goes_on(lambda: loader_of(ItsOwnIterator(), **options), then="num_workers" not in options)


def test_workers_that_stay_begin_their_next_epoch_as_those_of_the_run():
    goes_on(lambda: loader_of(ItsOwnIterator(), num_workers=2, persistent_workers=True), epochs=3, then=True)


@WORKERS
def test_a_dataset_that_is_its_own_iterator_is_restored_where_it_is_used_again_in_the_process(options):
    data = ItsOwnIterator()
    first = loader_of(data, **options)
    batches = iter(first)
    taken(batches, 2)
    state = first.state_dict()
    expected = list(batches)
    second = loader_of(data, **options)
    second.load_state_dict(state)
    assert list(second) == expected


@WORKERS
def test_iterators_are_asked_where_they_have_the_state(options):
    goes_on(lambda: loader_of(OfIterators(), **options), then=options != {"num_workers": 2})


@WORKERS
def test_a_map_style_dataset_has_its_state_back_before_its_next_item(options):
    goes_on(lambda: loader_of(Curriculum(), **options), then=True)


@pytest.mark.parametrize("key", [None, "curriculum"])
def test_a_map_style_dataset_whose_items_are_shared_has_its_state_back_all_the_same(key):
    cache = "unit-" + secrets.token_hex(6)

    def make():
        return loader_of(Curriculum(), cache=cache, cache_bytes="1MiB", key=key, shuffle=True)

    first = make()
    batches = iter(first)
    made = [item[2] for batch in taken(batches, 3) for item in batch]
    assert made == list(range(1, 13))
    second = make()
    second.load_state_dict(sent(first.state_dict()))
    del batches
    rest = [item for batch in second for item in batch]
    assert [item[2] for item in rest] == list(range(13, 23))


def test_items_that_may_hang_on_a_state_are_shared_only_if_the_user_says_so():
    assert "not shared: Curriculum keeps a state" in loader_of(Curriculum()).explain()
    assert "not shared: Curriculum keeps a state" in loader_of(Subset(Curriculum(), [3, 4])).explain()
    assert loader_of(Curriculum(), key="curriculum").explain().startswith("opaque")


def test_pictures_of_a_dataset_that_has_a_state_are_loaded_by_workers_that_keep_it(picture_folder):
    from torchvision_here import torchvision  # not at the top: workers of other tests would import it, too

    class CountingFolder(torchvision.datasets.ImageFolder):
        state_dict = Curriculum.state_dict
        load_state_dict = Curriculum.load_state_dict

    data = CountingFolder(picture_folder, seneca.transforms.Resize((8, 8)))
    assert "not shared: CountingFolder keeps a state" in loader_of(data).explain()
    loader = loader_of(data, key="folder", collate_fn=None, num_workers=1)
    assert loader.explain().startswith("staged: CountingFolder keeps a state")
    data.made = {"items": 5}
    next(iter(loader))
    assert loader.state_dict()["dataset_state"]["states"][0]["dataset"] == {"items": 5}


def test_a_dataset_behind_a_shared_one_is_asked():
    first, second = (loader_of(seneca.SharedDataset(Curriculum(), cache=None)) for _ in range(2))
    taken(iter(first), 2)
    second.load_state_dict(first.state_dict())
    assert next(iter(second))[0] == (8, 0, 9)


@pytest.mark.parametrize(("method", "kind"), [("spawn", Shuffled), ("forkserver", Curriculum)])
def test_states_go_to_workers_that_are_begun_by_any_method(method, kind):
    first, second = (loader_of(kind(), num_workers=1, multiprocessing_context=method) for _ in range(2))
    batches = iter(first)
    taken(batches, 3)
    second.load_state_dict(sent(first.state_dict()))
    assert list(second) == list(batches)


# --- workers ------------------------------------------------------------------------------------


class SeededWhenMade(Shuffled):
    """Its seed is given as it is made: that of another run is another."""

    def __init__(self, seed):
        super().__init__()
        self.seed = int(seed.integers(2**31))


def test_a_worker_that_has_yielded_nothing_yet_begins_as_it_began(seed):
    """Its seed is not in the script, and no batch of its has told it."""
    for step in range(4):
        first, second = (loader_of(SeededWhenMade(seed), num_workers=3) for _ in range(2))
        batches = iter(first)
        seen = taken(batches, step)
        second.load_state_dict(sent(first.state_dict()))
        rest = list(second)
        assert rest == list(batches)
        assert sorted(flat(seen + rest)) == list(range(22))


def test_a_run_that_was_resumed_is_saved_before_every_worker_has_yielded_again():
    loader = loader_of(Shuffled(60), num_workers=4, persistent_workers=True, batch_size=3)
    batches = iter(loader)
    taken(batches, 7)
    for _ in range(3):
        state = sent(loader.state_dict())
        loader = loader_of(Shuffled(60), num_workers=4, persistent_workers=True, batch_size=3)
        loader.load_state_dict(state)
        again = iter(loader)
        assert taken(again, 2) == taken(batches, 2)
    assert list(again) == list(batches)


class Uneven(Shuffled):
    """Of worker 0 nothing, of worker 1 much, of worker 2 little."""

    def __iter__(self):
        count = self.count
        self.count = (0, 45, 20)[share()[0]]
        yield from super().__iter__()
        self.count = count


@pytest.mark.parametrize("stays", [False, True])
def test_workers_that_have_ended_stay_at_their_end(stays):
    """Uneven forgets its place at its end: asked for more, it would begin anew."""
    goes_on(lambda: loader_of(Uneven(), num_workers=3, persistent_workers=stays, batch_size=3), epochs=1)


@pytest.mark.parametrize("drop_last", [False, True])
def test_what_was_read_for_the_last_batch_is_at_its_end(drop_last):
    goes_on(lambda: loader_of(Shuffled(), batch_size=5, drop_last=drop_last))


def test_persistent_workers_make_way_for_those_that_restore():
    loader = loader_of(ItsOwnIterator(), num_workers=2, persistent_workers=True)
    batches = iter(loader)
    taken(batches, 3)
    state = loader.state_dict()
    rest = list(batches)
    after = list(loader)
    loader.load_state_dict(state)
    assert list(loader) == rest
    assert list(loader) == after


def test_workers_that_are_left_in_the_midst_of_an_epoch_are_told_apart_from_the_next():
    """What they made ahead for the epoch that was left, they made before the next began."""
    loader = loader_of(ItsOwnIterator(200), num_workers=2, persistent_workers=True)
    taken(iter(loader), 3)
    batches = iter(loader)
    state = loader.state_dict()
    first = next(batches)
    later = loader.state_dict()
    rest = list(batches)
    for saved, expected in ((state, [first, *rest]), (later, rest)):
        resumed = loader_of(ItsOwnIterator(200), num_workers=2, persistent_workers=True)
        resumed.load_state_dict(sent(saved))
        assert list(resumed) == expected


def test_workers_that_answer_out_of_turn_still_yield_each_sample_once():
    options = {"num_workers": 3, "in_order": False, "batch_size": 2}
    first, second = (loader_of(Shuffled(40), **options) for _ in range(2))
    batches = iter(first)
    seen = taken(batches, 7)
    second.load_state_dict(sent(first.state_dict()))
    assert sorted(flat(seen + list(second))) == list(range(40))


def test_states_come_through_the_thread_that_pins_memory(monkeypatch):
    """As beside a GPU, with nothing pinned."""
    there = {
        "is_available": lambda: True,
        "current_accelerator": lambda: types.SimpleNamespace(type="cuda"),
        "current_device_index": lambda: 0,
        "set_device_index": lambda index: None,
    }
    for name, function in there.items():
        monkeypatch.setattr(torch.accelerator, name, function)
    monkeypatch.setattr(torch.utils.data._utils.pin_memory, "pin_memory", lambda data, device: data)
    for data in (Shuffled, Curriculum):
        goes_on(lambda data=data: loader_of(data(), num_workers=2, pin_memory=True), epochs=1)
    assert iter(loader_of(Shuffled(), num_workers=1, pin_memory=True))._pin_memory_thread.is_alive()


def unpicklable(batch):
    return threading.Lock() if 5 in batch else batch


def failing(batch):
    if 5 in batch:
        raise ValueError("bad")
    return batch


@pytest.mark.parametrize("collate", [failing, unpicklable])
def test_a_batch_that_has_failed_is_used_up_and_its_samples_do_not_come_again(collate):
    def make():
        return loader_of(ItsOwnIterator(), num_workers=2, collate_fn=collate)

    def rest(batches):
        seen, errors = [], 0
        while True:
            try:
                seen.append(next(batches))
            except StopIteration:
                return seen, errors
            except (ValueError, TypeError):
                errors += 1

    loader = make()
    batches = iter(loader)
    whole, errors = rest(batches)
    assert errors == 1
    for step in range(len(whole) + 1):
        loader = make()
        batches = iter(loader)
        for _ in range(step):
            try:
                next(batches)
            except (ValueError, TypeError):
                errors += 1
        resumed = make()
        resumed.load_state_dict(sent(loader.state_dict()))
        assert rest(iter(resumed)) == rest(batches)


def knows_the_dataset(worker):
    info = get_worker_info()
    info.dataset.known = (type(info.dataset), info.id == worker)


class Known(Shuffled):
    def __iter__(self):
        assert self.known == (Known, True)
        return super().__iter__()


def test_workers_know_the_users_dataset():
    assert sorted(flat(loader_of(Known(), num_workers=2, worker_init_fn=knows_the_dataset))) == list(
        range(22)
    )
    assert isinstance(iter(loader_of(Shuffled()))._dataset, Shuffled)
    assert isinstance(iter(loader_of(Curriculum(), num_workers=1))._dataset, Curriculum)


def broken(worker):
    raise ValueError("no such worker")


def test_a_worker_init_fn_that_fails_is_told_in_the_batchs_place():
    batches = iter(loader_of(Shuffled(), num_workers=2, worker_init_fn=broken))
    with pytest.raises(ValueError, match="no such worker"):
        next(batches)


# --- between epochs, and before the first batch -------------------------------------------------


def test_a_state_before_the_first_epoch_has_the_datasets():
    data = Curriculum()
    data.made["items"] = 5
    loader = loader_of(data)
    state = loader.state_dict()
    assert state == loader.state_dict(), "asking changes nothing"
    resumed = loader_of(Curriculum())
    resumed.load_state_dict(sent(state))
    assert next(iter(resumed))[0] == (0, 0, 6)


def test_a_state_after_an_epoch_has_the_datasets_where_the_process_that_has_it_goes_on():
    for options, items in (
        ({}, 23),
        ({"num_workers": 1, "persistent_workers": True}, 23),
        ({"num_workers": 1}, 1),
    ):
        loader = loader_of(Curriculum(), **options)
        list(loader)
        state = sent(loader.state_dict())
        assert ("dataset_state" in state) == (items == 23)
        resumed = loader_of(Curriculum(), **options)
        resumed.load_state_dict(state)
        assert next(iter(resumed))[0][2] == next(iter(loader))[0][2] == items


def test_a_state_is_kept_by_an_iterator_that_nobody_has_used():
    first, second = (loader_of(ItsOwnIterator()) for _ in range(2))
    batches = iter(first)
    taken(batches, 2)
    state = sent(first.state_dict())
    second.load_state_dict(state)
    iter(second)
    assert second.state_dict() == state
    assert list(second) == list(batches)
    end = sent(first.state_dict())
    second.load_state_dict(end)
    iter(second)
    assert second.state_dict()["dataset_state"] == end["dataset_state"]
    assert list(second) == list(first)


def test_the_state_after_a_break_is_that_of_the_last_batch():
    first, second = (loader_of(Shuffled()) for _ in range(2))
    seen = []
    for batch in first:
        seen += batch
        if len(seen) == 8:
            break
    gc.collect()
    second.load_state_dict(sent(first.state_dict()))
    assert sorted(seen + flat(second)) == list(range(22))


def test_a_state_does_not_change_as_the_dataset_goes_on():
    for options in ({}, {"num_workers": 1}):
        loader = loader_of(Curriculum(), **options)
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        before = copy.deepcopy(state)
        list(batches)
        assert state == before


def test_what_is_copied_ahead_is_not_in_the_state():
    """With a device the batch behind the one that is in use is made already."""
    for options in ({}, {"num_workers": 2}):
        loader = loader_of(Shuffled(), device="cpu", **options)
        ahead = iter(loader)
        inner, hand_out = ahead._batches, loader._under_way.hand_out
        first = next(inner)
        hand_out()
        expected = next(inner)
        resumed = loader_of(Shuffled(), **options)
        resumed.load_state_dict(sent(loader.state_dict()))
        rest = list(resumed)
        assert rest[0] == expected
        assert sorted(first + flat(rest)) == list(range(22))


def test_a_loader_holds_no_iterator_whose_state_nobody_asks_for():
    loader = loader_of(Plain())
    batches = iter(loader)
    next(batches)
    fetcher = weakref.ref(batches._dataset_fetcher)
    ended = []

    class Ends(Plain):
        def __iter__(self):
            try:
                yield from super().__iter__()
            finally:
                ended.append(True)

    del batches
    assert fetcher() is None
    batches = iter(loader := loader_of(Ends()))
    next(batches)
    del batches
    assert ended == [True], "a break ends the dataset's iterator, as with torch"


# --- streams without a state --------------------------------------------------------------------


@WORKERS
def test_a_deterministic_stream_without_a_state_is_read_again_and_passed_over(options, caplog):
    with caplog.at_level(logging.WARNING, "seneca"):
        goes_on(lambda: loader_of(Plain(), **options))
    assert "reading 2 batches again to pass over them" in caplog.text


def test_a_stream_that_shuffles_by_its_workers_seeds_is_passed_over_in_the_same_order():
    for step in range(5):
        first, second = (loader_of(PlainShuffled(), num_workers=2) for _ in range(2))
        batches = iter(first)
        taken(batches, step)
        second.load_state_dict(sent(first.state_dict()))
        assert list(second) == list(batches)


@pytest.mark.parametrize("options", [{"num_workers": 2}, {"batch_size": 2}])
def test_batches_that_are_cut_otherwise_are_not_passed_over(options):
    loader = loader_of(Plain())
    taken(iter(loader), 2)
    state = loader.state_dict()
    with pytest.raises(
        StateError, match=r"batches of 4 samples from 1 process, but this loader has .*give it the same"
    ):
        loader_of(Plain(), **options).load_state_dict(state)
    one_worker = loader_of(Plain(), num_workers=1)
    one_worker.load_state_dict(state)
    assert flat(one_worker) == list(range(8, 22))


def test_a_state_of_before_that_says_nothing_of_the_dataset_still_loads():
    """Saved by Seneca before it asked datasets."""
    state = {
        "seneca_state": 1, "n_samples": None, "dataset": None, "epoch": 0, "generators": [],
        "order": "stream", "sampler": "BatchSampler", "done": 2,
    }  # fmt: skip
    for data in (Plain(), ItsOwnIterator()):
        whole = list(loader_of(copy.deepcopy(data)))
        loader = loader_of(data)
        loader.load_state_dict(state)
        assert list(loader) == whole[2:]


def test_a_stream_in_small_batches_leaves_nothing_behind_in_the_loaders_process():
    loader = loader_of(Plain(), num_workers=2, batch_size=1)
    batches = iter(loader)
    taken(batches, 10)
    assert len(batches._drawn) <= 2 * 2


# --- what is said and refused -------------------------------------------------------------------


def test_another_number_of_workers_is_refused_with_both_named():
    for before, after in ((0, 2), (2, 0), (2, 3)):
        loader = loader_of(Shuffled(), num_workers=before)
        taken(iter(loader), 2)
        state = loader.state_dict()
        resumed = loader_of(Shuffled(), num_workers=after)
        with pytest.raises(
            StateError, match=f"num_workers={before}, but this loader has num_workers={after}"
        ):
            resumed.load_state_dict(state)
        assert len(flat(resumed)) == 22


def test_another_batch_size_cuts_the_rest_otherwise():
    first, second = loader_of(Shuffled()), loader_of(Shuffled(), batch_size=7)
    batches = iter(first)
    taken(batches, 2)
    second.load_state_dict(sent(first.state_dict()))
    rest = list(second)
    assert [len(batch) for batch in rest] == [7, 7]
    assert flat(rest) == flat(batches)


class Stateless(Shuffled):
    state_dict = load_state_dict = None


@pytest.mark.parametrize("workers", [0, 1])
def test_a_dataset_that_takes_no_state_is_named(workers):
    loader = loader_of(Shuffled(), num_workers=workers)
    taken(iter(loader), 2)
    resumed = loader_of(Plain(), num_workers=workers)
    resumed.load_state_dict(loader.state_dict())
    with pytest.raises(StateError, match="a state of the dataset, but Plain has no load_state_dict"):
        list(resumed)


class Locked(Shuffled):
    def state_dict(self):
        return {"lock": threading.Lock()}


class Failing(Shuffled):
    def state_dict(self):
        raise KeyError("seed")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_that_cannot_be_pickled_is_named_where_it_is_asked_for(workers):
    loader = loader_of(Locked(), num_workers=workers)
    batches = iter(loader)
    taken(batches, 2)
    with pytest.raises(
        StateError, match=r"Locked.state_dict\(\) returned cannot be pickled: .*lock.*plain values"
    ):
        loader.state_dict()
    assert len(list(batches)) > 3, "who does not save it may load as with torch"


def test_an_error_of_state_dict_is_raised_where_it_is_asked_for():
    loader = loader_of(Failing())
    batches = iter(loader)
    next(batches)
    with pytest.raises(KeyError, match="seed"):
        loader.state_dict()
    assert len(flat(batches)) == 18
    loader = loader_of(Failing(), num_workers=1)
    batches = iter(loader)
    next(batches)
    with pytest.raises(StateError, match=r"Failing raised KeyError\('seed'\) when it was asked"):
        loader.state_dict()
    assert len(flat(batches)) == 18


class Peculiar(Dataset):
    """Answers no question that torch does not ask."""

    def __init__(self):
        self.__dict__["fields"] = {}

    def __getattr__(self, name):
        return self.__dict__["fields"][name]

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return index

    def __getitems__(self, indices):
        return indices


def test_a_dataset_is_not_asked_for_attributes_to_find_out_whether_it_has_a_state():
    loader = loader_of(Peculiar(), cache=None)
    assert list(loader) == [[0, 1]]
    assert "dataset_state" not in loader.state_dict()


def test_a_batch_sampler_refuses_the_state_of_a_dataset():
    loader = loader_of(Curriculum())
    taken(iter(loader), 2)
    batches = seneca.OpportunisticBatchSampler(torch.utils.data.SequentialSampler(range(22)), 4)
    with pytest.raises(StateError, match="a batch sampler cannot give back"):
        batches.load_state_dict(loader.state_dict())


def test_a_state_that_cannot_be_given_back_is_refused_by_every_batch():
    loader = loader_of(Curriculum())
    taken(iter(loader), 2)
    resumed = loader_of(Plain22())
    resumed.load_state_dict(loader.state_dict())
    batches = iter(resumed)
    for _ in range(2):
        with pytest.raises(StateError, match="a state of the dataset, but Plain22 has no load_state_dict"):
            next(batches)


class Plain22(Dataset):
    def __len__(self):
        return 22

    def __getitem__(self, index):
        return index


def test_ranks_whose_datasets_stand_alike_are_put_together_and_others_refused():
    def rank(number, of, data):
        return loader_of(data, sampler=DistributedSampler(range(22), of, number, shuffle=False))

    class Named(Curriculum):
        name = "a"

        def state_dict(self):
            return {"name": self.name}

        def load_state_dict(self, state):
            self.name = state["name"]

    loaders = [rank(number, 2, Named()) for number in range(2)]
    for loader in loaders:
        taken(iter(loader), 1)
    states = [loader.state_dict() for loader in loaders]
    data = Named()
    data.name = "b"
    three = rank(0, 3, data)
    three.load_state_dict(states)
    next(iter(three))
    assert data.name == "a"
    loaders[1].dataset.name = "c"
    states = [loader.state_dict() for loader in loaders]
    again = rank(1, 2, data)
    again.load_state_dict(states)
    next(iter(again))
    assert data.name == "c", "as many ranks have each their own"
    with pytest.raises(StateError, match="give each rank the state that it saved"):
        three.load_state_dict(states)


# --- as others save and load --------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_of_plain_values_survives_safe_loading_and_json(workers, tmp_path):
    for data in (Shuffled, ItsOwnIterator, Curriculum):
        first = loader_of(data(), num_workers=workers)
        batches = iter(first)
        taken(batches, 3)
        state = first.state_dict()
        rest = list(batches)
        torch.save(state, tmp_path / "state.pt")
        for loaded in (torch.load(tmp_path / "state.pt", weights_only=True), json.loads(json.dumps(state))):
            second = loader_of(data(), num_workers=workers)
            second.load_state_dict(loaded)
            assert list(second) == rest


def test_tensors_and_arrays_in_a_state_come_back_as_they_were():
    class Buffered(Shuffled):
        def state_dict(self):
            return {**super().state_dict(), "tensor": torch.arange(3), "array": np.arange(4)}

        def load_state_dict(self, state):
            super().load_state_dict(state)
            assert torch.equal(state["tensor"], torch.arange(3)) and (state["array"] == np.arange(4)).all()

    goes_on(lambda: loader_of(Buffered(), num_workers=2))


class Pipe(IterDataPipe):
    def __iter__(self):
        yield from range(22)


def test_data_pipes_are_torchs_still():
    for workers in (0, 1):
        loader = loader_of(Pipe(), num_workers=workers)
        batches = iter(loader)
        taken(batches, 2)
        state = sent(loader.state_dict())
        rest = list(batches)
        assert flat(rest) == list(range(8, 22))
        resumed = loader_of(Pipe(), num_workers=workers)
        resumed.load_state_dict(state)
        assert list(resumed) == rest


def test_random_numbers_that_a_dataset_restores_stay_restored():
    """As of a dataset that saves torch's generator with its place."""
    torch.manual_seed(3)
    loader = loader_of(OfIterators())
    batches = iter(loader)
    taken(batches, 2)
    state = sent(loader.state_dict())
    rest, after = list(batches), torch.rand(3)
    torch.manual_seed(4)
    resumed = loader_of(OfIterators())
    resumed.load_state_dict(state)
    assert list(resumed) == rest
    assert torch.equal(torch.rand(3), after)


def test_nothing_of_all_that_is_left_behind():
    gc.collect()
    assert not multiprocessing.active_children()


def test_a_stream_with_a_state_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = loader_of(Shuffled(), num_workers=1)
        batches = iter(loader)
        next(batches)
        resumed = loader_of(Shuffled(), num_workers=1)
        resumed.load_state_dict(loader.state_dict())
        assert len(list(resumed)) == 5
