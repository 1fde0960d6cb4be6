"""A slow disk that the benchmark makes: an image on a loop device, held back by the kernel's control groups.

::

    pictures --> ext4 image --loop device--> mount point <-- jobs, which join two groups:
                                                  blkio   reads a second from the device
                                                  memory  a limit that a thread lowers

The memory group limits all memory of its processes, and what training takes of it is not known beforehand.
Therefore a thread compares the page cache of the group with its budget, forty times a second: what the page
cache and the segment may have together. If the page cache has more, the thread lowers the limit for a
moment, by as much, and the kernel gives up the pages that were used longest ago. Otherwise the limit leaves
room for what the jobs take until the next time. Jobs see that room as free memory. Where the dataset is not
much larger, Seneca's first split counts on a page cache there. It is changed once reads show otherwise.

Needs root, and version 1 of the controllers ``blkio`` and ``memory``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path

from bench_jobs import SHM
from links import pictures_of

from papers.slow_storage import Storage, forget

LOOK_EVERY_S = 0.025
LEAST_BYTES = 4 << 20  # of page cache: what is being read must stay
ROOM_BYTES = 64 << 20  # that jobs may take until the next time, besides a cache that is being made
SEGMENT = 1.1  # a segment's size: payloads, and their records
CONTROLLERS = ("blkio", "memory")
MORE_THAN_FILES = 1.08  # an image's size: inodes, bitmaps
MORE_BYTES = 64 << 20


class NoDisk(RuntimeError):
    """No such disk can be made here; the message says why."""


class Disk(Storage):
    """See the module's docstring.

    Args:
        folder: The mount point.
        groups: The folder of the jobs' group of each controller.
        bytes_per_s: That the device gives.
    """

    kind = "disk"

    def __init__(self, folder: Path, groups: dict[str, Path], bytes_per_s: int) -> None:
        super().__init__(folder)
        self._groups = groups
        self.bytes_per_s = bytes_per_s
        self.join = tuple(str(group / "cgroup.procs") for group in groups.values())

    def words(self) -> str:
        return (
            f"An ext4 image of {self.samples} files ({self.files_bytes / 1e6:.0f} MB) on a loop device; the"
            f" kernel holds all its readers together to {self.bytes_per_s / 1e6:g} MB/s."
        )

    def memory_words(self, share: float) -> str:
        return (
            f"The page cache and Seneca's cache together are held to {share:.0%} of the files, by a memory"
            f" group whose limit follows what the jobs use besides; {ROOM_BYTES >> 20} MiB of room are left"
            " for that, which Seneca's first split takes for page cache."
        )

    @contextmanager
    def held(self, memory_bytes: int, cache: str | None) -> Iterator[None]:
        done = threading.Event()

        def look() -> None:
            while not done.wait(LOOK_EVERY_S):
                has = 0 if cache is None else segment_bytes(cache)
                lacks = cache is not None and has < memory_bytes
                self._trim(
                    memory_bytes - has, ROOM_BYTES + (round(SEGMENT * memory_bytes) - has if lacks else 0)
                )

        forget(pictures_of(self.folder))
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(look)
            try:
                yield
            finally:
                done.set()
                looking.result()  # raises what the thread raised
                (self._groups["memory"] / "memory.limit_in_bytes").write_text("-1")

    def _trim(self, budget_bytes: int, room_bytes: int) -> None:
        """Have the page cache of the jobs give up what it has beyond its budget, and leave them this room."""
        limit = self._groups["memory"] / "memory.limit_in_bytes"
        used, page_cache = self._usage()
        beyond = page_cache - max(budget_bytes, LEAST_BYTES)
        if beyond > 0:
            # EBUSY: pages that are read just now cannot be given up. The next time does it.
            with suppress(OSError):
                limit.write_text(str(used - beyond))
        limit.write_text(str(self._usage()[0] + room_bytes))

    def _usage(self) -> tuple[int, int]:
        """Bytes of the jobs, and of their page cache; shared memory is no part of that."""
        group = self._groups["memory"]
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        used = int((group / "memory.usage_in_bytes").read_text())
        return used, int(stat["cache"]) - int(stat["shmem"])


def segment_bytes(cache: str) -> int:
    """Memory of the segments of this cache."""
    return sum(path.stat().st_blocks * 512 for path in SHM.glob(f"seneca-*-{cache}"))


@contextmanager
def slow_disk(data: Path, count: int, bytes_per_s: int) -> Iterator[Disk]:
    """A disk of ``count`` files, those of ``data`` in turn; nothing of it is left afterwards.

    Raises:
        NoDisk: this user may not make one, or the kernel has other controllers.
    """
    if os.geteuid() != 0:
        raise NoDisk("only root may mount an image")
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seneca-slow-disk-")))
        groups = {}
        for name in CONTROLLERS:
            groups[name] = new_group(name)
            stack.callback(remove_group, groups[name])
        image, folder = make_image(data, count, place), place / "mnt"
        folder.mkdir()
        call("mount", "-o", "loop,noatime", str(image), str(folder))
        stack.callback(call, "umount", "--lazy", str(folder))  # a job that was ended may still let go
        (folder / "lost+found").rmdir()
        device = os.stat(folder).st_dev
        limit = f"{os.major(device)}:{os.minor(device)} {bytes_per_s}"
        write(groups["blkio"] / "blkio.throttle.read_bps_device", limit)
        yield Disk(folder, groups, bytes_per_s)


def write(file: Path, text: str) -> None:
    """Set a value of a group.

    Raises:
        NoDisk: the kernel does not take it.
    """
    try:
        file.write_text(text)
    except OSError as error:
        raise NoDisk(f"{file}: {error}") from error


def make_image(data: Path, count: int, place: Path) -> Path:
    """An ext4 image of ``count`` files: those of ``data``, as often as needed under other names."""
    staging, image = place / "staging", place / "image"
    pictures = pictures_of(data)
    for number, picture in enumerate(islice(cycle(pictures), count)):
        to = staging / picture.relative_to(data).parts[0] / f"{number:07d}-{picture.name}"
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, to)
    size = sum(path.stat().st_size for path in pictures_of(staging))
    with image.open("wb") as file:
        file.truncate(int(size * MORE_THAN_FILES) + MORE_BYTES)
    call("mkfs.ext4", "-q", "-F", "-m", "0", "-d", str(staging), str(image))
    shutil.rmtree(staging)
    return image


def new_group(controller: str) -> Path:
    """A group below that of this process.

    Raises:
        NoDisk: the controller is not there in version 1, or gives no group.
    """
    own = None
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            own = path
    top = Path("/sys/fs/cgroup") / controller
    if own is None or not top.is_dir():
        raise NoDisk(f"the kernel has no controller {controller} of version 1")
    group = top / own.lstrip("/") / f"seneca-bench-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise NoDisk(f"no group of the controller {controller}: {error}") from error
    return group


def remove_group(group: Path) -> None:
    """Remove it once the last of its processes is gone, which takes the kernel a moment."""
    for _ in range(50):
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.1)
    group.rmdir()


def call(*command: str) -> None:
    """Run a program of the system.

    Raises:
        NoDisk: it failed; with what it said.
    """
    try:
        ran = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NoDisk(f"no program {command[0]}") from error
    if ran.returncode:
        raise NoDisk(f"{' '.join(command)}: {ran.stderr.strip()}")
