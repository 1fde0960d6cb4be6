"""Workers: what a member draws in one process is held, written and read in another."""

import numpy as np
import pytest
from engine import ALL_STAGED, AUGMENTED, ENCODED, NONE, STORAGE, Place, Process

from seneca._core.member import CLAIM
from seneca._core.worker import Worker

PAGE = 4096


def claims_of(samples):
    """Claims of samples that nobody drew."""
    claims = np.zeros(len(samples), CLAIM)
    claims["sample"] = samples
    claims["slot"] = NONE
    return claims


def planner(place, segment, **options):
    """A member whose draws are prepared by workers, for copies that say themselves what they are."""
    return place.member(
        segment, **({"height": 0, "width": 0, "copy_bytes": 100, "hands_over": True} | options)
    )


def prepare(worker, items):
    """Write what is to be staged, as a worker does; answers the samples that were staged copies."""
    for item in items:
        if item["target_slot"] != NONE:
            worker.payload(int(item["target_slot"]))[:4] = int(item["sample"]).to_bytes(4, "little")
            worker.commit(int(item["target_slot"]))
        elif item["source"] == AUGMENTED:
            payload = worker.payload(int(item["source_slot"]))
            assert int.from_bytes(payload[:4], "little") == item["sample"]
    worker.done(items)
    return items["sample"][items["source"] == AUGMENTED].tolist()


def test_a_worker_stages_what_its_member_reserved_and_another_job_is_served_it():
    with Place(100, 64 * PAGE, split=ALL_STAGED) as place:
        ours, theirs = place.attach(1), place.attach(2)
        here, there = planner(place, ours), planner(place, theirs, seed=1)
        worker, other = place.worker(ours, copy_bytes=100), place.worker(theirs, copy_bytes=100)
        drawn = here.draw(8)[0]
        row, generation, claims = here.claims(drawn)
        items, _, private = worker.begin(claims, row, generation)
        assert not private
        assert (items["target_slot"] == drawn["target_slot"]).all() and (items["target_slot"] != NONE).all()
        assert prepare(worker, items) == []
        row, generation, claims = there.claims(there.draw(8)[0])
        items, _, _ = other.begin(claims, row, generation)
        assert sorted(prepare(other, items)) == sorted(drawn["sample"].tolist())
        assert ours.check() is None
        for participant in (worker, other, here, there):
            participant.close()
        assert ours.stats()["payloads"]["augmented"] == 0, "each has used them"
        assert ours.check() is None


def test_a_copy_says_what_its_writers_job_had_seen_of_the_files():
    with Place(100, 64 * PAGE, split=ALL_STAGED) as place:
        ours, theirs = place.attach(1), place.attach(2)
        here, there = planner(place, ours, files_name=7), planner(place, theirs, seed=1)
        worker, other = place.worker(ours, copy_bytes=100), place.worker(theirs, copy_bytes=100)
        row, generation, claims = here.claims(here.draw(8)[0])
        prepare(worker, worker.begin(claims, row, generation)[0])
        worker.name_files(2**32 - 1)
        looked_up, _, _ = worker.begin(claims_of(range(90, 100)), NONE, 0)
        prepare(worker, looked_up)
        row, generation, claims = there.claims(there.draw(100)[0])
        items, _, _ = other.begin(claims, row, generation)
        seen = {
            int(item["sample"]): other.files_name(int(item["source_slot"]))
            for item in items
            if item["source"] == AUGMENTED
        }
        drawn_here = [sample for sample, name in seen.items() if name == 7]
        assert len(drawn_here) == 8
        assert {name for sample, name in seen.items() if sample not in drawn_here} <= {2**32 - 1}
        other.done(items)
        for participant in (worker, other, here, there):
            participant.close()


def test_a_claim_is_good_once():
    with Place(100, 64 * PAGE, split=ALL_STAGED) as place:
        ours, theirs = place.attach(1), place.attach(2)
        here, there = planner(place, ours), planner(place, theirs, seed=1)
        worker, second = place.worker(ours), place.worker(ours)
        row, generation, claims = here.claims(here.draw(8)[0])
        items, _, _ = worker.begin(claims, row, generation)
        again, _, _ = second.begin(claims, row, generation)
        assert (again["target_slot"] == NONE).all() and (again["source"] == STORAGE).all()
        assert again["sample"].tolist() == items["sample"].tolist()
        assert ours.check() is None
        prepare(worker, items)
        for participant in (worker, second, here, there):
            participant.close()


