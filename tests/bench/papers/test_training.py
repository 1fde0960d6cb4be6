"""Jobs of experiments: what they are given, what they check, and in which interpreter they run."""

import sys

import numpy as np
import pytest
from job_loaders import Opened, Setup
from papers.training import Training, Twice, epoch, run_together, stream


def job(folder, **more):
    return Training(more.pop("loader", "torch"), Setup(folder, 48, 10, 1, None), **more)


def opened(*batches):
    """A loader that yields these indices, batch by batch, and is asked for the last."""
    given: list[np.ndarray] = []

    def endless():
        for indices in batches:
            given.append(np.array(indices))
            yield given[-1], None

    return Opened(endless(), dict, indices=lambda: given[-1])


def test_an_epoch_has_each_sample_once(tmp_path):
    of_job = Training("seneca", Setup(tmp_path, 5, 3, 1, None))
    given = stream(opened([0, 1, 2], [3, 4], [4, 3, 2], [1, 0]), of_job)
    assert [epoch(given), epoch(given)] == [5, 5]
    with pytest.raises(Twice):
        epoch(stream(opened([0, 1, 2], [2, 4]), of_job))


def test_an_epoch_that_is_left_goes_on(tmp_path):
    given = stream(opened([0, 1], [2, 3], [4]), Training("seneca", Setup(tmp_path, 5, 2, 1, None)))
    assert [epoch(given, end=0.0), epoch(given)] == [2, 3]


@pytest.mark.parametrize("loader", ["torch", "seneca"])
def test_a_job_counts_its_epochs_and_not_those_before(picture_folder, loader):
    marks: list[str] = []
    (result,) = run_together(
        [job(picture_folder, loader=loader, warm=1, epochs=2)], mark=lambda: marks.append("mark")
    )
    assert [each["samples"] for each in result["epochs"]] == [48, 48] and result["samples"] == 96
    assert result["began"] <= result["epochs"][0]["began"] <= result["epochs"][1]["ended"] <= result["ended"]
    assert marks == ["mark", "mark"]


@pytest.mark.whole_size(shown_by="test_a_job_counts_its_epochs_and_not_those_before")
def test_a_job_runs_in_another_interpreter(picture_folder):
    (result,) = run_together([job(picture_folder)], python=sys.executable)
    assert result["samples"] == 48


def test_jobs_on_parts_and_on_shards_have_their_part(picture_folder):
    part = Training("seneca", Setup(picture_folder, 48, 10, 1, None, part=(1, 3, 5, 7)))
    shard = Training("torch", Setup(picture_folder, 48, 8, 1, None, shard=(0, 2)), seconds=0.1)
    assert (part.samples, part.batches) == (4, 1)
    first, second = run_together([part, shard])
    assert first["samples"] == 4
    assert second["samples"] % 8 == 0 and second["samples"] > 0
