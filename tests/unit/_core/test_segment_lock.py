"""One lock, whatever becomes of its holder: killed inside it, stopped inside it, killed anywhere."""

import fcntl
import os
import random
import secrets
import signal
import struct
import time
import zlib
from collections import Counter
from contextlib import ExitStack

import numpy as np
import pytest
from engine import AUGMENTED, DECODED, ENCODED, NONE, PATIENCE_S, READY, WRITING, Place, Process, Remote
from sizes import size

SEED = int(os.environ.get("SENECA_TEST_SEED") or secrets.randbits(32))


@pytest.fixture(autouse=True)
def seed():
    print(f"SENECA_TEST_SEED={SEED}")
    return random.Random(SEED)


def seal(payload, sample):
    """Fill a payload so that any reader can see whether it is whole and of this sample."""
    body = struct.pack("<IQ", sample, secrets.randbits(64)) * (len(payload) // 12 + 1)
    body = body[: len(payload) - 4]
    payload[:] = body + struct.pack("<I", zlib.crc32(body))


def assert_sealed(payload, sample):
    body, (crc,) = bytes(payload[:-4]), struct.unpack("<I", payload[-4:])
    assert zlib.crc32(body) == crc, "torn"
    assert struct.unpack_from("<I", body)[0] == sample, "another's"


class Trainer:
    """A member that goes through epoch after epoch, and holds the engine to its word."""

    def __init__(self, place, segment, seed, **options):
        self.random = random.Random(seed)
        self.place, self.segment, self.options = place, segment, options
        self.epoch = -1
        self.begin()

    def begin(self):
        self.epoch += 1
        self.member = self.place.member(
            self.segment, seed=self.random.randrange(1 << 32), epoch=self.epoch, keeps=True, **self.options
        )
        self.delivered = []
        self.offers = []

    def step(self, batch=None):
        """One batch: drawn, written or failed, checked, done with. What it was served is returned."""
        member = self.member
        if not member.left:
            self.end()
            self.begin()
            member = self.member
        left = member.left
        batch = self.random.choice([1, 5, 24]) if batch is None else batch
        items, places, private = member.draw(batch, self.offers)
        assert len(items) == min(batch, left)
        for offer, place in zip(self.offers, places, strict=True):
            if place:
                seal(member.payload(place[0]), offer[0])
                member.commit(place[0])
                member.offer_done(*place)
        self.offers = []
        for item in items:
            if item["source_slot"] != NONE:
                assert_sealed(member.payload(item["source_slot"]), item["sample"])
            elif item["keep"]:
                self.offers.append((item["sample"], self.random.choice([ENCODED, DECODED]), 5043, 41, 41))
            if item["target_slot"] != NONE:
                if self.random.random() < 0.95:
                    seal(member.payload(item["target_slot"]), item["sample"])
                    member.commit(item["target_slot"])
                else:
                    member.abort(item["target_slot"])
        for item in items:  # still whole: nobody writes under a reader
            if item["source_slot"] != NONE:
                assert_sealed(member.payload(item["source_slot"]), item["sample"])
        member.done(items)
        self.delivered += items["sample"].tolist()
        return items, private

    def end(self):
        assert sorted(self.delivered) == list(range(self.place.n_samples)), (
            "an epoch is every sample exactly once"
        )
        self.member.close()

    def finish(self):
        while self.member.left:
            self.step()
        self.end()


def train_for_ever(pipe, place, job, seed, n_holding=0):
    segment = place.attach(job)
    trainer = Trainer(place, segment, seed)
    idle = place.member(segment, seed=seed)  # one that holds and writes without end
    idle.draw(n_holding)
    pipe.send("attached")
    while True:
        trainer.step()


def lock_is_held(place):
    """Whether somebody is inside the critical section, asked from outside."""
    fd = os.open(place.path, os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)  # and lets go of it
    return False


def stop_inside(process, place, rng):
    """Stop it, the only one at work, while it is in the critical section."""
    while True:
        time.sleep(rng.random() / 500)
        process.stop()
        if lock_is_held(place) and place.records().head["busy"]:
            return
        process.resume()


def test_who_is_killed_inside_the_critical_section_leaves_nothing_broken(seed):
    with Place(400, 200 * 4096, split=(0, 2000, 2000, 6000, 0)) as place:
        segment = place.attach(1)
        trainer = Trainer(place, segment, 1)
        for victim in range(size(3, 12)):
            with Process(train_for_ever, place, 2 + victim % 3, victim, 8) as process:
                process.receive()
                for _ in range(5):
                    trainer.step()
                stop_inside(process, place, seed)
                process.kill()
            assert not trainer.step()[1], "the lock is free again"
            assert not place.records().head["busy"] and not place.records().head["failures"]
            assert segment.check() is None
            stats = segment.stats()
            assert (stats["members"], stats["processes"]) == (1, 1), "the dead are reaped"
        trainer.finish()


def test_a_child_of_who_is_killed_inside_does_not_keep_the_lock(seed):
    """A forked child holds copies of descriptor and mapping; neither may stand for its dead parent."""

    def train_beside_a_child(pipe):
        segment = place.attach(2)
        if os.fork() == 0:
            pipe.send(os.getpid())
            signal.pause()
        trainer = Trainer(place, segment, 2)
        while True:
            trainer.step()

    with Place(400, 200 * 4096) as place:
        segment = place.attach(1)
        trainer = Trainer(place, segment, 1)
        with Process(train_beside_a_child) as process:
            orphan = process.receive()
            try:
                stop_inside(process, place, seed)
                process.kill()
                assert not trainer.step()[1], "the lock is free again"
                assert segment.stats()["members"] == 1, "the dead are reaped"
            finally:
                os.kill(orphan, signal.SIGKILL)
        trainer.finish()


def test_survivors_of_many_kills_agree_with_the_records(seed):
    """Killed at any moment, one after another, while others go on."""
    with Place(300, 150 * 4096, split=(0, 1000, 1000, 8000, 0)) as place, ExitStack() as stack:
        segment = place.attach(1)
        trainer = Trainer(place, segment, 1)
        for round in range(size(1, 6)):
            trainees = []
            for kill in range(size(5, 10)):
                while len(trainees) < 3:
                    job = seed.choice([1, 2, 3, 4])
                    trainees.append(
                        stack.enter_context(Process(train_for_ever, place, job, 100 * round + kill, 5))
                    )
                trainer.step()
                time.sleep(seed.random() / 100)
                end(trainees.pop(seed.randrange(3)))
                trainer.step()
            for trainee in trainees:
                end(trainee)
            stats = segment.stats()
            assert (stats["members"], stats["processes"]) == (1, 1)
            assert segment.check() is None
        trainer.finish()
        stats = segment.stats()
        assert stats["writing"] == stats["payloads"]["augmented"] == 0
        assert (
            stats["free_bytes"] + stats["bytes"]["encoded"] + stats["bytes"]["decoded"]
            == stats["payload_bytes"]
        )


def end(trainee):
    while trainee.has_sent:
        trainee.receive()  # raises here what failed there
    trainee.kill()


def test_a_stopped_holder_stops_nobody(seed):
    """Others draw for themselves; when it goes on they share again, and each epoch is whole."""
    with Place(2000, 4000 * 4096, split=(0, 0, 0, 10000, 0)) as place:
        segments = [place.attach(1), place.attach(3)]
        trainers = [Trainer(place, segment, i) for i, segment in enumerate(segments)]
        with Process(train_for_ever, place, 2, 5) as process:
            process.receive()
            for _ in range(3):
                stop_inside(process, place, seed)
                private = [trainer.step(7)[1] for trainer in trainers for _ in range(3)]
                assert all(private)
                with pytest.raises(BlockingIOError):
                    segments[0].stats()
                with pytest.raises(BlockingIOError):
                    place.try_attach(9)
                member = place.member(segments[0], seed=3)
                assert not member.shared and len(member.draw(5000)[0]) == 2000, (
                    "one that comes now is private"
                )
                member.close()

                process.resume()
                for trainer in trainers:
                    wait_until(lambda trainer=trainer: not trainer.member.draw(0)[2])
            process.kill()
            assert segments[0].check() is None
            rows = place.records().rows
            for trainer in trainers:
                assert trainer.delivered
                mirrors = [
                    place.records().seen(row)
                    for row in np.flatnonzero((rows["state"] == 1) & (rows["kind"] == 2))
                ]
                taken = np.zeros(2000, bool)
                taken[trainer.delivered] = True
                assert any((mirror == taken).all() for mirror in mirrors), "what was drawn apart is replayed"
        sources = Counter()
        epochs = [trainer.epoch for trainer in trainers]
        while min(trainer.epoch - epoch for trainer, epoch in zip(trainers, epochs, strict=True)) < 2:
            for trainer in trainers:
                items, private = trainer.step()
                assert not private
                sources.update(items["source"].tolist())
        assert sources[AUGMENTED] > 100, "they share again"
        for trainer in trainers:
            trainer.finish()


def wait_until(condition):
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.001)


