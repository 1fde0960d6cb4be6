"""Section 4: what is drawn when, in which order samples come, and what a worker is seeded with."""

import functools
import random

import numpy as np
import pytest
import torch
from subjects import SAMPLES, TORCH, epoch, flat, labels, outcomes, seeded
from torch.utils.data import RandomSampler, get_worker_info
from torch.utils.data._utils.worker import _generate_state
from toys import Count, Made, Numbers, keep, what_a_worker_knows

import seneca
from seneca import transforms as T

EPOCHS = 2
MODES = {
    "in this process": {},
    "1 worker": {"num_workers": 1},
    "2 workers": {"num_workers": 2},
    "2 workers that stay": {"num_workers": 2, "persistent_workers": True},
}
TABLE = [
    *((seed, "in this process", owned) for seed in (0, 7, 2**40 + 1) for owned in (False, True)),
    *((seed, mode, bool(seed)) for seed in (0, 7) for mode in list(MODES)[1:]),
]  # seed, mode, whether the loader has a generator


def one_number(generator=None):
    """What an iterator draws when it is made."""
    return torch.empty((), dtype=torch.int64).random_(generator=generator).item()


def drawn(load, dataset, seed, mode, owned, **options):
    """Every epoch's batches, then the states of the global generator and the loader's own."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed + 1) if owned else None
    loader = load(dataset, batch_size=5, generator=generator, **MODES[mode], **options)
    epochs = [epoch(loader) for _ in range(EPOCHS)]
    states = [torch.get_rng_state(), *([generator.get_state()] if owned else [])]
    return epochs, [state.tolist() for state in states]


@functools.cache
def drawn_by_torch(seed, mode, owned, shuffle):
    return drawn(TORCH, Numbers(SAMPLES), seed, mode, owned, shuffle=shuffle)


@pytest.mark.stock
def test_construction_draws_nothing(load, dataset):
    generator = torch.Generator()
    before = torch.get_rng_state(), generator.get_state()
    for options in ({}, {"shuffle": True}, {"num_workers": 2}, {"sampler": RandomSampler(dataset)}):
        load(dataset, **options)
        load(dataset, generator=generator, **options)
    assert torch.equal(torch.get_rng_state(), before[0]) and torch.equal(generator.get_state(), before[1])


@pytest.mark.parametrize(
    ("mode", "owned"),
    [
        ("in this process", False),
        ("in this process", True),
        ("2 workers", True),
        ("2 workers that stay", False),
        ("2 workers that stay", True),
    ],
)
@pytest.mark.stock
def test_an_iterator_draws_one_number(load, dataset, mode, owned):
    """From the loader's generator where it has one, and none again for workers that stay."""
    generator = torch.Generator().manual_seed(3) if owned else None
    expected = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    loader = load(dataset, generator=generator, **MODES[mode])
    for number in range(3):
        iter(loader)
        if number == 0 or mode != "2 workers that stay":
            one_number(expected)
        assert torch.equal((generator or torch.default_generator).get_state(), expected.get_state())
    assert owned == torch.equal(torch.get_rng_state(), torch.Generator().manual_seed(3).get_state())


@pytest.mark.small(3)
@pytest.mark.parametrize(("seed", "mode", "owned"), TABLE)
@pytest.mark.meant("order")
@pytest.mark.stock
def test_a_shuffled_order_is_torchs_to_the_index(load, any_dataset, seed, mode, owned):
    dataset = any_dataset
    if load == TORCH and not isinstance(dataset, Numbers):
        pytest.skip("torch's order is that of numbers")
    epochs, states = drawn(load, dataset, seed, mode, owned, shuffle=True)
    torchs_epochs, torchs_states = drawn_by_torch(seed, mode, owned, True)
    if load.substitutes(dataset):
        assert all(sorted(flat(batches)) == [*range(SAMPLES)] for batches in epochs)
        assert [[len(batch) for batch in batches] for batches in epochs] == [[5, 5, 2]] * EPOCHS
        assert epochs != torchs_epochs and len({str(batches) for batches in epochs}) == EPOCHS
    else:
        assert (epochs, states) == (torchs_epochs, torchs_states)


