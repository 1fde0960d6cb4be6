"""Exactly once, whatever happens: hypothesis drives the engine, and shrinks what breaks it.

Jobs come, go and die; their members draw epochs of every size and kind, leave them half-way and begin
anew; what they draw is delivered by themselves or by workers, in time or late or never; the stage is full
or empty. test_draw_model.py says which sample is served next and why; here nothing is known of that, only
what a job may rely on:

* a member delivers each sample of its list once, in batches of its size, and nothing else;
* a job is never given one augmented copy twice while it is attached, by whatever process;
* a copy is of the sample that it is served for, and does not change under its reader;
* what is derived in the records is what a rebuild makes of them.

A copy's payload says which sample it is of, and a number that no other copy has.
"""

import fcntl
import os
import struct
from collections import Counter

import hypothesis.strategies as st
import numpy as np
from engine import AUGMENTED, NONE, STORAGE, Place
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sizes import size

from seneca._core.member import CLAIM
from seneca._core.worker import Worker

PAGE = 4096
SIDE = 8  # of a copy of pixels
ITEM_BYTES = 100
LABEL = struct.Struct("<QQ")  # of a copy: its sample, its number
ANCHOR = 99  # a job that keeps the segment and draws nothing
PIXELS, ITEMS = 22, 33  # pipelines: copies that members make themselves, and that workers make for them


seen = Counter()


def count(what, times=1):
    """For the reader of a run."""
    seen[what] += int(times)


def claims_of(samples):
    """Claims of samples that nobody drew."""
    claims = np.zeros(len(samples), CLAIM)
    claims["sample"], claims["slot"] = samples, NONE
    return claims


class Handle:
    """A process of a job."""

    def __init__(self, place, job):
        self.place, self.job = place, job
        before = self.descriptors()
        self.segment = place.attach(job)
        (self.fd,) = self.descriptors() - before
        self.worker = place.worker(self.segment, augmented=ITEMS, copy_bytes=ITEM_BYTES)
        self.members = []

    def descriptors(self):
        found = set()
        for fd in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{fd}").startswith(self.place.path):
                    found.add(int(fd))
            except FileNotFoundError:
                continue  # the listing's own
        return found

    def leave(self):
        for member in self.members:
            member.engine.close()
        self.worker.close()
        self.segment.close()
        self.place.handles.remove(self.segment)

    def die(self):
        """As the kernel ends a process: its locks are gone, and nobody has tidied up."""
        nothing = os.open("/dev/null", os.O_RDONLY)  # the number stays taken, and can lock nothing
        os.dup2(nothing, self.fd)
        os.close(nothing)
        self.place.handles.remove(self.segment)


class Member:
    def __init__(self, handle, mine, batch_size, drop_last, kind, epoch):
        self.handle, self.mine, self.batch_size, self.drop_last, self.kind = (
            handle,
            mine,
            batch_size,
            drop_last,
            kind,
        )
        self.places = len(mine) - (len(mine) % batch_size if drop_last else 0)
        self.epoch, self.hands_over = epoch, kind == "hands over"
        self.engine = handle.place.member(
            handle.segment,
            samples=np.array(mine, np.uint32),
            places=self.places,
            epoch=epoch,
            in_flight=3 * batch_size,
            shares=kind != "alone",
            substitutes=kind not in ("alone", "in order"),
            fixed=kind == "in order",
            hands_over=self.hands_over,
            augmented=ITEMS if self.hands_over else PIXELS,
            height=0 if self.hands_over else SIDE,
            width=0 if self.hands_over else SIDE,
            copy_bytes=ITEM_BYTES if self.hands_over else 0,
        )
        handle.members.append(self)
        self.drawn, self.delivered, self.under_way = [], [], []

    @property
    def has_all(self):
        return len(self.delivered) == self.places

    def end(self):
        self.engine.close()
        self.handle.members.remove(self)


class Batch:
    """Drawn, and not yet delivered; it may outlive its member."""

    def __init__(self, member, items):
        self.job, self.items = member.handle.job, items
        self.claim = member.engine.claims(items) if member.hands_over else None


WHICH = st.integers(0, 11)
JOB = st.integers(1, 3)