def test_a_stopped_process_counts_as_living():
    with Place(100) as place, Process(hold_some, place) as process:
        segment = place.attach(1)
        process.receive()
        process.stop()
        before = segment.stats()
        assert before["members"] == 2 and before["writing"] == 10
        member = place.member(segment)
        for _ in range(200):  # each asks after somebody's life
            member.draw(0)
        assert segment.stats() == before | {"members": 3}
        member.close()


def hold_some(pipe, place):
    """Two members: one has 10 slots to write, the other wants them."""
    writer, reader = place.attach(2), place.attach(3)
    members = place.member(reader, seed=1), place.member(writer, seed=2)
    items, _, _ = members[1].draw(10)
    assert (items["target_slot"] != NONE).all()
    pipe.send(items)
    pipe.receive(patience_s=None)


@pytest.mark.small(1)
@pytest.mark.parametrize("draws", [0, 4, 8])
def test_who_finds_one_dead_checks_everybody(draws):
    with Place(100) as place:
        first = Remote(place, 1)
        member = place.member(place.attach(2))
        last = Remote(place, 3)
        rows = place.records().rows
        for _ in range(draws):  # now and then one of the rows is checked, the next one next
            member.done(member.draw(1)[0])
        for dead in (first, last):
            dead.process.kill()
        assert rows["state"][:3].all()
        while rows["state"][:3].all():
            member.done(member.draw(1)[0])
        assert rows["state"][:3].tolist() == [0, 1, 0]
        member.close()


