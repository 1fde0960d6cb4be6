"""Caches in the folder that SENECA_DIR names."""

import ctypes
import os
import shutil
import signal
import subprocess

import numpy as np
import pytest
from engine import HEADER, Place, Process, in_small_shm

from seneca import SampleCache, errors, segments
from seneca._runtime import segment_folder as folders
from seneca._runtime.memory import Limit
from seneca.cache import room
from seneca.cache.room import check_room, limit_of, payload_bytes_for
from seneca.cache.sample_cache import shared_cache
from seneca.segments import State

MiB = 1 << 20


class Dataset:
    def __len__(self):
        return 100

    def fingerprint(self):
        return b"a dataset of 100"

    def total_bytes(self):
        return 1 << 40


def make(name="mine", **options):
    return SampleCache.create(name, Dataset(), **({"cache_bytes": "1MiB"} | options))


def shm():
    return {entry for entry in os.listdir("/dev/shm") if "-folder-test-" in entry}


def test_a_cache_lies_in_the_folder_and_goes_with_its_last_user(segment_folder):
    before = shm()
    with make("folder-test-one") as cache:
        (entry,) = os.listdir(segment_folder)
        assert entry == f"seneca-{os.geteuid()}-folder-test-one" and shm() == before
        status = os.stat(f"{segment_folder}/{entry}")
        assert status.st_mode & 0o7777 == 0o600 and cache.folder == segment_folder
        with SampleCache.attach("folder-test-one", Dataset()) as other:
            assert not other.created and other.stats()["processes"] == 2
    assert os.listdir(segment_folder) == []


def test_jobs_with_and_without_it_do_not_meet(segment_folder, monkeypatch):
    with make("folder-test-two"):
        monkeypatch.delenv("SENECA_DIR")
        with pytest.raises(FileNotFoundError, match="there is no cache"):
            SampleCache.attach("folder-test-two")
        with make("folder-test-two") as other:
            assert other.created and other.folder == "/dev/shm"
    assert os.listdir(segment_folder) == []


def test_two_ways_to_one_folder_lead_to_one_cache(segment_folder, tmp_path, monkeypatch):
    os.symlink(segment_folder, tmp_path / "link")
    with make():
        monkeypatch.setenv("SENECA_DIR", str(tmp_path / "link"))
        with SampleCache.attach("mine") as other:
            assert other.stats()["processes"] == 2


def test_a_process_stays_in_the_folder_in_which_it_joined(segment_folder, monkeypatch):
    options = {"cache_bytes": "1MiB", "split": "auto", "keep": False, "job": None}
    cache = shared_cache("mine", Dataset(), **options)
    monkeypatch.delenv("SENECA_DIR")
    assert shared_cache("mine", Dataset(), **options, folder=segment_folder) is cache
    cache.close()
    assert os.listdir(segment_folder) == [], "it is left where it was joined"


def test_remove_and_the_list_go_by_the_folder(segment_folder):
    make(keep=True).close()
    (one,) = segments.segments()
    assert (one.name, one.state, str(one.path.parent)) == ("mine", State.KEPT, segment_folder)
    assert segments.find("mine") == one
    SampleCache.remove("mine")
    with pytest.raises(FileNotFoundError):
        SampleCache.remove("mine")


@pytest.mark.small(2)
@pytest.mark.parametrize("use", [make, SampleCache.attach, SampleCache.remove, segments.find])
def test_an_unfit_folder_is_one_error_that_names_it(segment_folder, monkeypatch, use):
    for folder, why in (("caches", "no absolute path"), (f"{segment_folder}/no", "there is no such folder")):
        monkeypatch.setenv("SENECA_DIR", folder)
        with pytest.raises(errors.SegmentFolderError, match=why) as caught:
            use("mine")
        assert str(caught.value).startswith(f"SENECA_DIR={folder!r}") and "\n" not in str(caught.value)


def test_what_killed_jobs_left_is_swept_by_the_next(segment_folder):
    def work(pipe):
        _held = make("dead")
        pipe.send("here")
        os.kill(os.getpid(), signal.SIGKILL)

    with Process(work) as process:
        assert process.receive() == "here"
        process.join()
    assert [one.state for one in segments.segments()] == [State.DEAD]
    with make():
        assert [one.name for one in segments.segments()] == ["mine"]


def test_what_is_kept_goes_if_the_host_has_booted_since(segment_folder):
    """Of a file on a disk the kernel may have written some pages and not others when it crashed."""
    for name in ("old", "new"):
        make(name, keep=True).close()
    with open(f"{segment_folder}/seneca-{os.geteuid()}-old", "r+b") as file:
        file.seek(HEADER.fields["boot"][1])
        boot = file.read(4)
        file.seek(HEADER.fields["boot"][1])
        file.write(bytes([boot[0] ^ 1, *boot[1:]]))
    assert {one.name: one.state for one in segments.segments()} == {"old": State.DEAD, "new": State.KEPT}
    with make():
        assert {one.name for one in segments.segments()} == {"mine", "new"}
    SampleCache.remove("new")


