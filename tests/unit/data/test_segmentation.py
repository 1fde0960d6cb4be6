"""A folder of pictures and a folder of masks."""

import os
import pickle

import numpy as np
import pytest
import ready
import torch
from pair_folders import make_pairs
from PIL import Image
from torchvision_here import torchvision, v2

import seneca
from seneca.data.files import PictureFiles
from seneca.errors import DecodeError

Mask = torchvision.tv_tensors.Mask
TRANSFORMS = v2.Compose([v2.ToImage(), v2.Resize((32, 40))])


@pytest.fixture
def folders(tmp_path):
    return make_pairs(tmp_path, 6)


def test_pairs_are_found_by_their_names_also_in_folders(folders):
    images, masks = folders
    (images / "more").mkdir()
    (masks / "more").mkdir()
    first = sorted(images.glob("*.jpg"))[0]
    first.rename(images / "more" / first.name)
    (masks / f"{first.stem}.png").rename(masks / "more" / f"{first.stem}.png")
    (images / "notes.txt").write_text("no picture")
    dataset = seneca.SegmentationFolder(images, masks)
    assert len(dataset) == 6
    for picture, mask in dataset.samples:
        assert picture.replace("/images/", "/masks/").replace(".jpg", ".png") == mask
    assert str(images / "more" / first.name) in [picture for picture, _ in dataset.samples]


def test_an_item_is_what_the_transforms_make_of_the_picture_and_the_mask(folders):
    dataset = seneca.SegmentationFolder(*folders, transforms=lambda picture, mask: (picture, mask))
    picture, mask = dataset[2]
    path, mask_path = dataset.samples[2]
    assert picture.mode == "RGB" and picture.size == Image.open(path).size
    assert type(mask) is Mask and mask.dtype == torch.uint8
    assert torch.equal(mask[0], torch.from_numpy(np.array(Image.open(mask_path))))
    dataset.transforms = None
    assert np.array_equal(np.asarray(dataset[2][1]), mask[0])


def test_a_dataset_pickles(folders):
    dataset = seneca.SegmentationFolder(*folders, TRANSFORMS)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.samples == dataset.samples and torch.equal(again[1][1], dataset[1][1])


def test_a_picture_without_a_mask_is_named_with_the_remedy(folders):
    images, masks = folders
    gone = sorted(masks.iterdir())[3]
    gone.unlink()
    with pytest.raises(
        FileNotFoundError, match=f"{gone.stem}.jpg has no mask .*masks/{gone.stem} .*: add it, or"
    ):
        seneca.SegmentationFolder(images, masks)


def test_two_masks_of_one_picture_are_refused(folders):
    images, masks = folders
    one = sorted(masks.iterdir())[0]
    Image.open(one).save(one.with_suffix(".bmp"))
    with pytest.raises(ValueError, match="are both masks of"):
        seneca.SegmentationFolder(images, masks)
    assert len(seneca.SegmentationFolder(images, masks, mask_extensions=(".bmp", ".png")[1:])) == 6


def test_folders_without_pictures_are_refused(folders, tmp_path):
    images, masks = folders
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no picture in"):
        seneca.SegmentationFolder(tmp_path / "empty", masks)
    with pytest.raises(FileNotFoundError, match="is no folder"):
        seneca.SegmentationFolder(tmp_path / "nowhere", masks)
    with pytest.raises(ValueError, match="max_pixels"):
        seneca.SegmentationFolder(images, masks, max_pixels=0)


def test_items_are_the_same_without_the_native_core(folders):
    dataset = seneca.SegmentationFolder(*folders)
    made = f"seneca.SegmentationFolder({str(folders[0])!r}, {str(folders[1])!r})"
    code = f"import seneca; print(sum(map(int, {made}[2][1].getdata())))"
    environment = {**os.environ, "SENECA_DISABLE": "1"}
    ran = ready.run("-c", code, env=environment, fresh=True)
    assert int(ran.stdout) == int(np.asarray(dataset[2][1], np.int64).sum())


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-40])


def as_rgb(path):
    Image.open(path).convert("RGB").save(path)


def as_bits(path):
    Image.open(path).convert("1").save(path)


def smaller(path):
    picture = Image.open(path)
    picture.crop((0, 0, picture.width - 1, picture.height)).save(path)


HARM = {
    "mask cut off": ("masks", cut_off, DecodeError, "(?i)truncated|broken"),
    "picture cut off": ("images", cut_off, DecodeError, None),
    "mask of three bytes a pixel": ("masks", as_rgb, DecodeError, "one byte a pixel.*'RGB': save it as"),
    "mask of bits": ("masks", as_bits, DecodeError, "one byte a pixel.*'1': save it as"),
    "mask of another size": (
        "masks",
        smaller,
        DecodeError,
        r"the mask has \d+ x \d+ pixels and its picture.*: give it",
    ),
    "no picture at all": ("masks", lambda path: path.write_bytes(b"a mask"), DecodeError, "no format"),
    "mask gone": ("masks", lambda path: path.unlink(), FileNotFoundError, None),
    "picture gone": ("images", lambda path: path.unlink(), FileNotFoundError, None),
    "mask is a folder": ("masks", lambda path: (path.unlink(), path.mkdir()), OSError, "directory"),
}


@pytest.mark.small(5)
@pytest.mark.parametrize("way", ["item", "loader", "threads", "torch"])
@pytest.mark.parametrize("harm", HARM)
def test_what_is_wrong_with_a_file_is_reported_with_its_name(folders, harm, way):
    which, change, error, message = HARM[harm]
    dataset = seneca.SegmentationFolder(*folders, TRANSFORMS)
    bad = sorted(folders[which == "masks"].iterdir())[3]
    change(bad)
    kind = torch.utils.data.DataLoader if way == "torch" else seneca.DataLoader
    loader = kind(
        dataset, 2, num_workers=2 if way == "threads" else 0, **({} if way == "torch" else {"cache": None})
    )
    assert way == "torch" or loader.explain().startswith("native")
    with pytest.raises(error, match=message) as raised:
        if way == "item":
            dataset[3]
        else:
            list(loader)
    assert bad.name in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_a_bad_pair_is_skipped_if_that_is_wanted(folders):
    dataset = seneca.SegmentationFolder(*folders, TRANSFORMS)
    smaller(sorted(folders[1].iterdir())[3])
    with pytest.warns(seneca.SenecaWarning, match="skipped"):
        batches = list(seneca.DataLoader(dataset, 2, cache=None, on_error="skip"))
    masks = torch.cat([masks for _, masks in batches])
    assert [len(masks) for _, masks in batches] == [2, 2, 1]
    assert torch.equal(masks, torch.stack([dataset[k][1].as_subclass(torch.Tensor) for k in (0, 1, 2, 4, 5)]))


def test_the_same_files_as_a_list_of_pictures_are_another_dataset(folders):
    dataset = seneca.SegmentationFolder(*folders)
    pairs = PictureFiles(dataset.root, dataset.samples, pairs=True)
    alone = PictureFiles(dataset.root, [(path, 0) for pair in dataset.samples for path in pair])
    assert pairs.names() != alone.names() and pairs.fingerprint() != alone.fingerprint()
    assert pairs.fingerprint() == PictureFiles(dataset.root, dataset.samples, pairs=True).fingerprint()
