"""A profile: what it refuses, what it derives, and that a file gives back what was saved."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from pathlib import Path

import pytest
from profiles import RECODED, ROUND, round_profile

from seneca.partition import Cost, Profile, ProfileError, Reading, Size


def test_a_file_gives_back_what_was_saved(tmp_path):
    profile = round_profile(
        step_per_s=812.5,
        notes=("a note", "another"),
        deterministic=True,
        took_s=7.25,
        item=Cost(2e-3, 3e-3),
        step_cpu_s=1e-4,
        workers=0,
        **RECODED,
    )
    path = tmp_path / "deep" / "profile.json"
    profile.save(path)
    assert Profile.load(path) == profile
    assert [file.name for file in path.parent.iterdir()] == ["profile.json"]


def test_a_profile_is_read_from_what_was_analyzed():
    profile = round_profile(item=Cost(1e-3, 1e-3))
    analyzed = {"version": 1, "bottleneck": "prep", "profile": json.loads(profile.to_json())}
    assert Profile.from_json(json.dumps(analyzed)) == profile
    with pytest.raises(ProfileError, match=r"there is no profile in it: .* was run without --deep"):
        Profile.from_json(json.dumps({**analyzed, "profile": None}))


@pytest.mark.parametrize("fails", ["write_text", "replace"])
def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch, fails):
    path = tmp_path / "profile.json"
    round_profile(took_s=1.0).save(path)

    def full(self, *_):
        self.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, fails, full)
    with pytest.raises(OSError, match="No space left"):
        round_profile(took_s=2.0).save(path)
    assert os.listdir(tmp_path) == ["profile.json"] and Profile.load(path).took_s == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no profile of Seneca's"),
        ("[1]", "it has no version"),
        ('{"version": 7}', "a profile of version 7, and this Seneca reads version 4"),
        ('{"version": 4}', "not the fields of version 4"),
        ('{"version": 4, "speed": 3}', "not the fields of version 4"),
    ],
)
def test_what_is_no_profile_of_this_version_is_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ProfileError) as raised:
        Profile.load(path)
    assert message in str(raised.value) and str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"samples": 0}, "samples"),
        ({"cores": 0}, "cores"),
        ({"step_per_s": 0.0}, "step_per_s"),
        ({"step_per_s": float("nan")}, "step_per_s"),
        ({"prepare": Cost(1.0, 0.0)}, "prepare"),
        ({"encoded": Size(0.0)}, "encoded"),
        ({"storage": ()}, "storage"),
        ({"storage": (Reading(1, 0.0, 0.0),)}, "storage"),
        ({"storage": (Reading(2, 1.0, 0.0), Reading(1, 1.0, 0.0))}, "storage"),
        ({"fetch": Cost(float("nan"), 0.0)}, r"fetch\.one_s is 0 or more, but got nan"),
        ({"augment": Cost(0.0, -1.0)}, r"augment\.all_s"),
        ({"item": Cost(0.0, 0.0)}, r"item\.all_s"),
        ({"item": Cost(-1.0, 1.0)}, r"item\.one_s"),
        ({"step_cpu_s": float("inf")}, "step_cpu_s"),
        ({"take_s": -1e-3}, "a profile's take_s"),
        ({"item_take_s": float("nan")}, "item_take_s"),
        ({"recodable": -0.1}, r"recodable lies in \[0, 1\], but got -0\.1"),
        ({"recodable": 1.01}, "recodable lies in"),
        ({"recodable": float("nan")}, "recodable lies in"),
        ({"recodable": 0.5}, r"recoded\.mean_bytes is more than 0"),
        ({**RECODED, "recoded": Size(float("inf"))}, r"recoded\.mean_bytes"),
        ({**RECODED, "redraw": Cost(0.0, 0.0)}, r"redraw\.all_s is more than 0"),
        ({"redraw": Cost(-1.0, 1.0)}, r"redraw\.one_s is 0 or more"),
        ({**RECODED, "recode": Cost(0.0, float("nan"))}, r"recode\.all_s is 0 or more"),
    ],
)
def test_rates_that_cannot_be_are_refused(changes, name):
    with pytest.raises(ProfileError, match=name):
        round_profile(**changes)


def test_a_dataset_without_recoded_samples_need_not_name_what_they_cost():
    assert (ROUND.recodable, ROUND.recoded, ROUND.redraw) == (0.0, Size(0.0), Cost(0.0, 0.0))
    fields = json.loads(ROUND.to_json())
    for name in RECODED:
        del fields[name]
    assert Profile.from_json(json.dumps(fields)) == ROUND


def test_a_damaged_number_in_a_file_is_refused(tmp_path):
    fields = json.loads(ROUND.to_json())
    fields["cores"] = -1
    with pytest.raises(ProfileError, match="cores is more than 0, but got -1"):
        Profile.from_json(json.dumps(fields))


@pytest.mark.parametrize(
    ("readers", "bytes_per_s"),
    [(1, 20e6), (1.5, 27.5e6), (2, 35e6), (3, 42.5e6), (4, 50e6), (64, 50e6), (0.5, 10e6)],
)
def test_storage_between_two_readings_is_on_the_line(readers, bytes_per_s):
    assert ROUND.storage_at(readers) == pytest.approx(bytes_per_s)


def test_more_readers_never_read_less():
    falling = round_profile(storage=(Reading(1, 30e6, 0.0), Reading(2, 50e6, 0.0), Reading(8, 20e6, 0.0)))
    assert falling.storage_at(4) == falling.storage_at(8) == falling.storage_at(99) == 50e6


def test_other_storage_answers_as_much_quicker():
    fast = ROUND.with_storage(100e6)
    assert fast.storage == (Reading(1, 40e6, 2.5e-3), Reading(2, 70e6, 3e-3), Reading(4, 100e6, 4e-3))


def test_memory_beyond_what_is_there_brings_its_own():
    assert ROUND.with_memory(8_000_000_000).free_memory_bytes == 8_000_000_000
    assert ROUND.with_memory(1_000_000_000).free_memory_bytes == 5_000_000_000  # the rest holds files


def test_inflation_is_what_was_measured():
    assert ROUND.inflation == pytest.approx(497_952 / 97_952)


def test_a_profile_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ROUND.cores = 8
    assert hash(ROUND) == hash(round_profile())
