"""Where a loader stands, saved at every step, and another loader that goes on from there."""

import gc
import multiprocessing
import pickle
import secrets
from contextlib import nullcontext
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)

import seneca
from seneca import fallback, resume
from seneca import transforms as T
from seneca.errors import StateError

TRAIN = T.Compose(
    [T.RandomResizedCrop(8), T.RandomHorizontalFlip(), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)]
)
PICTURES = 48


@pytest.fixture
def name():
    """A cache of this test's own."""
    return "unit-" + secrets.token_hex(6)


class Held(Dataset):
    """A worker gets its first item only when the event is set."""

    def __init__(self, event):
        self.event = event

    def __len__(self):
        return 22

    def __getitem__(self, index):
        if index == 0 and get_worker_info() is not None:
            assert self.event.wait(300)
        return index


class Numbers(Dataset):
    """Each item is its index."""

    def __init__(self, count=22):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == getattr(self, "bad", None):
            raise ValueError("bad")
        return index


def pictures(folder, **options):
    dataset = seneca.ImageFolder(folder, TRAIN)
    return seneca.DataLoader(dataset, **{"batch_size": 10, "shuffle": True, "cache_bytes": "2MiB", **options})


def numbers(dataset=None, **options):
    dataset = Numbers() if dataset is None else dataset
    defaults = {"batch_size": 4, "shuffle": True, "cache_bytes": "1MiB", "collate_fn": list}
    return seneca.DataLoader(dataset, **{**defaults, **options})


def batches_of(loader, count=None):
    """``(ids, images)`` of so many batches, or of all that are left in the epoch."""
    taken = []
    for batch in iter(loader):
        images, ids = (
            (batch[0].clone(), loader.last_indices.tolist())
            if len(batch) == 2 and torch.is_tensor(batch[0])
            else (torch.empty(0), batch)
        )
        taken.append((ids, images))
        if len(taken) == count:
            break
    return taken


def ids_of(batches):
    return [ids for ids, _ in batches]


def flat(batches):
    return [index for ids, _ in batches for index in ids]


def sent(state):
    """A state as it comes out of a checkpoint."""
    return pickle.loads(pickle.dumps(state))


def assert_equal(batches, others):
    assert ids_of(batches) == ids_of(others)
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(batches, others, strict=True))


def goes_on_everywhere(make, *, epochs=2, then=True):
    """Save at every step of two epochs; what is resumed there is what the run has done, to the bit.

    ``make`` makes a loader as the script would that is started anew. ``then``: the next epoch as well, which
    hangs on a generator's state.
    """
    torch.manual_seed(1)
    whole, states = [], []
    loader = make()
    for _ in range(epochs):
        batches = iter(loader)
        at = len(whole)
        whole.append([])
        states.append((at, 0, sent(loader.state_dict())))
        for batch in batches:
            whole[at] += [
                (loader.last_indices.tolist(), batch[0].clone())
                if torch.is_tensor(batch[0])
                else (batch, torch.empty(0))
            ]
            states.append((at, len(whole[at]), sent(loader.state_dict())))
    assert len(whole[0]) > 3
    for number, (epoch, step, state) in enumerate(states):
        torch.manual_seed(100 + number)
        resumed = make()
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        before = torch.get_rng_state()
        if step == 0 and "order" not in state and not resumed._generators():
            continue  # nothing is drawn yet, and nothing of it is known
        assert_equal(batches_of(resumed), whole[epoch][step:])
        if step and not resumed._generators():
            assert torch.equal(torch.get_rng_state(), before), "who restores it finds it as it was"
        if then and epoch + 1 < epochs:
            assert_equal(batches_of(resumed), whole[epoch + 1])


ALONE = {
    "cache=None": {"cache": None},
    "share=none": {"share": "none"},
    "share=decoded": {"share": "decoded"},
    "alone": {},
    "in their order": {"shuffle": False},
    "threads": {"num_workers": 2, "share": "none"},
    "threads that stay": {"num_workers": 1, "persistent_workers": True},
    "drop_last": {"drop_last": True, "cache": None},
}


@pytest.mark.parametrize("options", ALONE.values(), ids=ALONE)
def test_pictures_go_on_at_every_step_with_the_same_bits(picture_folder, name, options):
    options = {"cache": name, **options}
    generator = options.get("shuffle", True)

    def make():
        given = {"generator": torch.Generator().manual_seed(7)} if generator else {}
        return pictures(picture_folder, **options, **given)

    goes_on_everywhere(lambda: pictures(picture_folder, **options), then=False)
    goes_on_everywhere(make, then=generator)


def stock_sampler(kind):
    def make(count):
        samplers = {
            "weighted": lambda: WeightedRandomSampler(torch.arange(1.0, count + 1), 30),
            "subset": lambda: SubsetRandomSampler(range(3, count)),
            "replacing": lambda: RandomSampler(range(count), replacement=True, num_samples=25),
            "its generator": lambda: WeightedRandomSampler(
                torch.ones(count), 25, generator=torch.Generator().manual_seed(3)
            ),
        }
        return samplers[kind]()

    return make


class Remembers(Sampler):
    """Has a state of its own, which changes with every epoch."""

    def __init__(self):
        self.turn = 0

    def __iter__(self):
        self.turn += 1
        return iter([(index * 7 + self.turn) % 22 for index in range(22)])

    def __len__(self):
        return 22

    def state_dict(self):
        return {"turn": self.turn}

    def load_state_dict(self, state):
        self.turn = state["turn"]


class ByEpoch(Remembers):
    """Is told the epoch."""

    state_dict = load_state_dict = None
    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter([(index * 7 + self.epoch) % 22 for index in range(22)])


del ByEpoch.state_dict, ByEpoch.load_state_dict


class SavesItsPlace(Sampler):
    """As torchdata's samplers: its state says how far it has come, and it yields the rest."""

    def __init__(self):
        self.order, self.place, self.goes_on = [], 0, False

    def __iter__(self):
        if not self.goes_on or not self.order:
            self.order, self.place = torch.randperm(22).tolist(), 0
        self.goes_on = False
        while self.place < 22:
            self.place += 1
            yield self.order[self.place - 1]

    def state_dict(self):
        return {"order": self.order, "place": self.place}

    def load_state_dict(self, state):
        self.order, self.place, self.goes_on = state["order"], state["place"], True


class Placed:
    """An iterator that saves its place in an order that nobody can repeat."""

    def __init__(self):
        self.order = np.random.default_rng().permutation(22).tolist()

    def __iter__(self):
        return self

    def __next__(self):
        if not self.order:
            raise StopIteration
        return self.order.pop()

    def state_dict(self):
        return {"order": list(self.order)}

    def load_state_dict(self, state):
        self.order = list(state["order"])


class OfPlaced(Sampler):
    def __iter__(self):
        return Placed()

    def __len__(self):
        return 22


class OfBatches(Sampler):
    """Batches of several sizes, in torch's random order."""

    def __iter__(self):
        order = torch.randperm(22).tolist()
        return iter([order[:3], order[3:4], order[4:10], order[10:15], order[15:]])

    def __len__(self):
        return 5


