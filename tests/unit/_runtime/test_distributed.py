"""Ranks of one job: who is of which job."""

import os

import pytest
import torch

import seneca
from seneca._runtime import distributed as ranks

MEETING = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}

pytestmark = pytest.mark.usefixtures("alone")


def key_in(monkeypatch, job=None, **environment):
    """The job's key, where a launcher has said this."""
    with monkeypatch.context() as patch:
        for variable, value in environment.items():
            patch.setenv(variable, value)
        return ranks.job_key(job)


def test_ranks_that_meet_are_one_job(monkeypatch):
    first = key_in(monkeypatch, **MEETING)
    assert first == key_in(monkeypatch, **MEETING | {"RANK": "1", "LOCAL_RANK": "1"})
    assert first == key_in(monkeypatch, **MEETING, TORCHELASTIC_RUN_ID="none", TORCHELASTIC_RESTART_COUNT="1")
    elsewhere = [
        MEETING | {"MASTER_PORT": "29501"},
        MEETING | {"MASTER_ADDR": "other"},
        MEETING | {"TORCHELASTIC_RUN_ID": "a"},
        MEETING | {"TORCHELASTIC_RUN_ID": "b"},
        {"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "b"},
    ]
    others = [key_in(monkeypatch, **environment) for environment in elsewhere]
    assert len({first, *others}) == 6
    assert others == [key_in(monkeypatch, **environment) for environment in elsewhere]


@pytest.mark.parametrize(
    "environment",
    [
        {},
        MEETING | {"WORLD_SIZE": "1"},
        MEETING | {"WORLD_SIZE": ""},
        {"WORLD_SIZE": "2", "RANK": "0", "TORCHELASTIC_RUN_ID": "none"},
        {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"},
    ],
)
def test_a_process_that_meets_nobody_is_a_job_by_itself(monkeypatch, environment):
    own = key_in(monkeypatch, **environment)
    assert own == ranks.job_key()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)  # another process, a forked child say
        assert key_in(monkeypatch, **environment) != own


def test_job_names_it_and_a_worker_process_is_of_the_job_that_it_was_given(monkeypatch):
    named = key_in(monkeypatch, "mine")
    assert named == key_in(monkeypatch, "mine", **MEETING) != key_in(monkeypatch, "yours")
    assert named not in (ranks.job_key(), key_in(monkeypatch, **MEETING))
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -2)
        ranks.belong_to_job(77)
        assert key_in(monkeypatch, "mine") == key_in(monkeypatch, **MEETING) == 77


def test_who_trains_together_is_said_by_torch_distributed_or_else_by_the_launcher(monkeypatch):
    assert ranks.world() == (0, 1)
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert ranks.world() == (0, 4)
    monkeypatch.setenv("RANK", "3")
    assert ranks.world() == (3, 4)
    monkeypatch.setenv("WORLD_SIZE", "four")
    assert ranks.world() == (0, 1)
    distributed = torch.distributed
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    assert ranks.world() == (1, 2)
    # As processes that torch.multiprocessing has begun, which say their rank to init_process_group only.
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert ranks.job_key() == key_in(monkeypatch, MASTER_PORT="29500", RANK="0")


@pytest.mark.parametrize("job", ["", 5, b"mine"])
def test_what_is_no_name_of_a_job_is_refused(job):
    for make in (seneca.DataLoader, seneca.SharedDataset):
        with pytest.raises(ValueError, match="job is a few letters"):
            make([1, 2], job=job)
