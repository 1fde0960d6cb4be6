"""ImageFolder finds what torchvision's finds, in the same order, and makes the same items."""

import os
import pickle
import random
import re

import numpy as np
import pytest
import torch
from oracle import pictures as portable
from PIL import Image, ImageFile, ImageOps
from sizes import size

from seneca import ImageFolder
from seneca import transforms as T
from seneca.errors import DecodeError, PictureTooLargeError, PlanError


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


def test_classes_and_pictures_are_sorted_as_torchvision_sorts_them(tmp_path):
    touch(
        tmp_path,
        "b/2.jpg",
        "b/10.jpg",
        "b/sub/0.jpg",
        "a/Z.JPEG",
        "a/a.png",
        "a/notes.txt",
        "loose.jpg",
        "B/x.webp",
    )
    dataset = ImageFolder(tmp_path)
    assert dataset.classes == ["B", "a", "b"]
    assert dataset.class_to_idx == {"B": 0, "a": 1, "b": 2}
    names = [os.path.relpath(path, tmp_path) for path, _ in dataset.samples]
    assert names == ["B/x.webp", "a/Z.JPEG", "a/a.png", "b/10.jpg", "b/2.jpg", "b/sub/0.jpg"]
    assert dataset.targets == [0, 1, 1, 2, 2, 2] == [target for _, target in dataset.imgs]
    assert len(dataset) == 6 and dataset.root == str(tmp_path)


def test_links_to_files_and_to_folders_are_followed(tmp_path):
    touch(tmp_path / "store", "deep/1.jpg", "2.jpg")
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "linked").symlink_to(tmp_path / "store" / "deep")
    (root / "a" / "file.jpg").symlink_to(tmp_path / "store" / "2.jpg")
    (root / "b").symlink_to(tmp_path / "store")
    names = [os.path.relpath(path, root) for path, _ in ImageFolder(root).samples]
    assert names == ["a/file.jpg", "a/linked/1.jpg", "b/2.jpg", "b/deep/1.jpg"]


def test_a_folder_without_class_folders_is_refused(tmp_path):
    touch(tmp_path, "1.jpg")
    with pytest.raises(FileNotFoundError, match="Couldn't find any class folder in"):
        ImageFolder(tmp_path)


def test_classes_without_pictures_are_named_unless_allowed(tmp_path):
    touch(tmp_path, "a/1.jpg", "b/notes.txt", "c/notes.txt")
    with pytest.raises(
        FileNotFoundError, match=r"no valid file for the classes b, c\. Supported extensions are: \.jpg"
    ):
        ImageFolder(tmp_path)
    assert ImageFolder(tmp_path, allow_empty=True).classes == ["a", "b", "c"]


def test_other_extensions_can_be_asked_for(tmp_path):
    touch(tmp_path, "a/1.jpg", "a/2.jxl")
    assert len(ImageFolder(tmp_path, extensions=".jxl")) == 1
    assert len(ImageFolder(tmp_path, extensions=[".jxl", ".jpg"])) == 2


def test_it_shows_itself_as_torchvisions_does(picture_folder):
    text = repr(ImageFolder(picture_folder, T.CenterCrop(8)))
    assert text.splitlines()[:2] == ["Dataset ImageFolder", "    Number of datapoints: 48"]
    assert text.endswith("Transform: CenterCrop(size=(8, 8))")


def test_a_sample_is_a_float_tensor_and_a_label(picture_folder):
    dataset = ImageFolder(picture_folder, T.RandomResizedCrop((20, 30)))
    image, label = dataset[13]
    assert image.dtype == torch.float32 and image.shape == (3, 20, 30) and image.is_contiguous()
    assert image.min() >= 0 and image.max() <= 1
    assert label == 1 and type(label) is int


def test_torchs_seed_decides_the_crop(picture_folder):
    dataset = ImageFolder(picture_folder, T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip()]))
    torch.manual_seed(3)
    first, second = dataset[0][0], dataset[0][0]
    torch.manual_seed(3)
    assert torch.equal(dataset[0][0], first)
    assert not torch.equal(first, second)


def test_a_picture_that_is_no_jpeg_is_pillows_work(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 11, 3), dtype=np.uint8)
    (tmp_path / "a").mkdir()
    Image.fromarray(pixels).save(tmp_path / "a" / "1.png")
    image, _ = ImageFolder(tmp_path, T.CenterCrop((9, 11)))[0]
    assert torch.equal((image * 255).round().to(torch.uint8), torch.from_numpy(pixels).permute(2, 0, 1))


@pytest.mark.parametrize("name", ["1.jpg", "1.png"])
@pytest.mark.parametrize("transform", [None, T.CenterCrop(8)])
def test_a_damaged_picture_is_named(tmp_path, name, transform):
    touch(tmp_path, f"a/{name}")
    with pytest.raises(DecodeError, match=name):
        ImageFolder(tmp_path, transform)[0]


def test_a_transform_may_be_set_later_and_may_be_plain_python(picture_folder):
    dataset = ImageFolder(picture_folder)
    assert dataset[0][0].mode == "RGB"
    dataset.transform = lambda picture: picture.size
    with Image.open(dataset.samples[0][0]) as picture:
        assert dataset[0][0] == picture.size
    dataset.transform = T.CenterCrop(8)
    assert dataset[0][0].shape == (3, 8, 8)
    dataset.transform = T.Resize(8)
    with pytest.raises(PlanError, match="cannot be stacked"):
        dataset[0]