def test_a_hard_link_to_another_file_is_refused_and_the_file_unharmed(segment_folder, tmp_path):
    other = tmp_path / "precious"
    other.write_bytes(bytes(8) + b"text")
    other.chmod(0o600)
    path = f"{segment_folder}/seneca-{os.geteuid()}-mine"
    os.link(other, path)
    with pytest.raises(errors.SegmentOwnerError, match=r"has another name \(a hard link\).*remove it"):
        make()
    assert other.read_bytes() == bytes(8) + b"text"
    os.unlink(path)


# --- room


@pytest.fixture
def on_a_disk(monkeypatch):
    """``on_a_disk(True)``: what lies in the folder is no memory."""

    def be(disk):
        monkeypatch.setattr(room, "lies_in_memory", lambda folder: not disk)
        monkeypatch.setattr(room, "free_space", lambda folder: 100 * MiB)
        monkeypatch.setattr(room, "free_memory", lambda: 20 * MiB)
        monkeypatch.setattr(room, "most_memory", lambda: Limit(20 * MiB, 20 * MiB, "this host"))
        monkeypatch.setattr(room, "others", lambda path: [])

    return be


def test_on_a_disk_memory_is_no_limit_on_the_size(on_a_disk):
    on_a_disk(True)
    assert 45 * MiB < payload_bytes_for(Dataset(), "auto", "/cache/x") <= 50 * MiB
    assert limit_of("/cache") is None
    check_room("/cache/x", 100, 60 * MiB, 0)
    with pytest.raises(errors.NoSpaceError, match=r"but /cache has 100\.0 MiB free") as caught:
        check_room("/cache/x", 100, 120 * MiB, 0)
    assert "let SENECA_DIR name a folder with more room" in str(caught.value)


def test_in_a_folder_of_memory_it_is(on_a_disk):
    on_a_disk(False)
    assert 5 * MiB < payload_bytes_for(Dataset(), "auto", "/cache/x") <= 10 * MiB
    with pytest.raises(errors.NoSpaceError, match=r"this host still allows 20\.0 MiB"):
        check_room("/cache/x", 100, 60 * MiB, 0)


def mount(kind, folder, options=b""):
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mount(kind, os.fsencode(folder), kind, 0, options) == 0, os.strerror(ctypes.get_errno())


def test_a_file_system_that_cannot_reserve_is_refused(segment_folder, monkeypatch):
    """ramfs is none of those that fit, and stands for one that lacks fallocate."""

    def work():
        mount(b"ramfs", segment_folder)
        monkeypatch.setattr(folders, "FIT", ("ramfs",))
        monkeypatch.setattr(room, "free_space", lambda folder: 1 << 40)
        with pytest.raises(errors.SegmentFolderError, match="cannot reserve room"):
            make()
        return os.listdir(segment_folder)

    assert in_small_shm(MiB, work) == []


def test_a_real_overlay_is_refused(segment_folder, tmp_path):
    def work():
        for name in ("lower", "upper", "work"):
            (tmp_path / name).mkdir()
        parts = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
        try:
            mount(b"overlay", segment_folder, parts.encode())
        except AssertionError as denied:
            return str(denied)
        with pytest.raises(errors.SegmentFolderError, match=r"is on overlay .*docker run -v"):
            make()
        return None

    if denied := in_small_shm(MiB, work):
        pytest.skip(f"no overlay of its own: {denied}")


def fill(folder):
    """Take what is free, so that a page that was not reserved would be a bus error."""
    with open(f"{folder}/filling", "wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 20)):
                pass
        except OSError:
            pass
        os.fsync(file.fileno())


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_full_file_system_is_an_error_and_never_a_bus_error(segment_folder, tmp_path, kind):
    def work():
        if kind == "tmpfs":
            mount(b"tmpfs", segment_folder, b"size=32m")
        else:
            image = tmp_path / "image"
            with open(image, "wb") as file:
                file.truncate(48 * MiB)
            subprocess.run([shutil.which("mkfs.ext4"), "-q", image], check=True)
            if subprocess.run(["mount", "-o", "loop", image, segment_folder], capture_output=True).returncode:
                return "no loop device"
        with pytest.raises(errors.NoSpaceError, match=f"but {segment_folder} has"):
            make(cache_bytes="1GiB")
        with Place(100, 8 * MiB, folder=segment_folder) as place:
            segment = place.attach()
            fill(segment_folder)
            head = place.records().head
            at, pages = int(head["payload_at"]), int(head["backed"])
            assert pages == 2048
            np.memmap(place.path, np.uint8, "r+")[at : at + 4096 * pages : 4096] = 7  # each page, once
            os.sync()
            assert segment.check() is None
        return None

    if kind == "ext4" and shutil.which("mkfs.ext4") is None:
        pytest.skip("there is no mkfs.ext4")
    if denied := in_small_shm(MiB, work):
        pytest.skip(denied)


def test_shrinking_gives_room_back(segment_folder):
    """Holes are punched, on tmpfs as on ext4 and XFS."""
    with make(cache_bytes="16MiB"):
        one = segments.find("mine")
        assert segments.shrink(one, 4 * MiB) == 0
        assert one.memory_bytes - segments.find("mine").memory_bytes >= 11 * MiB
