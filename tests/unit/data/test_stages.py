"""How one sample is made, stage by stage: from wherever it begins, the same comes out."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision_here import v1

import seneca
from seneca import transforms as T
from seneca.data import serialize as items
from seneca.data.stages import ByStages, Opaque, StagedDataset, number_of
from seneca.data.support import inspect_dataset


class Sounds:
    """What a user writes: no base class."""

    def __init__(self):
        self.calls = []

    def __len__(self):
        return 4

    def read(self, index):
        self.calls.append("read")
        return bytes(range(index, index + 8))

    def decode(self, data):
        self.calls.append("decode")
        return {"wave": np.frombuffer(data, np.uint8).astype(np.float32), "rate": 8000}

    def augment(self, array, rng):
        self.calls.append("augment")
        return {"wave": array["wave"] * rng.uniform(0.5, 1), "rate": array["rate"]}


class Labelled(Sounds):
    def label(self, index):
        return index * 10


class Batched:
    """A dataset that makes batches at once, as some of Hugging Face's do."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise AssertionError("one by one")

    def __getitems__(self, indices):
        return tuple(i * 2 for i in indices)


def stages_of(dataset):
    return ByStages(dataset, b"s" * 16, 1, 2)


def same(a, b):
    return a["rate"] == b["rate"] and np.array_equal(a["wave"], b["wave"])


def test_a_number_distinguishes_its_parts():
    assert number_of(b"ab", b"c") != number_of(b"a", b"bc") != number_of(b"abc")
    assert number_of(b"ab") == number_of(b"ab") and all(number_of(bytes([i])) for i in range(256))
    assert number_of(b"ab").bit_length() <= 64


def test_what_offers_stages_is_known_by_its_methods():
    assert isinstance(Sounds(), StagedDataset) and not isinstance(Batched(), StagedDataset)
    assert seneca.StagedDataset is StagedDataset


def test_an_opaque_dataset_is_asked_as_torch_asks_it():
    assert Opaque(Batched(), b"s" * 16, 2).make([3, 1]) == [6, 2]
    assert Opaque([5, 6, 7], b"s" * 16, 2).make([2, 0]) == [7, 5]


def test_staged_samples_are_the_same_from_wherever_they_begin():
    stages = stages_of(Sounds())
    data = stages.read(2)
    made = []
    for begin in (
        lambda: stages.make([2])[0],
        lambda: stages.augment_encoded(2, data),
        lambda: stages.augment(2, stages.decode(2, data)),
    ):
        torch.manual_seed(7)
        made.append(begin())
    assert same(made[0], made[1]) and same(made[0], made[2])
    assert not same(made[0], stages.make([2])[0]), "the next random numbers of torch's"


def test_a_sample_is_read_and_decoded_once():
    dataset = Sounds()
    stages_of(dataset).make([0, 1])
    assert dataset.calls == ["read", "decode", "augment"] * 2
    dataset.calls.clear()
    stages_of(dataset).augment(0, stages_of(dataset).decode(0, b"abcd"))
    assert dataset.calls == ["decode", "augment"]


def test_decoded_is_copied_out_so_that_augmenting_in_place_spoils_nothing():
    class InPlace(Sounds):
        def augment(self, array, rng):
            array["wave"] *= 0
            return array

    stages = stages_of(InPlace())
    payload = stages.decode(1, stages.read(1))
    before = bytes(payload.data)
    assert not stages.augment(1, payload)["wave"].any()
    assert bytes(payload.data) == before


def test_labels_are_put_to_samples_at_the_end():
    assert stages_of(Labelled()).present(3, "sample") == ("sample", 30)
    assert stages_of(Sounds()).present(3, "sample") == "sample"


@pytest.mark.parametrize("read", [bytearray(b"ab"), memoryview(b"ab"), np.zeros(2), "ab", None])
def test_what_is_read_has_to_be_bytes(read):
    dataset = Sounds()
    dataset.read = lambda index: read
    for make in (lambda: stages_of(dataset).make([1]), lambda: stages_of(dataset).read(1)):
        with pytest.raises(
            TypeError, match=rf"Sounds\.read\(1\) is to return bytes, but .*{type(read).__name__}"
        ):
            make()


@pytest.mark.small(1)
@pytest.mark.parametrize("transform", ["native", "python", "static"])
def test_pictures_are_the_same_from_wherever_they_begin(picture_folder, transform):
    transform, targets = {
        "native": (T.Compose([T.Resize(40), T.RandomCrop(24)]), lambda label: -label),
        "python": (v1.Compose([v1.Resize(40), v1.RandomCrop(24), np.asarray]), None),
        "static": (v1.Compose([T.Static(lambda image: image.resize((30, 30))), v1.RandomCrop(24)]), None),
    }[transform]
    dataset = seneca.ImageFolder(picture_folder, transform)
    dataset.target_transform = targets
    stages = inspect_dataset(dataset).stages
    data = stages.read(20)
    assert data == Path(dataset.samples[20][0]).read_bytes()
    made = []
    for begin in (
        lambda: stages.make([20])[0],
        lambda: stages.augment_encoded(20, data),
        lambda: stages.augment(20, stages.decode(20, data)),
        lambda: dataset[20][0],
    ):
        torch.manual_seed(3)
        item, label = stages.present(20, begin())
        assert label == (1 if targets is None else -1)
        made.append(np.asarray(item))
    assert all(np.array_equal(made[0], item) for item in made[:3])
    assert made[3].shape == made[0].shape
    if targets is None:  # the same code draws from the same generator
        assert np.array_equal(made[0], made[3])


def test_decoded_pixels_are_those_that_native_jobs_keep(picture_folder):
    """With equal heads a Python transform takes up what the native core has decoded, and the other way."""
    native = inspect_dataset(seneca.ImageFolder(picture_folder, T.Compose([T.Resize(40), T.RandomCrop(24)])))
    python = inspect_dataset(seneca.ImageFolder(picture_folder, v1.Compose([v1.Resize(40), np.asarray])))
    assert native.pipeline.head_fingerprint == native.stages.decoded == python.stages.decoded
    data = native.stages.read(5)
    ours, theirs = native.stages.decode(5, data), python.stages.decode(5, data)
    assert ours[1:] == theirs[1:] and np.array_equal(ours.data, theirs.data)
    assert min(ours[1:]) == 40


def test_a_picture_for_python_is_what_pillow_opens(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, None)
    stages = inspect_dataset(dataset).stages
    for index in range(0, 48, 5):
        with Image.open(dataset.samples[index][0]) as image:
            expected = np.asarray(image.convert("RGB"))
        assert np.array_equal(np.asarray(stages.make([index])[0]), expected)


def test_stages_travel_to_workers(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, v1.Compose([v1.Resize(20), np.asarray]))
    stages = pickle.loads(pickle.dumps(inspect_dataset(dataset).stages))
    again = inspect_dataset(dataset).stages
    assert (stages.source, stages.decoded, stages.augmented) == (again.source, again.decoded, again.augmented)
    assert np.array_equal(stages.make([3])[0], again.make([3])[0])


def test_what_cannot_be_laid_out_is_no_payload():
    class Opened(Sounds):
        def decode(self, data):
            return object()

    with pytest.raises(items.Unsupported):
        stages_of(Opened()).decode(0, b"")
