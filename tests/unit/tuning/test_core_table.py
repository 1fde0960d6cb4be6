"""Loaders publish what they need; the dead and the silent are left out; no file is left behind."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sizes import size

from seneca._runtime.private_files import NotPrivate
from seneca.segments import segments
from seneca.tuning import core_table
from seneca.tuning.core_table import CoreNeed, CoreTable, core_table_path

HALF = CoreNeed(7, 0.5, 0.25, False)
ALL = CoreNeed(7, 1.5, 0.125, True)

HOLDER = """if True:
    import sys, time
    from seneca.tuning.core_table import CoreTable, CoreNeed
    table = CoreTable(sys.argv[1])
    table.publish(CoreNeed(7, 1.5, 0.125, True))
    print("here", flush=True)
    time.sleep(600)
"""

COMES_AND_GOES = """if True:
    import os, random, sys, time
    from seneca.tuning.core_table import CoreTable, CoreNeed
    choose, until = random.Random(sys.argv[2]), time.monotonic() + float(sys.argv[3])
    while time.monotonic() < until:
        table = CoreTable(sys.argv[1])
        table.publish(CoreNeed(7, 1.5, 0.125, True))
        assert os.stat(sys.argv[1]).st_ino == os.fstat(table._file).st_ino, "the one table there is"
        for need in table.others(7):
            assert need == CoreNeed(7, 1.5, 0.125, True), need
        time.sleep(choose.random() * 0.001)
        table.close()
        time.sleep(choose.random() * 0.003)  # often nobody is left
"""


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "table")


@pytest.fixture
def holder(path):
    process = subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"here\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_each_sees_the_others_of_its_cores(path):
    first, second, elsewhere = CoreTable(path), CoreTable(path), CoreTable(path)
    first.publish(HALF)
    second.publish(ALL)
    elsewhere.publish(ALL._replace(group=8))
    assert first.others(7) == [ALL]
    assert second.others(7) == [HALF]
    assert elsewhere.others(8) == []
    second.publish(HALF)
    assert first.others(7) == [HALF]
    for table in (first, second, elsewhere):
        table.close()


def test_the_last_removes_the_file(path):
    first, second = CoreTable(path), CoreTable(path)
    first.close()
    assert os.path.exists(path)
    second.close()
    assert not os.path.exists(path)
    second.close()
    second.publish(HALF)
    assert second.others(7) == [], "of a closed table"


def test_one_that_was_killed_is_gone_at_once(path, holder):
    table = CoreTable(path)
    assert table.others(7) == [ALL]
    holder.kill()
    holder.wait()
    assert table.others(7) == []
    table.close()
    assert not os.path.exists(path)


def test_one_that_was_stopped_falls_silent(path, holder, monkeypatch):
    table = CoreTable(path)
    holder.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(core_table, "SILENT_S", 0.0)
    assert table.others(7) == []
    table.close()
    assert os.path.exists(path), "the stopped one has its row"


def test_a_row_that_is_half_written_is_left_out(path):
    first, second = CoreTable(path), CoreTable(path)
    second.publish(ALL)
    with open(path, "r+b") as file:
        file.seek(second._row * core_table.ROW_BYTES + 16)
        file.write(b"x")
    assert first.others(7) == []
    first.close()
    second.close()


def test_a_forked_child_keeps_no_row(path):
    first, second = CoreTable(path), CoreTable(path)
    second.publish(ALL)
    reads, writes = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.close(writes)
            os.read(reads, 1)  # until the parent has left
            assert second.others(7) == []
            second.close()
        finally:
            os._exit(0)
    second.close()
    assert first.others(7) == []
    first.close()
    assert not os.path.exists(path)
    os.close(writes)
    os.close(reads)
    os.waitpid(child, 0)


def test_a_file_that_killed_loaders_left_is_used_again(path, holder):
    holder.kill()
    holder.wait()
    assert os.path.exists(path)
    table = CoreTable(path)
    assert table.others(7) == []
    table.close()
    assert not os.path.exists(path)


def test_a_stopped_process_that_has_the_lock_holds_nobody_up(path, monkeypatch):
    monkeypatch.setattr(core_table, "PATIENCE_S", 0.05)
    table = CoreTable(path)
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match="stopped process"):
            CoreTable(path)
        table.close()
    assert os.path.exists(path), "nobody could check whether it is in use"


def test_more_loaders_than_rows_are_refused(path, monkeypatch):
    monkeypatch.setattr(core_table, "ROWS", 2)
    tables = [CoreTable(path), CoreTable(path)]
    with pytest.raises(OSError, match="all rows"):
        CoreTable(path)
    for table in tables:
        table.close()


def test_it_lies_beside_the_segments_and_is_not_taken_for_one(segment_folder):
    table = CoreTable()
    assert os.path.dirname(core_table_path()) == segment_folder
    assert os.path.exists(core_table_path())
    assert segments(Path(segment_folder)) == []
    table.close()


def test_many_come_and_go_and_some_are_killed(path):
    """A loader that joined a file which another was removing would have a table of its own."""
    seconds = size(0.8, 8)
    workers = [
        subprocess.Popen([sys.executable, "-c", COMES_AND_GOES, path, str(seed), str(seconds)])
        for seed in range(6)
    ]
    until = time.monotonic() + 120
    for victim in random.Random(1).sample(workers, 2):
        time.sleep(0.3)
        victim.kill()
    try:
        assert [worker.wait(until - time.monotonic()) for worker in workers].count(0) >= 4
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    first, second = CoreTable(path), CoreTable(path)
    first.publish(HALF)
    assert second.others(7) == [HALF]
    first.close()
    second.close()
    assert not os.path.exists(path)


def test_another_board_that_has_the_name_by_then_stays(tmp_path):
    path = str(tmp_path / "table")
    first = CoreTable(path)
    os.rename(path, path + "-moved")
    second = CoreTable(path)
    first.close()
    second.publish(HALF)
    third = CoreTable(path)
    assert third.others(7) == [HALF]
    second.close()
    third.close()
    assert os.listdir(tmp_path) == ["table-moved"]


@pytest.mark.parametrize("name", [os.link, os.symlink], ids=["a hard link", "a symbolic link"])
def test_a_file_of_ones_own_that_the_name_leads_to_is_unharmed(path, tmp_path, name):
    mine = tmp_path / "mine"
    mine.write_bytes(b"what must not be cut off")
    mine.chmod(0o600)
    name(mine, path)
    with pytest.raises(NotPrivate, match=f"{path} .*; remove it"):
        CoreTable(path)
    assert mine.read_bytes() == b"what must not be cut off"


def test_rows_of_garbage_are_left_out_also_where_somebody_holds_them(path):
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    rng = random.Random(seed)
    tables = [CoreTable(path) for _ in range(4)]
    for length in (1, core_table.ROW_BYTES - 1, 100, core_table.ROWS * core_table.ROW_BYTES, 1 << 20):
        with open(path, "r+b") as file:
            file.write(rng.randbytes(length))
        assert all(table.others(group) == [] for table in tables for group in (0, 7))
        tables[0].publish(ALL)
        assert tables[1].others(7) == [ALL]
    for table in tables:
        table.close()
    assert not os.path.exists(path)
