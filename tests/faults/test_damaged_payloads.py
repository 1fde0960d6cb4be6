"""Payloads that are damaged where they lie in the cache: the file is read, and blamed only if it is bad."""

import os

import numpy as np
import pytest
import torch
from engine import DECODED, ENCODED, READY, RECODED, SLOT, Records

import seneca
from seneca import transforms as T
from seneca.errors import DecodeError

NATIVE = T.Compose([T.Resize((16, 20))])


def in_python(picture):
    """Nothing that the native core could run."""
    return torch.from_numpy(np.array(picture.resize((20, 16))))


@pytest.fixture(params=["native", "native, threads", "python", "python, workers"])
def way(request):
    """A transform, and options of a loader."""
    workers = 2 if "," in request.param else 0
    return (NATIVE if "native" in request.param else in_python), {"num_workers": workers}


def load(dataset, name, split, **options):
    """Without checks: one in 4,096 of them would find the damage before it is met."""
    options |= {"cache_bytes": "8MiB", "check_every": None}
    return seneca.DataLoader(dataset, 8, cache=name, split=split, **options)


def damage(name, form, change):
    """Change what the segment has of a form; how many payloads that were."""
    path = f"/dev/shm/seneca-{os.geteuid()}-{name}"
    records = Records(path)
    writable = np.memmap(path, np.uint8, "r+")
    at, payload_at = int(records.head["slots_at"]), int(records.head["payload_at"])
    slots = writable[at : at + SLOT.itemsize * len(records.slots)].view(SLOT)
    found = np.flatnonzero((slots["state"] == READY) & (slots["form"] == form))
    for slot in found:
        begin = payload_at + 4096 * int(slots[slot]["granule"])
        change(slots[slot : slot + 1], writable[begin : begin + int(slots[slot]["length"])])
    return len(found)


def wipe_header(_, payload):
    payload[3:150] = 0


def wipe_end(_, payload):
    payload[-150:] = 0xFF


def wipe_magic(_, payload):
    payload[:8] = 0


def lie_about_height(slot, _):
    slot["height"] += 1


def epochs_around(loader, name, form, change):
    """An epoch that fills the cache, the damage, and the samples of another epoch, by index."""
    for _ in loader:
        pass
    damaged = damage(name, form, change)
    assert damaged == len(loader.dataset)
    images = torch.cat([images for images, _ in loader])
    assert len(images) == len(loader.dataset)
    return images


@pytest.mark.small(2)
@pytest.mark.parametrize("change", [wipe_header, wipe_magic])
@pytest.mark.parametrize("png", [False, True])
def test_an_encoded_payload_that_is_damaged_is_read_from_its_file(picture_folder, name, way, change, png):
    from PIL import Image

    if png:
        for path in picture_folder.rglob("*.jpg"):
            Image.open(path).save(path.with_suffix(".bmp"))
            path.unlink()
    transform, options = way
    dataset = seneca.ImageFolder(picture_folder, transform)
    loader = load(dataset, name, "100-0-0", **options)
    images = epochs_around(loader, name, ENCODED, change)
    assert loader.stats()["damaged"] == 48
    for index, image in enumerate(images):
        assert torch.equal(image, dataset[index][0]), index


@pytest.mark.parametrize("change", [wipe_header, wipe_end, wipe_magic])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_recoded_payload_that_is_damaged_is_read_from_its_file(picture_folder, name, workers, change):
    for path in picture_folder.rglob("*.jpg"):
        if path.stem in ("03", "04", "08", "09"):
            path.unlink()  # their samplings have no such form
    dataset = seneca.ImageFolder(picture_folder, NATIVE)
    loader = load(dataset, name, "0-100-0-0", num_workers=workers)
    images = epochs_around(loader, name, RECODED, change)
    assert loader.stats()["damaged"] == len(dataset)
    for index, image in enumerate(images):
        assert torch.equal(image, dataset[index][0]), index


@pytest.mark.small(1)
def test_a_decoded_payload_of_another_size_is_read_from_its_file(picture_folder, name, way):
    transform, options = way
    dataset = seneca.ImageFolder(picture_folder, transform)
    loader = load(dataset, name, "0-100-0", **options)
    images = epochs_around(loader, name, DECODED, lie_about_height)
    assert loader.stats()["damaged"] == 48
    for index, image in enumerate(images):
        assert torch.equal(image, dataset[index][0]), index


@pytest.mark.small(1)
def test_where_the_file_is_bad_as_well_it_is_blamed(picture_folder, name, way):
    transform, options = way
    dataset = seneca.ImageFolder(picture_folder, transform)
    bad = dataset.samples[0][0]
    loader = load(dataset, name, "100-0-0", **options)
    for _ in loader:
        pass
    damage(name, ENCODED, wipe_header)
    before = os.stat(bad)
    with open(bad, "r+b") as file:
        file.write(bytes(before.st_size))
    os.utime(bad, ns=(before.st_atime_ns, before.st_mtime_ns))  # it looks as it did
    with pytest.raises(DecodeError, match=bad):
        next(iter(loader))


class Fails:
    """A transform that fails once the test says so."""

    def __init__(self):
        self.fails = False

    def __call__(self, picture):
        if self.fails:
            raise RuntimeError("the transform's own")
        return in_python(picture)


def test_a_transform_that_fails_is_no_damage(picture_folder, name):
    transform = Fails()
    dataset = seneca.ImageFolder(picture_folder, transform)
    loader = load(dataset, name, "100-0-0", key="fails")
    for _ in loader:
        pass
    transform.fails = True
    with pytest.raises(RuntimeError, match="the transform's own"):
        next(iter(loader))
    assert loader.stats()["damaged"] == 0