@pytest.mark.parametrize(
    ("mode", "share"),
    [
        ("in this process", "decoded"),
        ("in this process", "none"),
        ("2 workers", "decoded"),
        ("2 workers that stay", "none"),
    ],
)
@pytest.mark.stock
def test_where_no_copy_takes_another_s_place_a_shared_order_is_torchs(load, any_dataset, mode, share):
    if not load.shares:
        pytest.skip("shares nothing")
    epochs, (_, own) = drawn(load, any_dataset, 7, mode, True, shuffle=True, share=share)
    torchs_epochs, (_, torchs_own) = drawn_by_torch(7, mode, True, True)
    assert (epochs, own) == (torchs_epochs, torchs_own)


def broken_off(load, dataset, workers, owned, batch_size):
    """The batches of epochs that end early, and of two at once."""
    torch.manual_seed(3)
    generator = torch.Generator().manual_seed(5) if owned else None
    loader = load(
        dataset,
        batch_size=batch_size,
        shuffle=True,
        num_workers=workers,
        generator=generator,
        drop_last=owned,
    )
    seen = [outcomes(iter(loader), wanted) for wanted in (2, 0)]
    seen += [(labels(one), labels(two)) for one, two in zip(loader, loader, strict=True)]
    return [*seen, epoch(loader), (generator or torch.default_generator).get_state().tolist()]


@functools.cache
def broken_off_by_torch(*options):
    return broken_off(TORCH, Numbers(SAMPLES), *options)


@pytest.mark.parametrize(
    ("workers", "owned", "batch_size"),
    [(0, False, 5), (0, True, 4), (0, True, 5), (1, True, 13), (2, False, 4), (2, True, 5)],
)
@pytest.mark.stock
def test_an_order_is_torchs_after_a_break_and_with_two_iterators_at_once(
    load, dataset, workers, owned, batch_size
):
    """What is drawn when is torch's, too."""
    if load == TORCH or load.substitutes(dataset):
        pytest.skip("the order is Seneca's, or is that which others are held to")
    options = workers, owned, batch_size
    assert broken_off(load, dataset, *options) == broken_off_by_torch(*options)