OTHERS = {
    "alone": {},
    "cache=None": {"cache": None},
    "in their order": {"shuffle": False},
    "in their order, nothing shared": {"shuffle": False, "cache": None},
    "drop_last": {"drop_last": True},
    "singly": {"batch_size": None, "cache": None, "collate_fn": lambda item: [item]},
    "a list of batches": {"shuffle": None, "batch_size": 1, "batch_sampler": [[3, 1], [2], [5, 4, 9], [8]]},
    **{
        kind: {"shuffle": None, "sampler": stock_sampler(kind)}
        for kind in ("weighted", "subset", "replacing", "its generator")
    },
    "a state of its own": {"shuffle": None, "sampler": lambda count: Remembers()},
    "saves its place": {"shuffle": None, "sampler": lambda count: SavesItsPlace()},
    "iterators that save their place": {"shuffle": None, "sampler": lambda count: OfPlaced()},
    "told the epoch": {"shuffle": None, "sampler": lambda count: ByEpoch()},
    "a batch sampler of the user's": {
        "shuffle": None,
        "batch_size": 1,
        "batch_sampler": lambda count: OfBatches(),
    },
}


@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS)
def test_any_dataset_goes_on_at_every_step_in_the_same_order(name, options):
    def make():
        made = {
            key: one(22) if key in ("sampler", "batch_sampler") and callable(one) else one
            for key, one in options.items()
        }
        return numbers(**{"cache": name, **made})

    goes_on_everywhere(make, then=False)


@pytest.mark.parametrize("options", [{}, {"cache": None}, {"cache": None, "batch_size": None}])
def test_a_generator_goes_on_for_any_dataset_too(name, options):
    def make():
        generator = torch.Generator().manual_seed(3)
        single = {"collate_fn": lambda item: [item]} if "batch_size" in options else {}
        return numbers(**{"cache": name, "generator": generator, **options, **single})

    goes_on_everywhere(make)


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_sampler_that_saves_its_place_goes_on_behind_what_workers_have_prepared(name, epochs):
    for step in range(6):
        first, second = (
            numbers(shuffle=None, sampler=SavesItsPlace(), cache=name, num_workers=2) for _ in range(2)
        )
        for _ in range(epochs):
            list(first)
        batches = iter(first)
        seen = [next(batches) for _ in range(step)]
        second.load_state_dict(sent(first.state_dict()))
        rest = list(second)
        assert sorted(chain(*seen, *rest)) == list(range(22))
        assert step == 0 or rest == list(batches), "before its first batch another order will do"


def test_a_sampler_that_saves_its_place_goes_on_in_other_batches_and_in_torchs_loader(name):
    first, second = (numbers(shuffle=None, sampler=SavesItsPlace(), cache=name) for _ in range(2))
    second.batch_sampler.batch_size = 5
    list(first)
    batches = iter(first)
    seen = [next(batches), next(batches)]
    second.load_state_dict(sent(first.state_dict()))
    assert list(chain(*second)) == list(chain(*batches))
    drawn, resumed = (seneca.OpportunisticBatchSampler(SavesItsPlace(), 4) for _ in range(2))
    list(drawn)
    batches = iter(drawn)
    seen = [next(batches) for _ in range(4)]
    resumed.load_state_dict(sent(drawn.state_dict(yielded=2)))
    assert list(resumed) == [*seen[2:], *batches]


class Counting(IterableDataset):
    def __iter__(self):
        return iter(range(22))


def test_the_batches_of_a_stream_are_passed_over():
    goes_on_everywhere(lambda: numbers(Counting(), shuffle=None))


class Unsized(Dataset):
    """Torch loads it in the order of a sampler, which alone knows how many there are."""

    def __getitem__(self, index):
        return index


@pytest.mark.filterwarnings("ignore:.*has no length")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_without_a_length_goes_on_in_the_order_of_its_sampler(name, workers):
    for order in (
        {"sampler": range(3, 25)},
        {"batch_sampler": [[3, 1], [2], [9], [5], [8]], "batch_size": 1},
    ):
        options = {"shuffle": None, "cache": name, "num_workers": workers, **order}
        goes_on_everywhere(lambda options=options: numbers(Unsized(), **options))
        assert "Unsized has no length" in numbers(Unsized(), **options).explain()


def test_a_dataset_without_a_length_goes_on_behind_a_shared_one():
    def make():
        return DataLoader(seneca.SharedDataset(Unsized()), 4, sampler=range(22), collate_fn=list)

    assert list(make()) == [list(range(start, min(start + 4, 22))) for start in range(0, 22, 4)]
    first, second = (
        seneca.OpportunisticBatchSampler(SubsetRandomSampler(range(22)), 4, seed=3) for _ in range(2)
    )
    drawn = iter(first)
    seen = next(drawn)
    second.load_state_dict(first.state_dict())
    assert sorted([*seen, *chain(*second)]) == list(range(22))


def test_a_sampler_of_a_dataset_without_a_length_is_asked_for_indices_alone(name):
    class Own(Sampler):
        dataset = Unsized()

        def __iter__(self):
            return iter([4, 2, 9])

    assert list(numbers(shuffle=None, sampler=Own(), cache=name)) == [[4, 2, 9]]


# --- the same epoch under other terms -----------------------------------------------------------


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_an_epoch_that_is_cut_into_pieces_delivers_each_sample_once(picture_folder, data):
    """Each piece has a batch size, a number of threads and terms of sharing of its own."""
    native = data.draw(st.booleans(), label="native")
    shuffle = data.draw(st.booleans(), label="shuffle")
    count, delivered, state = PICTURES if native else 22, [], {}
    name = "unit-" + secrets.token_hex(6)
    while True:
        options = {
            "shuffle": shuffle,
            "batch_size": data.draw(st.integers(1, 25), label="batch_size"),
            "cache": data.draw(st.sampled_from([name, None]), label="cache"),
            "drop_last": data.draw(st.booleans(), label="drop_last"),
            "share": data.draw(st.sampled_from(["augmented", "none"]), label="share"),
        }
        if native:
            options["num_workers"] = data.draw(st.integers(0, 2), label="threads")
            loader = pictures(picture_folder, **options)
        else:
            loader = numbers(**options)
        loader.load_state_dict(state)
        take = data.draw(st.none() | st.integers(1, 4), label="batches")
        batches = batches_of(loader, take)
        assert {len(ids) for ids in ids_of(batches)[: None if options["drop_last"] else -1]} <= {
            options["batch_size"]
        }
        delivered += flat(batches)
        state = sent(loader.state_dict())
        if "order" not in state:
            break
    assert len(set(delivered)) == len(delivered)
    assert len(delivered) > count - options["batch_size"] if options["drop_last"] else len(delivered) == count


