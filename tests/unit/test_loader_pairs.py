"""Loaders of pairs: what of theirs goes beyond pictures."""

import gc
import os

import numpy as np
import pytest
import torch
from pair_folders import make_pairs, make_voc
from PIL import Image, ImageFile
from torch.utils.data import BatchSampler, ConcatDataset, DataLoader, RandomSampler, Subset, default_collate
from torchvision_here import torchvision, v2

import seneca
from seneca.errors import DecodeError, PictureTooLargeError

Mask = torchvision.tv_tensors.Mask
RANDOM = [v2.ToImage(), v2.RandomResizedCrop(24), v2.RandomHorizontalFlip()]
FIXED = [v2.ToImage(), v2.Resize((24, 30))]
TO_FLOATS = v2.ToDtype({Mask: torch.int64, "others": torch.float32}, scale=True)
COUNT = 22


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return make_pairs(tmp_path_factory.mktemp("pairs"), COUNT)


def dataset_of(folders, steps=RANDOM, **options):
    return seneca.SegmentationFolder(*folders, v2.Compose([*steps, TO_FLOATS]), **options)


def taken(loader):
    return [(loader.last_indices.tolist(), pictures.clone(), masks.clone()) for pictures, masks in loader]


def assert_same(ours, theirs):
    assert [ids for ids, *_ in ours] == [ids for ids, *_ in theirs]
    for (_, *mine), (_, *others) in zip(ours, theirs, strict=True):
        assert all(map(torch.equal, mine, others))


def test_pairs_have_no_recoded_form(folders, name):
    options = {"cache": name, "cache_bytes": "8MiB", "split": "0-100-0-0", "share": "none"}
    loader = seneca.DataLoader(dataset_of(folders, FIXED), 8, **options)
    for _ in range(2):
        taken(loader)
    stats = loader.stats()
    assert stats["served"]["storage"] == 2 * COUNT and sum(stats["unrecoded"].values()) == 0
    assert "RECODED" not in loader.explain()


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_goes_on_to_the_bit(folders, name, workers):
    options = {"batch_size": 4, "shuffle": True, "num_workers": workers, "cache": name, "cache_bytes": "2MiB"}
    torch.manual_seed(5)
    loader = seneca.DataLoader(dataset_of(folders), **options)
    epoch = iter(loader)
    for _ in range(3):
        next(epoch)
    state = loader.state_dict()
    rest = [(loader.last_indices.tolist(), *(part.clone() for part in batch)) for batch in epoch]
    torch.manual_seed(99)
    again = seneca.DataLoader(dataset_of(folders), **options)
    again.load_state_dict(state)
    assert_same(taken(again), rest)
    assert len(rest) == 3


@pytest.mark.small(1)
@pytest.mark.parametrize("split", ["100-0-0", "0-100-0", "30-30-40"])
def test_a_pair_is_the_same_from_each_form(folders, name, split):
    dataset = dataset_of(folders, FIXED)
    expected = default_collate([dataset[index] for index in range(COUNT)])
    loader = seneca.DataLoader(
        dataset, 7, cache=name, cache_bytes="4MiB", split=split, check_every=2, num_workers=1
    )
    for _ in range(3):
        batches = [(pictures.clone(), masks.clone()) for pictures, masks in loader]
        assert torch.equal(torch.cat([masks for _, masks in batches]), expected[1])
        assert (torch.cat([pictures for pictures, _ in batches]) - expected[0]).abs().mean() < 0.3 / 255
    stats = loader.stats()
    form = "encoded" if split == "100-0-0" else "decoded"
    assert stats["served"][form] > 0 and stats["checked"] > 0 and stats["different"] == 0


