"""A stream of messages from one process to another, over a pair of sockets.

::

    send(): pickled, and written at once as far as the socket takes it --> receive()
                    |                                                         ^
                    +-- a thread writes the rest -----------------------------+

The descriptors of shared tensors travel beside the message (SCM_RIGHTS). torch's own queues send a name
instead, for which the other side connects to a server in the sender's process, tensor by tensor, with a
handshake in both directions.
"""

from __future__ import annotations

import array
import contextlib
import copyreg
import errno
import io
import math
import multiprocessing.util
import os
import queue
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import get_sharing_strategy, reductions

from seneca._runtime.regular_files import standard_streams_taken

__all__ = ["Channel"]

HEADER = struct.Struct("<QI")  # how many bytes the pickle has, and how many descriptors come with it
MOST_DESCRIPTORS = 250  # of a message; the kernel takes 253
ROOM = socket.CMSG_SPACE(4 * MOST_DESCRIPTORS)
GONE = (errno.EPIPE, errno.ECONNRESET)  # nobody will read this any more
# The kernel lacks memory for now, or too many descriptors of this user are under way: some will be received.
SHORT = (errno.ETOOMANYREFS, errno.ENOMEM, errno.ENOBUFS)
TAKEN = -1  # in place of a descriptor
PAUSE_S = 0.001  # between two tries, where the kernel is short of something


class Channel:
    """Messages from one process to another, in their order.

    One process sends, and one receives, each in one thread at a time. Both get the channel from the process
    that made it, as they are forked or spawned.
    """

    def __init__(self) -> None:
        with standard_streams_taken():
            self.reader, self.writer = socket.socketpair()
        self._begin()

    def _begin(self) -> None:
        self._header = b""
        self._body: memoryview | None = None
        self._filled = 0
        self._descriptors: list[int] = []
        self._rest: queue.SimpleQueue[_Message | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._left = self._sent = 0  # messages that were left to the thread, and that it has sent
        self._is_awaited, self._is_closed = True, False
        self._refused: OSError | None = None  # the kernel has refused a message

    def send(self, sent: Any, instead: Callable[[Exception], Any] | None = None) -> None:
        """Send an object, without waiting for the other side. If that has gone, nothing is sent.

        Args:
            sent: The object.
            instead: Makes what is sent in its place if pickle refuses it. None: the error is raised.

        Raises:
            Exception: What pickle raises if it refuses the object; then nothing is sent.
            OSError: The kernel refuses the message. Nothing more can be sent. The other side sees the end.
        """
        if self._refused is not None:
            raise self._refused
        try:
            message = _Message(sent)
        except Exception as error:
            if instead is None:
                raise
            message = _Message(instead(error))
        # The thread counts a message once it is sent. Thus none overtakes those before it.
        if self._left == self._sent and self._write(message, wait=False):
            return
        self._left += 1
        self._rest.put(message)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_rest, name="seneca-channel", daemon=True)
            self._thread.start()
            if self._is_awaited:
                multiprocessing.util.Finalize(None, self._complete, exitpriority=-5)

    def _write_rest(self) -> None:
        """The thread. An error ends it, as one that :func:`threading.excepthook` prints."""
        try:
            while (message := self._rest.get()) is not None:
                self._write(message, wait=True)
                self._sent += 1
        finally:
            if self._is_closed:
                self.writer.close()

    def _write(self, message: _Message, *, wait: bool) -> bool:
        try:
            return message.write(self.writer, wait=wait)
        except OSError as error:
            self._refused = error
            self._end()  # a part of the message may be written
            raise

    def _end(self) -> None:
        """Let the other side see the end, whoever else has this end open."""
        with contextlib.suppress(OSError):  # the other side has gone
            self.writer.shutdown(socket.SHUT_WR)

    def _complete(self) -> None:
        """As the process ends: wait until all is sent."""
        if self._is_awaited and self._thread is not None:
            self._rest.put(None)
            self._thread.join()

    def cancel_join(self) -> None:
        """From now on a process that ends does not wait until all is sent."""
        self._is_awaited = False

    def receive(self) -> Any:
        """The next object. Waits until all of it is there.

        Raises:
            EOFError: The other side has ended. :attr:`is_within` then says whether within a message.
            RuntimeError: This process cannot have more descriptors.
        """
        while len(self._header) < HEADER.size:
            self._header += self._received_with_descriptors(HEADER.size - len(self._header))
        length, expected = HEADER.unpack(self._header)
        if self._body is None:
            self._body, self._filled = memoryview(bytearray(length)), 0
        while self._filled < length:  # an exception of a signal handler may interrupt this, and it goes on
            self._filled += self._received(self._body[self._filled :])
        body, descriptors = self._body, self._descriptors
        self._header, self._body, self._descriptors = b"", None, []
        try:
            if len(descriptors) != expected:  # the text that multiprocessing and torch have for this
                raise RuntimeError(f"received {len(descriptors)} items of ancdata, but expected {expected}")
            _arrived.descriptors = descriptors
            return ForkingPickler.loads(body)
        finally:
            for descriptor in descriptors:
                if descriptor != TAKEN:
                    os.close(descriptor)

    def is_readable(self, timeout: float | None) -> bool:
        """Whether something can be received, or the other side has ended, within so many seconds."""
        poll = select.poll()
        poll.register(self.reader, select.POLLIN)
        return bool(poll.poll(None if timeout is None else math.ceil(1000 * timeout)))

    @property
    def is_within(self) -> bool:
        """Whether a part of a message was received."""
        return bool(self._header)

    def _received_with_descriptors(self, size: int) -> bytes:
        data, beside, _, _ = self.reader.recvmsg(size, ROOM, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in beside:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors = array.array("i")
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
                self._descriptors += descriptors
        if not data:
            raise EOFError("the process that sends has ended")
        return data

    def _received(self, room: memoryview) -> int:
        if not (size := self.reader.recv_into(room)):
            raise EOFError("the process that sends has ended, within a message")
        return size

    def close(self) -> None:
        """Close both ends in this process."""
        self.close_reader()
        self.close_writer()

    def close_reader(self) -> None:
        """Close this process's copy of the end from which is read."""
        self.reader.close()

    def close_writer(self) -> None:
        """Close this process's copy of the end to which is written. What is not sent yet is not sent."""
        if self._thread is None or not self._thread.is_alive():  # a forked process has no copy of the thread
            self.writer.close()
            return
        self._is_awaited, self._is_closed = False, True
        self._rest.put(None)
        self._end()  # the thread waits no longer; it closes, lest it write to what has the number next

    def __del__(self) -> None:
        for end in (self.reader, self.writer):  # torch leaves a queue as it is, to be collected
            end.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"reader": self.reader, "writer": self.writer}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()