def test_with_drop_last_the_rest_is_as_many_whole_batches_as_it_fills():
    loader = numbers(cache=None, batch_size=5, drop_last=True)
    seen = flat(batches_of(loader, 2))
    smaller = numbers(cache=None, batch_size=4, drop_last=True)
    smaller.load_state_dict(loader.state_dict())
    rest = batches_of(smaller)
    assert [len(ids) for ids in ids_of(rest)] == [4, 4, 4], (
        "22 - 10; two of them the first would have dropped"
    )
    assert len(set(seen + flat(rest))) == 22


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("then", [{}, {"share": "none"}, {"cache": None}])
def test_who_shared_and_shares_no_more_and_the_other_way_round(picture_folder, name, native, then):
    for before, after in (
        ({"cache": name}, {"cache": name, **then}),
        ({"cache": name, **then}, {"cache": name}),
    ):
        first, second = (
            pictures(picture_folder, **options) if native else numbers(**options)
            for options in (before, after)
        )
        seen = flat(batches_of(first, 3))
        second.load_state_dict(first.state_dict())
        rest = flat(batches_of(second))
        assert sorted(seen + rest) == list(range(PICTURES if native else 22))
        assert sorted(flat(batches_of(second))) == sorted(seen + rest)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("then", [{}, {"share": "none"}, {"cache": None}])
def test_the_rest_has_one_order_however_often_it_is_resumed(picture_folder, name, native, then):
    def go_on(state):
        options = {"cache": name, **then}
        loader = pictures(picture_folder, **options) if native else numbers(**options)
        loader.load_state_dict(state)
        return loader

    first = pictures(picture_folder, cache=name) if native else numbers(cache=name)
    assert batches_of(first, 1)
    rest = flat(batches_of(go_on(first.state_dict())))
    again = go_on(first.state_dict())
    taken = flat(batches_of(again, 2))
    assert taken + flat(batches_of(go_on(again.state_dict()))) == rest


def test_from_threads_to_torchs_workers_and_back(picture_folder, name):
    native = pictures(picture_folder, cache=name)
    seen = flat(batches_of(native, 2))
    of_torch = pictures(
        picture_folder, cache=name, collate_fn=lambda items: torch.utils.data.default_collate(items)
    )
    assert "loaded by torch's workers" in of_torch.explain()
    of_torch.load_state_dict(native.state_dict())
    next(iter(of_torch))
    state = of_torch.state_dict()
    by_both = np.flatnonzero(resume.unpacked(state["done"])).tolist()
    assert len(by_both) == 30 and {*seen} < {*by_both}
    native.load_state_dict(state)
    assert sorted(by_both + flat(batches_of(native))) == list(range(PICTURES))


def test_a_subset_goes_on_as_the_subset_that_it_is(picture_folder, name):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    indices = np.random.default_rng(1).permutation(PICTURES)[:30].tolist()
    for cache in (name, None):
        first, second, other = (
            seneca.DataLoader(
                torch.utils.data.Subset(dataset, chosen), 8, shuffle=True, cache=cache, cache_bytes="2MiB"
            )
            for chosen in (indices, indices, indices[1:] + indices[:1])
        )
        seen = flat(batches_of(first, 2))
        state = sent(first.state_dict())
        second.load_state_dict(state)
        assert sorted(seen + flat(batches_of(second))) == sorted(indices)
        with pytest.raises(StateError, match="its samples have changed"):
            other.load_state_dict(state)


# --- when it is asked ---------------------------------------------------------------------------


def test_the_batch_just_yielded_is_delivered_and_what_is_prepared_ahead_is_not(picture_folder, name):
    loader = pictures(picture_folder, cache=name, num_workers=2, prefetch_factor=2, batch_size=5)
    batches = iter(loader)
    for step in range(1, 11):
        next(batches)
        assert resume.unpacked(loader.state_dict()["done"]).sum() == min(5 * step, PICTURES)


@pytest.mark.parametrize("in_order", [True, False])
def test_what_workers_have_made_and_nobody_was_given_is_not_delivered(name, in_order):
    loader = numbers(cache=name, num_workers=2, prefetch_factor=3, in_order=in_order)
    seen, batches = [], iter(loader)
    for _ in range(2):
        seen += next(batches)
        done = resume.unpacked(loader.state_dict()["done"])
        assert np.flatnonzero(done).tolist() == sorted(seen)
    resumed = numbers(cache=name)
    resumed.load_state_dict(sent(loader.state_dict()))
    assert sorted(seen + flat(batches_of(resumed))) == list(range(22))


def test_workers_that_answer_out_of_turn_leave_gaps_that_are_filled():
    context = multiprocessing.get_context("fork")
    held = Held(context.Event())
    options = dict(num_workers=2, prefetch_factor=2, in_order=False, multiprocessing_context=context)
    loader = numbers(held, cache=None, shuffle=False, **options)
    seen, batches = [], iter(loader)
    for _ in range(2):
        seen += next(batches)
    held.event.set()  # so that the worker can leave
    assert 0 not in seen and len(seen) == 8
    resumed = numbers(held, cache=None, shuffle=False)
    resumed.load_state_dict(sent(loader.state_dict()))
    assert flat(batches_of(resumed)) == [index for index in range(22) if index not in seen]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("native", [True, False])
def test_after_a_break_the_state_stays_what_it_was_until_the_next_iter(picture_folder, name, native, workers):
    make = pictures if native else numbers
    of = (picture_folder,) if native else ()
    loader = make(*of, cache=name, num_workers=workers)
    seen = flat(batches_of(loader, 2))
    state = loader.state_dict()
    resumed = make(*of, cache=name)
    resumed.load_state_dict(state)
    assert sorted(seen + flat(batches_of(resumed))) == list(range(PICTURES if native else 22))
    assert len(flat(batches_of(loader))) == (PICTURES if native else 22), "here the next epoch is whole"


def test_at_the_end_and_before_the_first_the_next_epoch_begins(name):
    for cache in (name, None):
        loader = numbers(cache=cache)
        before = loader.state_dict()
        assert (before["epoch"], "done" in before) == (0, False)
        for _ in loader:
            state = loader.state_dict()
        assert state["epoch"] == 0 and resume.unpacked(state["done"]).sum() == 22
        ended = loader.state_dict()
        assert (ended["epoch"], "done" in ended) == (1, False)
        loader.load_state_dict(state)
        assert list(loader) == [] and len(flat(batches_of(loader))) == 22
        loader.load_state_dict(ended)
        assert len(flat(batches_of(loader))) == 22 and loader.state_dict()["epoch"] == 2


def test_a_state_given_while_iterating_is_for_the_next_iter(name):
    loader = numbers(cache=name, shuffle=False)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    next(batches)
    loader.load_state_dict(state)
    assert loader.state_dict() == state
    assert sum(map(len, batches)) == 14
    assert flat(batches_of(loader)) == list(range(4, 22))
    loader.load_state_dict({})
    assert flat(batches_of(loader)) == list(range(22))


def test_an_iterator_that_nobody_has_used_keeps_the_state_for_the_next(name):
    loader = numbers(cache=name)
    seen = flat(batches_of(loader, 2))
    resumed = numbers(cache=name)
    resumed.load_state_dict(loader.state_dict())
    iter(resumed)
    assert sorted(seen + flat(batches_of(resumed))) == list(range(22))


