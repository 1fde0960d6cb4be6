"""Batches that travel as bytes are, on the device, the batches that the native core would have made."""

import copy
import pickle

import numpy as np
import pytest
import torch
from box_folders import make_coco, wrapped
from pair_folders import make_pairs
from PIL import Image
from torch.utils.data import BatchSampler, Subset
from torchvision_here import torchvision, v2

import seneca
from seneca import transforms as T
from seneca.native.normalizer import Normalizer
from seneca.testing import make_pictures

SIZE, COUNT = (18, 13), 22
IMAGENET = T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)
CROP = T.RandomResizedCrop(SIZE)
GROUPS = [
    T.RandomApply([T.ColorJitter(0.4)], p=0.5),
    T.RandomChoice([T.RandomGrayscale(1), T.RandomSolarize(128, 1)]),
]


def to(dtype, scale=True):
    return T.ToDtype(dtype, scale=scale)


ENDINGS = {
    "scaled": [T.ToTensor()],
    "not scaled": [to(torch.float32, scale=False)],
    "normalised": [IMAGENET],
    "in pixels": [to(torch.float32, scale=False), T.Normalize((123.7, 116.3, 103.5), (58.4, 57.1, 57.4))],
    "half": [to(torch.float16), IMAGENET],
    "bfloat16": [to(torch.bfloat16), IMAGENET],
    "bfloat16, not scaled": [to(torch.bfloat16, scale=False)],
    "uint8": [T.PILToTensor()],
    "erased": [IMAGENET, T.RandomErasing(0.7)],
    "erased before": [T.ToTensor(), T.RandomErasing(0.9, value=(0.1, 0.25, 7)), IMAGENET],
    "erased bytes": [T.PILToTensor(), T.RandomErasing(0.9, value=(1, 2, 255)), to(torch.float16), IMAGENET],
    "several": [IMAGENET, T.RandomErasing(1, (0.1, 0.4), value=(-1e5, 0.1, 2), count=(1, 4))],
    "colours": [to(torch.float16), IMAGENET, T.RandomErasing(0.8, value="random colour", count=2)],
    "never": [IMAGENET, T.RandomErasing(0)],
    "groups": [*GROUPS, IMAGENET],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = make_pictures(tmp_path_factory.mktemp("pictures"), count=COUNT, classes=3)
    for path in sorted(made.rglob("*.jpg"))[1::7]:  # Pillow decodes these
        Image.open(path).save(path.with_suffix(".bmp"))
        path.unlink()
    return made


def loader_of(folder, *steps, seed=5, **options):
    dataset = seneca.ImageFolder(folder, T.Compose([CROP, *steps]))
    options = {"cache": None, "batch_size": 4, "shuffle": "sampler" not in options} | options
    return seneca.DataLoader(dataset, generator=torch.Generator().manual_seed(seed), **options)


def both(make, **options):
    """Two loaders that do the same: one on the native core alone, the other by bytes."""
    loaders = [make(device="cpu", uint8_batches=wanted, **options) for wanted in (False, True)]
    assert "batches travel as bytes" not in loaders[0].explain()
    return loaders


def tensors_of(batch):
    if isinstance(batch, torch.Tensor):
        return [batch]
    if isinstance(batch, dict):
        batch = list(batch.values())
    return [one for part in batch for one in tensors_of(part)] if isinstance(batch, (list, tuple)) else []


def kept(loader):
    """The tensors of each batch of an epoch, copied, with the batch's type and its samples."""
    found = []
    for batch in loader:
        of_batch = [(one.clone(), type(one), one.stride()) for one in tensors_of(batch)]
        found.append((type(batch), loader.last_indices.tolist(), of_batch))
    return found


def assert_same(mine, theirs):
    """Epochs are equal to the last bit, with types and memory formats."""
    assert [one[:2] for one in mine] == [one[:2] for one in theirs]
    for (*_, ours), (*_, others) in zip(mine, theirs, strict=True):
        for (one, *how), (other, *other_how) in zip(ours, others, strict=True):
            assert how == other_how and one.dtype == other.dtype
            assert torch.equal(one, other)


@pytest.mark.small(8)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_equal_to_the_last_bit(folder, ending, layout, workers):
    options = {"memory_format": layout, "num_workers": workers}
    plain, by_bytes = both(lambda **more: loader_of(folder, *ENDINGS[ending], **more), **options)
    assert ("batches travel as bytes" in by_bytes.explain()) is (ending != "uint8")
    for _ in range(2):
        found = kept(plain)
        assert_same(kept(by_bytes), found)
        assert found[0][2][0][0].is_contiguous(memory_format=layout)


@pytest.mark.small(2)
@pytest.mark.parametrize(
    "ending", ["normalised", "in pixels", "bfloat16", "half", "scaled", "not scaled", "never", "groups"]
)
def test_in_the_training_step_the_module_does_the_rest(folder, ending):
    plain = kept(loader_of(folder, *ENDINGS[ending]))
    loader = loader_of(folder, *ENDINGS[ending], uint8_batches=True)
    normalizer = loader.normalizer
    for images, (_, _, [(wanted, *_), _]) in zip((images for images, _ in loader), plain, strict=True):
        assert images.dtype == torch.uint8
        assert torch.equal(normalizer(images), wanted) and normalizer(images).dtype == wanted.dtype


def test_the_module_stays_the_same_object_until_the_transform_changes(folder):
    loader = loader_of(folder, IMAGENET, uint8_batches=True)
    normalizer = loader.normalizer
    list(loader)
    assert loader.normalizer is normalizer is loader.normalizer
    again = pickle.loads(pickle.dumps(loader))
    assert repr(again.normalizer) == repr(normalizer) and again.normalizer is not normalizer
    loader.dataset.transform = T.Compose([CROP, T.ToTensor()])
    images = next(iter(loader))[0]
    assert loader.normalizer is not normalizer and float(loader.normalizer(images).min()) >= 0


def test_without_uint8_batches_there_is_nothing_left_to_do(folder):
    for options in (
        {},
        {"device": "cpu"},
        {"device": "cpu", "uint8_batches": True},
        {"uint8_batches": False},
    ):
        loader = loader_of(folder, IMAGENET, **options)
        images = next(iter(loader))[0]
        assert loader.normalizer(images) is images and images.dtype == torch.float32


ERASED = [to(torch.float16), IMAGENET, T.RandomErasing(0.8, value="random colour", count=3)]


def test_an_epoch_goes_on_to_the_bit(folder):
    plain, by_bytes = both(lambda **more: loader_of(folder, *ERASED, num_workers=1, **more))
    epoch = iter(by_bytes)
    for _ in range(3):
        next(epoch)
    state = by_bytes.state_dict()
    plain.load_state_dict(state)  # which says nothing of how batches travel
    rest = kept(plain)
    again = loader_of(folder, *ERASED, seed=77, device="cpu", uint8_batches=True)
    again.load_state_dict(state)
    assert len(rest) == 3
    assert_same(kept(again), rest)


def test_persistent_workers_and_an_argument_that_is_set_later(folder):
    options = {"num_workers": 2, "persistent_workers": True}
    plain, by_bytes = both(lambda **more: loader_of(folder, *ERASED, **more), **options)
    for changes in (
        {},
        {},
        {"uint8_batches": False},
        {"uint8_batches": True, "memory_format": torch.channels_last},
    ):
        for name, value in changes.items():
            setattr(by_bytes, name, value)
        plain.memory_format = by_bytes.memory_format
        assert_same(kept(by_bytes), kept(plain))


def test_rectangles_move_with_samples_that_take_the_place_of_bad_ones(tmp_path):
    make_pictures(tmp_path, count=COUNT, classes=2)
    for path in sorted(tmp_path.rglob("*.jpg"))[3:15:4]:
        path.write_bytes(b"no picture")
    options = {"on_error": "skip", "num_workers": 1}
    loaders = both(lambda **more: loader_of(tmp_path, *ERASED, **more), **options)
    with pytest.warns(UserWarning, match="skipped"):
        plain, by_bytes = map(kept, loaders)
    assert sum(len(indices) for _, indices, _ in plain) == COUNT - 3
    assert_same(by_bytes, plain)


def test_samples_that_are_drawn_several_times_have_rectangles_of_their_own(folder):
    sampler = BatchSampler([3, 3, 1, 3, 1, 1, 2], 3, False)
    options = {"shuffle": None, "batch_size": 1, "batch_sampler": sampler}
    plain, by_bytes = both(lambda **more: loader_of(folder, *ERASED, **more), **options)
    found = kept(plain)
    assert_same(kept(by_bytes), found)
    assert not torch.equal(found[0][2][0][0][0], found[0][2][0][0][1])


@pytest.mark.parametrize("share", ["exact", "augmented"])
def test_jobs_share_copies_however_their_batches_travel(folder, name, share):
    options = {"cache": name, "cache_bytes": "2MiB", "split": "0-0-100", "share": share, "num_workers": 1}
    alone = kept(loader_of(folder, *ERASED, share="none", cache=None))
    loaders = both(
        lambda **more: loader_of(folder, *ERASED, job=str(more["uint8_batches"]), **more), **options
    )
    epochs = [iter(loader) for loader in loaders]
    found = [[], []]
    for _ in alone:
        for loader, epoch, batches in zip(loaders, epochs, found, strict=True):
            images, labels = next(epoch)
            batches.append((loader.last_indices.tolist(), images.clone(), labels.clone()))
    assert sum(loader.stats()["served"]["augmented"] for loader in loaders) > COUNT / 2
    if share == "exact":
        for batches in found:
            for (indices, images, labels), (_, wanted, [(others, *_), (theirs, *_)]) in zip(
                batches, alone, strict=True
            ):
                assert indices == wanted and torch.equal(images, others) and torch.equal(labels, theirs)
    del epochs


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_masks_go_as_they_are(tmp_path, layout):
    folders = make_pairs(tmp_path, 9)
    others = v2.ToDtype({torchvision.tv_tensors.Mask: torch.int64, "others": torch.float32}, scale=True)
    steps = [v2.ToImage(), v2.RandomResizedCrop(24), others, v2.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)]

    def make(**options):
        dataset = seneca.SegmentationFolder(*folders, v2.Compose([*steps, v2.RandomErasing(1)]))
        return seneca.DataLoader(dataset, 4, cache=None, memory_format=layout, num_workers=1, **options)

    torch.manual_seed(3)
    plain, by_bytes = both(make)
    assert "batches travel as bytes" in by_bytes.explain()
    torch.manual_seed(3)
    found = kept(plain)
    torch.manual_seed(3)
    assert_same(kept(by_bytes), found)
    assert found[0][2][1][0].dtype == torch.int64


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_boxes_go_as_they_are(tmp_path, layout):
    boxed = make_coco(tmp_path, 7)
    erasing = v2.RandomErasing(1, value=0.25)
    steps = [v2.ToImage(), v2.RandomResizedCrop((24, 20)), v2.ToDtype(torch.float32, scale=True), erasing]

    def make(**options):
        dataset = copy.copy(boxed)  # a wrapper takes its transforms from it
        dataset.transforms = v2.Compose(steps)
        return seneca.DataLoader(wrapped(dataset), 1, cache=None, memory_format=layout, **options)

    plain, by_bytes = both(make)
    assert by_bytes.explain().startswith("native") and "batches travel as bytes" in by_bytes.explain()
    torch.manual_seed(3)
    found = kept(plain)
    torch.manual_seed(3)
    assert_same(kept(by_bytes), found)
    assert len(found[0][2]) > 1 and found[0][2][0][0].dtype == torch.float32