def save(path, height=24, width=36, **options):
    """A smooth picture without symmetry."""
    path.parent.mkdir(exist_ok=True)
    small = np.random.default_rng(1).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    picture = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    picture.save(path, **({"quality": 95} if path.suffix == ".jpg" else {}), **options)


def exif(orientation):
    data = Image.Exif()
    data[0x0112] = orientation
    return data.tobytes()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["1.jpg", "1.png"])
def test_pictures_are_turned_upright_where_that_is_wanted(tmp_path, name, orientation):
    path = tmp_path / "a" / name
    save(path, exif=exif(orientation))
    with Image.open(path) as file:
        as_stored, upright = file.convert("RGB"), ImageOps.exif_transpose(file).convert("RGB")
    assert upright.size == ((36, 24) if orientation < 5 else (24, 36))
    for apply, wanted in ((False, as_stored), (True, upright)):
        dataset = ImageFolder(tmp_path, apply_exif_orientation=apply)
        assert dataset[0][0].tobytes() == wanted.tobytes()
        dataset.transform = T.Compose([T.CenterCrop((wanted.height, wanted.width)), T.PILToTensor()])
        pixels = torch.from_numpy(np.array(wanted)).permute(2, 0, 1)
        assert torch.equal(dataset[0][0], pixels)


@pytest.mark.parametrize("name", ["1.jpg", "1.png"])
@pytest.mark.parametrize("data", [b"Exif\0\0rubbish", exif(6)[:-14], exif(9), exif(0)])
def test_damaged_exif_data_turn_nothing(tmp_path, name, data):
    save(tmp_path / "a" / name, exif=data)
    transform = T.Compose([T.CenterCrop((24, 36)), T.PILToTensor()])
    images = [ImageFolder(tmp_path, transform, apply_exif_orientation=apply)[0][0] for apply in (True, False)]
    assert torch.equal(*images)
    assert ImageFolder(tmp_path, apply_exif_orientation=True)[0][0].size == (36, 24)


@pytest.mark.parametrize("name", ["1.jpg", "1.png"])
@pytest.mark.parametrize("transform", [None, T.CenterCrop(8)])
@pytest.mark.parametrize("core", [True, False])
def test_a_picture_of_too_many_pixels_is_refused_and_named(tmp_path, name, transform, core, monkeypatch):
    if not core:
        portable.run_here(monkeypatch)
    save(tmp_path / "a" / name)
    ImageFolder(tmp_path, transform, max_pixels=24 * 36)[0]
    with pytest.raises(PictureTooLargeError) as refused:
        ImageFolder(tmp_path, transform, max_pixels=24 * 36 - 1)[0]
    assert re.search(rf"{name}: 24 x 36 pixels .* max_pixels=863: .* allow more", str(refused.value))


@pytest.mark.parametrize("name", ["1.jpg", "1.png"])
@pytest.mark.parametrize("transform", [None, T.CenterCrop(8)])
def test_pillows_settings_of_now_count_for_an_item(tmp_path, monkeypatch, name, transform):
    save(tmp_path / "a" / name)
    dataset = ImageFolder(tmp_path, transform)
    dataset[0]
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(
        PictureTooLargeError, match=rf"{name}: .*MAX_IMAGE_PIXELS: raise it or set it to None"
    ):
        dataset[0]
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    path = tmp_path / "a" / name
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DecodeError, match=name):
        dataset[0]
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    dataset[0]


def test_fast_decoding_gives_nearly_the_same_pixels(picture_folder):
    transform = T.Compose([T.Resize((16, 16)), T.PILToTensor()])
    exact, fast = (ImageFolder(picture_folder, transform, decode=decode) for decode in ("exact", "fast"))
    off = torch.stack([(exact[i][0].int() - fast[i][0].int()).abs() for i in range(len(exact))]).float()
    assert 0 < off.mean() < 5, off.mean((1, 2, 3))  # small pictures of strong colours: the worst case


@pytest.mark.parametrize("options", [{"decode": "quick"}, {"max_pixels": 0}, {"max_pixels": -1}])
def test_a_wrong_option_is_refused_and_named(picture_folder, options):
    with pytest.raises(ValueError, match=f"^{next(iter(options))} is"):
        ImageFolder(picture_folder, **options)


@pytest.mark.parametrize("method", size(["fork"], ["fork", "spawn"]))
def test_plain_torch_workers_give_the_same_as_this_process(picture_folder, method):
    dataset = ImageFolder(picture_folder, T.Compose([T.Resize(40), T.CenterCrop(32)]))
    dataset[0]  # a codec in use before the fork must not harm the children
    loader = torch.utils.data.DataLoader(dataset, 8, num_workers=size(1, 2), multiprocessing_context=method)
    images = torch.cat([images for images, _ in loader])
    assert torch.equal(images, torch.stack([dataset[i][0] for i in range(48)]))


def test_it_pickles_small_and_whole(picture_folder):
    options = {"decode": "fast", "apply_exif_orientation": True, "max_pixels": 9409}
    dataset = ImageFolder(picture_folder, T.CenterCrop(8), **options)
    dataset[random.randrange(48)]
    copy = pickle.loads(pickle.dumps(dataset))
    assert {name: getattr(copy, name) for name in options} == options
    assert copy.samples == dataset.samples and copy.fingerprint() == dataset.fingerprint()
    assert torch.equal(copy[3][0], dataset[3][0])
