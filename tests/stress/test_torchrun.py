"""Training runs of several processes, begun by torchrun, beside another job: what each was given."""

import itertools
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import rank_process
from job_processes import Host, Job, assert_exactly_once
from rank_process import ATTEMPTS, BATCH_SIZE, CASES, EPOCHS, KILLED, OPAQUE
from ready import Script
from sizes import size
from torch.utils.data import DistributedSampler

import seneca

HERE = Path(__file__).parent
RANKS = int(os.environ.get("SENECA_TEST_RANKS") or 2)
TIME_OUT_S = 600
LAST = str(ATTEMPTS - 1)


def indices(batches):
    return [item if type(item) is int else item[0] for batch in batches for item in batch]


def assert_divided(of_ranks, count, drop):
    """Each sample once an epoch, but for those that make it even; as many batches in every rank."""
    size = len(of_ranks)
    for epoch in range(EPOCHS):
        batches = [rank["epochs"][epoch] for rank in of_ranks]
        own = [indices(of_rank) for of_rank in batches]
        for rank in range(size):
            sampler = DistributedSampler(range(count), size, rank, drop_last=drop)
            sampler.set_epoch(epoch)
            assert sorted(own[rank]) == sorted(sampler)
        each = -(-count // size) if not drop else count // size
        full = [BATCH_SIZE] * (each // BATCH_SIZE) + [each % BATCH_SIZE] * (each % BATCH_SIZE > 0)
        assert all([len(batch) for batch in of_rank] == full for of_rank in batches)
        all_given = [index for of_rank in own for index in of_rank]
        assert len(set(all_given)) == (count if not drop else size * each)


def assert_shared(of_ranks, neighbour, count):
    """Two jobs, in one segment; hardly a sample was made twice, and no copy reached a job twice."""
    assert len({rank["job"] for rank in of_ranks}) == 1 and of_ranks[0]["job"] != neighbour["job"]
    for process in (*of_ranks, neighbour):
        assert (process["jobs"], process["segments"]) == (2, 1)
    assert all(sorted(indices(epoch)) == list(range(count)) for epoch in neighbour["epochs"])
    made = sum(process["prepared"] for process in (*of_ranks, neighbour))
    rate = made / (EPOCHS * count)
    print(f"{rate:.3f} preparations a sample and epoch")
    # What all have drawn before the last of them came is made for each by itself.
    assert rate < 1.35
    for job in (of_ranks, [neighbour]):
        copies = [tuple(i) for rank in job for e in rank["epochs"] for b in e for i in b if type(i) is list]
        assert len(set(copies)) == len(copies)


def trains_until(over, meeting, cache):
    """What a job does that is there before the ranks and after them, and waits for nobody."""

    def work(log):
        loader = seneca.DataLoader(
            rank_process.Drawn(), BATCH_SIZE, shuffle=True, collate_fn=list, cache=cache,
            cache_bytes="8MiB", split="0-0-100",
        )  # fmt: skip
        for epoch in itertools.count():
            if over.exists():
                return
            for batch in loader:
                meeting.touch()
                log(epoch, [index for index, _ in batch])
                time.sleep(size(0.05, 0.005))

    return work


def trains_beside(folder, name, pictures):
    """What the job does that meets the ranks in every epoch."""

    def work(_):
        found = {
            case: rank_process.train(
                case,
                folder=folder / LAST,
                cache=f"{name}-{k}",
                pictures=str(pictures),
                who="neighbour",
                parties=RANKS + 1,
            )
            for k, case in enumerate(CASES)
            if case != KILLED
        }
        (folder / "neighbour.json").write_text(json.dumps(found))

    return work


@dataclass
class Run:
    """What came of it: of each rank by case, of the job beside them by case, of the one that stayed."""

    ranks: list
    neighbour: dict
    stayed: Job
    left: list[str]  # segments, when the ranks had ended; and when all had
    left_behind: list[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory, small_pictures):
    """Ranks under torchrun, of which one is killed and all are begun again; and two other jobs."""
    host = Host(tmp_path_factory.mktemp("ranks"))
    folder = host.folder
    for attempt in "01":
        (folder / attempt).mkdir()
    for what in ("0", "1", "done"):
        (folder / LAST / f"{KILLED} {what}.neighbour").touch()
    path = [str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    # Without the variable, ranks that gloo begins again search for those of before.
    environment = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    options = ["--standalone", f"--nproc-per-node={RANKS}", "--max-restarts=1", "--monitor-interval=0.1"]
    program = [str(HERE / "rank_process.py"), str(folder), host.name, str(small_pictures)]
    launched = Script(
        "-c",
        "import torch.distributed.run; torch.distributed.run.main()",
        *options,
        *program,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), **environment},
    )
    try:
        stays = host.start(
            trains_until(folder / "over", folder / "0" / f"{KILLED} 0.neighbour", f"{host.name}-0")
        )
        beside = host.start(trains_beside(folder, host.name, small_pictures))
        said = "".join(launched.communicate(timeout=TIME_OUT_S))
        assert launched.returncode == 0 and ("exitcode: -9" in said) == (ATTEMPTS > 1), said[-6000:]
        assert beside.wait() == 0
        left = host.segments()
        (folder / "over").touch()
        assert stays.wait() == 0
        ranks = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(RANKS)]
        neighbour = json.loads((folder / "neighbour.json").read_text())
        return Run(ranks, neighbour, stays, left, host.segments())
    finally:
        launched.kill()
        host.close()


@pytest.mark.small(1)
@pytest.mark.parametrize("case", CASES)
def test_ranks_divide_each_epoch(run, case):
    assert_divided([rank[case] for rank in run.ranks], CASES[case]["count"], CASES[case]["drop"])


@pytest.mark.small(2)
@pytest.mark.parametrize("case", [case for case in CASES if case != KILLED])
def test_ranks_share_one_segment_with_another_job(run, case):
    assert_shared([rank[case] for rank in run.ranks], run.neighbour[case], CASES[case]["count"])


@pytest.mark.whole_size(shown_by="test_ranks_share_one_segment_with_another_job")
def test_a_rank_that_is_killed_leaves_the_cache_to_others(run):
    for rank in run.ranks:
        assert rank[KILLED]["segments"] == 1
        assert rank[KILLED]["jobs"] in (2, 3)  # workers of those that were ended leave by and by
    assert_exactly_once(run.stayed, len(run.stayed.delivered()), OPAQUE, BATCH_SIZE)
    assert len(run.left) == 1 and run.left_behind == []
