"""A dataset with a state of its own goes on with what the run itself would have yielded."""

import secrets

import pytest
from sizes import size as at_size
from stateful_datasets import (
    WORKERS,
    Curriculum,
    ItsOwnIterator,
    OfIterators,
    Shuffled,
    flat,
    goes_on,
    loader_of,
    sent,
    taken,
)
from torch.utils.data import (
    Subset,
)

import seneca
from seneca import fallback

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*plain torch", "ignore:.*keeps a state"),
    pytest.mark.usefixtures("seed"),
]
ALONE = at_size(pytest.mark.parametrize("options", [{}], ids=["alone"]), WORKERS)


# --- what the run itself would have yielded -----------------------------------------------------


@pytest.mark.small(1)
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


@pytest.mark.small(1)
@WORKERS
def test_the_rest_and_what_was_yielded_are_each_sample_once(options):
    for step in at_size((4,), range(1, 6)):
        first, second = (loader_of(Shuffled(), drop_last=False, **options) for _ in range(2))
        batches = iter(first)
        seen = taken(batches, step)
        second.load_state_dict(sent(first.state_dict()))
        assert sorted(flat(seen + list(second))) == list(range(22))
        assert sorted(flat(second)) == list(range(22)), "and so is the next epoch"


@ALONE
def test_a_dataset_that_is_its_own_iterator_goes_on(options):
    goes_on(lambda: loader_of(ItsOwnIterator(), **options), then="num_workers" not in options)


def test_workers_that_stay_begin_their_next_epoch_as_those_of_the_run():
    goes_on(lambda: loader_of(ItsOwnIterator(), num_workers=2, persistent_workers=True), epochs=3, then=True)


@ALONE
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


@ALONE
def test_iterators_are_asked_where_they_have_the_state(options):
    goes_on(lambda: loader_of(OfIterators(), **options), then=options != {"num_workers": 2})


@ALONE
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


@pytest.mark.whole_size(shown_by="test_the_rest_and_what_was_yielded_are_each_sample_once")
@pytest.mark.small(1)
@pytest.mark.parametrize(("method", "kind"), [("spawn", Shuffled), ("forkserver", Curriculum)])
def test_states_go_to_workers_that_are_begun_by_any_method(method, kind):
    first, second = (loader_of(kind(), num_workers=1, multiprocessing_context=method) for _ in range(2))
    batches = iter(first)
    taken(batches, 3)
    second.load_state_dict(sent(first.state_dict()))
    assert list(second) == list(batches)
