"""The shared-memory engine in the hands of a test: a segment of its own, its records, processes to kill.

Several handles on one name act as several processes even inside one: each has a file description
of its own, which is what locks and liveness go by.
"""

import contextlib
import ctypes
import functools
import os
import pickle
import secrets
import select
import signal
import sys
import time
import traceback

import numpy as np
import pytest
import torch

from seneca._core.codes import Unlinked
from seneca._core.member import Member
from seneca._core.segment import LAYOUT_VERSION, Segment
from seneca._core.segment import NONE as NONE
from seneca._core.worker import Worker
from seneca.cache.objects import opened

EMPTY, WRITING, READY, FAILED = range(4)
STORAGE, ENCODED, DECODED, AUGMENTED, RECODED = range(5)
ALL_STAGED = (0, 0, 0, 10000, 0)
PR_SET_PDEATHSIG = 1
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000
PATIENCE_S = 300  # a child that says nothing for so long has hung, however loaded the machine is

# csrc/shm/sn_layout.h
HEADER = np.dtype([
    ("magic", "u8"), ("layout_version", "u4"), ("row_words", "u4"), ("fingerprint", "u8", 2),
    ("payload_bytes", "u8"), ("n_samples", "u4"), ("keep", "u4"),
    ("split_at_birth", "u4", 5), ("adapts", "u4"), ("first_granules", "u4"), ("padding", "u4"),
    ("segment_bytes", "u8"),
    ("n_stage", "u4"), ("n_slots", "u4"), ("n_granules", "u4"), ("n_ledger", "u4"),
    ("n_writing", "u4"), ("boot", "u4"),
    ("rows_at", "u8"), ("telemetry_at", "u8"), ("traits_at", "u8"), ("slots_at", "u8"), ("first_at", "u8"),
    ("wants_at", "u8"), ("writing_at", "u8"),
    ("committed_at", "u8"), ("groups_at", "u8"), ("granules_at", "u8"), ("payload_at", "u8"),
    ("rooms_at", "u8"), ("room_bytes", "u8"), ("seen_in", "u8"), ("eligible_in", "u8"), ("blocks_in", "u8"),
    ("timetable_in", "u8"), ("digests_at", "u8"), ("digests_bytes", "u8"),
    ("busy", "u4"), ("failures", "u4"), ("abandoned", "u4"),
    ("backed", "u4"), ("limit", "u4"),
    ("granules_of", "u4", 5), ("budget_of", "u4", 5), ("granules_free", "u4"),
])  # fmt: skip
ROW = np.dtype([
    ("state", "u4"), ("generation", "u4"), ("kind", "u2"), ("exchanges", "u2"), ("job", "u4"),
    ("job_key", "u8"), ("pipeline", "u8"), ("stage_need", "u4"), ("copy_bytes", "u4"), ("pid", "i4"),
    ("subset", "u4"), ("eligible", "u4"), ("staged", "u4"), ("published_at", "u4"), ("pace", "u4"),
])  # fmt: skip
SLOT = np.dtype([
    ("state", "u4"), ("generation", "u4"), ("sample", "u4"), ("writer_row", "u2"), ("form", "u1"),
    ("alone", "u1"), ("writer_generation", "u4"), ("granule", "u4"), ("length", "u4"), ("height", "u2"),
    ("width", "u2"), ("pipeline", "u8"), ("uses", "u8"), ("next_of_sample", "u4"), ("pins", "u2"),
    ("list", "u1"), ("in_order", "u1"), ("list_next", "u4"), ("list_prev", "u4"),
])  # fmt: skip
MAX_ROWS = 128
assert ROW.itemsize == SLOT.itemsize == 64
assert LAYOUT_VERSION == 17, "the records above are those of layout 17"