class Jobs(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.place = None
        self.copies = 0
        self.given = {}  # job: numbers of the copies that it made or was served
        self.handles, self.graves, self.orphans = [], [], []
        self.steps = 0
        self.was_apart = False

    @initialize(
        n=st.sampled_from([80, 30, 7, 2, 1]),
        pages=st.sampled_from([300, 20, 6, 2, 1]),
        staged=st.sampled_from([10000, 10000, 5000, 0]),
        jobs=st.lists(JOB, min_size=2, max_size=4),
        batch_size=st.integers(1, 12),
        kind=st.sampled_from(["hands over", "hands over", "shares"]),
    )
    def begin(self, n, pages, staged, jobs, batch_size, kind):
        self.n = n
        self.place = Place(n, pages * PAGE, split=(0, 10000 - staged, 0, staged, 0))
        self.anchor = self.place.attach(ANCHOR)
        for job in jobs:
            self.attach(job)
            Member(self.handles[-1], list(range(n)), batch_size, False, kind, 0)

    # Who is here

    @property
    def members(self):
        return [member for handle in self.handles for member in handle.members]

    @precondition(lambda self: len(self.handles) < 6)
    @rule(job=JOB)
    def attach(self, job):
        if not any(handle.job == job for handle in self.handles):
            self.given[job] = set()  # to the copies it is a new one
        self.handles.append(Handle(self.place, job))

    @precondition(lambda self: self.handles)
    @rule(which=WHICH, dies=st.booleans())
    def go(self, which, dies):
        handle = self.handles.pop(which % len(self.handles))
        for member in handle.members:
            self.draw(member)
            self.orphans += member.under_way
        if dies:
            handle.die()
            self.graves.append(handle)
            count("died with members", bool(handle.members))
        else:
            handle.leave()

    @precondition(lambda self: any(len(handle.members) < 2 for handle in self.handles))
    @rule(
        which=WHICH,
        of=st.none() | st.lists(st.integers(0, 79), min_size=1, unique=True),
        batch_size=st.integers(1, 24),
        drop_last=st.booleans(),
        kind=st.sampled_from(["shares", "shares", "hands over", "hands over", "in order", "alone"]),
    )
    def open(self, which, of, batch_size, drop_last, kind):
        handles = [handle for handle in self.handles if len(handle.members) < 2]
        mine = list(range(self.n)) if of is None else list(dict.fromkeys(sample % self.n for sample in of))
        Member(handles[which % len(handles)], mine, batch_size, drop_last, kind, 0)

    # What members do

    @precondition(lambda self: self.members)
    @rule(rounds=st.integers(1, 5), fails=st.integers(0, 8))
    def all_go_on(self, rounds, fails):
        """Some batches of each, by turns; in the first few no copy can be made."""
        self.by_turns(rounds, fails)

    def by_turns(self, rounds, fails=0):
        for _ in range(rounds):
            for member in self.members:
                self.draw(member)
                if len(member.under_way) == 2:
                    self.deliver(member, fails > 0)
                    fails -= 1

    @precondition(lambda self: self.members)
    @rule(which=WHICH, draws=st.integers(0, 3), deliveries=st.integers(0, 3))
    def one_goes_on(self, which, draws, deliveries):
        member = self.members[which % len(self.members)]
        for _ in range(draws):
            self.draw(member)
        for _ in range(deliveries):
            self.deliver(member)

    @precondition(lambda self: self.members)
    @rule(which=WHICH, again=st.booleans())
    def finish(self, which, again):
        """To one's end of the epoch, beside all others."""
        member = self.members[which % len(self.members)]
        while not member.has_all:
            for each in self.members:
                self.draw(each)
                self.deliver(each)
        self.draw(member)
        assert not member.under_way and member.engine.left == 0
        assert len(member.delivered) == len(set(member.delivered)) == member.places
        assert set(member.delivered) <= set(member.mine)
        if not member.drop_last:
            assert set(member.delivered) == set(member.mine), "an epoch is each of its samples"
        count("epochs")
        self.end(member, again)

    @precondition(lambda self: self.members)
    @rule(which=WHICH)
    def leave_half_way(self, which):
        """``break``, and the next epoch: what was drawn and not delivered is not seen in that."""
        member = self.members[which % len(self.members)]
        self.draw(member)
        self.end(member, True)

    def end(self, member, again):
        member.end()
        self.orphans += member.under_way
        if again:
            arguments = member.handle, member.mine, member.batch_size, member.drop_last, member.kind
            Member(*arguments, member.epoch + 1)

    def draw(self, member):
        if len(member.under_way) >= 3:
            return
        left = member.places - len(member.drawn)
        items = member.engine.draw(member.batch_size)[0]
        assert len(items) == min(member.batch_size, left), "batches have their size"
        assert member.engine.left == left - len(items)
        member.drawn += items["sample"].tolist()
        assert len(set(member.drawn)) == len(member.drawn), "twice in an epoch"
        assert set(member.drawn) <= set(member.mine), "not of its list"
        if len(items):
            member.under_way.append(Batch(member, items))

    def deliver(self, member, fails=False):
        if not member.under_way:
            return
        batch = member.under_way.pop(0)
        if member.hands_over:
            self.prepare_in_worker(member.handle, batch, fails)
        else:
            self.prepare(member.handle.job, member.engine, batch.items, fails)
        member.delivered += batch.items["sample"].tolist()

    @property
    def late(self):
        """Batches whose members have gone, and for which workers are there that have not noticed."""
        jobs = {handle.job for handle in self.handles}
        claimed = [batch for batch in self.orphans if batch.claim is not None and batch.claim[2] is not None]
        return [batch for batch in claimed if batch.job in jobs]

    @precondition(lambda self: self.late)
    @rule(which=WHICH, who=WHICH, after=st.integers(0, 3))
    def prepare_late(self, which, who, after):
        """At once, or when others have the rows and slots that the claims name."""
        self.by_turns(after)
        batch = self.late[which % len(self.late)]
        self.orphans.remove(batch)
        handles = [handle for handle in self.handles if handle.job == batch.job]
        self.prepare_in_worker(handles[who % len(handles)], batch, False)
        count("prepared late")

    @precondition(lambda self: self.handles)
    @rule(which=WHICH, samples=st.lists(st.integers(0, 79), max_size=8))
    def look_up(self, which, samples):
        """What an order of the user's asks for."""
        handle = self.handles[which % len(self.handles)]
        claims = claims_of([sample % self.n for sample in samples])
        items = handle.worker.begin(claims)[0]
        assert (items["sample"] == claims["sample"]).all()
        self.prepare(handle.job, handle.worker, items, False)

    @rule(staged=st.sampled_from([10000, 5000, 100, 0]))
    def resplit(self, staged):
        self.anchor.change_split((0, 10000 - staged, 0, staged, 0), self.anchor.split()[0], "a test")

    @precondition(lambda self: self.members and not self.was_apart)  # it waits for a tenth of a second
    @rule(which=WHICH)
    def draw_apart(self, which):
        """While another process is stopped with the lock in its hands; then it is had again."""
        member = self.members[which % len(self.members)]
        if len(member.under_way) >= 2 or len(member.drawn) == member.places:
            return
        self.was_apart = True
        holder = os.open(self.place.path, os.O_RDWR)
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.draw(member)
        finally:
            os.close(holder)
        assert (member.under_way[-1].items["source"] == STORAGE).all()
        self.draw(member)
        count("drawn apart")
        self.by_turns(4)  # what was drawn apart must not be served again

    # What they find

    def prepare_in_worker(self, handle, batch, fails):
        row, generation, claims = batch.claim
        if claims is None:  # nothing was held
            claims = claims_of(batch.items["sample"])
        items = handle.worker.begin(claims, row, generation)[0]
        assert items["sample"].tolist() == batch.items["sample"].tolist()
        self.prepare(handle.job, handle.worker, items, fails)

    def prepare(self, job, participant, items, fails):
        """Read what is served and write what is to be staged; then let go of it."""
        for sample, source, slot, target in items[
            ["sample", "source", "source_slot", "target_slot"]
        ].tolist():
            if source == AUGMENTED:
                of, number = LABEL.unpack(participant.payload(slot)[: LABEL.size])
                assert of == sample, "a copy of another sample"
                self.give(job, number)
                count("served by a worker" if isinstance(participant, Worker) else "served")
            elif target != NONE and fails:
                participant.abort(target)
                count("failed")
            elif target != NONE:
                self.copies += 1
                participant.payload(target)[: LABEL.size] = LABEL.pack(sample, self.copies)
                self.give(job, self.copies)
                participant.commit(target)
        participant.done(items)

    def give(self, job, number):
        assert number not in self.given[job], "one copy, twice to one job"
        self.given[job].add(number)

    @invariant()
    def derived_is_what_a_rebuild_makes(self):
        self.steps += 1
        if self.place is not None and self.steps % 3 == 0:  # a rebuild mends: it must not always come to help
            assert self.anchor.check() is None

    def teardown(self):
        if self.place is None:
            return
        try:
            for handle in self.handles:
                handle.leave()
            assert self.anchor.stats()["processes"] == 1, "the dead are found"
            assert self.anchor.stats()["payloads"]["augmented"] == 0, "nobody is left who wants a copy"
            assert self.anchor.check() is None
            self.place.close(self.anchor)
            assert not self.place.exists
        finally:
            self.place.unlink()


def test_every_epoch_is_exactly_once_whatever_happens():
    seen.clear()
    try:
        run_state_machine_as_test(
            Jobs,
            settings=settings(
                max_examples=size(10, 100),
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                print_blob=True,
            ),
        )
    finally:
        print(dict(seen))


def test_the_walks_can_meet_what_they_are_to_show():
    """A walk by hand: what a random one meets is a matter of luck, and is not judged."""
    seen.clear()
    for kind in ("shares", "hands over"):
        walk = Jobs()
        try:
            walk.begin(n=80, pages=300, staged=10000, jobs=[1, 2, 3], batch_size=8, kind=kind)
            walk.all_go_on(rounds=3, fails=2)
            walk.leave_half_way(which=0)
            walk.draw_apart(which=0)
            walk.go(which=2, dies=True)
            if kind == "hands over":
                walk.attach(job=3)
                walk.prepare_late(which=0, who=2, after=1)
            walk.finish(which=1, again=True)
            walk.finish(which=0, again=False)
        finally:
            walk.teardown()
    for what in (
        "epochs",
        "served",
        "served by a worker",
        "failed",
        "died with members",
        "drawn apart",
        "prepared late",
    ):
        assert seen[what] > 0, f"nothing {what}: {dict(seen)}"
