"""accelerate's `prepare`: it makes torch's own loader of whatever it is given, and deals out its batches."""

import pytest

pytest.importorskip("accelerate", reason="accelerate is not here; `make test-frameworks` installs it")

import torch
from accelerate import Accelerator, skip_first_batches
from recorded import COUNT, Points, ours, planned, untrained_line

EVERY_SAMPLE = list(range(COUNT))
BATCH_SIZE = 4


@pytest.fixture(scope="module")
def accelerator():
    return Accelerator(cpu=True)


def epoch_of(loader):
    return [batch["index"].tolist() for batch in loader]


def flat(batches):
    return [index for batch in batches for index in batch]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make", [ours, planned])
def test_one_process_is_given_each_sample_once_an_epoch(accelerator, make, workers):
    loader = accelerator.prepare(make(Points(), num_workers=workers))
    first, second = flat(epoch_of(loader)), flat(epoch_of(loader))
    assert sorted(first) == sorted(second) == EVERY_SAMPLE
    assert first != second


def test_one_process_shares_with_other_jobs(accelerator, another_job):
    other = another_job("points")
    epoch_of(accelerator.prepare(planned(Points())))
    found = other.finish()
    assert sorted(found["samples"]) == EVERY_SAMPLE
    assert found["served"]["augmented"] > COUNT // 2


def test_the_first_batches_of_an_epoch_can_be_skipped(accelerator):
    loader = skip_first_batches(accelerator.prepare(planned(Points())), 3)
    batches = epoch_of(loader)
    assert len(batches) == len(loader) == 10
    assert len(set(flat(batches))) == COUNT - 3 * BATCH_SIZE


def test_what_prepare_makes_of_our_loader_trains(accelerator):
    line = untrained_line()
    before = line.error()
    line, optimizer, loader = accelerator.prepare(
        line, torch.optim.SGD(line.parameters(), 0.3), ours(Points())
    )
    for _ in range(4):
        for batch in loader:
            optimizer.zero_grad()
            accelerator.backward(line(**batch)["loss"])
            optimizer.step()
    assert line.error() < before / 10
    assert sorted(line.seen) == sorted(4 * EVERY_SAMPLE)


class Ranks:
    """What two processes were given, while another job was under way over the same points."""

    def __init__(self, run, another_job):
        other = another_job("points")
        self.by_rank = run("accelerate_ranks.py")
        self.other = other.finish()

    def dealt(self, how, epoch):
        """The batches of both as they follow on one another."""
        return flat(zip(*(rank[how]["batches"][epoch] for rank in self.by_rank), strict=True))


@pytest.fixture(scope="module")
def ranks(two_processes, another_job):
    return Ranks(two_processes, another_job)


def permutation(epoch, count=COUNT, seed=7):
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed + epoch)).tolist()


@pytest.mark.parametrize(
    "how", ["planned", "planned, with workers", "planned, split", "planned, seedable sampler"]
)
@pytest.mark.parametrize("epoch", [0, 1])
def test_two_processes_share_out_one_permutation_of_seed_and_epoch(ranks, how, epoch):
    order = permutation(epoch)
    given = flat(ranks.dealt(how, epoch))
    assert given[:COUNT] == order
    assert given[COUNT:] == order[: len(given) - COUNT]  # accelerate makes the last batches even
    assert len(given) - COUNT == (2 if how == "planned, split" else 6)


def test_two_processes_go_on_at_the_epoch_that_a_resumed_run_names(ranks):
    for k, epoch in enumerate([3, 4]):
        assert flat(ranks.dealt("resumed", k))[:COUNT] == permutation(epoch)


@pytest.mark.parametrize("epoch", [0, 1])
def test_two_processes_share_out_a_dataset_in_order(ranks, epoch):
    assert flat(ranks.dealt("in order", epoch)) == EVERY_SAMPLE + EVERY_SAMPLE[:6]


@pytest.mark.parametrize("how", ["planned", "planned, with workers", "planned, split", "in order", "ours"])
def test_two_processes_gather_each_sample_once(ranks, how):
    for rank in ranks.by_rank:
        for epoch in rank[how]["gathered"]:
            assert sorted(epoch) == EVERY_SAMPLE


def test_a_sample_is_read_once_for_both_processes_and_all_epochs(ranks):
    by_form = [rank["stages"]["served"] for rank in ranks.by_rank]
    assert sum(forms["storage"] for forms in by_form) == 48
    assert sum(forms["decoded"] for forms in by_form) == 48  # the second epoch, half of it the other's
    for epoch in range(2):
        assert sorted(flat(ranks.dealt("stages", epoch))) == list(range(48))


def test_what_two_processes_look_up_they_also_leave_for_a_job_that_wants_it(ranks):
    assert sorted(ranks.other["samples"]) == EVERY_SAMPLE
    assert ranks.other["served"]["augmented"] > COUNT // 2


def test_two_processes_train_on_what_prepare_makes_of_our_loader(ranks):
    first, second = (rank["trained on ours"] for rank in ranks.by_rank)
    assert first["error"] < untrained_line().error() / 10
    assert first["weight"] == second["weight"]
    per_epoch = 28  # seven batches each, six samples of them twice
    for epoch in range(4):
        seen = [rank["seen"][epoch * per_epoch : (epoch + 1) * per_epoch] for rank in (first, second)]
        assert set(flat(seen)) == set(EVERY_SAMPLE) and len(flat(seen)) == COUNT + 6
