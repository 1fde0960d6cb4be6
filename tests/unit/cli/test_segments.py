"""``seneca ls``, ``stat``, ``rm`` and ``prune``."""

import json
import os

import pytest
from engine import Place, Process, in_a_shm_of_its_own
from typer.testing import CliRunner

from seneca._core.segment import KEEP_FOREVER
from seneca.cli.app import app

RUN = CliRunner()


@pytest.fixture
def place():
    with Place(100) as place:
        yield place


def name_of(place):
    return place.name.removeprefix(f"/seneca-{os.geteuid()}-")


def told(*arguments, status=0):
    result = RUN.invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == status, result.output
    return result.stdout if status != 2 else result.stderr


def leave_it_dead(place):
    def work(pipe):
        place.attach(2)
        pipe.send("here")
        pipe.receive(patience_s=None)

    with Process(work) as only:
        only.receive()
        only.kill()


def line_of(place):
    (line,) = [line for line in told("ls").splitlines() if line.startswith(name_of(place))]
    return line.removeprefix(name_of(place)).split()


def test_ls_lists_who_uses_what(place):
    place.attach(7)
    memory, unit = f"{os.stat(place.path).st_blocks * 512 / 2**20:.3g}", "MiB"
    assert line_of(place) == ["in", "use", memory, unit, "0", "B", "1", "100", "process", str(os.getpid())]
    (one,) = [one for one in json.loads(told("ls", "--json")) if one["name"] == name_of(place)]
    assert one["state"] == "in use" and one["view"]["jobs"][0]["pids"] == [os.getpid()]


@in_a_shm_of_its_own
def test_what_was_left_behind_is_listed_and_pruned():
    with Place(100) as place:
        leave_it_dead(place)
        assert line_of(place)[0] == "dead"
        assert "`seneca prune` frees the memory of what is dead." in told("ls")
        assert f"would remove {name_of(place)} (dead, " in told("prune", "--dry-run") and place.exists
        assert f"\nremoved {name_of(place)} (dead, " in "\n" + told("prune") and not place.exists
        assert name_of(place) not in told("ls")


@in_a_shm_of_its_own
def test_prune_leaves_what_is_used_and_what_is_kept():
    with Place(100, keep=KEEP_FOREVER) as place:
        segment = place.attach()
        assert name_of(place) not in told("prune") + told("prune", "--kept")
        place.close(segment)
        assert name_of(place) not in told("prune") and place.exists
        assert f"removed {name_of(place)} (kept, " in told("prune", "--kept") and not place.exists


def test_stat_says_what_a_cache_holds(place):
    segment = place.attach(7)
    member = place.member(segment)
    other = place.member(place.attach(8))
    slots = [int(slot) for slot in member.draw(5)[0]["target_slot"]]
    for slot in slots:
        member.commit(slot)
    other.draw(0)
    text = told("stat", name_of(place))
    assert f"{name_of(place)}: in use" in text and "for payloads 1 MiB, of which 20 KiB are held" in text
    assert "100 samples; split 0-0-100" in text
    assert ["augmented", "5", "5%", "20", "KiB", "1", "MiB"] in [line.split() for line in text.splitlines()]
    assert f"job {7:016x}: 1 drawing, processes {os.getpid()}" in text
    found = json.loads(told("stat", name_of(place), "--json"))
    assert found["view"]["payloads"]["augmented"] == 5 and found["path"] == place.path
    member.close()
    other.close()


def test_rm_removes_what_nobody_uses():
    with Place(100, keep=KEEP_FOREVER) as place:
        segment = place.attach()
        text = told("rm", name_of(place), status=2)
        assert text.startswith(f"seneca rm: {name_of(place)} is in use by process {os.getpid()}; --force ")
        assert place.exists
        place.close(segment)
        assert told("rm", name_of(place)).startswith(f"removed {name_of(place)} (") and not place.exists


def test_rm_by_force_removes_the_name_of_what_is_in_use(place):
    place.attach()
    text = told("rm", "--force", name_of(place))
    assert f"used by process {os.getpid()}: its memory is free once they have ended" in text
    assert not place.exists


@pytest.mark.parametrize("command", ["stat", "rm"])
def test_bad_use_is_one_line_and_status_2(command, place):
    assert told(command, "no-such", status=2) == (
        f"seneca {command}: there is no cache 'no-such'; `seneca ls` lists those that are there\n"
    )
    assert told(command, "a/b", status=2).startswith(f"seneca {command}: a cache's name has letters")
    with open(place.path, "wb") as file:
        file.write(b"x" * 50_000)
    os.chmod(place.path, 0o600)
    text = told(command, name_of(place), status=2)
    assert text.startswith(f"seneca {command}: {place.path}: it was not made by Seneca")
    assert text.count("\n") == 1 and place.exists
    place.unlink()
