"""A disk that has no room left for what a job writes beside its cache."""

import contextlib

import pytest
import torch
from engine import in_small_shm
from small_jobs import MiB

import seneca


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        return index


class Large(Items):
    def __getitem__(self, index):
        return torch.zeros(MiB, dtype=torch.uint8)


def fill(folder):
    with open(f"{folder}/full", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(512))


@pytest.mark.parametrize("native", [True, False])
def test_an_audit_that_cannot_be_written_ends_no_job_and_is_warned_of_once(load, monkeypatch, native):
    def job():
        monkeypatch.setenv("SENECA_AUDIT", "/dev/shm/logs")
        loader = load(cache=None) if native else seneca.DataLoader(Items(), 8, cache=None)
        batches = iter(loader)
        next(batches)
        fill("/dev/shm")
        with pytest.warns(seneca.SenecaWarning, match="No space left.*writes no more audit logs") as caught:
            rest = sum(1 for _ in batches)
            again = [sum(1 for _ in loader) for _ in range(12)]
        assert rest == 5 and again == [6] * 12
        assert len(caught) == 1

    in_small_shm(MiB, job)


@pytest.mark.parametrize("native", [True, False])
def test_an_audit_that_is_to_be_strict_ends_the_job(load, monkeypatch, native):
    def job():
        monkeypatch.setenv("SENECA_AUDIT", "/dev/shm/logs")
        monkeypatch.setenv("SENECA_AUDIT_STRICT", "1")
        loader = load(cache=None) if native else seneca.DataLoader(Items(), 8, cache=None)
        assert sum(1 for _ in loader) == 6
        fill("/dev/shm")
        for _ in range(2):
            with pytest.raises(OSError, match="SENECA_AUDIT=/dev/shm/logs: No space left"):
                next(iter(loader))

    in_small_shm(MiB, job)


def test_a_batch_for_which_shared_memory_has_no_room_is_an_error_that_names_the_remedy():
    def job():
        batches = iter(seneca.DataLoader(Large(), 2, cache=None, num_workers=1, collate_fn=torch.stack))
        with pytest.raises(RuntimeError, match=r"worker process 0(.|\n)*No space left on device.*--shm-size"):
            next(batches)

    in_small_shm(MiB, job)
