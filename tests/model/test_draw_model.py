"""The engine against a model of it, in random walks.

Several handles, some of them in other processes, take part in one segment: they open members, draw,
write, commit, abort, offer, leave and die in any order. The model below is written from the design and
says what each of these must lead to: which sample is served next and from where, whether room is made
for a copy, who wants it, and when it goes. After every step the records in shared memory are held
against the model, and what is derived in them against a rebuild.

What the model leaves open: which of the eligible copies of the lowest want is served, which copies a full
stage gives up, and which samples are prepared first because a member that is short of copies lacks them too.
"""

import itertools
import os
import secrets

import numpy as np
import pytest
from draw_parts import STEPS, pattern
from draw_world import World
from engine import AUGMENTED, DECODED, ENCODED, NONE, RECODED, STORAGE, Place

SEED = int(os.environ.get("SENECA_TEST_SEED") or secrets.randbits(32))


@pytest.mark.small(2)
@pytest.mark.parametrize("walk", range(12))
def test_a_random_walk_leads_where_the_model_says(walk):
    seed = f"{SEED}/{walk}"
    print(f"SENECA_TEST_SEED={SEED}, walk {walk}")
    world = World(seed)
    with world.place:
        try:
            world.begin()
            world.walk(STEPS)
        finally:
            world.end()
            print(dict(world.done))


def write(member, items):
    for sample, slot in items[["sample", "target_slot"]].tolist():
        assert slot != NONE
        member.payload(slot)[:] = pattern(sample, length=len(member.payload(slot)))
        member.commit(slot)
    member.done(items)


def test_a_job_that_comes_has_used_nothing_whoever_had_its_bit():
    with Place(10) as place:
        maker, user, watcher = (place.attach(job) for job in (1, 2, 3))
        makes, uses, watches = (place.member(segment) for segment in (maker, user, watcher))
        write(makes, makes.draw(10)[0])
        served, _, _ = uses.draw(10)
        assert (served["source"] == AUGMENTED).all()
        uses.done(served)
        uses.close()
        place.close(user)  # the copies stay: one still wants them
        late = place.member(place.attach(4))
        assert (late.draw(10)[0]["source"] == AUGMENTED).all()
        for member in (makes, watches, late):
            member.close()


@pytest.mark.parametrize("forms", list(itertools.permutations([ENCODED, RECODED, DECODED])))
def test_a_kept_payload_is_served_in_its_best_form(forms):
    with Place(10, split=(0, 4000, 3000, 0, 3000)) as place:
        segment = place.attach()
        member = place.member(segment, keeps=True, places=3)
        for form in forms:
            _, [(slot, entry)], _ = member.draw(0, [(7, form, 75, 5, 5)])
            member.commit(slot)
            member.offer_done(slot, entry)
        assert member.draw(0, [(7, forms[0], 75, 5, 5)])[1] == [None], "one of a kind"
        member.close()
        for decoded, recodes, form in ((11, True, DECODED), (12, True, RECODED), (12, False, ENCODED)):
            member = place.member(segment, decoded=decoded, recodes=recodes)
            items = member.draw(10)[0]
            assert items["source"][items["sample"] == 7] == form and (items["source"] == STORAGE).sum() == 9
            member.close()


def test_what_a_member_short_of_copies_lacks_is_prepared_first():
    with Place(1000) as place:
        late = place.member(place.attach(1), in_flight=40)
        late.done(late.draw(970)[0])
        other = place.member(place.attach(2), in_flight=40)
        prepared = set(other.draw(32)[0]["sample"].tolist())
        lacked = set(late.draw(30)[0]["sample"].tolist())
        assert len(prepared & lacked) == 20, "half of what the other has in flight"
        late.close()
        other.close()


def test_a_member_that_others_follow_goes_on_in_its_own_order():
    with Place(2000) as place:
        leads, twin = (place.member(segment, in_flight=40) for segment in (place.attach(1), None))
        for _ in range(150):
            leads.done(leads.draw(8)[0])
        had = np.packbits(np.arange(2000) % 60 > 0, bitorder="little")
        late = place.member(place.attach(2), in_flight=40, taken=had)
        prepared = leads.draw(32)[0]["sample"].tolist()
        assert prepared == twin.draw(1232)[0]["sample"][1200:].tolist()
        for member in (leads, twin, late):
            member.close()
