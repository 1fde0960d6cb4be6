"""The split of a cache counts on servers as long as they have the files."""

from __future__ import annotations

import time

import pytest
import torch
from profiles import round_profile
from redis_servers import RedisServer, needs_redis
from sizes import size

import seneca
from seneca import transforms as T
from seneca.partition import Cost, Reading, Size
from seneca.partition import drift as decision
from seneca.testing import make_pictures
from seneca.transforms._pipeline import compile_transform
from seneca.tuning import controller, host
from seneca.tuning import profile as measure

pytestmark = needs_redis
COUNT = 96
PATIENCE_S = 60  # a server that fails is left alone for half a minute at the most
CACHE_BYTES = 384 << 10  # for nearly all files, or for less than half of the decoded pictures


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_pictures(tmp_path_factory.mktemp("pictures"), count=COUNT, classes=2)


@pytest.fixture
def slow_storage(folder, tmp_path, monkeypatch):
    """A kept profile of storage that gives 100 kB/s, whatever reads take; no page cache; no delays.

    A training loop takes whatever it is given, however long this machine lets it wait for a core.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(controller, "STEP_EVERY_S", 0.0)
    monkeypatch.setattr(controller, "LEAST_WORK", 1.0)
    monkeypatch.setattr(controller, "free_memory", lambda: 0)
    monkeypatch.setattr(controller, "from_storage", lambda: 0)
    monkeypatch.setattr(decision, "SLOW_S", 1e9)
    monkeypatch.setattr(decision, "CHANGE_EVERY_S", 0.0)
    dataset = pictures(folder)
    profile = round_profile(
        host=host.fingerprint(),
        dataset=dataset.fingerprint().hex(),
        pipeline=measure._fingerprint(compile_transform(dataset.transform)),
        samples=COUNT,
        cores=1,
        storage=(Reading(1, 1e5, 0.03),),
        encoded=Size(2000.0),
        decoded=Size(3 * 48 * 48),
        augmented=Size(3 * 32 * 32),
        decode=Cost(1.3e-3, 1.3e-3),
        augment=Cost(1e-4, 1e-4),
        prepare=Cost(1.4e-3, 1.4e-3),
    )
    profile.save(measure.profile_path(profile.host, profile.dataset, profile.pipeline))


def pictures(folder):
    return seneca.ImageFolder(folder, T.Compose([T.Resize((48, 48)), T.RandomCrop(32)]))


def loader_of(folder, remote):
    return seneca.DataLoader(
        pictures(folder), 8, shuffle=True, num_workers=1, cache_bytes=CACHE_BYTES, remote=remote
    )


def encoded_share(loader):
    return int(loader.stats()["cache"]["split"].partition("-")[0])


def train_until(loader, is_reached):
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        labels = torch.cat([labels for _, labels in loader])
        assert len(labels) == COUNT and labels.sum() == COUNT // 2
        if is_reached():
            return
        time.sleep(size(1.0, 0.2))  # the server has its seconds, and the machine its other tests
    pytest.fail(f"after {PATIENCE_S} s: {loader.stats()['cache']['split_changes']}")


def reasons(loader):
    return " ".join(change["why"] for change in loader.stats()["cache"]["split_changes"])


@pytest.mark.usefixtures("slow_storage")
def test_without_a_server_files_are_kept(folder):
    loader = loader_of(folder, False)
    for _ in range(size(5, 10)):
        list(loader)
    assert encoded_share(loader) > 80 and "servers" not in reasons(loader)


@pytest.mark.usefixtures("slow_storage")
def test_with_a_server_decoded_pictures_are_kept_until_the_server_dies(folder, tmp_path):
    with RedisServer(tmp_path / "redis") as server:
        loader = loader_of(folder, server.url)
        train_until(loader, lambda: encoded_share(loader) < 20)
        assert "servers have" in reasons(loader)
        train_until(loader, lambda: loader.stats()["cache"]["payloads"]["decoded"] > COUNT // 3)
        server.kill()
        train_until(loader, lambda: encoded_share(loader) > 80)
        assert "servers have" in reasons(loader)


@pytest.mark.usefixtures("slow_storage")
def test_a_server_that_comes_back_empty_is_counted_on_again(folder, tmp_path):
    with RedisServer(tmp_path / "redis") as server:
        server.kill()
        with pytest.warns(UserWarning, match="does not serve"):
            loader = loader_of(folder, server.url)
            list(loader)
        assert encoded_share(loader) > 80
        server.start()
        train_until(loader, lambda: encoded_share(loader) < 20)
