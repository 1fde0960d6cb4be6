"""Loaders whose cache lies in the folder that SENECA_DIR names."""

import gc
import os
import warnings
from multiprocessing import forkserver
from pathlib import Path

import pytest
from sizes import size
from torch.utils.data import Dataset

import seneca
from seneca import errors, segments
from seneca import transforms as T


class Numbers(Dataset):
    """Item ``i`` is ``2 * i``."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return 2 * index


def native(picture_folder, **options):
    dataset = seneca.ImageFolder(picture_folder, T.Compose([T.RandomResizedCrop(32)]))
    return seneca.DataLoader(dataset, **({"batch_size": 8, "cache": "mine", "cache_bytes": "4MiB"} | options))


def by_workers(**options):
    return seneca.DataLoader(
        Numbers(), **({"batch_size": 8, "cache": "mine", "cache_bytes": "4MiB"} | options)
    )


def test_an_unfit_folder_ends_a_job_that_starts(picture_folder, monkeypatch):
    monkeypatch.setenv("SENECA_DIR", "caches")
    for loader in (native(picture_folder), by_workers(), by_workers(num_workers=1)):
        with pytest.raises(errors.SegmentFolderError, match="no absolute path"):
            next(iter(loader))


def test_a_folder_that_goes_while_a_job_runs_ends_no_job(segment_folder, picture_folder, monkeypatch):
    loader = native(picture_folder)
    assert sum(len(images) for images, _ in loader) == 48
    monkeypatch.setenv("SENECA_DIR", f"{segment_folder}/missing")
    with pytest.warns(UserWarning, match="going on without the shared cache: SENECA_DIR="):
        assert sum(len(images) for images, _ in loader) == 48


@pytest.mark.parametrize("start", size(["fork"], ["fork", "spawn", "forkserver"]))
def test_workers_use_the_folder_of_their_loader(segment_folder, monkeypatch, start):
    """Also if their environment is another: a fork server has that of its own start."""
    if start == "forkserver":
        monkeypatch.delenv("SENECA_DIR")
        forkserver.ensure_running()
        monkeypatch.setenv("SENECA_DIR", segment_folder)
    workers = size(1, 2)
    loader = by_workers(num_workers=workers, multiprocessing_context=start, persistent_workers=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", seneca.SenecaWarning)
        epoch = iter(loader)
        next(epoch)
        monkeypatch.setenv("SENECA_DIR", "/nowhere")
        assert sum(1 for _ in epoch) == 7
        (one,) = segments.segments(Path(segment_folder))
        (job,) = one.view.jobs
        assert len(job.pids) == 1 + workers and os.getpid() in job.pids
        assert sum(1 for _ in loader) == 8, "nor does a later epoch go elsewhere"
    del loader, epoch
    gc.collect()
