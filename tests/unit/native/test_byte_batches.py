"""Whether batches travel as bytes, and the sentence that says why not."""

import re

import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset, default_collate
from torchvision_here import v2

import seneca
from seneca import transforms as T
from seneca.native.byte_batches import finished, unfinished
from seneca.native.normalizer import Normalizer

NORMALISED = T.Compose([T.Resize((8, 8)), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)])
ON_CUDA = "batches travel as bytes, and cuda normalises them"


def erasing(**arguments):
    return T.Compose([T.Resize((8, 8)), T.ToTensor(), T.RandomErasing(**{"p": 1} | arguments)])


def loader_of(folder, transform=NORMALISED, **options):
    pictures = seneca.ImageFolder(folder, transform)
    return seneca.DataLoader(pictures, **{"batch_size": 4, "cache": None} | options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, ""),
        ({"device": "cpu"}, ""),
        ({"device": "meta"}, ""),
        ({"device": "cuda"}, ON_CUDA),
        ({"device": "mps"}, "batches travel as bytes, and mps normalises them"),
        ({"device": "cuda", "uint8_batches": True}, ON_CUDA),
        ({"device": "cpu", "uint8_batches": True}, "batches travel as bytes, and cpu normalises them"),
        ({"uint8_batches": True}, "batches are uint8, and loader.normalizer does the rest"),
        (
            {"device": "cuda", "uint8_batches": False},
            "batches do not travel as bytes, because uint8_batches=False",
        ),
        ({"device": "cpu", "uint8_batches": False}, ""),
        ({"uint8_batches": False}, ""),
    ],
)
def test_it_is_the_default_on_an_accelerator_and_one_argument_governs_it(picture_folder, options, said):
    text = loader_of(picture_folder, **options).explain()
    assert re.findall("[^;]*(?:batches|bytes)[^;]*", text) == ([" " + said] if said else [])


def mix(batch):
    return default_collate(batch)


class Stream(IterableDataset):
    def __iter__(self):
        return iter([1, 2])


NOISE = erasing(value="random")
OBSTACLES = {
    "collate_fn": (NORMALISED, {"collate_fn": mix}, "collate_fn sees the batch", "leave collate_fn out"),
    "one by one": (NORMALISED, {"batch_size": None}, "batch_size=None yields single", "give a batch_size"),
    "noise": (NOISE, {}, "draws a number for each pixel on the CPU", "give RandomErasing a value"),
    "too many": (erasing(count=17), {}, "erases up to 17 rectangles of a picture", "erase fewer"),
}


@pytest.mark.parametrize("case", OBSTACLES)
@pytest.mark.parametrize("device", ["cpu", None])
def test_a_native_loader_that_cannot_says_why_and_what_to_do(picture_folder, case, device):
    transform, options, why, remedy = OBSTACLES[case]
    loader = loader_of(picture_folder, transform, device=device, uint8_batches=True, **options)
    assert f"batches do not travel as bytes, because {why}" in loader.explain().replace("RandomErasing ", "")
    refused = pytest.raises(ValueError, match=f"uint8_batches=True, but .*{why}.*: .*{remedy}")
    with refused:
        iter(loader)
    with refused:
        loader.normalizer if device is None else iter(loader)
    on_cuda = loader_of(picture_folder, transform, device="cuda", **options)
    assert why in on_cuda.explain()
    on_cuda.device = "cpu"
    images = next(iter(on_cuda))[0]
    assert images.dtype == torch.float32


def test_mixup_computes_with_floats(picture_folder):
    mixup = v2.MixUp(num_classes=10)
    recipe = lambda batch: mixup(*default_collate(batch))  # noqa: E731 - torchvision's recipe
    loader = loader_of(picture_folder, collate_fn=recipe, device="cuda")
    assert "because MixUp or CutMix computes with floats in the batch's own memory" in loader.explain()


@pytest.mark.parametrize("dataset", [TensorDataset(torch.arange(8)), Stream()])
def test_datasets_of_torch_s_workers_say_so(dataset):
    loader = seneca.DataLoader(dataset, 4, cache=None, device="cuda")
    why = "batches do not travel as bytes, because torch's workers make its items"
    assert why in loader.explain().split("\n")[0]
    loader = seneca.DataLoader(dataset, 4, cache=None, uint8_batches=True)
    for refused in (lambda: iter(loader), lambda: loader.normalizer):
        with pytest.raises(ValueError, match=r"uint8_batches=True, but torch's workers make.*leave it out"):
            refused()
    assert next(iter(seneca.DataLoader(dataset, 2, cache=None, device="cpu"))) is not None


def test_rectangles_that_nobody_hands_out_are_refused_without_a_device(picture_folder):
    transform = erasing()
    loader = loader_of(picture_folder, transform, uint8_batches=True)
    for refused in (lambda: iter(loader), lambda: loader.normalizer):
        with pytest.raises(ValueError, match=r"rectangles differ from batch to batch.*: give device="):
            refused()
    assert ON_CUDA in loader_of(picture_folder, transform, device="cuda").explain()
    never = loader_of(picture_folder, erasing(p=0), uint8_batches=True)
    assert next(iter(never))[0].dtype == torch.uint8


def test_a_transform_that_makes_uint8_is_left_as_it_is(picture_folder):
    transform = T.Compose([T.Resize((8, 8)), T.PILToTensor(), T.RandomErasing(1, value=7)])
    plain, asked = (
        loader_of(picture_folder, transform, uint8_batches=wanted, generator=torch.Generator().manual_seed(1))
        for wanted in (False, True)
    )
    for (mine, _), (theirs, _) in zip(asked, plain, strict=True):
        assert mine.dtype == torch.uint8 and torch.equal(mine, theirs) and bool((mine == 7).any())
        assert asked.normalizer(mine) is mine
    assert asked.normalizer is asked.normalizer  # it inspects the dataset once


def test_a_batch_ships_as_many_rectangles_as_one_of_its_pictures_has():
    normalizer, data = (
        Normalizer((0, 0, 0), (1, 1, 1)),
        [torch.zeros(2, 3, 4, 4, dtype=torch.uint8), "labels"],
    )
    erasures = torch.zeros(2, 3, 7, dtype=torch.int32)
    assert unfinished(data, normalizer, erasures).erasures is None
    assert unfinished(data, normalizer, None).erasures is None
    erasures[1, 1, 2:4] = 2
    shipped = unfinished(data, normalizer, erasures)
    assert torch.equal(shipped.erasures, erasures[:, :2])
    for kind in (list, tuple):
        made = finished(kind(data), normalizer, None)
        assert type(made) is kind and made[0].dtype == torch.float32 and made[1] == "labels"
