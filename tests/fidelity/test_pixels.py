"""The pixels are Pillow's and torchvision's, on photographs and on made-up pictures.

"Close" means what two right ways to compute the same differ by: on average 0.3 of 255 grey levels at
the most, and 99.9 % of the values no further apart than 2.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracle import pictures as portable
from PIL import Image
from PIL import __version__ as pillow_version
from sizes import size
from torchvision_here import F, v1, v2

import seneca
from seneca import transforms as T
from seneca._core.codec import Codec
from seneca._core.plan import Plan
from seneca.testing import make_pictures
from seneca.transforms import _apply as sample
from seneca.transforms._pipeline import compile_transform

BUILT_HERE = "post" in pillow_version  # pillow-simd comes as source, and finds the system's libjpeg
BILINEAR = F.InterpolationMode.BILINEAR
MEAN, STD = torch.tensor(T.IMAGENET_MEAN)[:, None, None], torch.tensor(T.IMAGENET_STD)[:, None, None]
NORMALIZE = T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)
PHOTOGRAPHS, MADE_UP = size((6, 5), (12, 8))


@pytest.fixture(scope="module", params=["photographs", "made up"])
def folder(request, imagenet_sample, tmp_path_factory):
    """A folder of class folders: some photographs, or pictures of all shapes."""
    folder = tmp_path_factory.mktemp("pictures")
    if request.param == "made up":
        return make_pictures(folder, count=MADE_UP, classes=3, seed=11, sides=(20, 700))
    (folder / "photographs").mkdir()
    for path in sorted(imagenet_sample.glob("*/*"))[:PHOTOGRAPHS]:
        (folder / "photographs" / path.name).symlink_to(path)
    return folder


@pytest.fixture(params=["native", "portable"])
def way(request, monkeypatch):
    """With the native core, and as it is where there is none."""
    if request.param == "portable":
        portable.run_here(monkeypatch)
    return request.param


@pytest.fixture(scope="module")
def pictures(folder):
    """Each picture as Pillow decodes it, in a dataset's order."""
    return [opened(path) for path, _ in seneca.ImageFolder(folder).samples]


def opened(path):
    with Image.open(path) as image:
        return image.convert("RGB")


def levels(image):
    """Any picture in grey levels, (height, width, 3): PIL, uint8 tensor, or float and normalised."""
    if isinstance(image, Image.Image):
        return np.asarray(image, np.float32)
    if image.dtype != torch.uint8:
        image = (image * STD + MEAN) * 255
    return image.permute(1, 2, 0).float().numpy()


def assert_close(ours, theirs):
    ours, theirs = levels(ours), levels(theirs)
    assert ours.shape == theirs.shape
    apart = np.abs(ours - theirs)
    assert apart.mean() <= 0.3
    assert (apart <= 2.001).mean() >= 0.999  # a thousandth for what normalising rounds


def as_tensor(picture):
    return v2.functional.pil_to_tensor(picture)


def test_a_decoded_picture_is_pillows_to_the_bit(folder, imagenet_sample):
    codec = Codec()
    whole = Plan([], 0, "uint8", True, (0, 0, 0), (1, 1, 1))
    for path in [*sorted(folder.glob("*/*")), *sorted(imagenet_sample.glob("*/*"))[-size(12, 40) :]]:
        ours = codec.decode(whole, path.read_bytes())
        if BUILT_HERE:
            np.testing.assert_array_equal(ours, opened(path), str(path))
        else:
            assert_close(Image.fromarray(ours), opened(path))


@pytest.mark.parametrize("size", [(224, 224), (97, 310), (500, 460), (8, 5)])
def test_a_resized_picture_is_pillows_and_torchvisions(size, folder, pictures, way):
    dataset = seneca.ImageFolder(folder, T.Compose([T.Resize(size), NORMALIZE]))
    on_tensors = v2.Resize(size, antialias=True)
    for index, picture in enumerate(pictures):
        ours = dataset[index][0]
        assert_close(ours, picture.resize(size[::-1], Image.Resampling.BILINEAR))
        if index % 4 == 0:
            assert_close(ours, on_tensors(as_tensor(picture)))


