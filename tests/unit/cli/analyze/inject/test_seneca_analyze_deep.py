"""The phases of ``--deep``: what the script gets, what is measured, and how the run ends."""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from traced import environment_of_trace, run_traced

from seneca.cli.analyze.inject import seneca_analyze_deep as deep
from seneca.cli.analyze.trace import read_trace

HEAD = """
    import os, sys, time
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset

    phases = sys.modules["seneca_analyze_deep"]
    phases.SAMPLE_S, phases.ALONE_S = 0.2, 0.3

    class Files(Dataset):
        def __len__(self):
            return 40
        def __getitem__(self, index):
            with open(f"files/{index}", "rb") as file:
                file.read()
            open("log", "a").close()
            return {"number": index, "pixels": torch.zeros(25)}

    class Stream(IterableDataset):
        def __iter__(self):
            while True:
                time.sleep(0.001)
                yield 7

    def train(loader):
        while True:
            for batch in loader:
                time.sleep(0.004)
                print(batch["number"] if isinstance(batch, dict) else batch)
"""


@pytest.fixture
def files(tmp_path):
    """40 files of 1,000 bytes."""
    (tmp_path / "files").mkdir()
    for number in range(40):
        (tmp_path / "files" / str(number)).write_bytes(bytes(1000))
    return tmp_path


def start(tmp_path, script):
    return run_traced(tmp_path, textwrap.dedent(HEAD) + textwrap.dedent(script), **{deep.CORES: "2"})


def test_a_step_gets_its_batches_again_and_then_the_run_ends(files):
    ran = start(files, "train(DataLoader(Files(), 4, shuffle=True, num_workers=1))")
    assert (ran.returncode, ran.stderr) == (0, "")
    batches = ran.stdout.splitlines()
    before = deep.WARM_UP + deep.AS_IT_IS
    assert len(batches) == before + deep.REPLAYED == deep.WANTED
    assert set(batches[before:]) == set(batches[before - deep.HELD : before])
    run = read_trace(files / "trace")
    event = run.deep.event
    steps = np.concatenate([steps for one in run.epochs for steps in one.steps])
    assert len(steps) == before + 3  # three ends of epochs
    assert sum(steps["begin"] < event["warm_at"]) == deep.WARM_UP
    assert (event["samples"], event["workers"], event["batch_samples"]) == (40, 1, 4)
    assert {Path(path).parent for path in event["files"]} == {files / "files"}
    assert (event["file_bytes"], event["files_a_sample"]) == (1000, 1)
    assert event["item_bytes"] == 25 * 4 + 8
    assert 0 <= event["step_delay_s"] < event["step_s"] >= 0.004 and 0 < event["step_cpu_s"] < event["step_s"]
    assert "profile" not in event and "Files" in event["no_profile"]
    assert [one.workers for one in run.deep.alone] == [1, 2]
    for one in run.deep.alone:
        assert one.batch_s > 0 and (one.batches["samples"] == 4).all() and len(one.batches) > 2


@pytest.mark.parametrize("workers", ["0", "1, persistent_workers=True"])
def test_an_epoch_has_its_batches_and_validation_between_two_is_no_step(files, workers):
    script = f"""
        loader = DataLoader(Files(), 4, num_workers={workers})
        for epoch in range(100):
            for number, batch in enumerate(loader):
                assert number < len(loader)
                print(number)
                time.sleep(0.004)
            time.sleep(0.3)
    """
    ran = start(files, script)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [int(line) for line in ran.stdout.split()] == [n % 10 for n in range(deep.WANTED)]
    assert 0.004 <= read_trace(files / "trace").deep.event["step_s"] < 0.3 / 10


def test_only_the_first_dataset_with_enough_batches_is_taken_over(files):
    script = """
        first, second = DataLoader(Files(), 4), iter(DataLoader(Stream(), 4))
        for epoch in range(5):
            for batch in first:
                print(type(batch).__name__)
        for step in range(60):
            print(type(next(second)).__name__)
        for batch in first:
            print(type(batch).__name__)
    """
    ran = start(files, script)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == ["dict"] * 50 + ["Tensor"] * 60 + ["dict"] * 10
    assert read_trace(files / "trace").deep is None


def test_of_datasets_that_look_alike_the_measured_one_is_named(files):
    script = """
        first, second = DataLoader(Files(), 4), DataLoader(Files(), 4)
        for batch in first:
            pass
        train(second)
    """
    ran = start(files, script)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert read_trace(files / "trace").deep.event["dataset_number"] == 1


