"""Items that a dataset keeps to itself: no other job is given them, whoever makes them and how."""

import secrets

import pytest
import torch

import seneca
from seneca.data.private import Private, times_asked
from seneca.data.stages import Opaque


class Troubled(torch.utils.data.Dataset):
    """In trouble it makes a stand-in for every third sample."""

    def __init__(self, asks):
        self.asks = asks

    def __len__(self):
        return 60

    def __getitem__(self, index):
        if globals()["TROUBLE"] and index % 3 == 0:
            item = torch.full((3,), -1.0)
            return index, (seneca.do_not_share(item) if self.asks else item)
        return index, torch.full((3,), float(index))


class TroubledStages(seneca.StagedDataset):
    def __init__(self, stage):
        self.stage = stage

    def __len__(self):
        return 60

    def made(self, stage, value):
        return seneca.do_not_share(value) if stage == self.stage and globals()["TROUBLE"] else value

    def read(self, index):
        return self.made("read", bytes([index]))

    def decode(self, data):
        return torch.tensor([data[0]]).numpy()

    def augment(self, array, rng):
        return torch.from_numpy(self.made("augment", array + 0))

    def label(self, index):
        return index


TROUBLE = False


def loader(dataset, job, **options):
    return seneca.DataLoader(
        dataset, 6, shuffle=True, job=job, collate_fn=list, cache_bytes="4MiB", **options
    )


def test_outside_a_loader_it_is_the_item_itself():
    before = times_asked()
    item = object()
    assert seneca.do_not_share(item) is item and times_asked() == before + 1


def test_stages_mark_what_was_asked_for():
    assert [type(item) for item in Opaque(Troubled(asks=True), b"x" * 16, 1).make([1, 3])] == [tuple, tuple]
    global TROUBLE
    TROUBLE = True
    try:
        made = Opaque(Troubled(asks=True), b"x" * 16, 1).make([1, 3])
        assert [type(item) for item in made] == [tuple, Private] and made[1].item[0] == 3
    finally:
        TROUBLE = False


@pytest.mark.small(1)
@pytest.mark.parametrize("asks", [True, False])
def test_no_other_job_is_given_what_was_made_in_trouble(asks):
    """Without the call the jobs find that they make different items, and share nothing more."""
    global TROUBLE
    cache = f"private-{secrets.token_hex(6)}"
    jobs = [loader(Troubled(asks), job, cache=cache, check_every=None) for job in "ab"]
    wrong = given = 0
    for _ in range(4):
        troubled, other = map(iter, jobs)
        for _ in range(10):
            TROUBLE = True
            given += sum(float(x[0]) == -1 for _, x in next(troubled))
            TROUBLE = False
            wrong += sum(float(x[0]) != index for index, x in next(other))
    assert given > 0 and wrong == 0
    assert (jobs[1].stats()["served"]["augmented"] > 0) is asks
    assert all(job.explain().startswith("not shared") is not asks for job in jobs[1:])


@pytest.mark.small(1)
@pytest.mark.parametrize("stage", ["read", "augment"])
def test_what_a_stage_asks_for_is_not_kept(stage):
    global TROUBLE
    cache = f"private-{secrets.token_hex(6)}"
    one = loader(TroubledStages(stage), "a", cache=cache, split="0-100-0")
    TROUBLE = True
    try:
        list(one)
        assert one.stats()["cache"]["payloads"]["decoded"] == 0
    finally:
        TROUBLE = False
    list(one)
    list(one)
    assert one.stats()["cache"]["payloads"]["decoded"] > 0