class _Message:
    """A message that is sent, and the memory that goes with it."""

    def __init__(self, sent: Any) -> None:
        self._bytes, self._passed = _pickled(sent)
        HEADER.pack_into(self._bytes, 0, len(self._bytes) - HEADER.size, len(self._passed))

    def write(self, writer: socket.socket, *, wait: bool) -> bool:
        """Write it, and return whether all of it is written, or nobody will read it."""
        flags = 0 if wait else socket.MSG_DONTWAIT
        while len(self._bytes):
            beside = []
            if self._passed:
                descriptors = array.array("i", [descriptor for _, descriptor in self._passed])
                beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
            try:
                written = writer.sendmsg([self._bytes], beside, flags)
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno in GONE or writer.fileno() < 0:  # this process has closed it
                    return True
                if error.errno not in SHORT:
                    raise
                if not wait:
                    return False
                time.sleep(PAUSE_S)
                continue
            self._bytes = self._bytes[written:]
            self._passed = []  # they go with the first bytes
        return True


def _pickled(sent: Any) -> tuple[memoryview, list[tuple[torch.UntypedStorage, int]]]:
    """Pickle an object as torch's queues do, but for the memory of tensors.

    Returns:
        Room for the header, and the pickle; the memory, each with its descriptor.
    """
    passed: list[tuple[torch.UntypedStorage, int]] = []

    def reduce_storage(storage: torch.UntypedStorage) -> Any:
        """As :func:`torch.multiprocessing.reductions.reduce_storage`."""
        is_file = storage.device.type == "cpu" and get_sharing_strategy() == "file_descriptor"
        if not is_file or len(passed) >= MOST_DESCRIPTORS or storage.size() == 0:
            return reductions.reduce_storage(storage)
        descriptor, size = storage._share_fd_cpu_()
        reductions.shared_cache[reductions.fd_id(descriptor)] = reductions.StorageWeakRef(storage)
        passed.append((storage, descriptor))
        return _rebuild_storage, (type(storage), len(passed) - 1, size)

    file = io.BytesIO()
    file.seek(HEADER.size)
    pickler = ForkingPickler(file)
    pickler.dispatch_table = {
        **copyreg.dispatch_table,
        **ForkingPickler._extra_reducers,  # type: ignore[attr-defined]
        torch.UntypedStorage: reduce_storage,
    }
    pickler.dump(sent)
    return file.getbuffer(), passed


def _rebuild_storage(kind: type[torch.UntypedStorage], number: int, size: int) -> Any:
    return reductions.rebuild_storage_fd(kind, _Descriptor(number), size)


class _Descriptor:
    """A descriptor that came with the message that is unpickled in this thread, as torch asks for it."""

    def __init__(self, number: int) -> None:
        self._number = number

    def detach(self) -> int:
        """The descriptor, which the caller closes."""
        descriptors = _arrived.descriptors
        descriptor, descriptors[self._number] = descriptors[self._number], TAKEN
        return int(descriptor)


class _Arrived(threading.local):
    """The descriptors of the message that this thread unpickles."""

    descriptors: list[int] = []  # noqa: RUF012  # replaced with each message


_arrived = _Arrived()