@pytest.mark.parametrize("spoil", ["row", "generation", "slot", "entry", "sample", "slot generation"])
def test_a_claim_that_does_not_stand_is_prepared_privately(spoil):
    with Place(100, 64 * PAGE, split=ALL_STAGED) as place:
        ours, theirs = place.attach(1), place.attach(2)
        here, there = planner(place, ours), planner(place, theirs, seed=1)
        worker = place.worker(ours)
        row, generation, claims = here.claims(here.draw(4)[0])
        if spoil == "row":
            row = (row + 1) % 128
        elif spoil == "generation":
            generation += 1
        elif spoil == "slot":
            claims["slot"] = 10**9
        elif spoil == "entry":
            claims["entry"] += 7
        elif spoil == "sample":
            claims["sample"] = (claims["sample"] + 1) % 100
        else:
            claims["generation"] += 1
        items, _, _ = worker.begin(claims, row, generation)
        assert (items["target_slot"] == NONE).all() and (items["source"] == STORAGE).all()
        assert items["sample"].tolist() == claims["sample"].tolist()
        assert ours.check() is None
        for participant in (worker, here, there):
            participant.close()


def test_another_jobs_worker_cannot_claim():
    with Place(100, 64 * PAGE, split=ALL_STAGED) as place:
        ours, theirs = place.attach(1), place.attach(2)
        here, there = planner(place, ours), planner(place, theirs, seed=1)
        thief = place.worker(theirs)
        row, generation, claims = here.claims(here.draw(4)[0])
        items, _, _ = thief.begin(claims, row, generation)
        assert (items["target_slot"] == NONE).all()
        for participant in (thief, here, there):
            participant.close()


def test_claimed_lines_are_used_again():
    with Place(400, 16 * PAGE, split=ALL_STAGED) as place:
        ours, theirs = place.attach(1), place.attach(2)
        here, there = planner(place, ours, in_flight=4), planner(place, theirs, in_flight=4, seed=1)
        worker = place.worker(ours, copy_bytes=100)
        served = []
        while here.left:  # far more draws than the ledger has lines
            row, generation, claims = here.claims(here.draw(4)[0])
            assert (claims["slot"] != NONE).all(), len(served)
            items, _, _ = worker.begin(claims, row, generation)
            prepare(worker, items)
            served += items["sample"].tolist()
        assert sorted(served) == list(range(400))
        assert ours.check() is None
        for participant in (worker, here, there):
            participant.close()


def test_what_was_drawn_and_never_claimed_is_let_go_of_at_the_end():
    with Place(100, 64 * PAGE, split=ALL_STAGED) as place:
        ours, theirs = place.attach(1), place.attach(2)
        here, there = planner(place, ours), planner(place, theirs, seed=1)
        assert (here.draw(16)[0]["target_slot"] != NONE).all()
        assert ours.stats()["writing"] == 16
        here.close()
        assert ours.stats()["writing"] == 0
        assert ours.check() is None
        there.close()


def test_a_worker_writes_on_when_its_member_dies_and_nothing_is_lost():
    def member(pipe, place):
        segment = place.attach(1)
        here = planner(place, segment)
        pipe.send(here.claims(here.draw(8)[0]))
        pipe.receive()

    with Place(100, 64 * PAGE, split=ALL_STAGED) as place:
        ours, theirs = place.attach(1), place.attach(2)
        there = planner(place, theirs, seed=1)
        worker = place.worker(ours, copy_bytes=100)
        with Process(member, place) as parent:
            row, generation, claims = parent.receive()
            taken, left = claims[:4], claims[4:]
            items, _, _ = worker.begin(taken, row, generation)
            assert (items["target_slot"] != NONE).all()
            parent.kill()
        for _ in range(3):
            there.draw(0)  # finds the dead
        assert theirs.stats()["writing"] == 4, "what is being written is held, the rest free"
        orphans, _, _ = worker.begin(left, row, generation)
        assert (orphans["target_slot"] == NONE).all()
        prepare(worker, items)
        drawn = there.draw(8)[0]
        assert sorted(drawn["sample"][drawn["source"] == AUGMENTED].tolist()) == sorted(
            items["sample"].tolist()
        )
        assert ours.check() is None
        worker.close()
        there.close()


