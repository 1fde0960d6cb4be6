"""torchvision's datasets for detection are known, as long as they are torchvision's; targets are theirs."""

import gc
import pickle

import pytest
import torch
from box_folders import make_coco, make_voc_boxes, wrapped
from torchvision_here import torchvision, v2

import seneca
from seneca.data.tv_boxes import Boxed, boxes_of, has_boxes
from seneca.data.tv_wrapper import _known

TRANSFORMS = v2.Compose([v2.Resize((24, 30)), v2.ToImage()])


@pytest.fixture(params=[make_coco, make_voc_boxes], ids=["coco", "voc"])
def dataset(request, tmp_path):
    return request.param(tmp_path, 6, TRANSFORMS)


def explained(dataset, **options):
    return seneca.DataLoader(dataset, 2, **({"cache": "never-made"} | options)).explain()


def same(mine, theirs):
    assert mine.keys() == theirs.keys()
    for key, value in theirs.items():
        assert type(mine[key]) is type(value)
        assert torch.equal(mine[key], value) if isinstance(value, torch.Tensor) else mine[key] == value
    if "boxes" in theirs:
        ours, other = mine["boxes"], theirs["boxes"]
        assert (ours.dtype, ours.format, ours.canvas_size) == (other.dtype, other.format, other.canvas_size)


def test_targets_are_those_of_the_wrapped_dataset(dataset):
    wrap = wrapped(dataset)
    boxed = boxes_of(wrap)
    wrap.transforms = None
    for number in range(6):
        picture, target = wrap[number]
        same(boxed.target(number, boxed.keys[number], picture.height, picture.width), target)


@pytest.mark.parametrize("keys", [["boxes"], ["bbox", "area", "segmentation", "boxes"], ["labels"]])
def test_other_keys_are_given_as_the_wrapper_gives_them(tmp_path, keys):
    wrap = wrapped(make_coco(tmp_path, 3, empty=1), keys)
    boxed = boxes_of(wrap)
    for number in range(3):
        picture, target = wrap[number]
        same(boxed.target(number, boxed.keys[number], picture.height, picture.width), target)


@pytest.mark.small(1)
def test_a_wrapped_dataset_is_native_and_follows_changes(dataset):
    wrap = wrapped(dataset)
    boxed = boxes_of(wrap)
    assert isinstance(boxed, Boxed) and boxes_of(wrap) is boxed
    assert explained(wrap).startswith(
        f"native: {type(wrap).__name__} and its transforms run in the native core"
    )
    assert "torchvision moves the boxes likewise" in explained(wrap)
    samples = boxed.samples
    assert boxes_of(wrap).samples is samples
    wrap.transforms = None
    assert boxes_of(wrap) is boxed and boxed.transforms is None
    number = id(wrap)
    assert number in _known
    del wrap
    gc.collect()
    assert number not in _known
    assert isinstance(boxes_of(pickle.loads(pickle.dumps(wrapped(dataset)))), Boxed)


def test_boxes_that_are_not_wrapped_are_explained_with_the_remedy(dataset):
    assert "wrap_dataset_for_transforms_v2" in boxes_of(dataset)
    assert explained(dataset).startswith("opaque: its boxes are plain numbers")


def test_why_a_transform_is_not_native_is_explained(dataset):
    dataset.transforms = v2.Compose([v2.RandomRotation(9), v2.Resize((9, 9)), v2.ToImage()])
    text = explained(wrapped(dataset))
    assert text.startswith(
        "opaque: its transforms run as Python, because RandomRotation is not written for boxes"
    )


def test_the_reason_is_given_without_a_cache_too(dataset):
    dataset.transforms = v2.Compose([v2.RandomRotation(9), v2.Resize((9, 9)), v2.ToImage()])
    text = seneca.DataLoader(wrapped(dataset), cache=None).explain()
    assert text.startswith("not shared: its transforms run as Python, because RandomRotation")
    assert text.endswith("; cache=None")


def test_ids_may_be_any_sequence(tmp_path):
    coco = make_coco(tmp_path, 3, TRANSFORMS)
    coco.ids = tuple(reversed(coco.ids))
    loader = seneca.DataLoader(wrapped(coco), 2, cache=None, collate_fn=list)
    assert loader.explain().startswith("native")
    found = [target["image_id"] for batch in loader for _, target in batch]
    assert found == list(coco.ids)


@pytest.mark.parametrize("keys", ["all", ["boxes", "masks"]])
def test_masks_of_instances_are_explained(tmp_path, keys):
    text = explained(wrapped(make_coco(tmp_path, 3, TRANSFORMS), keys))
    assert 'leave "masks" out of target_keys' in text and text.startswith("opaque")


def test_all_that_voc_has_is_given(tmp_path):
    wrap = wrapped(make_voc_boxes(tmp_path, 3, TRANSFORMS), "all")
    assert explained(wrap).startswith("native")
    [target] = [item[1] for item in seneca.DataLoader(wrap, None, cache=None)][:1]
    same(target, wrap[0][1])


def test_what_is_not_torchvisions_is_not_known(dataset, monkeypatch):
    wrap = wrapped(dataset)
    dataset._load_target = dataset.parse_voc_xml = lambda given: []
    assert "was replaced" in boxes_of(wrap)
    del dataset._load_target, dataset.parse_voc_xml
    wrap._wrapper = lambda number, sample: sample
    assert not isinstance(boxes_of(wrap), Boxed)

    kind = type(dataset)
    mine = type("Mine", (kind,), {})
    dataset.__class__ = mine
    assert not has_boxes(wrapped(dataset))
    dataset.__class__ = kind
    monkeypatch.setattr(kind, "__getitem__", lambda self, index: (0, 0))
    assert "__getitem__ was replaced" in boxes_of(wrapped(dataset))


def test_annotations_without_files_are_explained(tmp_path):
    dataset = make_coco(tmp_path, 3, TRANSFORMS)
    del dataset.coco.imgs[dataset.ids[1]]["file_name"]
    assert "name no files of pictures" in boxes_of(wrapped(dataset))


def test_captions_are_no_boxes(tmp_path):
    dataset = make_coco(tmp_path, 3, TRANSFORMS)
    dataset.__class__ = torchvision.datasets.CocoCaptions
    assert not has_boxes(wrapped(dataset))


def test_a_native_inspection_does_not_walk_over_all_annotations(dataset, monkeypatch):
    def walk(*given):
        raise AssertionError("a million annotations take minutes")

    wrap = wrapped(dataset)
    loader = seneca.DataLoader(wrap, 2, cache="never-made", worker_init_fn=print, num_workers=1)
    assert "loaded by torch's workers" in loader.explain() and loader._grade().stages is not None
    monkeypatch.setattr(seneca.data.kinds.items, "support", walk)
    assert explained(wrap).startswith("native")


def test_a_dataset_that_changes_in_an_epoch_is_named(dataset):
    wrap = wrapped(dataset)
    epoch = iter(seneca.DataLoader(wrap, None, cache=None))
    next(epoch)
    names = dataset.ids if hasattr(dataset, "ids") else dataset.targets
    names.reverse()
    boxes_of(wrap)  # an inspection, as of explain()
    with pytest.raises(RuntimeError, match="change the dataset between two epochs"):
        list(epoch)
