"""Batches that the user's functions put together, of pictures that threads have prepared."""

import copy
import pickle
import random

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

import seneca
from seneca import transforms as T
from seneca.native.collate import PictureView

CROP = T.Compose([T.RandomResizedCrop(16), T.ToTensor()])


def loader_of(dataset, **options):
    return seneca.DataLoader(dataset, **{"cache": None, "batch_size": 8, "num_workers": 2} | options)


def views(count=3):
    whole = torch.arange(count * 12.0).view(count, 3, 2, 2)
    return whole, PictureView.of(whole)


def mix(items):
    """torchvision's recipe: what default_collate makes, mixed by a number at random."""
    images, labels = default_collate(items)
    share = random.random() + np.random.rand() + torch.rand(()).item()
    return images.lerp(images.roll(1, 0), share / 3), labels, share


def test_default_collate_of_all_views_in_order_copies_nothing():
    whole, pictures = views()
    images, labels = default_collate([(picture, n) for n, picture in enumerate(pictures)])
    assert images is whole and labels.tolist() == [0, 1, 2]
    assert torch.stack(pictures) is whole and torch.stack(tensors=tuple(pictures), dim=0) is whole


@pytest.mark.parametrize(
    "chosen", [[0, 1], [1, 0, 2], [0, 1, 1], [2, 1, 0]], ids=["too few", "exchanged", "twice", "reversed"]
)
def test_other_stacks_are_copies_of_what_is_stacked(chosen):
    whole, pictures = views()
    stacked = torch.stack([pictures[n] for n in chosen])
    assert type(stacked) is torch.Tensor and torch.equal(stacked, whole[chosen])
    assert stacked.data_ptr() != whole.data_ptr()


def test_along_another_dimension_and_into_other_memory_stacking_is_torchs():
    whole, pictures = views()
    assert torch.equal(torch.stack(pictures, 1), whole.transpose(0, 1))
    out = torch.empty_like(whole)
    assert torch.stack(pictures, out=out) is out and torch.equal(out, whole)
    changed = [*pictures[:2], pictures[2] + 1]
    assert torch.equal(torch.stack(changed)[2], whole[2] + 1), "one of them is no view"


def test_a_view_is_a_tensor_that_is_saved_and_copied_alone():
    whole, (_, picture, _) = views()
    assert isinstance(picture, torch.Tensor) and picture.shape == (3, 2, 2)
    assert type(picture * 2) is type(picture[0]) is torch.Tensor and picture.is_contiguous()
    assert np.array_equal(picture.numpy(), whole[1].numpy())
    for other in (pickle.loads(pickle.dumps(picture)), copy.deepcopy(picture)):
        assert type(other) is torch.Tensor and torch.equal(other, whole[1])
    assert len(pickle.dumps(picture)) < 1000 + 4 * picture.numel(), "without the rest of the batch"
    picture.zero_()
    assert whole[1].sum() == 0 < whole[2].sum(), "written to, it is the batch that changes"


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_items_are_those_of_torch(picture_folder, workers):
    dataset = seneca.ImageFolder(picture_folder, T.Resize((8, 8)))
    ours, theirs = (
        list(cls(dataset, 8, num_workers=workers, collate_fn=list, **options))
        for cls, options in ((torch.utils.data.DataLoader, {}), (seneca.DataLoader, {"cache": None}))
    )
    assert len(ours) == len(theirs) == 6
    for mine, other in zip(ours, theirs, strict=True):
        for item, expected in zip(mine, other, strict=True):
            assert type(item) is tuple and type(item[0]) is torch.Tensor and item[1] == expected[1]
            assert torch.equal(item[0], expected[0])


def test_pictures_that_are_kept_stay_as_they_are(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, CROP)
    items = [item for batch in loader_of(dataset, collate_fn=list) for item in batch]
    copies = [item[0].clone() for item in items]
    again = loader_of(dataset, collate_fn=list)
    for _ in again:
        pass
    assert all(torch.equal(item[0], one) for item, one in zip(items, copies, strict=True))


