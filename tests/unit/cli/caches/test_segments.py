"""``seneca ls``, ``stat``, ``rm``, ``prune`` and ``shrink``."""

import contextlib
import dataclasses
import json
import os

import numpy as np
import pytest
import seen_jobs
from engine import ENCODED, Place, Process, in_a_shm_of_its_own, keep
from typer.testing import CliRunner

from seneca._core.digests import Digests, mark_words
from seneca._core.segment import KEEP_FOREVER
from seneca._core.telemetry import publish_dataset, publish_work
from seneca.cli.app import app
from seneca.cli.caches import segments
from seneca.cli.caches.segments import as_json
from seneca.forms import Form

RUN = CliRunner()


@pytest.fixture
def place():
    with Place(100) as place:
        yield place


def name_of(place):
    return place.name.removeprefix(f"/seneca-{os.geteuid()}-")


def printed(*arguments, status=0):
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
    (line,) = [line for line in printed("ls").splitlines() if line.startswith(name_of(place))]
    return line.removeprefix(name_of(place)).split()


def test_ls_lists_who_uses_what(place):
    place.attach(7)
    memory, unit = f"{os.stat(place.path).st_blocks * 512 / 2**20:.3g}", "MiB"
    assert line_of(place) == ["in", "use", memory, unit, "0", "B", "1", "100", "process", str(os.getpid())]
    (one,) = [one for one in json.loads(printed("ls", "--json")) if one["name"] == name_of(place)]
    assert one["state"] == "in use" and one["view"]["jobs"][0]["pids"] == [os.getpid()]


@in_a_shm_of_its_own
def test_what_was_left_behind_is_listed_and_pruned():
    with Place(100) as place:
        leave_it_dead(place)
        assert line_of(place)[0] == "dead"
        assert "`seneca prune` frees the memory of what is dead." in printed("ls")
        assert f"would remove {name_of(place)} (dead, " in printed("prune", "--dry-run") and place.exists
        assert f"\nremoved {name_of(place)} (dead, " in "\n" + printed("prune") and not place.exists
        assert name_of(place) not in printed("ls")


@in_a_shm_of_its_own
def test_prune_leaves_what_is_used_and_what_is_kept():
    with Place(100, keep=KEEP_FOREVER) as place:
        segment = place.attach()
        assert name_of(place) not in printed("prune") + printed("prune", "--kept")
        place.close(segment)
        assert name_of(place) not in printed("prune") and place.exists
        assert f"removed {name_of(place)} (kept, " in printed("prune", "--kept") and not place.exists


@pytest.mark.whole_size(shown_by="test_prune_leaves_what_is_used_and_what_is_kept")
@in_a_shm_of_its_own
def test_prune_to_a_size_leaves_what_was_used_most():
    with contextlib.ExitStack() as stack:
        options = {"split": (0, 10000, 0, 0, 0), "keep": KEEP_FOREVER}
        places = [stack.enter_context(Place(100, **options)) for _ in range(3)]
        seldom, often, sometimes = places
        for place, times in ((often, 5), (seldom, 1), (sometimes, 3)):
            for _ in range(times):
                segment = place.attach()
                member = place.member(segment, keeps=True, shares=False)
                assert keep(member, ENCODED, range(20)) == 20 or times > 1
                member.close()
                place.close(segment)
        dead = stack.enter_context(Place(100))
        leave_it_dead(dead)
        each = os.stat(seldom.path).st_blocks * 512
        dry = printed("prune", "--to", f"{2 * each}", "--dry-run")
        assert name_of(seldom) in dry and name_of(often) not in dry and all(place.exists for place in places)
        first = printed("prune", "--to", f"{2 * each}")
        assert [place.exists for place in (*places, dead)] == [False, True, True, False]
        assert name_of(seldom) in first and "(dead, " in first
        assert name_of(often) not in printed("prune", "--to", f"{2 * each}"), "there is room for both"
        printed("prune", "--to", f"{2 * each - 1}")
        assert (often.exists, sometimes.exists) == (True, False)
        assert printed("prune", "--to", "0", status=0) and not often.exists
    assert "--to" in printed("prune", "--to", "much", status=2)
    assert printed("prune", "--to", "5", status=2).startswith("seneca prune: --to: '5' means bytes; write ")
    assert printed("prune", "--dry-run") == "nothing would be removed\n"


def test_stat_says_what_a_cache_holds(place):
    segment = place.attach(7)
    member = place.member(segment)
    other = place.member(place.attach(8))
    slots = [int(slot) for slot in member.draw(5)[0]["target_slot"]]
    for slot in slots:
        member.commit(slot)
    other.draw(0)
    text = printed("stat", name_of(place))
    assert (
        f"{name_of(place)}: 100 samples; in use" in text
        and "for payloads 1 MiB, of which 20 KiB are held" in text
    )
    assert "are held; split 0-0-100" in text
    assert ["augmented", "5", "5%", "20", "KiB", "1", "MiB"] in [line.split() for line in text.splitlines()]
    found = json.loads(printed("stat", name_of(place), "--json"))
    assert found["view"]["payloads"]["augmented"] == 5 and found["path"] == place.path
    member.close()
    other.close()


