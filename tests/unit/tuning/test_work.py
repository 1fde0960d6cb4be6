"""What the work on a picture takes."""

from __future__ import annotations

import os

import pytest

from seneca import transforms as T
from seneca._runtime.regular_files import Piece
from seneca.partition import Cost
from seneca.transforms._pipeline import compile_transform
from seneca.tuning import profile as measure
from seneca.tuning import work


@pytest.fixture(autouse=True)
def short(tmp_path, monkeypatch):
    """Measurements of a moment, kept in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("STORAGE_S", "ALONE_S", "TOGETHER_S", "STEP_S"):
        monkeypatch.setattr(measure, name, 0.2)
    monkeypatch.setattr(measure, "MEMORY_S", 0.02)


def test_scaling_is_measured_by_pictures_that_both_measurements_saw():
    alone = work.Work(seconds={0: (1.0,) * 5, 1: (3.0,) * 5})
    together = work.Work(seconds={0: (2.0,) * 5, 1: (6.0,) * 5, 2: (40.0,) * 5})
    assert work.costs(alone, together)["decode"] == Cost(one_s=8.0, all_s=16.0)


def test_a_stage_that_the_clock_reads_0_for_scales_and_is_a_number():
    alone = work.Work(seconds={0: (1e-3,) * 5})
    together = work.Work(seconds={0: (0.0, 2e-3, 0.0, 2e-3, 1e-4)})
    found = work.costs(alone, together)
    assert found["fetch"] == Cost(0.0, 0.0)
    assert found["decode"] == Cost(1e-3, 2e-3)


def test_every_picture_is_worked_on_once_whatever_the_threads(picture_folder):
    pieces = [Piece(path) for path in sorted(map(str, picture_folder.rglob("*.jpg")))]
    pipeline = compile_transform(T.Compose([T.RandomResizedCrop(16)]))
    done = work.work_through(pieces, pipeline, None, threads=3, seconds=60)
    assert sorted(done.seconds) == list(range(48))
    assert sorted(done.encoded) == sorted(os.path.getsize(piece.path) for piece in pieces)


def test_samples_are_written_to_memory_that_no_core_has_in_its_caches(picture_folder, monkeypatch):
    written, write = [], work.batch_write

    def noted(plan, picture, out, *draws):
        written.append(out.__array_interface__["data"][0])
        write(plan, picture, out, *draws)

    monkeypatch.setattr(work, "batch_write", noted)
    pieces = [Piece(path) for path in sorted(map(str, picture_folder.rglob("*.jpg")))]
    pipeline = compile_transform(T.Compose([T.RandomResizedCrop(224), T.ToTensor()]))
    work.work_through(pieces, pipeline, None, threads=1, seconds=60)
    apart = 224 * 224 * 3 * 4
    in_turns = written.index(written[0], 1)
    assert len(set(written[:in_turns])) == in_turns
    assert in_turns * apart >= work.BATCH_BYTES
