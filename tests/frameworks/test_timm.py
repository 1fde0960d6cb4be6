"""timm's `create_loader`: torch's own loader, and the transform is set on the dataset afterwards."""

import pytest

pytest.importorskip("timm", reason="timm is not here; `make test-frameworks` installs it")

import numpy as np
import torch
from timm.data import ImageDataset, create_loader
from torchvision_here import torchvision, v1

import seneca

SIDE = 32
COUNT = 48  # of picture_folder


def datasets(root):
    """Of timm and of torchvision, without a transform as yet."""
    return {"timm": ImageDataset(str(root)), "torchvision": torchvision.datasets.ImageFolder(str(root))}


@pytest.fixture(params=["timm", "torchvision"])
def shared(request, picture_folder):
    return seneca.SharedDataset(datasets(picture_folder)[request.param], cache_bytes="16MiB")


def loader_of(dataset, **more):
    return create_loader(
        dataset,
        **{
            "input_size": (3, SIDE, SIDE),
            "batch_size": 4,
            "use_prefetcher": False,
            "num_workers": 0,
            "persistent_workers": False,
            "device": torch.device("cpu"),
            **more,
        },
    )


def images_and_labels(loader):
    batches = list(loader)
    return torch.cat([images for images, _ in batches]), torch.cat([labels for _, labels in batches])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_shared_dataset_evaluates_to_the_pixels_of_the_dataset_itself(picture_folder, workers):
    for name, dataset in datasets(picture_folder).items():
        shared = seneca.SharedDataset(datasets(picture_folder)[name], cache_bytes="16MiB")
        images, labels = images_and_labels(loader_of(shared, num_workers=workers))
        expected, expected_labels = images_and_labels(loader_of(dataset))
        # The native core may have resized, whose pixels are within one level of Pillow's.
        of_a_level = 1.01 / 255 / 0.224
        assert (images - expected).abs().max() <= (0 if name == "timm" else of_a_level)
        assert torch.equal(labels, expected_labels)
        assert shared.stats()["delivered"] == COUNT


@pytest.mark.parametrize("prefetcher", [False, True])
def test_a_shared_dataset_trains(shared, prefetcher):
    loader = loader_of(shared, is_training=True, use_prefetcher=prefetcher, num_workers=2)
    for _ in range(2):
        images, labels = images_and_labels(loader)
        assert images.shape == (COUNT, 3, SIDE, SIDE) and images.dtype == torch.float32
        assert sorted(labels.tolist()) == sorted(12 * [0, 1, 2, 3])
    assert shared.stats()["delivered"] == 2 * COUNT


@pytest.mark.parametrize("held_by", ["join", "persistent workers"])
def test_pictures_of_torchvision_are_read_once_for_all_epochs(picture_folder, held_by):
    shared = seneca.SharedDataset(datasets(picture_folder)["torchvision"], cache_bytes="16MiB")
    loader = loader_of(
        shared, is_training=True, num_workers=2, persistent_workers=held_by == "persistent workers"
    )
    if held_by == "join":
        assert shared.join() is not None
    for _ in range(3):
        images_and_labels(loader)
    served = shared.stats()["served"]
    assert served["storage"] == COUNT
    assert served["encoded"] + served["decoded"] == 2 * COUNT


def planned_pictures(kind, root):
    """What another job does, with the transform that timm sets."""
    shared = seneca.SharedDataset(datasets(root)[kind], cache_bytes="16MiB")
    loader_of(shared, is_training=True)
    batches = seneca.OpportunisticBatchSampler(torch.utils.data.RandomSampler(shared), 4)
    return torch.utils.data.DataLoader(shared, batch_sampler=batches)


@pytest.mark.parametrize("kind", ["timm", "torchvision"])
def test_what_timm_s_loader_makes_is_left_for_a_job_that_wants_it(picture_folder, another_job, kind):
    other = another_job(kind, str(picture_folder))
    images_and_labels(
        loader_of(seneca.SharedDataset(datasets(picture_folder)[kind], cache_bytes="16MiB"), is_training=True)
    )
    found = other.finish()
    assert sorted(found["samples"]) == sorted(12 * [0, 1, 2, 3])
    assert found["served"]["augmented"] > COUNT // 2


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("through", ["the shared dataset", "the dataset itself"])
def test_a_transform_that_is_set_later_is_followed(shared, through, workers):
    loader = loader_of(shared, num_workers=workers)
    first = images_and_labels(loader)[0]
    assert torch.equal(images_and_labels(loader)[0], first)  # of what was kept
    twice = v1.Compose([shared.transform, v1.Lambda(Twice())])
    if through == "the shared dataset":
        shared.transform = twice
    else:
        shared.dataset.transform = twice
    assert shared.transform is shared.dataset.transform is twice
    assert torch.equal(images_and_labels(loader)[0], 2 * first)


class Twice:
    def __call__(self, tensor):
        return 2 * tensor


def test_timm_s_repeating_loader_keeps_its_workers_and_serves_every_epoch(shared):
    loader = loader_of(
        shared, is_training=True, num_workers=2, use_multi_epochs_loader=True, persistent_workers=True
    )
    for _ in range(3):
        assert np.bincount(images_and_labels(loader)[1].numpy()).tolist() == [12, 12, 12, 12]
    assert shared.stats()["delivered"] >= 3 * COUNT


def test_what_timm_s_training_script_asks_of_a_dataset_it_finds(shared):
    assert len(shared) == COUNT
    assert shared.transform is None
    if isinstance(shared.dataset, ImageDataset):
        assert shared.filename(0, basename=True) == shared.dataset.filename(0, basename=True)
        assert shared.reader is shared.dataset.reader