def test_target_transform_and_subsets_are_served_too(folder):
    def make(**options):
        dataset = seneca.ImageFolder(
            folder, T.Compose([CROP, IMAGENET]), target_transform=lambda label: -label
        )
        subset = Subset(dataset, list(range(1, COUNT, 2)))
        return seneca.DataLoader(subset, 4, cache=None, **options)

    torch.manual_seed(3)
    plain, by_bytes = both(make)
    torch.manual_seed(3)
    found = kept(plain)
    torch.manual_seed(3)
    assert_same(kept(by_bytes), found)
    assert "batches travel as bytes" in by_bytes.explain() and any(
        bool((one[2][1][0] < 0).any()) for one in found
    )


def test_the_memory_of_bytes_is_used_again(folder, monkeypatch):
    """What a batch is made from is let go of at once, though the training loop holds the batch."""
    places, forward = [], Normalizer.forward

    def noted(normalizer, images, erasures=None):
        places.append(images.data_ptr())
        return forward(normalizer, images, erasures)

    monkeypatch.setattr(Normalizer, "forward", noted)
    loader = loader_of(folder, IMAGENET, device="cpu", uint8_batches=True, batch_size=2)
    held = [images for images, _ in loader]
    assert len({images.data_ptr() for images in held}) == len(held) == len(places) == COUNT / 2
    assert len(set(places)) < COUNT / 4


def test_an_error_comes_in_its_place(tmp_path):
    make_pictures(tmp_path, count=8, classes=1)
    sorted(tmp_path.rglob("*.jpg"))[2].write_bytes(b"no picture")
    loader = loader_of(tmp_path, IMAGENET, device="cpu", uint8_batches=True, batch_size=2, shuffle=False)
    epoch = iter(loader)
    assert next(epoch)[0].dtype == torch.float32
    with pytest.raises(seneca.errors.DecodeError):
        next(epoch)
    assert len(list(epoch)) == 2


def test_bytes_take_a_quarter_of_the_memory(folder):
    images = next(iter(loader_of(folder, IMAGENET, uint8_batches=True)))[0]
    floats = next(iter(loader_of(folder, IMAGENET)))[0]
    assert 4 * images.untyped_storage().nbytes() <= floats.untyped_storage().nbytes() + 2**21
    assert 4 * images.nbytes == floats.nbytes and np.prod(images.shape) == images.nbytes