def stat_of(monkeypatch, *jobs, **changes):
    """What ``seneca stat`` prints of a segment made by hand."""
    monkeypatch.setattr(segments, "find", lambda name: seen_jobs.segment(*jobs, **changes))
    return printed("stat", "demo").splitlines()


def test_stat_has_a_row_for_each_job(monkeypatch):
    told = seen_jobs.work(5, 2000, prepared=700, epoch=3, pid=11), seen_jobs.work(5, 500, pid=12, rank=1)
    trains = dataclasses.replace(seen_jobs.job(*told, key="a1"), pace=252)
    lines = stat_of(monkeypatch, trains, seen_jobs.job(key="b2", pids=(77, 78)))
    at = next(i for i, line in enumerate(lines) if line.startswith("job "))
    assert [line.split() for line in lines[at : at + 3]] == [
        ["job", "epoch", "samples", "prepared", "step", "run", "processes"],
        ["train.py", "0", "2,500", "700", "252/s", "a1", "11", "12"],
        ["has", "not", "begun", "b2", "77", "78"],
    ]
    assert lines[0] == "demo: photos, 1,000 samples; in use"


def test_stat_names_the_job_that_a_remark_is_about(monkeypatch):
    lines = stat_of(
        monkeypatch,
        seen_jobs.job(seen_jobs.work(5, name="one.py"), key="a1"),
        seen_jobs.job(seen_jobs.work(5, name="two.py", pid=9), key="b2", compared={"decoded": 30}),
    )
    assert sum(line.startswith("two.py, process 9: decoded: 30 samples compared") for line in lines) == 1
    assert not any(line.startswith("one.py, process") for line in lines)


def test_ls_names_the_dataset(place):
    publish_work(place.attach(7), dataclasses.asdict(seen_jobs.work(5, dataset="imagenet/train")))
    assert line_of(place)[:3] == ["imagenet/train", "in", "use"]
    assert f"{name_of(place)}: imagenet/train, 100 samples; in use" in printed("stat", name_of(place))
    assert json.loads(printed("stat", name_of(place), "--json"))["view"]["dataset"] == "imagenet/train"


def test_names_can_be_copied_at_80_columns(monkeypatch):
    name = "auto-0123456789abcdef"
    one = seen_jobs.segment(seen_jobs.job(seen_jobs.work(dataset="x" * 60)), name=name)
    one = dataclasses.replace(one, view=dataclasses.replace(one.view, dataset="x" * 60))
    monkeypatch.setattr(segments, "segments", lambda: [one])
    monkeypatch.setattr(segments, "kept_lists", lambda: [])
    lines = RUN.invoke(app, ["ls"], env={"COLUMNS": "80"}).stdout.splitlines()
    assert any(line.startswith(f"{name} ") for line in lines) and max(map(len, lines)) <= 80


def test_stat_without_a_name_shows_the_only_cache(place, monkeypatch):
    place.attach(7)
    all_segments = segments.segments
    theirs = all_segments()

    def there_are(*names):
        monkeypatch.setattr(segments, "segments", lambda: [one for one in theirs if one.name in names])

    there_are(name_of(place))
    assert printed("stat") == printed("stat", name_of(place))
    there_are()
    assert printed("stat", status=2) == "seneca stat: this user has no cache\n"
    with Place(100) as other:
        other.attach(7)
        theirs = all_segments()
        there_are(name_of(place), name_of(other))
        message = printed("stat", status=2)
    assert message.startswith("seneca stat: give a name, because there are several caches: ")
    assert name_of(place) in message and name_of(other) in message


def test_json_keeps_the_key_of_when_a_process_published_last():
    (seen,) = as_json(seen_jobs.segment(seen_jobs.job(seen_jobs.work(5))))["view"]["jobs"]
    (work,) = seen["work"]
    assert work["told_ms"] == 5 and "published_ms" not in work


def test_rm_removes_what_nobody_uses():
    with Place(100, keep=KEEP_FOREVER) as place:
        segment = place.attach()
        text = printed("rm", name_of(place), status=2)
        assert text.startswith(f"seneca rm: {name_of(place)} is in use by process {os.getpid()}; --force ")
        assert place.exists
        place.close(segment)
        assert printed("rm", name_of(place)).startswith(f"removed {name_of(place)} (") and not place.exists


def test_rm_by_force_removes_the_name_of_what_is_in_use(place):
    place.attach()
    text = printed("rm", "--force", name_of(place))
    assert f"used by process {os.getpid()}: its memory is free once they have ended" in text
    assert not place.exists


def test_stat_says_how_much_is_reserved_so_far(place):
    place.payload_bytes = 4 << 20
    segment = place.attach(first_bytes=1 << 20)
    assert "for payloads 4 MiB (reserved so far: 1 MiB), of which 0 B are held" in printed(
        "stat", name_of(place)
    )
    assert json.loads(printed("stat", name_of(place), "--json"))["view"]["reserved_bytes"] == 1 << 20
    while segment.grow(1000):
        pass
    assert "for payloads 4 MiB, of which 0 B are held" in printed("stat", name_of(place))