def test_pillow_decodes_what_the_core_does_not(tmp_path, name):
    images, masks = make_pairs(tmp_path, 12)
    for path in sorted(masks.iterdir())[::2]:
        Image.open(path).save(path.with_suffix(".gif" if path.stem.endswith("4") else ".tif"))
        path.unlink()
    for path in sorted(images.iterdir())[::3]:
        Image.open(path).save(path.with_suffix(".bmp"))
        path.unlink()
    dataset = dataset_of((images, masks), FIXED)
    expected = default_collate([dataset[index] for index in range(12)])
    loader = seneca.DataLoader(dataset, 5, cache=name, cache_bytes="4MiB", split="30-70-0")
    for _ in range(3):
        assert torch.equal(torch.cat([masks.clone() for _, masks in loader]), expected[1])
    assert loader.stats()["served"]["decoded"] + loader.stats()["served"]["encoded"] > 0


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_truncated_pictures_are_read_if_pillow_is_set_to(tmp_path, name, monkeypatch, workers):
    images, masks = make_pairs(tmp_path, 12)
    dataset = dataset_of((images, masks), FIXED)
    for path, _ in dataset.samples[1::4]:
        os.truncate(path, os.path.getsize(path) // 2)
    loader = seneca.DataLoader(
        dataset, 5, cache=name, cache_bytes="4MiB", split="30-70-0", num_workers=workers
    )
    assert loader.explain().startswith("native")
    with pytest.raises(DecodeError, match=dataset.samples[1][0]):
        taken(loader)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    theirs = list(DataLoader(dataset, 5))
    for _ in range(2):  # the second time from the cache
        for (_, pictures, classes), expected in zip(taken(loader), theirs, strict=True):
            assert torch.equal(classes, expected[1])
            assert (pictures - expected[0]).abs().mean() < 0.3 / 255
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", False)
    with pytest.raises(DecodeError, match=dataset.samples[1][0]):
        taken(loader)


@pytest.mark.whole_size(shown_by="test_truncated_pictures_are_read_if_pillow_is_set_to")
@pytest.mark.filterwarnings("ignore:.*decompression bomb")
def test_pillows_limit_counts_for_pictures_and_masks_of_torchvisions(tmp_path, name, monkeypatch):
    wrap = torchvision.datasets.wrap_dataset_for_transforms_v2
    transforms = v2.Compose([*FIXED, TO_FLOATS, v2.ToPureTensor()])
    dataset = wrap(torchvision.datasets.VOCSegmentation(make_voc(tmp_path, 9), transforms=transforms))
    largest = 0
    for path in dataset.images:
        with Image.open(path) as picture:
            largest = max(largest, picture.height * picture.width)
    loader = seneca.DataLoader(dataset, 4, cache=name, cache_bytes="4MiB", num_workers=1)
    assert loader.explain().startswith("native")
    for limit in (largest, (largest + 1) // 2, largest // 2 - 1, None, 7):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        if limit is not None and largest > 2 * limit:
            with pytest.raises(Image.DecompressionBombError):
                list(DataLoader(dataset, 4))
            with pytest.raises(
                PictureTooLargeError, match=r"\.jpg.*MAX_IMAGE_PIXELS: raise it or set it to None"
            ):
                taken(loader)
        else:
            for (_, pictures, classes), expected in zip(taken(loader), DataLoader(dataset, 4), strict=True):
                assert torch.equal(classes, expected[1])
                assert (pictures - expected[0]).abs().mean() < 0.3 / 255


def test_copies_are_exact_where_that_is_wanted(folders, name):
    def loader():
        generator = torch.Generator().manual_seed(3)
        return seneca.DataLoader(
            dataset_of(folders), 6, shuffle=True, generator=generator, share="exact", cache=name,
            cache_bytes="4MiB", job="a" if not made else "b",
        )  # fmt: skip

    made = []
    for _ in range(2):
        made.append(loader())
    assert_same(*map(taken, made))


def test_a_collate_fn_gets_pairs(folders):
    def collate(items):
        assert all(type(item) is tuple and len(item) == 2 for item in items)
        return {"images": torch.stack([image for image, _ in items]), "masks": [mask for _, mask in items]}

    dataset = dataset_of(folders, FIXED)
    loader = seneca.DataLoader(dataset, 5, cache=None, collate_fn=collate)
    assert loader.explain().startswith("native")
    found = [mask for batch in loader for mask in batch["masks"]]
    assert all(type(mask) is torch.Tensor for mask in found)
    assert all(
        torch.equal(mask, dataset[index][1].as_subclass(torch.Tensor)) for index, mask in enumerate(found)
    )


def test_single_items_come_without_a_batch(folders):
    dataset = dataset_of(folders, FIXED)
    for index, (picture, mask) in enumerate(seneca.DataLoader(dataset, None, cache=None)):
        assert picture.shape == (3, 24, 30) and torch.equal(mask, dataset[index][1].as_subclass(torch.Tensor))


def test_a_batch_sampler_and_a_subset_give_their_samples(folders):
    dataset = dataset_of(folders, FIXED)
    some = Subset(dataset, [7, 3, 11, 2, 19])
    batches = BatchSampler(RandomSampler(some, replacement=True, num_samples=9), 4, drop_last=False)
    loader = seneca.DataLoader(some, batch_sampler=batches, cache=None)
    assert loader.explain().startswith("native")
    for _, masks in loader:
        expected = [dataset[index][1] for index in loader.last_indices.tolist()]
        assert torch.equal(masks, default_collate(expected))


def test_channels_last_is_of_pictures_alone(folders):
    loader = seneca.DataLoader(dataset_of(folders, FIXED), 4, cache=None, memory_format=torch.channels_last)
    pictures, masks = next(iter(loader))
    assert pictures.is_contiguous(memory_format=torch.channels_last) and masks.is_contiguous()
    assert torch.equal(masks[1], dataset_of(folders, FIXED)[1][1].as_subclass(torch.Tensor))


def test_batches_that_are_kept_stay_as_they_are(folders):
    loader = seneca.DataLoader(dataset_of(folders), 2, cache=None, num_workers=1)
    kept, copies = [], []
    for _, masks in loader:
        kept.append(masks)
        copies.append(masks.clone())
        gc.collect()
    assert all(map(torch.equal, kept, copies))


def test_another_transform_shares_what_is_before_it(folders, name):
    """Pairs have names of their own: those of plain pictures are others, and so is another fill."""
    options = {"cache": name, "cache_bytes": "4MiB"}

    def forms(*steps):
        support = seneca.DataLoader(dataset_of(folders, steps), 4, **options)._grade()
        return (
            support.files.fingerprint(),
            support.pipeline.head_fingerprint,
            support.pipeline.augmented_fingerprint,
        )

    pad, other = (v2.Pad(2, fill={Mask: fill, "others": 0}) for fill in (0, 255))
    usual, filled = forms(v2.ToImage(), pad, *RANDOM[1:]), forms(v2.ToImage(), other, *RANDOM[1:])
    assert usual[0] == filled[0]
    assert usual[1] != filled[1] and usual[2] != filled[2]
    from seneca.transforms._pipeline import compile_transform
    from seneca.transforms._recognise import recognise_pair

    known = recognise_pair(v2.Compose([*RANDOM, TO_FLOATS]))
    plain, paired = compile_transform(known.transform), compile_transform(known.transform, mask=known.mask)
    assert plain.augmented_fingerprint != paired.augmented_fingerprint
    assert (
        paired.augmented_fingerprint == compile_transform(known.transform, mask="uint8").augmented_fingerprint
    )


def test_changed_masks_are_another_dataset(tmp_path):
    images, masks = make_pairs(tmp_path, 6)
    loader = seneca.DataLoader(dataset_of((images, masks), FIXED), 6, cache=None)
    [(_, before)] = loader
    before = before.clone()
    path = sorted(masks.iterdir())[2]
    mask = np.array(Image.open(path))
    Image.fromarray(255 - mask).save(path)
    [(_, after)] = loader
    assert [index for index in range(6) if not torch.equal(before[index], after[index])] == [2]
    files = seneca.DataLoader(dataset_of((images, masks), FIXED), 6, cache="x")._grade().files
    was = files.fingerprint()
    Image.fromarray(mask).save(path)
    files.stat()
    assert files.fingerprint() != was


def test_where_threads_cannot_torchs_workers_load_pairs(folders, name):
    state = {}

    def init(worker):
        state["dataset"] = torch.utils.data.get_worker_info().dataset

    dataset = dataset_of(folders, FIXED)
    loader = seneca.DataLoader(
        dataset, 6, num_workers=1, worker_init_fn=init, cache=name, multiprocessing_context="fork"
    )
    assert "loaded by torch's workers" in loader.explain()
    masks = torch.cat([masks for _, masks in loader])
    assert torch.equal(masks, default_collate([dataset[index][1] for index in range(COUNT)]))


def test_several_folders_together_are_loaded_by_torchs_workers(folders):
    dataset = dataset_of(folders, FIXED)
    both = ConcatDataset([dataset, Subset(dataset, [0, 1])])
    loader = seneca.DataLoader(both, 6, cache=None)
    assert not loader.explain().startswith("native")
    assert sum(len(masks) for _, masks in loader) == COUNT + 2


def test_ranks_repeat_good_pairs_for_bad_ones(tmp_path):
    images, masks = make_pairs(tmp_path, 9)
    bad = sorted(masks.iterdir())[4]
    bad.write_bytes(b"no mask")
    dataset = dataset_of((images, masks), FIXED)
    sampler = torch.utils.data.DistributedSampler(dataset, 1, 0, shuffle=False)
    with pytest.warns(seneca.SenecaWarning, match="skipped"):
        loader = seneca.DataLoader(dataset, 3, sampler=sampler, cache=None, on_error="skip")
        batches = [(loader.last_indices.tolist(), masks.clone()) for _, masks in loader]
    assert sum(len(masks) for _, masks in batches) == 9
    for ids, found in batches:
        assert 4 not in ids
        assert torch.equal(found, default_collate([dataset[index][1] for index in ids]))


def test_a_quick_look_measures_pairs(tmp_path):
    from seneca.tuning.quick import quick

    dataset = dataset_of(make_pairs(tmp_path, 6, sides=(50, 50)))
    support = seneca.DataLoader(dataset, 4, cache=None)._grade()
    profile = quick(support.files, support.pipeline, support.max_pixels, 1 << 20)
    assert profile.augmented.mean_bytes == 4 * 24 * 24
    assert profile.decoded.mean_bytes == 4 * 50 * 50
    assert profile.encoded.mean_bytes == support.files.total_bytes() / 6
