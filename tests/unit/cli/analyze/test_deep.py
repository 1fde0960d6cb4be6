"""From what ``--deep`` measured to a profile, and to what each loader would give."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from profiles import round_profile

from seneca.cli.analyze import deep
from seneca.cli.analyze.trace import RECORDS, Deep, LoaderAlone
from seneca.partition import Cost, Profile, Reading


def alone(workers, batch_s, waits, delay=0.0):
    """A loader whose workers wait so many seconds in each batch, and so many for a core."""
    batches = np.zeros(10, RECORDS)
    batches["wall"], batches["cpu"] = workers * batch_s, workers * batch_s - waits - delay
    batches["delay"] = delay
    return LoaderAlone(workers, batch_s, 0.005, batches)


TOLD = {
    "step_s": 0.2,
    "step_cpu_s": 0.02,
    "step_delay_s": 0.0,
    "batch_samples": 10.0,
    "item_bytes": 4000.0,
    "file_bytes": 50_000.0,
    "file_bytes_std": 20_000.0,
    "files_a_sample": 1.0,
    "files": [],
    "samples": 700,
    "workers": 3,
    "no_profile": "no folder of pictures",
    "take_s": 0.004,
}
MEASURED = [alone(1, 0.11, 0.02, 0.01), alone(2, 0.06, 0.02)]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(deep, "STORAGE_S", 0.1)
    monkeypatch.setattr(deep, "MEMORY_S", 0.01)


def test_an_item_is_the_time_of_a_worker_without_waiting_for_storage():
    found = deep.profile_of_run(Deep(TOLD, MEASURED), "Rows of 700")
    assert found.item == Cost(pytest.approx(8e-3), pytest.approx(1e-2))
    assert (found.step_per_s, found.step_cpu_s) == (pytest.approx(50), pytest.approx(2e-3))
    assert found.item_take_s == found.take_s == pytest.approx(5e-4)  # no native path: as from torch's workers
    assert (found.workers, found.batch_size, found.samples, found.staged) == (3, 10, 700, False)
    assert Profile.from_json(found.to_json()) == found


def test_without_files_storage_is_what_a_sample_waits():
    found = deep.profile_of_run(Deep(TOLD, MEASURED), "Rows of 700")
    assert found.storage[0] == Reading(1, pytest.approx(50_000 / 2e-3), pytest.approx(2e-3))
    assert found.storage_at(8) == pytest.approx(8 * 50_000 / 2e-3)
    assert found.notes == (deep.WITHOUT_FILES,)
    endless = deep.profile_of_run(Deep({**TOLD, "samples": None}, MEASURED), "Stream")
    assert endless.notes == (deep.WITHOUT_FILES, deep.WITHOUT_LENGTH)


def test_files_are_read_to_see_what_storage_gives(tmp_path):
    files = []
    for number in range(20):
        files.append(str(tmp_path / f"{number}"))
        (tmp_path / f"{number}").write_bytes(bytes(5000))
    found = deep.profile_of_run(Deep({**TOLD, "files": files}, MEASURED), "Rows of 700")
    twice = deep.profile_of_run(Deep({**TOLD, "files": files, "files_a_sample": 1000.0}, MEASURED), "Rows")
    assert [one.readers for one in found.storage] == [1, 2, 4, 8, 16]
    assert twice.storage[0].latency_s > 20 * found.storage[0].latency_s
    with pytest.raises(OSError, match="gone"):
        deep.profile_of_run(Deep({**TOLD, "files": [str(tmp_path / "gone")]}, MEASURED), "Rows of 700")


def test_storage_that_is_waited_for_again_has_no_page_cache():
    native = round_profile(storage=(Reading(1, 20e6, 3e-3),)).to_json()
    cached = deep.profile_of_run(Deep({**TOLD, "profile": native}, [alone(1, 0.1, 0.01)]), "Rows")
    assert cached.free_memory_bytes > 0 and cached.notes == ()
    again = deep.profile_of_run(Deep({**TOLD, "profile": native}, [alone(1, 0.1, 0.03)]), "Rows")
    assert again.free_memory_bytes == 0 and again.notes == (deep.WITHOUT_PAGE_CACHE,)


def test_the_waits_of_several_workers_tell_how_files_are_read():
    native = round_profile(storage=(Reading(1, 50e6, 97_952 / 50e6),)).to_json()
    told = {**TOLD, "profile": native}
    runs = [[alone(1, 0.04, 0.02), alone(2, batch_s, 2 * batch_s - 0.02)] for batch_s in (0.0225, 0.025)]
    found = [deep.profile_of_run(Deep(told, run), "Rows").served_spread for run in runs]
    assert 0 < found[0] < found[1]
    cached = [alone(1, 0.021, 0.001), alone(2, 0.0125, 0.005)]
    assert deep.profile_of_run(Deep(told, cached), "Rows").served_spread is None


def test_more_workers_never_take_less_for_an_item():
    found = deep.profile_of_run(Deep(TOLD, [alone(1, 0.11, 0.02), alone(2, 0.05, 0.02)]), "Rows of 700")
    assert found.item == Cost(pytest.approx(8.5e-3), pytest.approx(8.5e-3))


def test_what_runs_natively_keeps_its_own_rates():
    native = round_profile(samples=700)
    found = deep.profile_of_run(Deep({**TOLD, "profile": native.to_json()}, MEASURED), "Rows of 700")
    assert found.item == Cost(pytest.approx(8e-3), pytest.approx(1e-2))
    assert (found.item_take_s, found.take_s) == (pytest.approx(5e-4), pytest.approx(4e-4))
    own = ("item", "step_per_s", "step_cpu_s", "workers", "batch_size", "take_s", "item_take_s")
    assert dataclasses.replace(found, **{name: getattr(native, name) for name in own}) == native


def test_a_step_that_waited_for_a_core_while_it_was_measured_is_told():
    native = round_profile().to_json()
    for told, others in (({}, (deep.WITHOUT_FILES,)), ({"profile": native}, ())):
        (note, *rest) = deep.profile_of_run(
            Deep({**TOLD, **told, "step_delay_s": 0.05}, MEASURED), "Rows"
        ).notes
        assert "waited for a core for 25% of the time" in note
        assert tuple(rest) == others


def test_jobs_are_predicted_with_each_loader():
    profile = round_profile(
        item=Cost(8e-3, 8e-3), step_per_s=400.0, workers=4, batch_size=10, free_memory_bytes=10_000_000_000
    )
    found = {
        count: (torch.samples_per_s, seneca.samples_per_s)
        for count, torch, seneca in deep.predictions(profile)
    }
    assert found[1] == (pytest.approx(400), pytest.approx(400))
    assert found[4] == (pytest.approx(4 / 8e-3), pytest.approx(1600))