def test_stat_says_how_much_was_compared_and_with_whom_nothing_is_shared(place):
    apart = "not shared with other jobs' datasets of the same class and length: process 7 (b): size differs"
    for key in (7, 8):
        segment = place.attach(key)
        marks = np.zeros(mark_words(100), np.uint64)
        made = Digests(segment, 5, Form.DECODED, "uint8[3]", marks)
        for sample in range(30):
            made.meet(sample, 1 << 20, False)
    publish_dataset(segment, 1, 2, 3, {4: 5}, apart)
    text = printed("stat", name_of(place))
    compared = "decoded: 30 samples compared, none differed: with 95 % confidence fewer than 10 % do"
    assert text.count(compared) == 2 and text.count(apart) == 1
    jobs = {job["key"]: job for job in json.loads(printed("stat", name_of(place), "--json"))["view"]["jobs"]}
    eighth = jobs[f"{8:016x}"]
    assert eighth["compared"] == {"decoded": 30} and eighth["apart"] == apart
    assert eighth["differing_at_most"]["decoded"] == pytest.approx(0.095, abs=0.001)
    assert jobs[f"{7:016x}"]["apart"] == ""


def test_shrink_leaves_less_to_a_cache_in_use(place):
    place.payload_bytes = 4 << 20
    segment = place.attach()
    assert printed("shrink", name_of(place), "1MiB") == (
        f"{name_of(place)} has 1 MiB for payloads, instead of 4 MiB: 3 MiB are given back\n"
    )
    assert segment.payload_bytes == 1 << 20 and segment.check() is None
    assert (
        printed("shrink", name_of(place), "2MiB") == f"{name_of(place)} has 1 MiB for payloads, and no more\n"
    )


def test_shrink_says_what_is_in_use_still(place, monkeypatch):
    monkeypatch.setattr("seneca.segments.shrink.__kwdefaults__", {"patience_s": 0.0})
    members = [place.member(place.attach(job), in_flight=2) for job in (1, 2)]
    items, _, _ = members[0].draw(60)
    text = printed("shrink", name_of(place), "80KiB", status=1)
    assert text.endswith("\n40 payloads behind that are in use; type this again for their memory\n")
    for slot in items["target_slot"].tolist():
        members[0].commit(slot)
    members[0].done(items)
    members[0].draw(0)
    before = os.stat(place.path).st_blocks
    assert printed("shrink", name_of(place), "80KiB").startswith(f"{name_of(place)} has 80 KiB for payloads")
    assert before - os.stat(place.path).st_blocks == 40 * 8, "the memory of 40 payloads, a page each"
    assert "its jobs need 32,768 bytes for the copies" in printed("shrink", name_of(place), "4KiB", status=2)
    for member in members:
        member.close()


def test_shrink_refuses_a_size_that_is_none(place):
    place.attach()
    assert printed("shrink", name_of(place), "lots", status=2).startswith("seneca shrink: ")
    assert printed("shrink", name_of(place), "5", status=2) == (
        'seneca shrink: \'5\' means bytes; write "5GiB", or "5B" if bytes are meant\n'
    )
    assert printed("shrink", "no-such", "1MiB", status=2).startswith(
        "seneca shrink: there is no cache 'no-such'"
    )


@in_a_shm_of_its_own
def test_a_folder_with_the_name_of_a_cache_is_refused_and_stays():
    folder = f"/dev/shm/seneca-{os.geteuid()}-folder"
    os.mkdir(folder)
    for more in ([], ["--force"]):
        text = printed("rm", "folder", *more, status=2)
        assert text.startswith(f"seneca rm: {folder}") and text.count("\n") == 1
    assert os.path.isdir(folder)


@in_a_shm_of_its_own
def test_the_names_of_files_are_no_markup():
    for name in ("[red]a", "b\x1b[31m"):
        open(f"/dev/shm/seneca-{os.geteuid()}-{name}", "w").close()
    text = printed("ls")
    assert "[red]a" in text and "b\ufffd[31m" in text and "\x1b" not in text + printed("prune", "--dry-run")


@pytest.mark.small(1)
@pytest.mark.parametrize("command", ["stat", "rm"])
def test_bad_use_is_one_line_and_status_2(command, place):
    assert printed(command, "no-such", status=2) == (
        f"seneca {command}: there is no cache 'no-such'; `seneca ls` lists those that are there\n"
    )
    assert printed(command, "a/b", status=2).startswith(f"seneca {command}: a cache's name has letters")
    with open(place.path, "wb") as file:
        file.write(b"x" * 50_000)
    os.chmod(place.path, 0o600)
    text = printed(command, name_of(place), status=2)
    assert text.startswith(f"seneca {command}: {place.path}: it was not made by Seneca")
    assert text.count("\n") == 1 and place.exists
    place.unlink()