def test_workers_that_persist_go_on_too(name):
    loader = numbers(cache=name, num_workers=1, persistent_workers=True)
    seen = flat(batches_of(loader, 2))
    state = loader.state_dict()
    assert len(flat(batches_of(loader))) == 22
    loader.load_state_dict(state)
    assert sorted(seen + flat(batches_of(loader))) == list(range(22))
    assert len(flat(batches_of(loader))) == 22


def test_pixels_are_those_of_the_epoch_and_not_of_the_first(picture_folder):
    """Epoch 3 of a run that is resumed there is that of the run that got there by itself."""

    def make():
        return pictures(picture_folder, cache=None, generator=torch.Generator().manual_seed(1), num_workers=1)

    whole = make()
    for _ in range(3):
        state = whole.state_dict()
        expected = batches_of(whole)
    resumed = make()
    resumed.load_state_dict(sent(state))
    assert_equal(batches_of(resumed), expected)


def test_what_is_taken_on_the_way_is_delivered_when_it_is_handed_out():
    epoch = resume.Epoch()
    epoch.begin("samples", SequentialSampler(range(9)), lambda: None)
    epoch.watched = True
    epoch.made((0, 1))
    epoch.made((2, 3))
    epoch.hand_out()
    assert epoch.state()["done"] == 2
    epoch.end()
    epoch.hand_out()
    assert epoch.state()["done"] == 4 and not epoch.ended
    epoch.hand_out()
    epoch.hand_out()
    assert epoch.ended


@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch_that_is_copied_ahead_is_not_delivered(monkeypatch, workers):
    class OfCuda:
        def wait_stream(self, other):
            """Nothing is copied here."""

    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: OfCuda())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    loader = numbers(cache=None, device="meta", shuffle=False, num_workers=workers)
    batches = iter(loader)
    batches._stream = OfCuda()
    for batch in batches:
        assert batches._next is not None
        state = loader.state_dict()
        assert state["done"] == batch[-1] + 1
    assert "done" not in loader.state_dict()
    loader.load_state_dict(state)
    assert list(loader) == []


def test_many_batches_are_counted_as_few():
    epoch = resume.Epoch()
    order = np.random.default_rng(3).permutation(20_000)
    epoch.begin("seneca", RandomSampler(range(20_000)), lambda: None)
    for step, batch in enumerate(order.reshape(-1, 50)):
        epoch.made(batch)
        if step % 37 == 0:
            assert np.array_equal(np.flatnonzero(epoch.done()), np.sort(order[: 50 * step + 50]))
    assert epoch.state()["done"] == 20_000


def test_a_state_survives_torch_save_with_its_safe_loading(name, tmp_path):
    for options in ({"cache": name}, {"cache": None}, {"cache": None, "generator": torch.Generator()}):
        loader = numbers(**options)
        batches_of(loader, 2)
        state = loader.state_dict()
        torch.save(state, tmp_path / "state")
        assert torch.load(tmp_path / "state", weights_only=True) == state


# --- samples that fail --------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_that_has_failed_is_used_up_as_in_the_run_itself(workers):
    dataset = Numbers()
    dataset.bad = 5
    loader = numbers(dataset, cache=None, shuffle=False, num_workers=workers)
    batches = iter(loader)
    next(batches)
    with pytest.raises(ValueError, match="bad"):
        next(batches)
    resumed = numbers(cache=None, shuffle=False)
    resumed.load_state_dict(loader.state_dict())
    assert flat(batches_of(resumed)) == list(range(8, 22)) == [index for batch in batches for index in batch]


@pytest.mark.filterwarnings("ignore:.*skipped a sample")
@pytest.mark.parametrize("on_error", ["skip", "raise"])
@pytest.mark.parametrize("drop_last", [True, False])
def test_a_damaged_picture_is_not_met_again(picture_folder, name, on_error, drop_last):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    for index in (1, 7, 30):
        with open(dataset.samples[index][0], "wb") as file:
            file.write(b"damaged")

    def make(**options):
        return pictures(picture_folder, on_error=on_error, shuffle=False, drop_last=drop_last, **options)

    def go_on(batches, count):
        ids = []
        while count:
            count -= 1
            try:
                next(batches)
            except StopIteration:
                break
            except seneca.errors.DecodeError:
                ids.append([])
                continue
            ids.append(loader.last_indices.tolist())
        return ids

    for step in range(1, 5):
        loader = make(cache=None, num_workers=2)
        batches = iter(loader)
        seen = go_on(batches, step)
        state, skipped = sent(loader.state_dict()), loader.stats()["skipped"]
        rest = go_on(batches, 9)
        loader = make(cache=None)
        loader.load_state_dict(state)
        resumed = go_on(iter(loader), 9)
        assert skipped + loader.stats()["skipped"] == (3 if on_error == "skip" else 0)
        assert sorted(chain(*resumed)) == sorted(chain(*rest)) and resumed.count([]) == rest.count([])
        assert not set(chain(*seen)) & set(chain(*resumed))