def test_targets_of_any_kind(picture_folder):
    dataset = seneca.ImageFolder(
        picture_folder, CROP, target_transform=lambda label: {"of": label, "text": "a"}
    )
    images, targets = next(iter(loader_of(dataset)))
    assert images.shape == (8, 3, 16, 16) and targets["of"].tolist() == [0] * 8
    assert targets["text"] == ["a"] * 8
    dataset.target_transform = None
    dataset.samples = [(path, [label / 2, "b"]) for path, label in dataset.samples]
    _, (halves, texts) = next(iter(loader_of(dataset)))
    assert halves.dtype is torch.float64 and texts == ("b",) * 8
    picture, label = next(iter(loader_of(dataset, batch_size=None)))
    assert picture.shape == (3, 16, 16) and label == [0.0, "b"]


def test_functions_draw_nothing_of_this_process_where_torch_has_workers(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, CROP)
    seen = []
    for workers, seed in ((1, 1), (2, 1), (1, 2)):
        torch.manual_seed(seed)
        random.seed(0)
        np.random.seed(0)
        batches = iter(loader_of(dataset, shuffle=True, num_workers=workers, collate_fn=mix))
        first = next(batches)
        before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
        seen.append([first, *batches])
        after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
        assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
    shares = [[share for *_, share in batches] for batches in seen]
    assert len(set(shares[0])) == 6 and shares[0] == shares[1] != shares[2]
    assert all(torch.equal(one[0], other[0]) for one, other in zip(seen[0], seen[1], strict=True))


def test_without_workers_they_draw_from_this_process_as_with_torch(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, T.Resize((8, 8)))
    found = []
    for cls, options in ((torch.utils.data.DataLoader, {}), (seneca.DataLoader, {"cache": None})):
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        found.append(
            [
                share
                for *_, share in cls(dataset, 8, collate_fn=lambda i: (0, 0, mix(as_float(i))[2]), **options)
            ]
        )
    assert found[0] == found[1]


def as_float(items):
    return [(image.float(), label) for image, label in items]


@pytest.mark.small(1)
@pytest.mark.parametrize(
    "order", [{"shuffle": True}, {"sampler": [*range(30, 0, -1)]}], ids=["planned", "given"]
)
def test_a_resumed_epoch_has_the_same_numbers(picture_folder, order):
    dataset = seneca.ImageFolder(picture_folder, CROP)
    torch.manual_seed(1)
    loader = loader_of(dataset, collate_fn=mix, **order)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = list(batches)
    resumed = loader_of(dataset, collate_fn=mix, num_workers=1, **order)
    resumed.load_state_dict(state)
    assert [batch[2] for batch in resumed] == [batch[2] for batch in rest]


def test_what_a_function_raises_comes_in_its_batchs_place(picture_folder):
    def fails(items):
        if items[0][1] == 1:
            raise ValueError("of the user's")
        return len(items)

    batches = iter(loader_of(seneca.ImageFolder(picture_folder, CROP), collate_fn=fails, batch_size=12))
    assert next(batches) == 12
    with pytest.raises(ValueError, match="of the user's"):
        next(batches)
    assert list(batches) == [12, 12]


def test_explain_says_who_calls_them(picture_folder):
    text = loader_of(seneca.ImageFolder(picture_folder, CROP), collate_fn=list).explain()
    assert (
        text.startswith("native: ") and "collate_fn and target_transform are called in this process" in text
    )


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("workers", [0, 1])
def test_they_use_one_core_where_torch_has_workers(picture_folder, workers):
    threads = loader_of(
        seneca.ImageFolder(picture_folder, CROP),
        num_workers=workers,
        collate_fn=lambda _: torch.get_num_threads(),
    )
    assert set(threads) == {1 if workers else 2} and torch.get_num_threads() == 2
