"""All users of some caches are killed, at any moment, and ``seneca prune`` follows: the dead go, no more.

SENECA_TEST_PRUNES says how many rounds there are.
"""

import contextlib
import os
import random
import time

import pytest
from engine import Place, Process, in_a_shm_of_its_own
from sizes import size
from typer.testing import CliRunner

from seneca._core.segment import KEEP_FOREVER
from seneca.cli.app import app

ROUNDS = int(os.environ.get("SENECA_TEST_PRUNES") or size(3, 25))
PLACES = 3
KEPT_S = 3600


def use(pipe, place):
    """Attach, and draw and commit until the end comes."""
    segment = place.attach(os.getpid())
    member = place.member(segment)
    pipe.send("here")
    while True:
        items, _, _ = member.draw(8)
        for slot in items["target_slot"].tolist():
            if slot < 2**32 - 1:
                member.commit(slot)
        member.done(items)


def files(folder):
    return {entry for entry in os.listdir(folder) if entry.startswith("seneca-")}


def is_complete(folder, name):
    """Whether the segment was made: its magic is written last."""
    with open(f"{folder}/{name}", "rb") as file:
        return file.read(8) == b"SENECA01"


def pruned(*arguments):
    """The caches that a run names as removed, or to be removed."""
    result = CliRunner().invoke(app, ["prune", *arguments])
    assert result.exit_code == 0, result.output
    words = [line.split() for line in result.output.splitlines()]
    return {f"seneca-{os.geteuid()}-{line[line.index('(dead,') - 1]}" for line in words if "(dead," in line}


def kill_and_prune(rng, stack, stay, folder):
    """One round: caches come and go beside those that stay. How many were dead."""
    places = [Place(100, keep=rng.choice([0, 0, KEPT_S]), folder=folder) for _ in range(PLACES)]
    spared = rng.randrange(PLACES + 1)  # one of them goes on; with the last number none
    users = [
        [stack.enter_context(Process(use, place)) for _ in range(rng.choice([1, 1, 2]))] for place in places
    ]
    if spared < PLACES:
        users[spared][0].receive()
    time.sleep(rng.uniform(0, 0.01))
    for number, processes in enumerate(users):
        for process in processes[number == spared :]:
            process.kill()
    alive = stay | ({places[spared].name[1:]} if spared < PLACES else set())
    before = files(folder)
    to_be_kept = {place.name[1:] for place in places if place.keep}
    dead = {name for name in before - alive if name not in to_be_kept or not is_complete(folder, name)}
    assert pruned("--dry-run") == dead and files(folder) == before
    assert pruned() == dead and files(folder) == before - dead
    if spared < PLACES:
        users[spared][0].kill()
    for place in places:
        if place.exists:
            assert CliRunner().invoke(app, ["rm", place.name.split("-", 2)[2]]).exit_code == 0
    return len(dead)


@in_a_shm_of_its_own
def test_what_the_killed_leave_goes_and_what_lives_stays():
    prune_after_kills("/dev/shm")


@pytest.mark.whole_size(shown_by="test_what_the_killed_leave_goes_and_what_lives_stays")
def test_the_same_in_a_folder_that_the_user_names(segment_folder):
    prune_after_kills(segment_folder)


def prune_after_kills(folder):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    with Place(100, folder=folder) as living, Place(100, keep=KEEP_FOREVER, folder=folder) as kept:
        segment = living.attach(1)
        member, other = living.member(segment), living.member(living.attach(2))
        items, _, _ = member.draw(4)
        for slot in items["target_slot"].tolist():
            member.payload(slot)[:] = bytes([7]) * len(member.payload(slot))
        kept.close(kept.attach())
        stay = {living.name[1:], kept.name[1:]}
        died = 0
        for _ in range(ROUNDS):
            with contextlib.ExitStack() as stack:
                died += kill_and_prune(rng, stack, stay, folder)
            assert files(folder) == stay
            assert segment.check() is None
            for slot in items["target_slot"].tolist():
                assert set(bytes(member.payload(slot))) == {7}
        assert died > ROUNDS / 2
        member.close()
        other.close()
        kept.unlink()
