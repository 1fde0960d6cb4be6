"""Batches are moved to a device; on CUDA while the one before is in use."""

import contextlib
from collections import OrderedDict, namedtuple

import pytest
import torch
from torch.utils.data import TensorDataset

import seneca
from seneca import transforms as T
from seneca.epochs.progress import EpochProgress
from seneca.native.byte_batches import Unfinished
from seneca.native.device import CopiedAhead, moved
from seneca.native.normalizer import Normalizer

META = torch.device("meta")
Pair = namedtuple("Pair", "image label")
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here")


def places(value):
    """The structure of a batch, with the type of the device in each tensor's place."""
    if isinstance(value, torch.Tensor):
        return value.device.type
    if isinstance(value, dict):
        return type(value), {key: places(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [places(part) for part in value]
    return value


def test_all_tensors_move_and_containers_stay_as_they_are():
    one = torch.zeros(2)
    batch = [one, (one, "name", 3), Pair(one, [one]), {"a": one, "b": None}, OrderedDict(c=one)]
    on_meta = moved(batch, META)
    assert places(on_meta) == (
        list,
        [
            "meta",
            (tuple, ["meta", "name", 3]),
            (Pair, ["meta", (list, ["meta"])]),
            (dict, {"a": "meta", "b": None}),
            (OrderedDict, {"c": "meta"}),
        ],
    )
    assert one.device.type == "cpu"


class Batches:
    """An iterator of batches and errors."""

    def __init__(self, *steps):
        self.steps = list(steps)

    def __len__(self):
        return len(self.steps)

    def __next__(self):
        if not self.steps:
            raise StopIteration
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


def test_errors_come_in_their_place_and_iterating_goes_on():
    handed_out, progress = [], EpochProgress()
    progress.hand_out = lambda: handed_out.append(1)
    ahead = CopiedAhead(Batches(torch.ones(1), ValueError("bad"), torch.ones(2)), META, progress)
    assert next(ahead).shape == (1,)
    with pytest.raises(ValueError, match="bad"):
        next(ahead)
    assert next(ahead).shape == (2,) and len(handed_out) == 3
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(ahead)
    assert len(handed_out) == 5


class Stream:
    """Stands for a CUDA stream, and notes in which order it is used."""

    def __init__(self, done):
        self.done = done

    @contextlib.contextmanager
    def current(self):
        self.done.append("begin")
        yield
        self.done.append("end")

    def wait_stream(self, other):
        self.done.append(("waits", other))


def test_bytes_are_normalised_on_the_stream_of_the_copy_and_the_loop_waits_for_both(monkeypatch):
    done = []
    side, loops = Stream(done), Stream(done)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream.current())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: loops)
    monkeypatch.setattr(
        torch.Tensor, "record_stream", lambda one, stream: done.append(("recorded", one.dtype, stream))
    )
    normalised = Normalizer.forward

    def forward(*arguments):
        done.append("normalised")
        return normalised(*arguments)

    monkeypatch.setattr(Normalizer, "forward", forward)
    normalizer, images = Normalizer((0, 0, 0), (1, 1, 1)), torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    batches = [Unfinished([images, torch.arange(2)], normalizer, None) for _ in range(2)]
    ahead = CopiedAhead(Batches(*batches), torch.device("cpu"))
    ahead._stream = side
    made = next(ahead)
    fetched = ["begin", "normalised", "end"]
    handed_out = [
        ("waits", side),
        ("recorded", torch.float32, loops),
        ("recorded", torch.int64, loops),
    ]
    assert done == [*fetched, *handed_out, *fetched]  # the second batch is under way already
    assert made[0].dtype == torch.float32 and normalizer.mean is not ahead._normalizer.mean


@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_gives_batches_on_its_device(picture_folder, workers):
    pictures = seneca.ImageFolder(picture_folder, T.Resize((8, 8)))
    numbers = TensorDataset(torch.arange(9))
    for dataset in (pictures, numbers):
        loader = seneca.DataLoader(dataset, batch_size=4, num_workers=workers, device="meta", cache=None)
        batches = iter(loader)
        assert len(batches) == len(loader)
        assert {part.device.type for batch in batches for part in batch} == {"meta"}


