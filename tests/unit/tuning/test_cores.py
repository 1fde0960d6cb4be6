"""A loader's share of the cores: what it publishes, when its threads become more or fewer, and when not."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from rights import NOBODY, as_root

from seneca._runtime.cgroups import Cores
from seneca._runtime.warn import SenecaWarning
from seneca.tuning import cores
from seneca.tuning.core_table import CoreNeed, CoreTable, core_table_path
from seneca.tuning.cores import CoreShare

GROUP = 7
CAUSES = ("storage", "decode", "augment", "item", "batch", "cores", "peers", "other")


@pytest.fixture(autouse=True)
def host(segment_folder, monkeypatch):
    """A host of four cores; ``host.now`` and ``host.process`` are what clocks show, in seconds."""
    host = SimpleNamespace(now=100.0, process=0.0)
    clocks = SimpleNamespace(monotonic=lambda: host.now, process_time=lambda: host.process)
    monkeypatch.setattr(cores, "time", clocks)
    monkeypatch.setattr(cores, "cores_allowed", lambda: Cores(4.0, GROUP))
    return host


class Loader:
    """A loader whose work is given."""

    def __init__(self, host, most=8, *, is_auto=True, here=True):
        self.host, self.here = host, here
        self.share = CoreShare(most, is_auto=is_auto, here=here)
        self.applied = []  # the numbers of threads that it was given
        self.spent = dict.fromkeys(CAUSES, 0)
        self.stall = 0.0
        self.begin()

    def begin(self):
        self.share.applied_by(self.uses)
        self.share.begin(self.stall, self.spent)

    def uses(self, threads):
        self.applied.append(threads)

    def tick(self, *, ended=False):
        self.share.tick(self.stall, self.spent, ended=ended)

    def work(self, seconds, *, cpu, stalled, loop=0.0, blocked=0.0, ended=False):
        """For so many seconds: with so many cores, and so much of the time waited."""
        while seconds > 0:
            self.host.now += 0.5
            self.host.process += 0.5 * (loop + cpu * self.here)
            self.spent["decode"] += round(0.5e9 * cpu)
            self.spent["storage"] += round(0.5e9 * blocked)
            self.stall += 0.5 * stalled
            seconds -= 0.5
            self.tick(ended=ended and seconds <= 0)


@pytest.fixture
def table():
    table = CoreTable()
    yield table
    table.close()


def test_a_loader_that_is_alone_has_all_cores_and_no_more(host):
    loader = Loader(host)
    assert loader.share.threads == 4
    loader.work(20, cpu=3.9, stalled=1.0)
    assert (loader.share.threads, loader.applied) == (4, [])


def test_a_loader_needs_what_its_step_would_take_if_it_never_waited(host, table):
    loader = Loader(host)
    loader.work(20, cpu=0.6, stalled=0.5, loop=0.2)
    (need,) = table.others(GROUP)
    assert need == CoreNeed(GROUP, pytest.approx(1.2), pytest.approx(0.4), False)


def test_one_that_always_waits_takes_all(host, table):
    loader = Loader(host)
    loader.work(20, cpu=3.0, stalled=0.99)
    assert table.others(GROUP)[0].takes_all


def test_threads_that_are_not_needed_rest(host):
    loader = Loader(host)
    loader.work(20, cpu=0.5, stalled=0.0)
    assert loader.share.threads == 1
    assert loader.applied == [2, 1]
    loader.work(60, cpu=0.5, stalled=0.0)
    assert loader.applied == [2, 1], "and it stays so"


def test_they_settle_within_three_samples(host):
    loader = Loader(host)
    loader.work(6, cpu=1.2, stalled=0.0)
    assert loader.share.threads == 2


def test_one_that_comes_gets_its_part_at_once_and_the_others_give_it(host, table):
    loader = Loader(host)
    loader.work(6, cpu=3.9, stalled=1.0)
    table.publish(CoreNeed(GROUP, 0.0, 0.0, True))
    late = Loader(host)
    assert late.share.threads == 1, "a third of four cores"
    loader.work(6, cpu=3.9, stalled=1.0)
    assert loader.share.threads == 2


def test_one_that_leaves_gives_its_cores_back(host, table):
    table.publish(CoreNeed(GROUP, 2.0, 0.0, False))
    loader = Loader(host)
    assert loader.share.threads == 2
    table.close()
    loader.work(6, cpu=1.9, stalled=1.0)
    assert loader.share.threads == 4


def test_loaders_on_other_cores_do_not_count(host, table):
    table.publish(CoreNeed(GROUP + 1, 4.0, 0.0, False))
    assert Loader(host).share.threads == 4


def test_a_number_of_the_users_stays(host, table):
    loader = Loader(host, most=8, is_auto=False)
    loader.work(20, cpu=0.5, stalled=0.0)
    assert (loader.share.threads, loader.applied) == (8, [])
    assert table.others(GROUP)[0].prepare == pytest.approx(0.5), "the others know what it needs"


def test_without_a_loader_that_is_auto_there_is_no_board(host):
    loader = Loader(host, is_auto=False)
    loader.work(20, cpu=0.5, stalled=0.0)
    assert not os.path.exists(core_table_path())


def test_workers_that_wait_for_storage_are_as_many_more(host):
    loader = Loader(host, most=8, here=False)
    loader.work(20, cpu=0.5, stalled=0.0, blocked=1.5)
    assert loader.share.threads == 3, "half a core, four times as long, and a quarter to spare"


def test_a_time_between_epochs_is_no_time_at_work(host, table):
    loader = Loader(host)
    loader.work(20, cpu=1.2, stalled=0.0)
    before = table.others(GROUP)
    loader.tick(ended=True)
    host.now += 500
    host.process += 500
    loader.begin()
    loader.work(6, cpu=1.2, stalled=0.0)
    assert table.others(GROUP) == [CoreNeed(*map(pytest.approx, before[0]))]


def test_a_loader_whose_epoch_has_ended_needs_nothing(host, table):
    train = Loader(host)
    train.work(6, cpu=3.9, stalled=1.0)
    train.tick(ended=True)
    assert table.others(GROUP) == []
    assert Loader(host).share.threads == 4, "that of the validation"
    train.begin()
    assert len(table.others(GROUP)) == 1


def test_a_loader_whose_iterator_was_dropped_needs_nothing(host, table):
    train = Loader(host)
    share = train.share
    train.work(6, cpu=3.9, stalled=1.0)
    del train
    later = Loader(host)
    assert later.share.threads == 4
    assert share.threads == 4


def test_epochs_shorter_than_a_sample_add_up(host):
    loader = Loader(host)
    for _ in range(20):
        loader.work(0.5, cpu=0.5, stalled=0.0, ended=True)
        loader.begin()
    assert loader.share.threads == 1


def test_two_loaders_of_a_process_do_not_take_each_other_for_the_training_loop(host, table):
    first, second = Loader(host), Loader(host)
    for _ in range(20):
        for loader in (first, second):
            loader.work(0.5, cpu=1.0, stalled=0.0, loop=0.1)
    for need in table.others(GROUP):
        assert need.loop == pytest.approx(0.1, abs=0.05)


@pytest.fixture(params=["a folder", "a FIFO", "a link", "a file for all"])
def planted(request, host):
    """What was there before the table."""
    path = core_table_path()
    if request.param == "a folder":
        os.mkdir(path)
    elif request.param == "a FIFO":
        os.mkfifo(path, 0o600)
    elif request.param == "a link":
        os.symlink("/dev/null", path)
    else:
        os.close(os.open(path, os.O_CREAT, 0o600))
        os.chmod(path, 0o666)
    yield
    os.rmdir(path) if request.param == "a folder" else os.unlink(path)


@pytest.mark.small(2)
def test_where_the_board_cannot_be_used_a_loader_takes_the_cores_that_there_are(host, planted, monkeypatch):
    monkeypatch.setattr(cores, "_warned_of", set())
    with pytest.warns(
        SenecaWarning, match=f"as if it were alone.*: {core_table_path()} .*; remove it"
    ) as seen:
        loader = Loader(host, most=8)
        loader.work(20, cpu=4.0, stalled=1.0)
        second = Loader(host, most=8)
    assert len(seen) == 1, "one warning a process"
    assert (loader.share.threads, second.share.threads) == (4, 4)
    loader.work(20, cpu=0.5, stalled=0.0)
    assert loader.share.threads == 1, "it follows its own need"


def test_without_a_folder_for_the_board_the_warning_names_another(host, monkeypatch):
    monkeypatch.setattr(cores, "_warned_of", set())
    monkeypatch.setenv("SENECA_DIR", "/nowhere/at/all")
    with pytest.warns(
        SenecaWarning, match=r"/nowhere/at/all/\S+: No such file or directory; let SENECA_DIR name"
    ):
        assert Loader(host, most=8).share.threads == 4


@as_root
def test_a_board_of_another_user_is_not_believed(host, table, monkeypatch):
    """Its rows say that others need all cores."""
    monkeypatch.setattr(cores, "_warned_of", set())
    table.publish(CoreNeed(GROUP, 4.0, 0.0, True))
    os.chown(core_table_path(), NOBODY, NOBODY)
    with pytest.warns(
        SenecaWarning, match=f"{core_table_path()} belongs to another user, .*; have its owner remove"
    ):
        assert Loader(host, most=8).share.threads == 4


def test_a_board_that_cannot_be_written_to_any_more_ends_no_job(host, monkeypatch):
    monkeypatch.setattr(cores, "_warned_of", set())
    loader = Loader(host, most=8)

    def full(self, need):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(CoreTable, "publish", full)
    with pytest.warns(SenecaWarning, match="No space left on device; let SENECA_DIR name") as warned:
        loader.work(20, cpu=4.0, stalled=1.0)
    assert (loader.share.threads, len(warned)) == (4, 1)
    assert not os.path.exists(core_table_path()), "nobody holds a row"


@pytest.mark.small(2)
def test_a_loader_with_a_number_of_its_users_says_nothing_of_a_board(host, planted, recwarn):
    assert Loader(host, most=8, is_auto=False).share.threads == 8
    assert not recwarn.list