@pytest.mark.whole_size(shown_by="test_a_step_gets_its_batches_again_and_then_the_run_ends")
@pytest.mark.parametrize(
    ("loader", "samples"),
    [
        ("DataLoader(Stream(), 4)", 4),
        ("DataLoader(Stream(), None)", 1),
        ("DataLoader(Files(), None)", 1),
        ("DataLoader(Files(), batch_sampler=[[0, 1, 2]] * 20)", 3),
        ("DataLoader(Files(), 4, num_workers=1, multiprocessing_context='fork')", 4),
    ],
)
def test_other_loaders_are_measured_too(files, loader, samples):
    ran = start(files, f"if __name__ == '__main__':\n    train({loader})")
    assert (ran.returncode, ran.stderr) == (0, "")
    found = read_trace(files / "trace").deep
    assert found.event["batch_samples"] == samples
    assert [len(one.batches) > 0 for one in found.alone] == [True, True]


@pytest.mark.whole_size(shown_by="test_pictures_are_measured_on_the_native_path_too")
def test_senecas_own_loader_is_compared_with_torchs(files):
    ran = start(files, "import seneca\ntrain(seneca.DataLoader(Files(), 4, shuffle=True, num_workers=1))")
    assert (ran.returncode, ran.stderr) == (0, "")
    found = read_trace(files / "trace")
    assert found.undeep == ""
    assert (found.deep.event["samples"], found.deep.event["batch_samples"]) == (40, 4)


def test_pictures_are_measured_on_the_native_path_too(picture_folder, tmp_path):
    script = f"""
        import seneca
        from seneca import transforms as T
        seneca.profile  # imports it
        for name, seconds in (("STORAGE_S", 0.2), ("ALONE_S", 0.1), ("TOGETHER_S", 0.1), ("MEMORY_S", 0.1)):
            setattr(sys.modules["seneca.tuning.profile"], name, seconds)
        pictures = seneca.ImageFolder({str(picture_folder)!r}, T.Compose([T.CenterCrop(16), T.ToTensor()]))
        train(DataLoader(pictures, 4))
    """
    ran = start(tmp_path, script)
    assert (ran.returncode, ran.stderr) == (0, "")
    event = read_trace(tmp_path / "trace").deep.event
    assert '"pipeline"' in event["profile"] and event["files_a_sample"] == 1
    assert 0 < event["take_s"] < deep.TAKE_S


def test_a_dataset_that_fails_alone_is_reported_and_the_run_ends_well(files):
    script = """
        class Fails(Files):
            def __getitem__(self, index):
                if sys.modules["__main__"].phases.__dict__["_FILES"]:
                    raise KeyError("gone")
                return super().__getitem__(index)
        train(DataLoader(Fails(), 4))
    """
    ran = start(files, script)
    assert (ran.returncode, ran.stderr) == (0, "")
    found = read_trace(files / "trace")
    assert found.deep is None and found.undeep == "KeyError: 'gone'"


def test_an_empty_stream_is_no_loader_to_measure():
    with pytest.raises(ValueError, match="gives no batches"):
        deep.sample_batches(_loader([]))
    assert list(deep.forever([])) == []


@pytest.mark.whole_size(shown_by="test_one_of_the_ranks_that_the_script_itself_starts_measures")
def test_ranks_end_together(files):
    script = """
        torch.distributed.init_process_group("gloo")
        loader = DataLoader(Files(), 4)
        while True:
            for batch in loader:
                torch.distributed.barrier()
    """
    (files / "script.py").write_text(textwrap.dedent(HEAD) + textwrap.dedent(script))
    (files / "trace").mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "script.py"],
        env=environment_of_trace(files, **{deep.CORES: "2"}),
        cwd=files,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    found = read_trace(files / "trace")
    assert found.deep.event["batch_samples"] == 4
    assert len({one.rank for one in found.epochs}) == 2


def test_one_of_the_ranks_that_the_script_itself_starts_measures(files):
    """They have no RANK: torch.multiprocessing and Lightning's own launcher set none."""
    script = """
    def rank(number):
        store = torch.distributed.FileStore("store", 2)
        torch.distributed.init_process_group("gloo", store=store, rank=number, world_size=2)
        train(DataLoader(Files(), 4))

    if __name__ == "__main__":
        for number in range(2):
            if not os.fork():
                rank(number)
        for number in range(2):
            assert os.wait()[1] == 0
    """
    assert start(files, script).returncode == 0
    measured = [path for path in (files / "trace").glob("*.jsonl") if '"what": "deep"' in path.read_text()]
    assert len(measured) == 1


def _loader(samples):
    from torch.utils.data import DataLoader

    return DataLoader(samples, 2)
