"""torchvision's datasets of pictures and masks are known as pairs, as long as they are torchvision's."""

import gc
import pickle

import pytest
from pair_folders import make_pets, make_voc
from PIL import Image
from torchvision_here import torchvision, v2

import seneca
from seneca.data.tv_pairs import Pairs, has_masks, pairs_of
from seneca.data.tv_wrapper import _known

datasets = torchvision.datasets
wrap = datasets.wrap_dataset_for_transforms_v2
TRANSFORMS = v2.Compose([v2.ToImage(), v2.Resize((24, 30))])


@pytest.fixture
def voc(tmp_path):
    return datasets.VOCSegmentation(make_voc(tmp_path, 5), transforms=TRANSFORMS)


@pytest.fixture
def pets(tmp_path):
    def make(**options):
        folder = tmp_path if (tmp_path / "oxford-iiit-pet").exists() else make_pets(tmp_path, 5)
        return datasets.OxfordIIITPet(
            folder, **({"transforms": TRANSFORMS, "target_types": "segmentation"} | options)
        )

    return make


def explained(dataset, **options):
    return seneca.DataLoader(dataset, 2, **({"cache": "never-made"} | options)).explain()


def test_wrapped_datasets_for_segmentation_are_pairs(voc, pets):
    for dataset, masks in (wrap(voc), voc.masks), (wrap(pets()), list(map(str, pets()._segs))):
        pairs = pairs_of(dataset)
        assert isinstance(pairs, Pairs)
        assert [mask for _, mask in pairs.samples] == masks
        assert pairs_of(dataset) is pairs
        assert explained(dataset).startswith("native")


def test_the_pairs_follow_the_dataset(voc):
    dataset = wrap(voc)
    pairs = pairs_of(dataset)
    voc.images.pop()
    voc.targets.pop()
    dataset.transforms = None
    assert pairs_of(dataset) is pairs and len(pairs.samples) == 4 and pairs.transforms is None
    number = id(dataset)
    assert number in _known
    del dataset
    gc.collect()
    assert number not in _known


def test_a_copy_that_was_pickled_is_known(voc):
    dataset = pickle.loads(pickle.dumps(wrap(voc)))
    assert isinstance(pairs_of(dataset), Pairs)


def test_masks_that_are_not_wrapped_are_explained_with_the_remedy(voc, pets):
    for dataset in voc, pets():
        assert "wrap_dataset_for_transforms_v2" in pairs_of(dataset)
        assert explained(dataset).startswith(
            "opaque: its masks are PIL images, which transforms of v2 take for pictures"
        )


def test_why_a_transform_is_not_native_is_explained(voc):
    dataset = wrap(voc)
    dataset.transforms = v2.Compose([v2.ToImage(), v2.ElasticTransform(), v2.Resize((20, 20))])
    assert "because ElasticTransform is not written for masks yet" in explained(dataset)
    sums = [int(masks.long().sum()) for _, masks in seneca.DataLoader(dataset, 5, cache=None)]
    assert len(sums) == 1


def test_separate_transforms_are_not_taken_for_one_of_pairs(tmp_path):
    kind = datasets.VOCSegmentation
    dataset = wrap(kind(make_voc(tmp_path, 3), transform=TRANSFORMS, target_transform=v2.ToPureTensor()))
    assert "StandardTransform is not one that the native path knows" in explained(dataset)


def test_other_targets_are_no_pairs(pets):
    for types in "category", ["segmentation", "category"]:
        assert not has_masks(wrap(pets(target_types=types)))


def test_masks_of_other_modes_are_explained(voc):
    Image.open(voc.masks[0]).convert("RGB").save(voc.masks[0])
    assert "has Pillow's mode 'RGB'" in explained(wrap(voc))


def test_what_is_not_torchvisions_is_not_known(voc, monkeypatch):
    class Mine(datasets.VOCSegmentation):
        pass

    mine = Mine(voc.root, transforms=TRANSFORMS)
    assert not has_masks(mine) and not has_masks(wrap(mine))
    dataset = wrap(voc)
    dataset._wrapper = lambda index, sample: sample
    assert not isinstance(pairs_of(dataset), Pairs)
    monkeypatch.setattr(datasets.VOCSegmentation, "__getitem__", lambda self, index: (0, 0))
    assert not has_masks(wrap(datasets.VOCSegmentation(voc.root, transforms=TRANSFORMS)))