def test_others_exchange_copies_of_a_pipeline_from_their_first_epoch_on_until_they_are_gone():
    with Place(100) as place:
        segment = place.attach(1)
        own = place.attach(1)
        place.member(own).close()
        assert not segment.others_exchange(22), "the same job's"
        other, reader = Remote(place, 2), Remote(place, 3)
        assert not segment.others_exchange(22), "who is only attached"
        reader("open", 1, substitutes=False)
        assert not segment.others_exchange(22), "who keeps to its own order"
        other("open", 1)
        assert segment.others_exchange(22) and not segment.others_exchange(23)
        other("close", 1)
        assert segment.others_exchange(22), "it will draw again"
        other.process.kill()
        assert place.records().rows["state"][2] and not segment.others_exchange(22), "nobody has reaped it"
        reader("close", 1)
        reader("leave")
        reader.process.kill()  # else it waits for more, and holds what else this process has opened


def test_a_killed_writer_s_slots_are_free_again():
    with Place(100) as place, Process(hold_some, place) as process:
        segment = place.attach(1)
        process.receive()
        free = segment.stats()["free_bytes"]
        assert (place.records().slots["state"] == WRITING).sum() == 10
        process.kill()
        stats = segment.stats()
        assert stats["writing"] == 0 and stats["free_bytes"] == free + 10 * 4096 == stats["payload_bytes"]
        assert not place.records().slots["state"].any()


def test_a_killed_reader_s_pins_go_with_it():
    """And until it is killed, what it reads stays, wanted or not."""

    def read(pipe, place):
        member = place.member(place.attach(2), seed=2)
        pipe.send("here")
        pipe.receive()
        pipe.send(member.draw(100)[0])
        pipe.receive(patience_s=None)

    with Place(10) as place, Process(read, place) as process:
        segment = place.attach(1)
        process.receive()
        member = place.member(segment, seed=1)
        items, _, _ = member.draw(10)
        for item in items:
            seal(member.payload(item["target_slot"]), item["sample"])
            member.commit(item["target_slot"])
        member.done(items)
        process.send("read")
        served = process.receive()
        assert (served["source"] == AUGMENTED).all()
        member.draw(0)  # lets go of its own
        member.close()
        slots = place.records().slots
        assert segment.check() is None and (slots["state"] == READY).sum() == (slots["pins"] == 1).sum() == 10
        process.kill()
        assert segment.stats()["free_bytes"] == segment.stats()["payload_bytes"]


def test_a_segment_that_cannot_be_rebuilt_is_left_by_all():
    """After three unfinished rebuilds its users go on privately, newcomers elsewhere."""
    with Place(50) as place:
        segment = place.attach(1)
        trainer = Trainer(place, segment, 1)
        old = os.stat(place.path).st_ino
        with open(place.path, "r+b") as file:
            head = place.records().head.dtype.fields
            for name, value in (("busy", 1), ("failures", 3)):
                file.seek(head[name][1])
                file.write(struct.pack("<I", value))
        assert trainer.step()[1], "it draws privately"
        trainer.finish()
        second = place.attach(2)
        assert second.created and os.stat(place.path).st_ino != old and not segment.linked
        place.close(segment)
        assert second.linked and second.check() is None, "leaving the old one leaves the new one alone"
