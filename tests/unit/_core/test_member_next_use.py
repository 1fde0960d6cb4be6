"""Which kept payload makes room for another: the one that the jobs need last."""

from __future__ import annotations

import numpy as np
import pytest
from engine import DECODED, ENCODED, Place

from seneca._core.segment import NONE

N, ROOM = 51, 12  # an epoch's parts are a fifth of a place each; all that is kept is a candidate
PAGE = 4096
READY = 2


class Job:
    """A member with an order of its own, and where it is in that."""

    def __init__(self, place, number, order, **options):
        self.order, self.drawn = order, 0
        self.held: set[int] = set()  # until its next draw: what it was served, and what it wrote
        self.segment = place.attach(number)
        options = {"shares": False, "keeps": True, "substitutes": False} | options
        self.member = place.member(
            self.segment, samples=order.astype(np.uint32), fixed=True, places=len(order), **options
        )

    def draw(self, wanted, offers=()):
        """Draw, and write what is accepted. Answers the items, and which offers were accepted."""
        items, slots, _ = self.member.draw(wanted, [(sample, form, PAGE, 0, 0) for sample, form in offers])
        for slot in filter(None, slots):
            self.member.commit(slot[0])
            self.member.offer_done(*slot)
        self.member.done(items)
        self.drawn += len(items)
        written = {offer[0] for offer, slot in zip(offers, slots, strict=True) if slot}
        self.held = written | set(items["sample"][items["source_slot"] != NONE].tolist())
        return items, [slot is not None for slot in slots]

    def next_use(self, sample):
        at = int(np.flatnonzero(self.order == sample)[0])
        n = len(self.order)
        return at - self.drawn if at >= self.drawn else n - self.drawn + n // 2


def kept(place, form=ENCODED):
    slots = place.records().slots
    return set(slots["sample"][(slots["state"] == READY) & (slots["form"] == form)].tolist())


def orders(count):
    rng = np.random.default_rng(count)
    return [rng.permutation(N) for _ in range(count)]


@pytest.fixture
def place():
    with Place(N, ROOM * PAGE, split=(0, 10000, 0, 0, 0)) as place:
        yield place


@pytest.mark.small(1)
@pytest.mark.parametrize("count", [2, 3, 8])
def test_what_is_needed_last_makes_room(place, count):
    """Against a model in Python. All draw one sample after another, and offer what they did not find."""
    jobs = [Job(place, number + 1, order) for number, order in enumerate(orders(count))]
    for job in jobs:
        for _ in range(2):
            job.draw(1)  # knows of the others, makes its timetable, and publishes it
    offered, evictions, refusals = {}, 0, 0
    while jobs[-1].member.left:
        for job in jobs:
            before = kept(place)
            offer = offered.pop(job, None)
            held = set().union(*(other.held for other in jobs if other is not job))
            next_use = {sample: min(j.next_use(sample) for j in jobs) for sample in before | {offer} - {None}}
            items, accepted = job.draw(1, [(offer, ENCODED)] if offer is not None else [])
            gone, come = before - kept(place), kept(place) - before
            if len(gone):
                (victim,) = gone
                assert come == {offer} and accepted == [True] and len(before) == ROOM
                latest = max(next_use[sample] for sample in before - held)
                assert next_use[victim] == latest > next_use[offer]
                evictions += 1
            elif len(before) == ROOM and offer is not None and offer not in before:
                assert accepted == [False] and all(
                    next_use[sample] <= next_use[offer] for sample in before - held
                )
                refusals += 1
            item = items[0]
            assert (item["source"] == ENCODED) == (item["sample"] in before | come)
            if item["source"] != ENCODED:
                offered[job] = int(item["sample"])
    assert evictions > N // 4 and refusals > 0
    for job in jobs:
        assert job.segment.check() is None
        job.member.close()


@pytest.mark.parametrize("but", ["alone", "of one job", "another substitutes", "has no company yet"])
def test_what_came_first_stays_where_nobody_knows_better(place, but):
    order, other = orders(2)
    job = Job(place, 1, order)
    others = {
        "alone": lambda: [],
        "of one job": lambda: [Job(place, 1, other)],
        "another substitutes": lambda: [
            Job(place, 2, other),
            Job(place, 3, other, substitutes=True, shares=True),
        ],
        "has no company yet": lambda: [Job(place, 2, other)],
    }[but]()
    if but != "has no company yet":
        for each in (job, *others) * 3:
            each.draw(1)
    _, accepted = job.draw(0, [(int(sample), ENCODED) for sample in order[:ROOM]])
    assert all(accepted) and kept(place) == set(order[:ROOM].tolist())
    job.draw(N // 2)
    late = order[::-1][:ROOM]
    items, accepted = job.draw(1, [(int(sample), ENCODED) for sample in late])
    assert not any(accepted) and items["keep"].tolist() == [0] * len(items)
    for each in (job, *others):
        each.member.close()


def test_decoded_payloads_count_for_those_who_can_use_them():
    """The first job has another head than the others. Only that job needs what it decoded."""
    with Place(N, ROOM * PAGE, split=(0, 0, 10000, 0, 0)) as place:
        order = np.arange(N)
        heads = [1, 2, 2]
        jobs = [Job(place, number + 1, order, decoded=head) for number, head in enumerate(heads)]
        for job in jobs * 3:
            job.draw(1)
        jobs[0].draw(20)  # it has had these, and nobody else with its head comes to them
        _, accepted = jobs[0].draw(0, [(sample, DECODED) for sample in range(3, 3 + ROOM)])
        assert all(accepted)
        jobs[0].draw(0)  # holds nothing any more
        _, accepted = jobs[1].draw(0, [(sample, DECODED) for sample in (40, 41)])
        assert accepted == [True, True], "its peer comes to them in this epoch"
        assert {40, 41} < kept(place, DECODED)
        for job in jobs:
            job.member.close()


def test_a_sample_that_a_member_has_not_is_not_waited_for(place):
    """Two jobs on halves of a dataset, and two that need what one of them has."""
    half = np.arange(N // 2)
    jobs = [Job(place, 1, half), Job(place, 2, half[::-1].copy()), Job(place, 3, np.arange(N // 2, N))]
    for job in jobs * 3:
        job.draw(1)
    _, accepted = jobs[2].draw(0, [(sample, ENCODED) for sample in range(N // 2, N // 2 + ROOM)])
    assert all(accepted)
    jobs[2].draw(N)  # it has had all of them
    _, accepted = jobs[0].draw(0, [(10, ENCODED)])
    assert accepted == [True]
    items, _ = jobs[1].draw(N)
    assert items["source"][items["sample"] == 10] == [ENCODED]
    assert set(items["target_slot"]) == {NONE}
    for job in jobs:
        job.member.close()


def test_with_both_forms_full_a_sample_has_one_of_them_to_be_kept_in():
    with Place(N, 2 * ROOM * PAGE, split=(0, 5000, 5000, 0, 0)) as place:
        first, second = (Job(place, number + 1, order) for number, order in enumerate(orders(2)))
        for job in (first, second) * 3:
            job.draw(1)
        offers = [(int(sample), form) for form in (ENCODED, DECODED) for sample in first.order[-ROOM:]]
        assert all(first.draw(0, offers)[1])
        items, _ = first.draw(N // 2)
        again, _ = second.draw(N // 2)
        forms = {}
        for item in [*items, *again]:
            if item["keep"]:
                assert forms.setdefault(int(item["sample"]), int(item["keep"])) == item["keep"]
        assert set(forms.values()) == {ENCODED, DECODED}
        first.member.close()
        second.member.close()