# --- sizes and errors ---------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 22, 1000, 20_000])
@pytest.mark.parametrize("options", [{}, {"cache": None}, {"shuffle": False}])
@pytest.mark.parametrize("generator", [True, False])
def test_a_state_is_at_most_a_bit_a_sample_and_a_kilobyte(name, count, options, generator):
    given = {"generator": torch.Generator().manual_seed(2**63 + 11)} if generator else {}
    loader = numbers(
        Numbers(count), cache_bytes="16MiB", batch_size=-(-count // 4), **{"cache": name, **options, **given}
    )
    for _ in range(3):
        assert len(pickle.dumps(loader.state_dict())) <= count / 8 + 1024
        for _ in loader:
            assert len(pickle.dumps(loader.state_dict())) <= count / 8 + 1024


def test_a_generator_that_was_used_for_long_is_saved_whole():
    generator = torch.Generator().manual_seed(5)
    torch.rand(3 * resume.NUMBERS, generator=generator)
    torch.randn(3, generator=generator)
    state = generator.get_state()
    name = resume.named(state)
    assert isinstance(name, bytes) and len(name) < 4000
    assert torch.equal(resume.unnamed(name), state)
    assert torch.equal(
        resume.unnamed(resume.named(torch.Generator().get_state())), torch.Generator().get_state()
    )


def mid_epoch(**options):
    loader = numbers(**{"cache": None, **options})
    batches_of(loader, 2)
    return loader.state_dict()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda state: state | {"seneca_state": resume.VERSION + 1},
            "newer Seneca.*version is 2.*up to 1.*upgrade",
        ),
        (lambda state: state | {"n_samples": 23}, "of 23 samples, but the dataset has 22"),
        (lambda state: {"_num_yielded": 3}, "no state that Seneca has saved"),
        (lambda state: 3, "no state that Seneca has saved, but int"),
        (lambda state: mid_epoch(shuffle=False), "SequentialSampler.*but this goes by.*RandomSampler"),
        (lambda state: mid_epoch(generator=torch.Generator()), "of a generator; give the loader one"),
        (
            lambda state: mid_epoch(batch_size=1, shuffle=None, batch_sampler=OfBatches()),
            "of a batch sampler, OfBatches",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused(spoil, message):
    loader = numbers(cache=None)
    with pytest.raises(StateError, match=message):
        loader.load_state_dict(spoil(mid_epoch()))
    assert len(flat(batches_of(loader))) == 22


def test_a_state_of_another_dataset_is_refused_with_both_named(name):
    data, other = TensorDataset(torch.arange(22)), TensorDataset(torch.arange(22) * 2)
    loader = numbers(data, cache=name)
    batches_of(loader, 2)
    state = loader.state_dict()
    changed = numbers(other, cache=name + "-2")
    with pytest.raises(StateError, match=f"of the dataset {state['dataset']}, but this is [0-9a-f]{{32}}"):
        changed.load_state_dict(state)
    changed.load_state_dict(state | {"dataset": None})
    assert len(flat(batches_of(changed))) == 14


# --- in torch's own loader ----------------------------------------------------------------------


def stock(name, *, shuffle=True, batch_size=4, workers=0, dataset=None, **options):
    shared = seneca.SharedDataset(dataset or Numbers(), cache=name, cache_bytes="1MiB")
    sampler = RandomSampler(shared) if shuffle else SequentialSampler(shared)
    batches = seneca.OpportunisticBatchSampler(sampler, batch_size, **options)
    return DataLoader(shared, batch_sampler=batches, collate_fn=list, num_workers=workers), batches


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_batch_sampler_goes_on_in_torchs_loader(name, cache, shuffle):
    name = name if cache else None
    for step in range(7):
        loader, batches = stock(name, shuffle=shuffle)
        taken = iter(loader)
        seen = [next(taken) for _ in range(step)] if step < 6 else list(taken)
        state = sent(batches.state_dict())
        rest = list(taken)
        resumed, of_resumed = stock(name, shuffle=shuffle)
        of_resumed.load_state_dict(state)
        if 0 < step < 6:
            assert list(resumed) == rest
            of_resumed.load_state_dict(state)
            other, of_other = stock(name, shuffle=shuffle, batch_size=5)
            of_other.load_state_dict(state)
            assert sorted(chain(*seen, *other)) == list(range(22))
        assert sorted(chain(*resumed)) == (list(range(22)) if step in (0, 6) else sorted(chain(*rest)))
        assert len(pickle.dumps(state)) < 1024


def test_batches_that_torch_has_drawn_ahead_are_taken_back(name):
    loader, batches = stock(name, workers=2)
    taken = iter(loader)
    seen = next(taken) + next(taken)
    assert resume.unpacked(batches.state_dict()["done"]).sum() == 22, "all are drawn"
    state = batches.state_dict(yielded=2)
    resumed, of_resumed = stock(name, workers=2)
    of_resumed.load_state_dict(sent(state))
    taken = iter(resumed)
    seen += next(taken)
    last, of_last = stock(name)
    of_last.load_state_dict(sent(of_resumed.state_dict(yielded=1)))
    assert sorted([*seen, *chain(*last)]) == list(range(22))
    with pytest.raises(ValueError, match="9 batches are said to be delivered of 6"):
        batches.state_dict(yielded=9)


def test_only_so_many_batches_can_be_taken_back(name, monkeypatch):
    monkeypatch.setattr("seneca.resumable.REMEMBERED", 3)
    loader, batches = stock(name, dataset=Numbers(300), batch_size=2, batches_ahead=5)
    list(loader)
    assert resume.unpacked(batches.state_dict(yielded=145)["done"]).sum() == 290
    with pytest.raises(ValueError, match=r"0 batches .* of 150 .* the last"):
        batches.state_dict(yielded=0)


def test_torchs_batch_sampler_over_a_plain_dataset_goes_on_in_its_place():
    def make():
        return seneca.OpportunisticBatchSampler(RandomSampler(range(22)), 4)

    first, second = make(), make()
    drawn = iter(first)
    seen = next(drawn) + next(drawn)
    second.load_state_dict(first.state_dict())
    assert list(second) == list(drawn)
    assert len(seen) == 8


# --- beside another job -------------------------------------------------------------------------


@pytest.mark.parametrize("native", [True, False])
def test_beside_another_job_the_rest_is_what_the_run_would_have_delivered(picture_folder, name, native):
    """The job is cut off at every step, and goes on as another process would, beside the one that stayed."""
    count = PICTURES if native else 60

    def make(job, **options):
        terms = {"cache": name, "job": job, "split": "20-20-60", **options}
        return pictures(picture_folder, **terms) if native else numbers(Numbers(count), **terms)

    def take(loader, batches, others):
        ids = []
        for _, batch in zip(range(batches), batches_in := iter(loader), strict=False):
            ids += loader.last_indices.tolist() if native else batch
            next(others, None)
        del batches_in
        return ids

    substituted = 0
    for step in range(1, 5):
        cut, stays = make("a"), make("b", batch_size=13)
        others = iter(stays)
        next(others)  # is ahead, and takes other samples first
        seen = take(cut, step, others)
        state = sent(cut.state_dict())
        assert state["order"] == "seneca" and len(pickle.dumps(state)) < count / 8 + 1024
        assert np.flatnonzero(resume.unpacked(state["done"])).tolist() == sorted(seen)
        resumed = make("c", batch_size=7, num_workers=1 if native else 0)
        resumed.load_state_dict(state)
        rest = take(resumed, 99, others)
        assert sorted(seen + rest) == list(range(count))
        substituted += cut.stats()["served"]["augmented"] + resumed.stats()["served"]["augmented"]
    assert substituted, "or nothing was put to the test"


@pytest.mark.parametrize("ranks", [None, 1, 3])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("stays", [True, False])
def test_what_drop_last_drops_hangs_on_no_neighbour(picture_folder, name, native, ranks, stays):
    """Beside others the order is the job's own, and yet at every step the same samples are left."""

    def make(job):
        dataset = seneca.ImageFolder(picture_folder, TRAIN) if native else Numbers(PICTURES)
        terms = {"cache": name, "cache_bytes": "2MiB", "job": job, "collate_fn": None if native else list}
        if ranks:
            terms["sampler"] = DistributedSampler(dataset, ranks, 0)
        else:
            terms |= {"shuffle": True, "generator": torch.Generator().manual_seed(3)}
        return seneca.DataLoader(dataset, 7, drop_last=True, **terms)

    alone = flat(batches_of(make("alone")))
    neighbour = make("other")
    assert batches_of(neighbour)
    run = make("job")
    taken, states = [], [sent(run.state_dict())]
    for batch in run:
        taken += [run.last_indices.tolist() if native else batch]
        states.append(sent(run.state_dict()))
    assert sorted(chain(*taken)) == sorted(alone) and [*chain(*taken)] != alone
    if not stays:
        del neighbour
        gc.collect()
    for step, state in enumerate(states[:-1]):
        resumed = make("job again")
        resumed.load_state_dict([state] if ranks is None else state)
        assert sorted(flat(batches_of(resumed))) == sorted(chain(*taken[step:])), step


def test_share_none_is_the_same_to_the_bit_whatever_the_neighbours_and_the_workers(picture_folder, name):
    torch.manual_seed(4)
    alone = batches_of(pictures(picture_folder, cache=None))
    neighbour = iter(pictures(picture_folder, cache=name, job="other", batch_size=7))
    for workers in (0, 2):
        torch.manual_seed(4)
        loader = pictures(picture_folder, cache=name, share="none", num_workers=workers)
        batches = []
        for images, _ in loader:
            next(neighbour, None)
            batches.append((loader.last_indices.tolist(), images.clone()))
            if len(batches) == 2:
                state = loader.state_dict()
        assert_equal(batches, alone)
        resumed = pictures(picture_folder, cache=name, share="none", num_workers=2 - workers)
        resumed.load_state_dict(state)
        assert_equal(batches_of(resumed), alone[2:])


# --- ranks --------------------------------------------------------------------------------------


def ranks(make, of, *, shuffle=True, drop=False, epoch=3, **options):
    """The loaders of so many ranks."""
    dataset = Numbers()
    loaders = []
    for rank in range(of):
        sampler = DistributedSampler(dataset, of, rank, shuffle=shuffle, seed=2, drop_last=drop)
        sampler.set_epoch(epoch)
        loaders.append(make(sampler=sampler, **options))
    return loaders


@pytest.fixture(params=["native", "shared", "torch"])
def rank_loader(request, picture_folder, name):
    """``(make, count)`` of a rank's loader, given its sampler."""
    if request.param == "native":
        dataset = seneca.ImageFolder(picture_folder, TRAIN)
        dataset.samples = dataset.samples[:22]

        def make(sampler, **options):
            return seneca.DataLoader(
                dataset, sampler=sampler, **{"batch_size": 4, "cache": name, "cache_bytes": "2MiB", **options}
            )

        return make
    cache = {} if request.param == "torch" else {"cache": name, "job": "ranks"}
    return lambda sampler, **options: numbers(
        shuffle=None, sampler=sampler, **{"cache": None, **cache, **options}
    )


def rank_batches(loader, count=None):
    return ids_of(batches_of(loader, count))


@pytest.mark.parametrize("shuffle", [True, False])
def test_each_rank_goes_on_at_every_step_with_its_own_state(rank_loader, shuffle):
    for step in range(1, 4):
        for first, second in zip(
            ranks(rank_loader, 2, shuffle=shuffle),
            ranks(rank_loader, 2, epoch=0, shuffle=shuffle),
            strict=True,
        ):
            whole = rank_batches(first)
            first.load_state_dict({})
            seen = rank_batches(first, step)
            assert seen == whole[:step]
            second.load_state_dict(sent(first.state_dict()))
            assert rank_batches(second) == whole[step:], "of the epoch that was set, which here nobody sets"


@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (2, 1), (1, 2), (4, 2)])
def test_the_states_of_all_ranks_go_on_in_another_number_of_them(rank_loader, before, after, drop):
    for step in (1, 2):
        first = ranks(rank_loader, before, drop=drop, batch_size=2)
        seen = [index for loader in first for batch in rank_batches(loader, step) for index in batch]
        states = [sent(loader.state_dict()) for loader in first]
        second = ranks(rank_loader, after, drop=drop, batch_size=3)
        for loader in second:
            loader.load_state_dict(states if drop else seneca.merge_states(states[::-1]))
        rest = [rank_batches(loader) for loader in second]
        assert len({sum(map(len, batches)) for batches in rest}) == 1, "each has as many"
        delivered = [index for batches in rest for batch in batches for index in batch]
        left = 22 - len(seen)
        assert set(seen).isdisjoint(delivered)
        assert len(set(delivered)) == (left - left % after if drop else left)
        assert len(delivered) - len(set(delivered)) == (0 if drop else -left % after)


