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
