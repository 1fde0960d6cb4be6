"""Loaders of sounds: batches, forms, exact copies, states, damaged files, and what Python reads."""

import numpy as np
import pytest
import soundfile
import torch
from redis_servers import RedisServer, needs_redis
from torch.utils.data import ConcatDataset, DataLoader, Subset

import seneca
from seneca import transforms as T
from seneca.data.support import inspect_dataset
from seneca.errors import DecodeError
from seneca.testing import make_sounds

COUNT = 26
RANDOM = T.Compose(
    [T.RandomTimeCrop(3000), T.RandomGain((-6, 6)), T.RandomNoise((10, 30)), T.RandomTimeShift((-0.2, 0.2))]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_sounds(tmp_path_factory.mktemp("sounds"), count=COUNT, classes=3, channels=2)


def dataset_of(folder, transform=RANDOM):
    return seneca.SoundFolder(folder, transform, rate=8000, mono=True)


def taken(loader):
    return [(loader.last_indices.tolist(), sounds.clone(), labels.clone()) for sounds, labels in loader]


def assert_same(ours, theirs):
    assert [ids for ids, *_ in ours] == [ids for ids, *_ in theirs]
    for (_, *mine), (_, *others) in zip(ours, theirs, strict=True):
        assert all(map(torch.equal, mine, others))


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_the_items_of_the_dataset(folder, workers):
    dataset = dataset_of(folder, T.TimeCrop(4000, center=True))
    loader = seneca.DataLoader(dataset, 8, num_workers=workers, cache=None)
    assert loader.explain().startswith("native: SoundFolder and its transform run in the native core")
    found = taken(loader)
    assert [len(ids) for ids, *_ in found] == [8, 8, 8, 2]
    for ids, sounds, labels in found:
        assert torch.equal(sounds, torch.stack([dataset[index][0] for index in ids]))
        assert labels.tolist() == [dataset.targets[index] for index in ids]


def test_folders_and_lists_with_one_transform_are_joined(folder, tmp_path):
    """As LibriSpeech's parts are."""
    more = make_sounds(tmp_path / "more", count=10, classes=2, channels=2)
    crop = T.TimeCrop(4000, center=True)
    listed = seneca.SoundList(dataset_of(more).samples, crop, rate=8000, mono=True)
    whole = ConcatDataset([Subset(dataset_of(folder, crop), [5, 20, 2]), listed])
    loader = seneca.DataLoader(whole, 4, num_workers=2, cache=None)
    assert loader.explain().startswith("native: JoinedSounds and its transform run in the native core")
    for (*_, sounds, labels), wanted in zip(taken(loader), DataLoader(whole, 4), strict=True):
        assert torch.equal(sounds, wanted[0]) and torch.equal(labels, wanted[1])


@pytest.mark.parametrize(
    "name, value", [("rate", 16000), ("mono", False), ("channels", 2), ("transform", None)]
)
def test_sounds_that_differ_in_more_than_their_files_are_not_joined(folder, name, value):
    one, two = dataset_of(folder), dataset_of(folder)
    setattr(two, name, value)
    assert inspect_dataset(ConcatDataset([one, two])).name == "opaque"


@needs_redis
def test_other_hosts_hand_out_sounds(folder, tmp_path):
    dataset = dataset_of(folder, T.TimeCrop(4000))
    alone = taken(seneca.DataLoader(dataset, 8, cache=None))
    with RedisServer(tmp_path / "redis") as server:
        for _ in range(2):
            loader = seneca.DataLoader(dataset, 8, num_workers=1, cache=None, remote=server.url)
            assert_same(taken(loader), alone)
        counts = loader.stats()["remote"][server.name]
        assert counts["wrong"] == 0 and counts["hits"] >= COUNT


@pytest.mark.parametrize("split", ["100-0-0", "0-100-0", "0-0-100", "40-40-20"])
def test_every_form_gives_the_same_batches(folder, name, split):
    options = {"batch_size": 8, "num_workers": 2, "share": "none"}
    dataset = dataset_of(folder, T.TimeCrop(4000))
    expected = taken(seneca.DataLoader(dataset, cache=None, **options))
    loader = seneca.DataLoader(dataset, cache=name, cache_bytes="16MiB", split=split, **options)
    for _ in range(3):
        assert_same(taken(loader), expected)
    served = loader.stats()["served"]
    assert served["recoded"] == 0 and "RECODED" not in loader.explain()
    if split in ("100-0-0", "0-100-0"):
        assert served["encoded" if split == "100-0-0" else "decoded"] >= COUNT


def test_exact_copies_are_those_that_a_job_makes_for_itself(folder, name):
    made, alive = [], []
    for job in (None, "one", "other"):
        options = {"cache_bytes": "8MiB", "share": "exact", "job": job} if job else {}
        loader = seneca.DataLoader(
            dataset_of(folder),
            8,
            shuffle=True,
            num_workers=1,
            generator=torch.Generator().manual_seed(5),
            cache=None if job is None else name,
            **options,
        )
        made.append(taken(loader))
        alive.append(loader)
    assert_same(made[1], made[2])
    assert_same(made[0], made[1])


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_goes_on_to_the_bit(folder, name, workers):
    options = {"batch_size": 4, "shuffle": True, "num_workers": workers, "cache": name, "cache_bytes": "4MiB"}
    torch.manual_seed(5)
    loader = seneca.DataLoader(dataset_of(folder), share="none", **options)
    epoch = iter(loader)
    for _ in range(3):
        next(epoch)
    state = loader.state_dict()
    rest = [(sounds.clone(), labels.clone()) for sounds, labels in epoch]
    again = seneca.DataLoader(dataset_of(folder), share="none", **options)
    again.load_state_dict(state)
    for (ours, labels), (theirs, others) in zip(list(again), rest, strict=True):
        assert torch.equal(labels, others) and torch.equal(ours, theirs)


def test_a_damaged_sound_is_named_or_skipped(tmp_path, folder):
    bad = make_sounds(tmp_path / "some", count=6, classes=1)
    (bad / "class_00" / "cut.flac").write_bytes(b"fLaC, and no more than that")
    dataset = dataset_of(bad, T.TimeCrop(100))
    with pytest.raises(DecodeError, match=r"cut\.flac"):
        taken(seneca.DataLoader(dataset, 8, num_workers=1, cache=None))
    loader = seneca.DataLoader(dataset, 8, num_workers=1, cache=None, on_error="skip")
    with pytest.warns(seneca.SenecaWarning, match=r"cut\.flac"):
        assert sum(len(ids) for ids, *_ in taken(loader)) == 6


def test_what_the_core_does_not_read_python_does(tmp_path):
    (tmp_path / "a").mkdir()
    tones = np.random.default_rng(0).uniform(-0.5, 0.5, (5, 4000)).astype(np.float32)
    for number, tone in enumerate(tones):
        soundfile.write(tmp_path / "a" / f"{number}.aiff", tone, 8000, subtype="PCM_24")
    dataset = seneca.SoundFolder(tmp_path, T.TimeCrop(4000), mono=True)
    loader = seneca.DataLoader(dataset, 5, num_workers=2, cache=None)
    assert "native" in loader.explain()
    ((_, sounds, _),) = taken(loader)
    assert np.abs(sounds[:, 0].numpy() - tones).max() < 1e-6


def whole(items):
    return [sound for sound, _ in items], torch.tensor([label for _, label in items])


def test_sounds_of_any_length_are_shared_by_items(folder, name):
    dataset = dataset_of(folder, T.RandomPolarity(p=1))
    loader = seneca.DataLoader(
        dataset, 4, num_workers=1, collate_fn=whole, cache=name, cache_bytes="8MiB", split="0-100-0"
    )
    assert loader.explain().startswith("staged: sounds of SoundFolder come out in different shapes")
    for _ in range(2):
        found = [one for sounds, _ in loader for one in sounds]
        assert len({one.shape for one in found}) > 5
        assert torch.equal(found[3], dataset[3][0])
    assert loader.stats()["served"]["decoded"] > 0


def test_sounds_do_not_travel_as_bytes(folder):
    loader = seneca.DataLoader(dataset_of(folder), 4, cache=None, device="cpu", uint8_batches=True)
    with pytest.raises(ValueError, match="sounds are floats"):
        iter(loader)