def test_what_was_dealt_anew_goes_on_and_is_dealt_again(rank_loader):
    states, seen = [], []
    for of in (2, 3, 3, 2, 1):
        loaders = ranks(rank_loader, of, batch_size=2)
        for loader in loaders:
            loader.load_state_dict(states or {})
        seen += [index for loader in loaders for batch in rank_batches(loader, 1) for index in batch]
        states = [sent(loader.state_dict()) for loader in loaders]
    assert len(seen) == 22 and len(set(seen)) == 22


def test_ranks_and_a_single_process_take_over_from_each_other(rank_loader, name):
    dataset = Numbers()
    for sampler in (RandomSampler, SequentialSampler):
        first = ranks(rank_loader, 2)
        seen = [index for loader in first for batch in rank_batches(loader, 2) for index in batch]
        single = rank_loader(sampler=sampler(first[0].dataset))
        single.load_state_dict([loader.state_dict() for loader in first])
        seen += rank_batches(single, 1)[0]
        merged = seneca.merge_states([sent(single.state_dict())])
        for loader in (third := ranks(rank_loader, 2, shuffle=sampler is RandomSampler)):
            loader.load_state_dict(merged)
        rest = [index for loader in third for batch in rank_batches(loader) for index in batch]
        assert sorted({*seen, *rest}) == list(range(22)) and set(seen).isdisjoint(rest)
    assert len(dataset) == 22


def test_one_ranks_state_alone_is_refused_where_ranks_differ(rank_loader):
    first = ranks(rank_loader, 2)
    states = [(rank_batches(loader, 1), loader.state_dict())[1] for loader in first]
    of_three = ranks(rank_loader, 3)[0]
    with pytest.raises(
        StateError, match=r"is of rank 1 of 2, and this is rank 0 of 3: .* list of .* all 2 ranks"
    ):
        of_three.load_state_dict(states[1])
    out_of_turn = states[0] | {"done": b"\x05"}
    with pytest.raises(StateError, match="rank 0 of 2, and this is rank 1 of 2"):
        ranks(rank_loader, 2)[1].load_state_dict(out_of_turn)
    with pytest.raises(StateError, match="divided among 2 ranks, and the states of ranks 1 are missing"):
        of_three.load_state_dict(states[:1])
    with pytest.raises(StateError, match=r"not of one step of one run: their epoch is [03] and 7"):
        of_three.load_state_dict([states[0], states[1] | {"epoch": 7}])
    with pytest.raises(StateError, match="states of ranks are a list"):
        of_three.load_state_dict([3])
    rank_batches(first[0])
    with pytest.raises(StateError, match="not of one step"):
        of_three.load_state_dict([first[0].state_dict(), states[1]])
    ahead = ranks(rank_loader, 2)[1]
    rank_batches(ahead, 2)
    for loader, at in zip(
        ranks(rank_loader, 2), (4, 8), strict=True
    ):  # as many as before: each takes its own
        loader.load_state_dict([ahead.state_dict(), states[0]])
        assert [*chain(*rank_batches(loader))] == [*loader.sampler][at:]