@pytest.mark.parametrize(("seed", "mode", "owned"), TABLE[::2])
@pytest.mark.stock
def test_an_order_that_is_not_shuffled_is_kept_and_draws_what_torch_draws(load, dataset, seed, mode, owned):
    epochs, states = drawn(load, dataset, seed, mode, owned, shuffle=False)
    assert epochs == [[[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]] * EPOCHS
    assert states == drawn_by_torch(seed, mode, owned, False)[1]


@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.stock
def test_the_seed_alone_makes_the_order_whatever_the_workers(load, dataset, owned):
    def epochs(seed, mode):
        return drawn(load, dataset, seed, mode, owned, shuffle=True)[0]

    here = epochs(1, "in this process")
    assert here == epochs(1, "2 workers") != epochs(2, "in this process")
    assert len({str(batches) for batches in here}) == EPOCHS


def test_a_random_sampler_s_own_generator_makes_the_order(load, dataset):
    def order(seed, global_seed):
        sampler = RandomSampler(dataset, generator=torch.Generator().manual_seed(seed))
        return seeded(global_seed, lambda: epoch(load(dataset, sampler=sampler, batch_size=5)))

    assert order(4, 0) == order(4, 1) != order(5, 0)
    if not load.substitutes(dataset):
        sampler = RandomSampler(dataset, generator=torch.Generator().manual_seed(4))
        assert order(4, 0) == epoch(TORCH(dataset, sampler=sampler, batch_size=5))


@pytest.mark.meant("pixels")
def test_the_numbers_of_a_native_transform_do_not_hang_on_the_workers(load, pictures):
    dataset = seneca.ImageFolder(pictures, T.RandomResizedCrop(16))

    def images(workers):
        return seeded(8, lambda: torch.cat([images for images, _ in load(dataset, num_workers=workers)]))

    here, again, with_one, with_two = images(0), images(0), images(1), images(2)
    assert torch.equal(here, again)
    assert torch.equal(here, with_one) is torch.equal(with_one, with_two) is not load.is_torch


@pytest.mark.small(1)
def test_a_worker_is_seeded_with_the_base_seed_and_its_number(load):
    base = seeded(6, one_number)
    loader = load(Made(2, what_a_worker_knows), num_workers=2, collate_fn=keep)
    seen = seeded(6, lambda: [sample for [sample] in loader])
    for worker in range(2):
        seed = base + worker
        assert seen[worker] == {
            "id": worker,
            "num_workers": 2,
            "seed": seed,
            "dataset": "Made",
            "rng": None,
            "worker_method": "multiprocessing",
            "threads": 1,
            "torch_seed": seed,
            "random": random.Random(seed).random(),
            "numpy": np.random.RandomState(_generate_state(base, worker)).rand(),
            "torch": torch.rand((), generator=torch.Generator().manual_seed(seed)).item(),
        }


@pytest.mark.small(1)
def test_the_base_seed_is_the_generator_s_where_there_is_one(load):
    base = one_number(torch.Generator().manual_seed(6))
    loader = load(
        Made(1, what_a_worker_knows),
        num_workers=1,
        collate_fn=keep,
        generator=torch.Generator().manual_seed(6),
    )
    assert [sample["seed"] for [sample] in loader] == [base]
    assert [sample["seed"] for [sample] in loader] != [base]


def test_workers_that_stay_keep_their_seed_and_go_on_drawing(load):
    loader = load(Made(1, what_a_worker_knows), num_workers=1, collate_fn=keep, persistent_workers=True)
    [[one]], [[two]] = list(loader), list(loader)
    assert one["seed"] == two["seed"] and one["torch"] != two["torch"] and one["random"] != two["random"]


def test_there_is_no_worker_info_in_this_process(load):
    assert list(load(Made(2, lambda index: get_worker_info() is None))) == [torch.tensor([True])] * 2
    assert get_worker_info() is None


class Left(Count):
    """Its first sample is what ``worker_init_fn`` left on the worker's dataset."""

    left = None

    def __iter__(self):
        yield self.left


def leave(worker):
    info = get_worker_info()
    assert info.id == worker and torch.initial_seed() == info.seed
    info.dataset.left = (worker, info.seed)


def test_worker_init_fn_comes_after_seeding_and_before_the_dataset_is_iterated(load):
    base = seeded(9, one_number)
    loader = load(Left(1), batch_size=None, num_workers=2, worker_init_fn=leave)
    assert seeded(9, lambda: list(loader)) == [[0, base], [1, base + 1]]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.meant("threads")
def test_worker_init_fn_runs_once_in_each_worker_and_never_here(load, dataset, workers, tmp_path):
    loader = load(
        dataset,
        batch_size=2,
        num_workers=workers,
        worker_init_fn=lambda worker: (tmp_path / str(worker)).touch(exist_ok=False),
    )
    assert len(epoch(loader)) == 6
    begun = [] if load.has_threads(dataset) else ["0", "1"][:workers]
    assert sorted(path.name for path in tmp_path.iterdir()) == begun


def fail_in_worker_1(worker):
    if worker == 1:
        raise ValueError("this worker cannot begin")


@pytest.mark.meant("threads")
def test_what_worker_init_fn_raises_comes_in_place_of_that_worker_s_first_batch(load, dataset):
    batches = iter(load(dataset, batch_size=2, num_workers=2, worker_init_fn=fail_in_worker_1))
    first, error, third = outcomes(batches, 3)
    if load.has_threads(dataset):
        assert (first, error, third) == ([0, 1], [2, 3], [4, 5])
        return
    assert (first, third) == ([0, 1], [4, 5]) and type(error) is ValueError
    assert str(error).startswith("Caught ValueError in DataLoader worker process 1.\nOriginal Traceback")
    assert "this worker cannot begin" in str(error)