def test_what_a_loader_publishes_before_its_first_batch_is_handed_out(picture_folder, name, monkeypatch):
    monkeypatch.setattr("seneca.tuning.telemetry.EVERY_S", 0)
    pictures = seneca.ImageFolder(picture_folder, T.Resize((8, 8)))
    for workers in (0, 1):
        loader = seneca.DataLoader(
            pictures, 10, num_workers=workers, device="cpu", cache=name, cache_bytes="2MiB"
        )
        assert sum(len(images) for images, _ in loader) == len(pictures)


def test_workers_that_stay_serve_every_epoch_on_the_device():
    loader = seneca.DataLoader(
        TensorDataset(torch.arange(9)),
        batch_size=4,
        num_workers=1,
        persistent_workers=True,
        device="cpu",
        cache=None,
    )
    assert [[batch[0].tolist() for batch in loader] for _ in range(2)] == [
        [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    ] * 2


def test_a_wrong_device_is_refused_where_it_is_given():
    for wrong in ("gpu0", 1.5):
        with pytest.raises(ValueError, match="device is"):
            seneca.DataLoader(TensorDataset(torch.arange(3)), device=wrong)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_cuda_where_there_is_none_is_reported_when_iterating_begins():
    loader = seneca.DataLoader(TensorDataset(torch.arange(3)), device="cuda")
    with pytest.raises(RuntimeError, match=r"device='cuda'.*torch sees no CUDA"):
        iter(loader)


@CUDA
@pytest.mark.parametrize("workers", [0, 2])
def test_on_cuda_batches_are_whole_while_the_loop_is_busy(picture_folder, workers):
    dataset = seneca.ImageFolder(picture_folder, T.Resize((64, 64)))
    wanted = torch.stack([dataset[i][0] for i in range(len(dataset))])
    loader = seneca.DataLoader(dataset, batch_size=5, num_workers=workers, device="cuda", cache=None)
    weights = torch.randn(2048, 2048, device="cuda")
    for _ in range(3):
        seen = []
        for images, _ in loader:
            assert images.is_cuda
            for _ in range(20):
                weights = torch.tanh(weights @ weights)  # the loop's own stream has work to do
            seen.append(images.clone())
        assert torch.equal(torch.cat(seen).cpu(), wanted)


@CUDA
@pytest.mark.parametrize("workers", [0, 2])
def test_on_cuda_the_batch_that_is_copied_ahead_is_not_delivered(picture_folder, workers):
    for dataset in (seneca.ImageFolder(picture_folder, T.Resize((8, 8))), TensorDataset(torch.arange(48))):
        options = {"batch_size": 10, "num_workers": workers, "device": "cuda", "cache": None}
        loader = seneca.DataLoader(dataset, **options)
        done = []
        for _ in loader:
            state = loader.state_dict()
            done.append(state["done"])
        assert done == [10, 20, 30, 40, 48] and "done" not in loader.state_dict()
        loader.load_state_dict(state)
        assert list(loader) == [] and len(list(loader)) == 5


@CUDA
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_on_cuda_bytes_become_what_the_core_would_make_while_the_loop_is_busy(picture_folder, layout):
    erased = T.Compose(
        [T.RandomResizedCrop(64), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD), T.RandomErasing(1)]
    )
    dataset = seneca.ImageFolder(picture_folder, erased)

    def loader_of(wanted):
        options = {"num_workers": 2, "device": "cuda", "cache": None, "memory_format": layout}
        generator = torch.Generator().manual_seed(3)
        return seneca.DataLoader(dataset, 5, uint8_batches=wanted, generator=generator, **options)

    by_bytes = loader_of(None)
    assert "batches travel as bytes" in by_bytes.explain()
    weights = torch.randn(2048, 2048, device="cuda")
    for _ in range(3):
        wanted = torch.cat([images.clone() for images, _ in loader_of(False)])
        seen = []
        for images, _ in loader_of(None):
            for _ in range(20):
                weights = torch.tanh(weights @ weights)  # the loop's own stream has work to do
            assert images.is_cuda and images.is_contiguous(memory_format=layout)
            seen.append(images.clone())
        assert torch.equal(torch.cat(seen), wanted)


@CUDA
def test_on_cuda_pinned_batches_are_pinned(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, T.Resize((8, 8)))
    images, _ = next(iter(seneca.DataLoader(dataset, batch_size=4, pin_memory=True, cache=None)))
    assert images.is_pinned()