@pytest.mark.parametrize(("workers", "begun"), [(0, False), (0, True), (1, True)])
@pytest.mark.parametrize("before", [2, 1])
def test_what_is_dealt_anew_can_be_saved_before_its_first_batch(rank_loader, before, workers, begun):
    first = ranks(rank_loader, before, batch_size=2)
    seen = [index for loader in first for batch in rank_batches(loader, 1) for index in batch]
    states = [sent(loader.state_dict()) for loader in first]
    second = ranks(rank_loader, 3, num_workers=workers)
    for loader in second:
        loader.load_state_dict(seneca.merge_states(states))
    walks = [iter(loader) for loader in second] if begun else []
    states = [sent(loader.state_dict()) for loader in second]
    del walks
    for after in (3, 2, 1):
        for saved in (states, seneca.merge_states(states[::-1]), states[1]):
            third = ranks(rank_loader, after)
            for loader in third:
                loader.load_state_dict(saved)
            rest = [index for loader in third for batch in rank_batches(loader) for index in batch]
            assert sorted({*seen, *rest}) == list(range(22)) and set(seen).isdisjoint(rest)
            assert len(rest) == -(-(22 - len(seen)) // after) * after


@pytest.mark.parametrize("options", [{"share": "decoded"}, {"share": "none"}, {"cache": None}])
def test_one_ranks_state_does_for_all_where_each_has_delivered_so_many_in_order(rank_loader, options):
    """Lightning saves what rank 0 says, and gives it to every rank."""
    for step in (1, 2, 3):
        first = ranks(rank_loader, 2, **options)
        seen = [rank_batches(loader, step) for loader in first]
        state = sent(first[0].state_dict())
        for before, loader in zip(seen, ranks(rank_loader, 2), strict=True):
            loader.load_state_dict(state)
            whole = [*loader.sampler]
            assert [*chain(*before), *chain(*rank_batches(loader))] == whole
    for loader in ranks(rank_loader, 3):
        loader.load_state_dict(state)
        assert rank_batches(loader) == [], "it was the last batch"
        assert len([*chain(*rank_batches(loader))]) == 8


def test_one_ranks_state_does_for_all_in_an_order_that_is_not_random_or_of_equal_copies(picture_folder, name):
    same = seneca.ImageFolder(picture_folder, T.Compose([T.Resize(9), T.CenterCrop(8)]))
    options = {"cache": name, "cache_bytes": "2MiB", "job": "ranks"}
    kinds = [
        lambda sampler: numbers(shuffle=None, sampler=sampler, **options),
        lambda sampler: seneca.DataLoader(same, 4, sampler=sampler, **options | {"cache": name + "-same"}),
    ]
    for make, dataset, shuffle in zip(kinds, (Numbers(), same), (False, True), strict=True):
        loaders = [make(DistributedSampler(dataset, 2, rank, shuffle=shuffle)) for rank in (0, 0, 1)]
        rank_batches(loaders[0], 2)
        state = sent(loaders[0].state_dict())
        for loader in loaders[1:]:
            loader.load_state_dict(state)
            assert [*chain(*rank_batches(loader))] == [*loader.sampler][8:]


def refuses_alone(make, state, numbers_of_ranks=(2, 3), **options):
    for of in numbers_of_ranks:
        with pytest.raises(StateError, match=r'is of rank 0 of 2, .* list of .* share="decoded"'):
            ranks(make, of, **options)[1].load_state_dict(state)


@pytest.mark.parametrize("rank_loader", ["native", "shared"], indirect=True)
@pytest.mark.parametrize("drop_last", [False, True])
def test_one_ranks_state_says_nothing_of_others_whose_samples_may_have_come_out_of_turn(
    rank_loader, drop_last
):
    """Its own have not: of the others' that is known only at the epoch's end."""
    last = 2 if drop_last else 3
    for step in range(1, last + 1):
        first = ranks(rank_loader, 2, drop_last=drop_last)
        assert len(rank_batches(first[0], step)) == step
        state = sent(first[0].state_dict())
        assert isinstance(state["done"], int)
        if step < last:
            refuses_alone(rank_loader, state)
            continue
        refuses_alone(rank_loader, state, (3,) if drop_last else (), drop_last=True)
        for loader in ranks(rank_loader, 2, drop_last=drop_last):
            loader.load_state_dict(state)
            assert rank_batches(loader) == [], "it was the last batch"
            assert len(rank_batches(loader)) == last


def test_one_ranks_state_says_nothing_of_others_where_it_is_older_than_the_note(rank_loader):
    first = ranks(rank_loader, 2, share="none")[0]
    rank_batches(first, 1)
    state = first.state_dict()
    assert state.pop("in_turn")
    refuses_alone(rank_loader, state)


@pytest.mark.parametrize("rank_loader", ["native", "shared"], indirect=True)
def test_what_went_on_without_sharing_may_have_begun_out_of_turn(rank_loader):
    state = {}
    for options in ({}, {"share": "none"}):
        loader = ranks(rank_loader, 2, **options)[0]
        loader.load_state_dict(state)
        rank_batches(loader, 1)
        state = sent(loader.state_dict())
    assert state["done"] == 8
    refuses_alone(rank_loader, state)


def test_one_ranks_state_says_nothing_of_workers_that_may_overtake_each_other():
    def make(sampler, **options):
        return numbers(shuffle=None, sampler=sampler, cache=None, **options)

    for in_order in (True, False):
        first = ranks(make, 2, in_order=in_order, num_workers=1)[0]
        rank_batches(first, 1)
        state = sent(first.state_dict())
        assert state["done"] == 4
        if in_order:
            ranks(make, 2)[1].load_state_dict(state)
        else:
            refuses_alone(make, state)


@pytest.mark.filterwarnings("ignore:.*skipped a sample")
@pytest.mark.parametrize("bad", [0, 18])
def test_one_ranks_state_says_nothing_of_the_bad_samples_of_others(picture_folder, bad):
    """With 18 bad ones of 24 its first two batches go through all that it has, and two are yet to come."""
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    for index in range(8, 8 + 2 * bad, 2):
        with open(dataset.samples[index][0], "wb") as file:
            file.write(b"damaged")

    def make(sampler, **options):
        sampler = DistributedSampler(dataset, sampler.num_replicas, sampler.rank, shuffle=False)
        return seneca.DataLoader(dataset, 6, sampler=sampler, cache=None, on_error="skip")

    for step in range(1, 5):
        first = ranks(make, 2)[0]
        batches_of(first, step)
        state = sent(first.state_dict())
        assert state["done"] == (6 * step if not bad else 24 if step > 1 else state["done"])
        if step < 4:
            refuses_alone(make, state)
        else:
            for of in (2, 3):
                ranks(make, of)[1].load_state_dict(state)


def test_what_torch_has_yielded_of_a_portion_is_not_repeated_where_bad_samples_are_skipped(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    sampler = DistributedSampler(dataset, 2, 0)
    by_torch = seneca.DataLoader(dataset, 5, sampler=sampler, cache=None, worker_init_fn=print)
    assert len(next(iter(by_torch))[1]) == 5
    loader = seneca.DataLoader(dataset, 5, sampler=sampler, cache=None, on_error="skip")
    loader.load_state_dict(sent(by_torch.state_dict()))
    assert [*chain(*rank_batches(loader))] == [*sampler][5:]
    assert loader.stats()["repeated"] == 0


def test_what_was_only_drawn_ends_no_portion(name):
    shared = seneca.SharedDataset(Numbers(), cache=name, cache_bytes="1MiB", job="ranks")

    def make(sampler):
        sampler = DistributedSampler(shared, sampler.num_replicas, sampler.rank)
        return seneca.OpportunisticBatchSampler(sampler, 4)

    batches = ranks(make, 2)[0]
    assert len(list(batches)) == 3
    drawn = iter(batches)
    assert len([next(drawn) for _ in range(3)]) == 3
    refuses_alone(make, batches.state_dict(yielded=2))
    ranks(make, 3)[1].load_state_dict(batches.state_dict(yielded=3))


def test_processes_to_which_batches_are_dealt_from_outside_go_on_alike(name, monkeypatch):
    """As accelerate deals them: each process has the same order, and alone the same again."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    (_, first), (_, second) = stock(name), stock(name)
    drawn = iter(first)
    seen = next(drawn) + next(drawn)
    second.load_state_dict(sent(first.state_dict()))
    rest = list(drawn)
    assert list(second) == rest
    monkeypatch.delenv("WORLD_SIZE")
    _, alone = stock(name)
    alone.load_state_dict(first.state_dict(yielded=2))
    assert list(alone) == rest
    drawn = iter(alone)
    seen = next(drawn)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for _, other in (both := [stock(name), stock(name)]):
        other.load_state_dict(sent(alone.state_dict()))
    rest = [list(other) for _, other in both]
    assert rest[0] == rest[1] and sorted([*seen, *chain(*rest[0])]) == list(range(22))


def test_a_list_of_one_state_is_that_state_and_of_two_runs_no_state_at_all():
    loader = numbers(cache=None)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    resumed = numbers(cache=None)
    resumed.load_state_dict([state])
    assert list(resumed) == list(batches)
    with pytest.raises(StateError, match="two of the states are of one rank"):
        resumed.load_state_dict([state, state])


def test_states_of_another_order_cannot_be_put_together():
    loader = numbers(cache=None, shuffle=None, sampler=WeightedRandomSampler(torch.ones(22), 25))
    batches_of(loader, 1)
    with pytest.raises(StateError, match="only the run's own WeightedRandomSampler can tell"):
        seneca.merge_states([loader.state_dict()])
    between = numbers(cache=None).state_dict()
    assert seneca.merge_states([between, between]) == between


@pytest.mark.parametrize("generator", [True, False])
@pytest.mark.parametrize(
    ("source", "draws", "message"),
    [
        (22, {"replacement": True}, "22 times out of 22 samples with replacement"),
        (22, {"num_samples": 55}, "55 times out of 22 samples"),
        (22, {"num_samples": 11}, "11 times out of 22 samples"),
        (20, {}, "20 times out of 20 samples"),
    ],
)
def test_what_is_no_permutation_cannot_be_put_together(source, draws, message, generator):
    given = {"generator": torch.Generator().manual_seed(3)} if generator else {}
    sampler = RandomSampler(range(source), **draws, **given)
    loader = numbers(cache=None, shuffle=None, sampler=sampler)
    batches = iter(loader)
    next(batches)
    state = sent(loader.state_dict())
    with pytest.raises(StateError, match=f"own RandomSampler, which draws {message}, can tell"):
        seneca.merge_states([state])
    rest = list(batches)
    loader.load_state_dict([state])
    assert list(loader) == rest, "it goes on itself"


@pytest.mark.parametrize("generator", [True, False])
def test_a_permutation_is_put_together_whether_its_state_says_so_or_is_older(generator):
    given = {"generator": torch.Generator().manual_seed(3)} if generator else {}
    loader = numbers(cache=None, shuffle=None, sampler=RandomSampler(range(22), **given))
    seen = next(iter(loader))
    state = sent(loader.state_dict())
    older = {name: value for name, value in state.items() if name != "draws"}
    assert len(older) == len(state) - 1
    for one in (state, older):
        merged = seneca.merge_states([one])
        assert np.flatnonzero(resume.flags(merged["done"], 22)).tolist() == sorted(seen)


def test_what_a_stream_has_delivered_cannot_be_put_together():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(20))

    loader = seneca.DataLoader(Stream(), 4, cache=None)
    assert next(iter(loader)).tolist() == [0, 1, 2, 3]
    state = loader.state_dict()
    with pytest.raises(StateError, match=r"IterableDataset, of a dataset without a length: .* as many ranks"):
        seneca.merge_states([state, state])
    loader.load_state_dict([state])
    assert next(batch.tolist() for batch in loader) == [4, 5, 6, 7]


@pytest.mark.filterwarnings("ignore:.*skipped a sample")
def test_ranks_that_skip_stay_even_when_they_go_on(picture_folder, name):
    dataset = seneca.ImageFolder(picture_folder, TRAIN)
    for index in (3, 5, 11, 40):
        with open(dataset.samples[index][0], "wb") as file:
            file.write(b"damaged")

    def make(rank):
        sampler = DistributedSampler(dataset, 2, rank, shuffle=False)
        return seneca.DataLoader(dataset, 5, sampler=sampler, cache=None, on_error="skip")

    for step in (1, 3, 4):
        sizes = []
        for rank in range(2):
            first, second = make(rank), make(rank)
            before = batches_of(first, step)
            second.load_state_dict(sent(first.state_dict()))
            sizes.append([len(ids) for ids in ids_of(before + batches_of(second))])
        assert sizes == [[5, 5, 5, 5, 4]] * 2


# --- where Seneca is off ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*plain torch")
@pytest.mark.parametrize("workers", [0, 2])
def test_plain_torch_goes_on_too_and_takes_what_seneca_has_saved(name, workers):
    def off(**options):
        return fallback.DataLoader(
            Numbers(), 4, shuffle=True, collate_fn=list, num_workers=workers, **options
        )

    first, second = off(), off()
    taken = iter(first)
    seen = next(taken)
    second.load_state_dict(sent(first.state_dict()))
    assert list(second) == list(taken)
    assert len(list(chain(*second))) == 22
    shared = numbers(cache=name)
    seen = flat(batches_of(shared, 2))
    second.load_state_dict(shared.state_dict())
    assert sorted([*seen, *chain(*second)]) == list(range(22))
    batches = fallback.OpportunisticBatchSampler(RandomSampler(range(22)), 4, seed=3)
    drawn = iter(batches)
    seen = next(drawn)
    resumed = fallback.OpportunisticBatchSampler(RandomSampler(range(22)), 4)
    resumed.load_state_dict(batches.state_dict())
    assert sorted([*seen, *chain(*resumed)]) == list(range(22))