def test_the_pipeline_of_evaluation_is_torchvisions_on_images_and_on_tensors(folder, pictures, way):
    dataset = seneca.ImageFolder(
        folder, T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor(), NORMALIZE])
    )
    on_images = v1.Compose(
        [v1.Resize(256), v1.CenterCrop(224), v1.ToTensor(), v1.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)]
    )
    on_tensors = v2.Compose(
        [
            v2.Resize(256, antialias=True),
            v2.CenterCrop(224),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD),
        ]
    )
    for index, picture in enumerate(pictures):
        ours = dataset[index][0]
        assert_close(ours, on_images(picture))
        if index % 4 == 0:
            assert_close(ours, on_tensors(as_tensor(picture)))


def test_the_loader_delivers_the_pipeline_of_evaluation(folder, pictures):
    dataset = seneca.ImageFolder(folder, T.Compose([T.Resize(256), T.CenterCrop(224), NORMALIZE]))
    theirs = v1.Compose([v1.Resize(256), v1.CenterCrop(224), v1.ToTensor()])
    loader = seneca.DataLoader(dataset, batch_size=16, num_workers=2, cache=None)
    images = torch.cat([images for images, _ in loader])
    assert loader.stats()["delivered"] == len(dataset) == len(images)
    for ours, picture in zip(images, pictures, strict=True):
        assert_close(ours, levels_as_normalised(theirs(picture)))


def levels_as_normalised(tensor):
    return (tensor - MEAN) / STD


def drawn_natively(transform, picture, seed):
    """The box that the core draws for a sample whose number from torch's generator is ``seed``."""
    (route,) = compile_transform(transform).plan.route(picture.height, picture.width, seed)
    return route["window"] if route["full"] == route["box"][2:] else route["box"]


@pytest.mark.parametrize(
    ("size", "scale"), [((224, 224), (0.08, 1.0)), ((300, 120), (0.5, 1.0)), ((64, 64), (0.01, 0.05))]
)
def test_a_random_crop_of_the_same_box_is_torchvisions_resized_crop(
    size, scale, folder, pictures, way, monkeypatch
):
    transform = T.Compose([T.RandomResizedCrop(size, scale), T.RandomHorizontalFlip(p=1), NORMALIZE])
    dataset = seneca.ImageFolder(folder, transform)
    boxes = []
    draw = portable._random_box

    def noted(*arguments):
        left, top, right, bottom = draw(*arguments)
        boxes.append((top, left, bottom - top, right - left))
        return left, top, right, bottom

    monkeypatch.setattr(portable, "_random_box", noted)
    for index, picture in enumerate(pictures):
        torch.manual_seed(index)
        seed = sample.seed_of(compile_transform(transform))
        torch.manual_seed(index)
        ours = dataset[index][0]
        box = drawn_natively(transform, picture, seed) if way == "native" else boxes[index]
        assert_close(ours, F.hflip(F.resized_crop(picture, *box, size, BILINEAR)))
        if index % 4 == 0:
            on_tensor = v2.functional.resized_crop(as_tensor(picture), *box, size, BILINEAR, antialias=True)
            assert_close(ours, v2.functional.hflip(on_tensor))
    assert len(boxes) == (0 if way == "native" else len(dataset))


def test_fast_decoding_of_photographs_is_as_close_as_is_said(imagenet_sample, tmp_path):
    """What is decoded at its full size is exact; the rest is as ImageFolder's documentation says."""
    (tmp_path / "photographs").mkdir()
    for path in sorted(imagenet_sample.glob("*/*"))[: 4 * PHOTOGRAPHS]:
        (tmp_path / "photographs" / path.name).symlink_to(path)
    transform = T.Compose([T.Resize((112, 112)), T.PILToTensor()])  # to less than half
    exact, fast = (seneca.ImageFolder(tmp_path, transform, decode=decode) for decode in ("exact", "fast"))
    off = torch.stack([(exact[i][0].int() - fast[i][0].int()).abs() for i in range(len(exact))]).float()
    shrunk = off.flatten(1).any(1)
    assert shrunk.float().mean() > 0.5
    assert off[shrunk].mean() <= 2
    assert (off[shrunk] <= 24).float().mean() >= 0.999
    fast.transform = exact.transform = T.Compose([T.CenterCrop(112), T.PILToTensor()])
    assert all(torch.equal(exact[i][0], fast[i][0]) for i in range(8)), "not shrunk: exact"
