"""Loaders whose files are in the memory of servers: what that does to the split of their cache."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from profiles import round_profile
from redis_servers import RedisServer, needs_redis

import seneca
from seneca import transforms as T
from seneca.partition import Cost, Reading, Size, Split, servers
from seneca.partition import drift as decision
from seneca.testing import make_pictures
from seneca.transforms._pipeline import compile_transform
from seneca.tuning import controller as adapt
from seneca.tuning import host
from seneca.tuning import profile as measure

pytestmark = needs_redis
COUNT = 96


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_pictures(tmp_path_factory.mktemp("pictures"), count=COUNT, classes=2, sides=(120, 180))


@pytest.fixture
def server(tmp_path):
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture(autouse=True)
def quickly(tmp_path, monkeypatch):
    """Profiles in a folder of the test's own; looks and changes without delay; a page cache of no size, and a
    training step that takes whatever it is given. What a stage costs is what the profile says."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(adapt, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(adapt, "free_memory", lambda: 0)
    monkeypatch.setattr(adapt, "LEAST_WORK", 2.0)
    monkeypatch.setattr(decision, "CHANGE_EVERY_S", 0.0)
    monkeypatch.setattr(decision, "corrected", lambda profile, seen: profile)
    for module in (decision, servers):
        monkeypatch.setattr(module, "ENOUGH", 16)


def slow_storage(dataset):
    """Keep what `seneca profile` would have found on storage of 100 kB/s."""
    pipeline = compile_transform(dataset.transform)
    profile = round_profile(
        host=host.fingerprint(),
        dataset=dataset.fingerprint().hex(),
        pipeline=measure._fingerprint(pipeline),
        samples=len(dataset),
        storage=(Reading(1, 1e5, 1e-2),),
        fetch=Cost(1e-5, 1e-5),
        augment=Cost(5e-5, 5e-5),
        encoded=Size(float(np.mean([path.stat().st_size for path in Path(dataset.root).rglob("*.jpg")]))),
        decoded=Size(96.0 * 96 * 3),
        augmented=Size(32.0 * 32 * 3),
    )
    profile.save(measure.profile_path(profile.host, profile.dataset, profile.pipeline))


def until(loader, reason):
    """Train until the split was changed for a reason, at most 40 epochs; what ``stats()`` then says of the
    cache, and of that change."""
    for _ in range(40):
        assert sum(len(labels) for _, labels in loader) == COUNT
        cache = loader.stats()["cache"]
        found = [change["why"] for change in cache["split_changes"] if reason in change["why"]]
        if found:
            return cache, found[-1]
    pytest.fail(f"no change because of {reason!r}: {cache['split_changes']}; {loader.stats()['remote']}")


def test_files_that_servers_have_make_room_for_decoded_pictures_until_they_die(folder, server, caplog):
    caplog.set_level(logging.INFO, "seneca.adapt")
    dataset = seneca.ImageFolder(folder, T.Compose([T.Resize((96, 96)), T.RandomCrop(32)]))
    slow_storage(dataset)
    files = sum(4096 + path.stat().st_size for path in Path(folder).rglob("*.jpg"))  # all of them fit
    loader = seneca.DataLoader(dataset, 8, shuffle=True, num_workers=1, cache_bytes=files, remote=server.url)
    assert "they give" not in loader.explain()
    served, why = until(loader, "the servers of remote= give ")
    splits = [Split.parse(change["split"]) for change in served["split_changes"]]
    assert splits[0].encoded > 0.7 and "limited by threads" in served["split_changes"][0]["why"]
    assert splits[-1].decoded > splits[0].decoded + 0.1
    assert any(why in record.getMessage() for record in caplog.records)
    while loader.stats()["remote"][server.name]["hits"] < 32:
        list(loader)
    told = "they give 100% of the files, one in "
    assert told in loader.explain().partition(server.name)[2]
    assert loader._session.diagnosis(may_look=False) is not None
    assert loader._session.controller.model_inputs(may_look=False).jobs.hosts.measured.share == 1
    server.kill()
    cache, _ = until(loader, "the servers of remote= give nothing in place of ")
    assert cache["split"] == str(splits[0]), "what is best without servers"
    assert cache["budget_bytes"]["encoded"] > served["budget_bytes"]["encoded"]
    assert "they give nothing" in loader.explain()


def in_python(picture):
    """What the native core does not know."""
    return torch.from_numpy(np.asarray(picture, np.int64)[:8, :8].copy())


@pytest.mark.parametrize("workers", [0, 2])
def test_where_python_prepares_what_workers_asked_decides(folder, server, workers):
    dataset = seneca.ImageFolder(folder, in_python)
    options = {"shuffle": True, "num_workers": workers, "cache_bytes": "4MiB", "remote": server.url}
    if workers:
        options |= {"multiprocessing_context": "fork", "persistent_workers": True}
    loader = seneca.DataLoader(dataset, 8, **options)
    assert loader.explain().startswith("staged")
    until(loader, "its samples are prepared in Python")
    for _ in range(3):
        list(loader)
    controller = loader._shared_dataset()._session._controller
    assert controller.hosts.measured.share == 1
    assert "they give 100% of the files" in loader.explain()