def test_a_worker_that_dies_leaves_room():
    def work(pipe, place):
        segment = place.attach(1)
        worker = place.worker(segment, copy_bytes=100)
        row, generation, claims = pipe.receive()
        worker.begin(claims, row, generation)
        pipe.send("begun")
        pipe.receive()

    with Place(100, 64 * PAGE, split=ALL_STAGED) as place:
        ours, theirs = place.attach(1), place.attach(2)
        here, there = planner(place, ours), planner(place, theirs, seed=1)
        with Process(work, place) as child:
            child.send(here.claims(here.draw(8)[0]))
            assert child.receive() == "begun"
            assert ours.stats()["writing"] == 8
            child.kill()
        assert ours.stats()["writing"] == 0
        assert ours.check() is None
        here.close()
        there.close()


def test_the_room_that_copies_take_is_learned():
    with Place(100, 64 * PAGE, split=ALL_STAGED) as place:
        ours, theirs = place.attach(1), place.attach(2)
        here, there = planner(place, ours, copy_bytes=0), planner(place, theirs, copy_bytes=0, seed=1)
        worker = place.worker(ours)
        drawn = here.draw(4)[0]
        assert here.claims(drawn)[2] is None, "nobody knows how much room to reserve"
        worker.begin(claims_of(drawn["sample"]))
        worker.learn(5000)
        worker.learn(3000)
        worker.begin(claims_of([]))
        drawn = there.draw(4)[0]
        assert there.copy_bytes == 5000
        assert (drawn["target_slot"] != NONE).all()
        assert len(there.payload(int(drawn["target_slot"][0]))) == 5000
        assert ours.stats()["budget_bytes"]["augmented"] == 64 * PAGE
        for participant in (worker, here, there):
            participant.close()


def test_samples_that_nobody_drew_are_looked_up():
    with Place(100, 64 * PAGE, split=(0, 5000, 0, 5000, 0)) as place:
        ours, theirs = place.attach(1), place.attach(2)
        there = planner(place, theirs, seed=1)
        other, worker = place.worker(theirs, copy_bytes=100), place.worker(ours, copy_bytes=100, keeps=True)
        drawn = there.draw(4)[0]
        assert there.claims(drawn)[2] is None
        prepare(other, other.begin(claims_of(drawn["sample"]))[0])

        # Nobody of ours draws, so nothing was reserved for us; what is there serves all the same.
        items, _, _ = worker.begin(claims_of([7, 7]))
        assert (items["keep"] == ENCODED).all()
        _, slots, _ = worker.begin(claims_of([]), offers=[(7, ENCODED, 10, 0, 0)])
        slot, entry = slots[0]
        worker.payload(slot)[:10] = b"0123456789"
        worker.commit(slot)
        worker.offer_done(slot, entry)
        items, _, _ = worker.begin(claims_of([7]))
        assert items["source"][0] == ENCODED
        assert bytes(worker.payload(int(items["source_slot"][0]))) == b"0123456789"
        worker.done(items)

        # The other job's member still wants sample 9: what we make of it, we stage.
        wanted = next(s for s in range(100) if s not in drawn["sample"])
        items, _, _ = worker.begin(claims_of([wanted]))
        assert items["target_slot"][0] != NONE
        prepare(worker, items)
        assert wanted in there.draw(1)[0]["sample"]
        assert ours.check() is None
        for participant in (worker, other, there):
            participant.close()


def test_a_private_worker_has_everything_from_storage():
    worker = Worker(None, decoded=1, augmented=2, shares=True, keeps=True)
    items, slots, private = worker.begin(claims_of([3, 1]), offers=[(3, ENCODED, 10, 0, 0)])
    assert items["sample"].tolist() == [3, 1] and (items["source"] == STORAGE).all()
    assert slots == [None] and not private
    worker.done(items)
    worker.close()


def test_a_member_in_a_given_order_is_served_copies_of_its_own_samples():
    with Place(20, 64 * PAGE, split=ALL_STAGED) as place:
        ours, theirs = place.attach(1), place.attach(2)
        fixed = planner(place, ours, fixed=True, substitutes=False)
        other = planner(place, theirs, fixed=True, substitutes=False, seed=1)
        drawn = fixed.draw(10)[0]
        for item in drawn:
            fixed.commit(int(item["target_slot"]))
        fixed.done(drawn)
        drawn = other.draw(20)[0]
        assert drawn["sample"].tolist() == list(range(20)), "the order is kept"
        assert (drawn["source"][:10] == AUGMENTED).all() and (drawn["source"][10:] == STORAGE).all()
        assert ours.check() is None
        fixed.close()
        other.close()
