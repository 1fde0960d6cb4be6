"""Every file of a folder of awkward ones is read or refused as Pillow does, to the bit, by every way.

The table is in awkward_files.py. Where Pillow's libjpeg is not the system's, which the core is built
against, it may round elsewhere, and bits are not asked for.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from awkward_files import EITHER, FILES, READ, REFUSED, File
from PIL import Image
from PIL import __version__ as pillow_version
from torchvision_here import F

import seneca
from seneca import transforms as T
from seneca._core.codec import Codec
from seneca._core.plan import Plan
from seneca.errors import DecodeError, LeftToPillowError
from seneca.transforms._apply import open_picture

pytestmark = pytest.mark.filterwarnings("ignore")  # of bombs, EXIF and MPO: Pillow has much to say

BUILT_HERE = "post" in pillow_version  # pillow-simd comes as source, and finds the system's libjpeg
WHOLE = Plan([], 0, "uint8", True, (0, 0, 0), (1, 1, 1), leaves_above=Image.MAX_IMAGE_PIXELS)
SIDE = 64  # most files are smaller, so that a crop of this size shows all of them
CROP = T.CenterCrop(SIDE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All files of the table, in one class folder."""
    root = tmp_path_factory.mktemp("awkward")
    (root / "files").mkdir()
    for file in FILES:
        (root / "files" / file.name).write_bytes(file.bytes)
    return root


@pytest.fixture(scope="module")
def cropping(folder):
    """The dataset that crops natively."""
    return seneca.ImageFolder(folder, CROP)


@pytest.fixture(scope="module")
def plain(folder):
    """The dataset that gives Pillow's images."""
    return seneca.ImageFolder(folder)


@pytest.fixture(scope="module")
def by_loader(cropping):
    """What the native loader makes of each file, by name: pixels, or the error."""
    loader = seneca.DataLoader(cropping, batch_size=1, num_workers=2, cache=None)
    batches = iter(loader)
    made = {os.path.basename(path): outcome(lambda: next(batches)[0][0]) for path, _ in cropping.samples}
    assert next(batches, None) is None
    # A loader that fell back to torch would count nothing.
    assert loader.stats()["delivered"] == sum(isinstance(result, np.ndarray) for result in made.values())
    return made


def outcome(load):
    """The pixels (height, width, 3) of what ``load`` returns, or the error that is one of ours."""
    try:
        picture = load()
    except DecodeError as error:
        return error
    if isinstance(picture, torch.Tensor):
        picture = (picture * 255).round().to(torch.uint8).permute(1, 2, 0)
    return np.asarray(picture)


def open_by_pillow(path):
    """An RGB image, or the error, whatever it is."""
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except Exception as error:
        return error


def whole(data):
    """Decoded as the pipeline does it, without any transform."""
    try:
        return Codec().decode(WHOLE, data)
    except LeftToPillowError:
        return open_picture(data)


def assert_same_pixels(ours, theirs):
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape
    if BUILT_HERE:
        assert np.array_equal(ours, theirs)
    else:
        assert np.abs(ours.astype(np.int16) - theirs).mean() < 1


def assert_agreed(ours, theirs, on_purpose=""):
    """Same pixels or both an error; the opposite where there is a reason."""
    refused, pillow_refused = isinstance(ours, DecodeError), isinstance(theirs, Exception)
    if on_purpose:
        assert refused != pillow_refused, f"the table has a difference that is none: {on_purpose}"
    else:
        assert refused == pillow_refused, f"ours: {ours!r}; Pillow's: {theirs!r}"
    if not refused and not pillow_refused:
        assert_same_pixels(ours, theirs)


def assert_named(ours, path):
    """An error says which file and why."""
    assert not isinstance(ours, DecodeError) or (ours.reason and str(ours) == f"{path}: {ours.reason}")


@pytest.mark.small(60)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_is_read_or_refused_as_pillow_does(file: File, folder, cropping, plain, by_loader):
    path = folder / "files" / file.name
    index = [os.path.basename(path) for path, _ in cropping.samples].index(file.name)
    theirs = open_by_pillow(path)
    verdict = REFUSED if isinstance(theirs, Exception) else READ
    assert file.pillow in (verdict, EITHER), f"the file is not what its name promises: {theirs!r}"
    middle = theirs if verdict == REFUSED else F.center_crop(theirs, [SIDE, SIDE])

    assert_agreed(outcome(lambda: whole(file.bytes)), theirs, file.on_purpose)
    sample = outcome(lambda: cropping[index][0])
    assert_agreed(sample, middle, file.on_purpose)
    assert_named(sample, path)
    assert_agreed(by_loader[file.name], middle, file.on_purpose)
    assert_named(by_loader[file.name], path)
    image = outcome(lambda: plain[index][0])
    assert_agreed(image, theirs)
    assert_named(image, path)


def test_the_table_names_each_file_once_and_has_every_verdict():
    assert len({file.name for file in FILES}) == len(FILES)
    assert {file.pillow for file in FILES} == {READ, REFUSED, EITHER}


def test_a_folder_named_as_a_picture_is_a_folder(folder, tmp_path):
    (tmp_path / "class" / "folder.jpeg").mkdir(parents=True)
    (tmp_path / "class" / "folder.jpeg" / "inner.jpg").symlink_to(folder / "files" / "grey.jpg")
    dataset = seneca.ImageFolder(tmp_path, CROP)
    assert [path for path, _ in dataset.samples] == [str(tmp_path / "class" / "folder.jpeg" / "inner.jpg")]
    ((images, _),) = seneca.DataLoader(dataset, batch_size=1, cache=None)
    assert torch.equal(images[0], dataset[0][0])


@pytest.mark.parametrize("native", [True, False])
def test_a_link_to_nothing_is_named(native, tmp_path):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "dangling.jpg").symlink_to(tmp_path / "nothing")
    dataset = seneca.ImageFolder(tmp_path, CROP)
    with pytest.raises(FileNotFoundError, match=r"class/dangling\.jpg"):
        next(iter(seneca.DataLoader(dataset, batch_size=1, cache=None))) if native else dataset[0]


@pytest.mark.parametrize("native", [True, False])
def test_a_name_that_is_no_utf_8_is_shown_all_the_same(native, tmp_path):
    (tmp_path / "class").mkdir()
    with open(os.fsencode(tmp_path) + b"/class/caf\xe9.jpg", "wb") as file:
        file.write(b"\xff\xd8\xff\xe0")
    dataset = seneca.ImageFolder(tmp_path, CROP)
    with pytest.raises(DecodeError, match="class/caf\udce9\\.jpg: "):
        next(iter(seneca.DataLoader(dataset, batch_size=1, cache=None))) if native else dataset[0]