class Records:
    """The memory of a segment, seen from outside; copies nothing."""

    def __init__(self, path):
        self.bytes = np.asarray(np.memmap(path, np.uint8, "r"))
        self.head = self.bytes[: HEADER.itemsize].view(HEADER)[0]
        at = int(self.head["rows_at"])
        self.rows = self.bytes[at : at + 64 * MAX_ROWS].view(ROW)
        at = int(self.head["slots_at"])
        self.slots = self.bytes[at : at + 64 * int(self.head["n_slots"])].view(SLOT)
        at = int(self.head["wants_at"])
        self.wants = self.bytes[at : at + int(self.head["n_stage"])]

    def seen(self, row):
        """Which samples the row's mirror has as taken: a bool array."""
        words = int(self.head["row_words"])
        at = int(self.head["rooms_at"]) + row * int(self.head["room_bytes"]) + int(self.head["seen_in"])
        bits = np.unpackbits(self.bytes[at : at + words * 8], bitorder="little")
        return bits[: int(self.head["n_samples"])].astype(bool)


class Place:
    """One segment's file that no other test uses; leaving asserts that nothing is left of it."""

    def __init__(
        self,
        n_samples,
        payload_bytes=1 << 20,
        *,
        split=ALL_STAGED,
        keep=0,
        fingerprint=b"fingerprint 0123",
        folder="/dev/shm",
    ):
        self.name = f"/seneca-{os.geteuid()}-test-{secrets.token_hex(6)}"
        self.path = folder + self.name
        self.n_samples = n_samples
        self.payload_bytes = payload_bytes
        self.split = split
        self.keep = keep
        self.fingerprint = fingerprint
        self.handles = []

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        if failed:
            self.unlink()
            return
        for segment in self.handles:
            self.close(segment)
        left = self.exists
        self.unlink()
        assert not left, f"{self.name} was left behind"

    @property
    def exists(self):
        return os.path.lexists(self.path)

    def unlink(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def try_attach(self, job_key=1, *, makes=True, **changes):
        """One try; raises what the engine does."""
        geometry = {
            "fingerprint": self.fingerprint, "n_samples": self.n_samples, "payload_bytes": self.payload_bytes,
            "keep": self.keep, "split": self.split,
        } | changes  # fmt: skip
        if not makes:
            geometry["fingerprint"] = None
        fd = opened(self.path, creates=makes)
        geometry = [geometry.pop(name) for name in ("fingerprint", "n_samples", "payload_bytes")] + [geometry]
        segment = Segment(fd, self.path, *geometry[:3], job_key=job_key, **geometry[3])
        self.handles.append(segment)
        return segment

    def attach(self, job_key=1, **changes):
        """A handle, as seneca.cache has it: the name is opened again while it leads to leavings."""
        while True:
            try:
                return self.try_attach(job_key, **changes)
            except (Unlinked, BlockingIOError):
                continue

    def member(self, segment, **options):
        """A member that shares and substitutes unless the options say otherwise."""
        defaults = {
            "n_samples": self.n_samples, "samples": None, "places": self.n_samples,
            "seed": 0, "epoch": 0, "fixed": False,
            "decoded": 11, "augmented": 22, "height": 8, "width": 8, "in_flight": 32,
            "shares": True, "keeps": False, "substitutes": True,
        }  # fmt: skip
        return Member(segment, **(defaults | options))

    def worker(self, segment, **options):
        """A worker of a member as :meth:`member` makes it, for copies that say themselves what they are."""
        defaults = {"decoded": 11, "augmented": 22, "shares": True, "keeps": False}
        return Worker(segment, **(defaults | options))

    def close(self, segment):
        segment.close()

    def records(self):
        return Records(self.path)


def keep(member, form, samples, height=30):
    """Offer payloads, of one page or, with twice the height, of two; how many were accepted."""
    offers = [(sample, form, 3 * height * 40, height, 40) for sample in samples]
    slots = [place for place in member.draw(0, offers)[1] if place]
    for slot, entry in slots:
        member.commit(slot)
        member.offer_done(slot, entry)
    member.draw(0)
    return len(slots)


def enter_small_shm(size):
    """Give this process a /dev/shm of its own, of ``size`` bytes; why that is denied, or None."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        return os.strerror(ctypes.get_errno())
    assert libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0, "or the whole host has it"
    assert libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=%d,mode=1777" % size) == 0
    return None


def in_small_shm(size, work, *args):
    """What ``work(*args)`` returns in a child with mounts and a /dev/shm of its own, of ``size`` bytes.

    The test is skipped where they are denied.
    """

    def child(pipe):
        torch.set_num_threads(1)  # OpenMP's threads are the parent's and did not come along
        denied = enter_small_shm(size)
        pipe.send((denied, None if denied else work(*args)))

    with Process(child) as process:
        denied, found = process.receive()
    if denied:
        pytest.skip(f"no mount namespace of its own: {denied}")
    return found


def in_a_shm_of_its_own(test):
    """Run a test in a child with a /dev/shm of its own, where no other test's process sweeps."""

    @functools.wraps(test)
    def alone():
        in_small_shm(64 << 20, test)

    return alone


class Process:
    """A forked child that runs ``function(pipe, *args)`` and ends; a context that leaves none behind.

    The pipe has ``send(thing)`` and ``receive()`` on both sides; a child that fails sends its traceback,
    which ``receive`` raises here.
    """

    def __init__(self, function, *args):
        here_reads, child_writes = os.pipe()
        child_reads, here_writes = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # no orphan, however the tests end
            try:
                os.close(here_reads)
                os.close(here_writes)
                self.reads, self.writes = child_reads, child_writes
                function(self, *args)
                status = 0
            except BaseException:
                self.send(ChildFailed(traceback.format_exc()))
            finally:
                os._exit(status)
        os.close(child_reads)
        os.close(child_writes)
        self.reads, self.writes = here_reads, here_writes
        self.status = None

    def send(self, thing):
        data = pickle.dumps(thing)
        data = len(data).to_bytes(4, "little") + data
        while data:
            data = data[os.write(self.writes, data) :]

    def receive(self, patience_s=PATIENCE_S):
        size = int.from_bytes(self._read(4, patience_s), "little")
        thing = pickle.loads(self._read(size, patience_s))
        if isinstance(thing, ChildFailed):
            raise AssertionError(f"in the child:\n{thing.args[0]}")
        return thing

    def _read(self, size, patience_s):
        data = b""
        while len(data) < size:
            if not select.select([self.reads], [], [], patience_s)[0]:
                self._hangs()
            piece = os.read(self.reads, size - len(data))
            if not piece:
                raise EOFError(f"process {self.pid} ended")
            data += piece
        return data

    @property
    def has_sent(self):
        return bool(select.select([self.reads], [], [], 0)[0])

    def stop(self):
        """Stop it where it is, until :meth:`resume`."""
        os.kill(self.pid, signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self.status = status
            while True:
                self.receive()  # raises what failed there

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def kill(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.join()

    def join(self, patience_s=PATIENCE_S):
        """Wait for its end: 0 when it ended well, the signal negated when it was killed."""
        if self.status is None:
            end = os.pidfd_open(self.pid)
            try:
                if not select.select([end], [], [], patience_s)[0]:
                    self._hangs()
            finally:
                os.close(end)
            self.status = os.waitpid(self.pid, 0)[1]
        return os.waitstatus_to_exitcode(self.status)

    def _hangs(self):
        """End it so that pytest's faulthandler, which came along, prints where its threads are."""
        os.kill(self.pid, signal.SIGABRT)
        time.sleep(1)
        raise AssertionError(f"process {self.pid} hangs")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        os.close(self.reads)
        os.close(self.writes)


class ChildFailed(Exception):
    pass


class Remote:
    """Another process that holds one handle on a place, and does with it what the test asks."""

    def __init__(self, place, job_key):
        self.process = Process(_serve, place, job_key)
        self.process.receive()

    def __call__(self, verb, *args, **options):
        self.process.send((verb, args, options))
        return self.process.receive()


def _serve(pipe, place, job_key):
    segment = place.attach(job_key)
    members = {}
    pipe.send("attached")
    while True:
        verb, args, options = pipe.receive(patience_s=None)
        answer = None
        if verb == "leave":
            place.close(segment)
        elif verb == "open":
            members[args[0]] = place.member(segment, **options)
        elif verb == "close":
            members.pop(args[0]).close()
        elif verb == "write":
            members[args[0]].payload(args[1])[:] = args[2]
        elif verb == "read":
            answer = bytes(members[args[0]].payload(args[1]))
        else:
            answer = getattr(members[args[0]], verb)(*args[1:], **options)
        pipe.send(answer)
