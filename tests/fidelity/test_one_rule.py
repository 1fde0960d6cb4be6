"""One rule for pictures: a file gives what Pillow gives in this process, with its settings, or one error.

The error names the file, and ``except OSError`` catches it. It is the same whatever the crop, and the next
batch comes after it. With ``on_error="skip"`` exactly the files come that Pillow reads.
"""

from __future__ import annotations

import os

import picture_fuzz
import pytest
from awkward_files import FILES
from awkward_formats import awkward_formats
from picture_fuzz import PythonCrop, compare, pillows_settings
from sizes import size

import seneca
from seneca import transforms as T

pytestmark = pytest.mark.filterwarnings("ignore")  # Pillow has much to say of broken files

MAX_PIXELS = 1 << 20
FEW_PIXELS = 5000  # crops have 9216: Pillow's limit, of twice as many, is also one of crops
EVERY = size(6, 1)  # of these files, one in so many
ON_PURPOSE = {file.name for file in FILES if file.on_purpose}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """The paths of all files of both tables, but those that Seneca treats otherwise on purpose."""
    root = tmp_path_factory.mktemp("one-rule")
    made = []
    for file in [*FILES, *awkward_formats()]:
        if callable(file.data) or file.name in ON_PURPOSE:
            continue
        made.append(str(root / f"{len(made):03}-{file.name}"))
        with open(made[-1], "wb") as out:
            out.write(file.data)
    assert len(made) >= 700
    return made


@pytest.mark.small(1)
@pytest.mark.parametrize("takes_truncated", [False, True])
@pytest.mark.parametrize("max_pixels", [MAX_PIXELS, FEW_PIXELS])
def test_each_file_is_read_or_refused_as_by_pillow(takes_truncated, max_pixels, paths):
    shift = int(takes_truncated) + (max_pixels == FEW_PIXELS)
    with pillows_settings(takes_truncated=takes_truncated, max_pixels=max_pixels):
        differences, counts = compare(paths[shift::EVERY])
    assert not differences
    assert min(counts["read"], counts["refused"]) * EVERY > (100 if max_pixels == MAX_PIXELS else 30)


def outcomes(batches):
    """The path that each error names, or the pixels, until the epoch ends."""
    found = []
    while True:
        try:
            found.append(next(batches)[0].numpy().tobytes())
        except StopIteration:
            return found
        except OSError as error:
            found.append(str(error))


def test_the_same_comes_from_a_cache(paths):
    dataset = seneca.PictureList([(path, 0) for path in paths[::9]], T.CenterCrop(20))
    with pillows_settings(max_pixels=MAX_PIXELS):
        without = outcomes(iter(seneca.DataLoader(dataset, batch_size=1, cache=None)))
        loader = seneca.DataLoader(dataset, batch_size=1, cache_bytes="16MiB")
        assert len(without) == len(dataset)
        for _ in range(3):
            assert outcomes(iter(loader)) == without


@pytest.mark.parametrize("transform", [T.CenterCrop(8), PythonCrop(8)], ids=["native", "staged"])
def test_a_fifo_and_a_link_to_nothing_do_not_hang_and_are_named(transform, tmp_path):
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "fifo.jpg")
    (tmp_path / "a" / "nothing.jpg").symlink_to(tmp_path / "not-there")
    (tmp_path / "a" / "folder.jpg").mkdir()
    picture_fuzz.picture().save(tmp_path / "a" / "picture.png")
    dataset = seneca.ImageFolder(tmp_path, transform)
    found = outcomes(iter(seneca.DataLoader(dataset, batch_size=1, cache=None)))
    names = [os.path.basename(path) for path, _ in dataset.samples]
    assert names == ["fifo.jpg", "nothing.jpg", "picture.png"]
    for name, outcome in zip(names, found, strict=True):
        assert (name in outcome) if isinstance(outcome, str) else name == "picture.png"
