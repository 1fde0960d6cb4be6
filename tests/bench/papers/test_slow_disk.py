"""Slow storage: a disk that the kernel holds back where this user may make one, and what takes its place."""

import argparse
import os
from pathlib import Path

import pytest
from links import pictures_of
from papers import __main__ as command
from papers.disk import ROOM_BYTES, Disk, NoDisk, slow_disk
from papers.slow_storage import Bucket, Storage


class Became(Exception):
    """This program would have become another."""


class Group(Disk):
    """A disk whose group is a folder: pages are given up when the limit in it is lowered."""

    def __init__(self, place: Path, used: int, cache: int, shmem: int) -> None:
        self._groups, self.place = {"memory": place}, place
        self.limits: list[int] = []
        self.used, self.cache, self.shmem = used, cache, shmem
        (place / "memory.limit_in_bytes").touch()

    def _usage(self) -> tuple[int, int]:
        limit = (self.place / "memory.limit_in_bytes").read_text()
        if limit:
            self.limits.append(int(limit))
            given_up = max(0, self.used - int(limit))
            self.used, self.cache = self.used - given_up, self.cache - given_up
        return self.used, self.cache - self.shmem


def test_the_page_cache_gives_up_what_it_has_beyond_its_budget(tmp_path):
    group = Group(tmp_path, used=1000 << 20, cache=300 << 20, shmem=100 << 20)  # 200 MiB of pages
    group._trim(50 << 20, ROOM_BYTES)
    assert group.limits == [850 << 20] and (group.used, group.cache) == (850 << 20, 150 << 20)
    assert int((tmp_path / "memory.limit_in_bytes").read_text()) == group.used + ROOM_BYTES


def test_a_page_cache_within_its_budget_keeps_all(tmp_path):
    group = Group(tmp_path, used=1000 << 20, cache=300 << 20, shmem=100 << 20)
    group._trim(200 << 20, ROOM_BYTES)
    assert group.limits == [] and group.cache == 300 << 20


def test_a_slow_disk_has_the_files_counts_their_bytes_and_leaves_nothing(picture_folder):
    try:
        with slow_disk(picture_folder, 60, 400_000_000) as disk:
            paths = pictures_of(disk.folder)
            assert disk.samples == len(paths) == 60
            with disk.held(disk.files_bytes, None):
                before = disk.read_bytes()
                assert sum(len(path.read_bytes()) for path in paths) == disk.files_bytes
                assert disk.read_bytes() - before >= disk.files_bytes
            groups = [Path(each).parent for each in disk.join]
            assert all(group.is_dir() for group in groups)
            folder = disk.folder
    except NoDisk as error:
        pytest.skip(f"no disk can be made here: {error}")
    assert not folder.exists() and not any(group.exists() for group in groups)


def test_only_root_makes_a_disk(picture_folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NoDisk, match="only root"), slow_disk(picture_folder, 1, 1):
        pass


def test_a_bucket_takes_the_place_of_a_disk_and_says_why(picture_folder, monkeypatch, capsys):
    def no_disk(*_):
        raise NoDisk("only root may mount an image")

    def become(script, arguments, folder, rate):
        raise Became(script, folder, rate)

    monkeypatch.setattr(command, "slow_disk", no_disk)
    monkeypatch.setattr(command.slow_reads, "run_anew", become)
    options = argparse.Namespace(storage="auto", data=picture_folder, files=1)
    with pytest.raises(Became) as became, command.slow_storage(options, picture_folder, []):
        pass
    assert became.value.args == (command.__file__, picture_folder, 40_000_000)
    assert "A token bucket takes the place of a slow disk: only root" in capsys.readouterr().out
    options.storage = "disk"
    with pytest.raises(NoDisk), command.slow_storage(options, picture_folder, []):
        pass


def test_each_storage_says_what_it_is_and_what_the_memory_is(picture_folder):
    given, bucket = Storage(picture_folder), Bucket(picture_folder, 40_000_000)
    assert (given.samples, bucket.samples) == (48, 48)
    assert given.files_bytes == sum(path.stat().st_size for path in pictures_of(picture_folder))
    assert "40 MB/s" in bucket.words() and "no page cache" in bucket.words()
    assert "60%" in given.memory_words(0.6) and "60%" in bucket.memory_words(0.6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "makespan,none"], "no experiment none"),
        (["--data", "/nowhere"], "no such folder: /nowhere"),
        (["--storage", "bucket"], "--storage bucket needs --data"),
        (["--files", "0"], "--files must be at least 1"),
        (["--peer-python", "/nowhere/python"], "no such interpreter"),
    ],
)
def test_a_mistake_on_the_command_line_ends_with_status_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        command.parse(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
