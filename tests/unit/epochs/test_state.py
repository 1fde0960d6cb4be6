"""The state of a loader: its size, and what is said of one that does not fit."""

import pickle

import pytest
import torch
from resumable_jobs import Numbers, OfBatches, batches_of, flat, numbers
from torch.utils.data import (
    TensorDataset,
)

from seneca.epochs import state as state_format
from seneca.errors import StateError

# --- sizes and errors ---------------------------------------------------------------------------


@pytest.mark.small(3)
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
    torch.rand(3 * state_format.NUMBERS, generator=generator)
    torch.randn(3, generator=generator)
    state = generator.get_state()
    name = state_format.named(state)
    assert isinstance(name, bytes) and len(name) < 4000
    assert torch.equal(state_format.unnamed(name), state)
    assert torch.equal(
        state_format.unnamed(state_format.named(torch.Generator().get_state())), torch.Generator().get_state()
    )


def mid_epoch(**options):
    loader = numbers(**{"cache": None, **options})
    batches_of(loader, 2)
    return loader.state_dict()


@pytest.mark.small(3)
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda state: state | {"seneca_state": state_format.VERSION + 1},
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
