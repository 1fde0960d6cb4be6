"""bench/native/slow_reads.c: which reads are held back, by how much, and what is said where none are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import slow_reads

FAST = 10**9  # bytes a second: nothing waits for long


@pytest.fixture
def held(tmp_path, monkeypatch):
    """A folder, and what a process needs in its environment to be held back there; by the rate."""
    folder, place = tmp_path / "files", tmp_path / "place"
    folder.mkdir()
    place.mkdir()

    def at(bytes_per_s):
        changed = slow_reads.environment(place, folder, bytes_per_s)
        for name in (slow_reads.BUCKET, slow_reads.FOLDER):
            monkeypatch.setenv(name, changed[name])
        return folder, {**os.environ, **changed}

    return at


def run(code, environment, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)


WAYS = """if True:
    import errno, json, os, struct, sys
    path = sys.argv[1]
    def paid():
        with open(os.environ["SLOW_READS_BUCKET"], "rb") as file:
            return struct.unpack("=QQQ", file.read())[1]
    def refused(path):
        fd = os.open(path, os.O_WRONLY)
        try:
            os.read(fd, 999)
        except OSError as error:
            assert error.errno == errno.EBADF
        os.close(fd)
    ways = {
        "read": lambda fd: os.read(fd, 999),
        "readv": lambda fd: os.readv(fd, [bytearray(400), bytearray(599)]),
        "pread": lambda fd: os.pread(fd, 999, 1),
        "preadv": lambda fd: os.preadv(fd, [bytearray(999)], 1),
        "file": lambda fd: open(fd, "rb", closefd=False).read(),
        "nothing": lambda fd: os.stat(fd),
        "end": lambda fd: os.pread(fd, 999, 1 << 20),
        "refused": lambda fd: refused(path),
    }
    found = {}
    for name, way in ways.items():
        fd = os.open(path, os.O_RDONLY)
        before = paid()
        way(fd)
        found[name] = paid() - before
        os.close(fd)
    print(json.dumps(found))"""


def test_every_way_to_read_is_paid_for_beneath_the_folder_and_nowhere_else(held, tmp_path):
    folder, environment = held(FAST)
    inside, beside = folder / "one" / "file", tmp_path / "files, others" / "file"
    for path in (inside, beside):
        path.parent.mkdir()
        path.write_bytes(bytes(5000))
    found = run(WAYS, environment, inside)
    paid = {"read": 999, "readv": 999, "pread": 999, "preadv": 999, "file": 5000}
    assert found == {**paid, "nothing": 0, "end": 0, "refused": 0}
    assert set(run(WAYS, environment, beside).values()) == {0}


LOADER = """if True:
    import json, sys
    sys.path.insert(0, sys.argv[2])
    import seneca, slow_reads
    from seneca import transforms as T
    dataset = seneca.ImageFolder(sys.argv[1], T.Compose([T.RandomResizedCrop(16)]))
    before = slow_reads.bytes_paid()
    samples = sum(len(images) for images, _ in seneca.DataLoader(dataset, 8, num_workers=2, cache=None))
    print(json.dumps([samples, slow_reads.bytes_paid() - before]))"""


@pytest.mark.whole_size(shown_by="test_every_way_to_read_is_paid_for_beneath_the_folder_and_nowhere_else")
def test_the_threads_of_the_core_pay_as_well(picture_folder, held):
    _, environment = held(FAST)
    environment[slow_reads.FOLDER] = str(picture_folder)
    sizes = [path.stat().st_size for path in picture_folder.rglob("*.jpg")]
    found = run(LOADER, environment, picture_folder, Path(slow_reads.__file__).parent)
    assert found == [len(sizes), sum(sizes)]


READER = """if True:
    import os, sys, time
    file = os.open(sys.argv[1], os.O_RDONLY)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    for at in range(0, 400_000, 40_000):
        os.pread(file, 40_000, at)
    print(began, time.monotonic())"""


def test_two_processes_have_one_bucket(held):
    folder, environment = held(1_000_000)
    (folder / "file").write_bytes(bytes(400_000))
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(folder / "file")],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for reader in readers:
        assert reader.stdout.readline() == "ready\n"
    for reader in readers:
        reader.stdin.write("go\n")
        reader.stdin.flush()
    times = [tuple(map(float, reader.communicate()[0].split())) for reader in readers]
    assert slow_reads.bytes_paid() == 800_000
    # What the last readers woke up too late is taken off, and is far less than 10 ms.
    assert max(ended for _, ended in times) - min(began for began, _ in times) >= 0.8 - 0.01


AFTER_A_PAUSE = """if True:
    import json, os, struct, sys, time
    file = os.open(sys.argv[1], os.O_RDONLY)
    def bucket():
        with open(os.environ["SLOW_READS_BUCKET"], "rb") as file:
            return struct.unpack("=QQQ", file.read())
    found = []
    for _ in range(10):
        time.sleep(0.005)
        late, asked = bucket()[2], time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        os.pread(file, 40_000, 0)
        found.append([asked - late, bucket()[0]])
    print(json.dumps(found))"""


def test_a_bucket_saves_nothing_up_while_nobody_reads(held):
    folder, environment = held(40_000_000)
    (folder / "file").write_bytes(bytes(40_000))
    found = run(AFTER_A_PAUSE, environment, folder / "file")
    assert all(paid_until - earliest >= 1_000_000 for earliest, paid_until in found)  # what 40 kB cost


def test_that_nothing_is_held_back_is_noticed_and_nothing_left(held, tmp_path):
    folder, _ = held(FAST)  # and this process goes on without
    (folder / "file").write_bytes(b"a picture")
    with (
        pytest.raises(slow_reads.NotHeldBack, match=r"reading .*file is not held back"),
        slow_reads.held_back(str(folder / "file")),
    ):
        pytest.fail("it is taken to be held back")
    assert not (tmp_path / "place").exists()
