"""What the commands of segments say of one that is another user's, cannot be read or may not be removed."""

import os

import pytest
from engine import Place, Process, in_a_shm_of_its_own
from typer.testing import CliRunner

from seneca._core.segment import KEEP_FOREVER
from seneca.cli.app import app
from seneca.cli.caches.segments import BadUse, rm

RUN = CliRunner()
NOBODY, ANOTHER = 65_534, 54_321
OF_ONE = [
    ["stat"],
    ["stat", "--json"],
    ["shrink", "1MiB"],
    ["top"],
    ["top", "--once"],
    ["report", "{tmp}/x.html"],
]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


def printed(*arguments, status=2):
    result = RUN.invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == status, result.output
    return result.stderr if status == 2 else result.stdout


def planted(name, owner=None, uid=None, content=b"x" * 50_000):
    """A file with the name of a cache."""
    path = f"/dev/shm/seneca-{os.geteuid() if uid is None else uid}-{name}"
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, 0o600)
    if owner is not None:
        os.chown(path, owner, -1)
    return path


def of_all(name, tmp, *, also=("rm", "rm --force")):
    """What each command that takes the name of a cache says of this one, without ``seneca COMMAND: ``."""
    commands = [[word.format(tmp=tmp) for word in command] for command in OF_ONE]
    commands += [words.split() for words in also]
    for command, *rest in commands:
        named = ["--cache", name] if command == "report" else [name]
        arguments = [*named, *rest] if command == "shrink" else [*rest, *named]
        text = printed(command, *arguments)
        assert text.startswith(f"seneca {command}: ") and text.count("\n") == 1
        yield text.partition(": ")[2]


@needs_root
@in_a_shm_of_its_own
def test_another_user_s_cache_is_said_to_be_theirs():
    path = planted("theirs", owner=ANOTHER, uid=ANOTHER)
    planted(f"{ANOTHER}-theirs", owner=ANOTHER, uid=7)  # of another name, in spite of how it ends
    for text in of_all("theirs", "/tmp"):
        assert text == (
            f"the cache 'theirs' belongs to another user, uid {ANOTHER}, and is not opened; "
            "give one of your own: `seneca ls` shows whose each is\n"
        )
    assert os.path.exists(path)
    assert printed("stat", "s").endswith("there is no cache 's'; `seneca ls` lists those that are there\n")
    with Place(100) as own:
        own.attach()
        name = own.name.split("-", 2)[2]
        planted(name, owner=ANOTHER, uid=ANOTHER)
        assert printed("stat", name, status=0).startswith(f"{name}: 100 samples; in use")


@pytest.mark.whole_size(shown_by="test_another_user_s_cache_is_said_to_be_theirs")
@needs_root
@in_a_shm_of_its_own
def test_a_file_of_another_user_s_in_the_place_of_one_s_own_is_refused():
    path = planted("planted", owner=ANOTHER)
    for text in of_all("planted", "/tmp", also=["rm"]):
        assert text == (
            f"{path} belongs to another user, uid {ANOTHER}; have its owner remove it, or give another name\n"
        )
    assert os.path.exists(path)


@in_a_shm_of_its_own
def test_what_cannot_be_read_is_status_2_with_the_remedy():
    path = planted("broken")
    for text in of_all("broken", "/tmp", also=[]):
        assert text == f"{path}: it was not made by Seneca; `seneca rm --force broken` removes it\n"
    assert printed("rm", "--force", "broken", status=0).startswith("removed broken")
    folder = f"/dev/shm/seneca-{os.geteuid()}-folder"
    os.mkdir(folder)
    for text in of_all("folder", "/tmp", also=[]):
        assert text == (
            f"{folder}: it is a directory and not a regular file; remove it yourself, or give another name\n"
        )


@pytest.mark.whole_size(shown_by="test_another_user_s_cache_is_said_to_be_theirs")
@needs_root
@in_a_shm_of_its_own
def test_where_the_right_to_remove_lacks_nothing_is_lost():
    """In /dev/shm with its sticky bit, and in one that others may not write."""
    theirs = planted("theirs", owner=0, uid=NOBODY)

    def as_nobody(pipe):
        printed("rm", "theirs")  # imports all that nobody's rights do not reach
        os.setuid(NOBODY)
        with pytest.raises(BadUse) as refused:
            rm(["theirs"], force=True)
        pipe.send(str(refused.value))
        own = Place(100, keep=KEEP_FOREVER)
        own.close(own.attach())
        pipe.send(own.path)
        pipe.receive()
        name = own.name.split("-", 2)[2]
        pipe.send([printed("rm", name), printed("rm", "--force", name), printed("prune", "--kept", status=1)])

    with Process(as_nobody) as process:
        assert process.receive().startswith(f"{theirs} belongs to another user, root (uid 0); ")
        own = process.receive()
        os.chmod("/dev/shm", 0o755)
        process.send("now")
        plain, forced, pruned = process.receive()
    no_right = f"seneca rm: {own}: Permission denied; you need the right to write in /dev/shm\n"
    assert (plain, forced) == (no_right, no_right)
    name = own.split("-", 2)[2]
    assert pruned == f"{name}: not removed: Permission denied\nnothing was removed\n"
    assert os.path.exists(theirs) and os.path.exists(own)
