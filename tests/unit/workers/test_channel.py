"""Messages from one process to another, with the memory of tensors."""

import contextlib
import errno
import multiprocessing
import os
import resource
import signal
import socket
import threading
import time

import pytest
import torch
from sizes import size

from seneca.workers.channel import MOST_DESCRIPTORS, Channel

LARGE = 4 << 20  # bytes; many times what a socket takes at once
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def channel():
    channel = Channel()
    yield channel
    channel.close()


@contextlib.contextmanager
def child(target, *args, method="fork", code=0):
    """A process that runs a function; it has ended, with this exit code, when the block is left."""
    process = multiprocessing.get_context(method).Process(target=target, args=args)
    process.start()
    yield process
    process.join(120)
    assert process.exitcode == code


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("sent", [None, (3, [0, 1]), {"a": b"x" * LARGE}, ValueError("no")])
def test_what_is_sent_is_received(channel, sent):
    channel.send(sent)
    assert repr(channel.receive()) == repr(sent)


def test_tensors_are_received_in_the_memory_in_which_they_were_sent(channel):
    one = torch.arange(6.0)
    channel.send((one, one[2:], {"empty": torch.zeros(0)}))
    whole, part, rest = channel.receive()
    whole[3] = -1
    assert one[3] == part[1] == -1 and rest["empty"].shape == (0,)
    assert whole.is_shared() and part.is_shared()


def send_tensors(channel, count):
    channel.send([torch.full((3,), float(k)) for k in range(count)])


@pytest.mark.small(2)
@pytest.mark.parametrize("count", [1, MOST_DESCRIPTORS, MOST_DESCRIPTORS + 50])
def test_any_number_of_tensors_comes_from_another_process(channel, count):
    """Beyond what goes with one message, torch's own way takes them, for which the sender has to live on."""
    done = FORK.Event()

    def send_and_stay():
        send_tensors(channel, count)
        done.wait(60)

    with child(send_and_stay):
        assert [one.tolist() for one in channel.receive()] == [[float(k)] * 3 for k in range(count)]
        done.set()


@pytest.mark.parametrize("method", size(["fork"], ["fork", "spawn", "forkserver"]))
def test_tensors_outlive_the_process_that_sent_them(channel, method):
    with child(send_tensors, channel, 3, method=method):
        pass
    assert [one[0].item() for one in channel.receive()] == [0, 1, 2]


def test_nothing_overtakes_what_the_socket_did_not_take_at_once(channel):
    for number in range(20):
        channel.send((number, b"x" * (LARGE if number % 5 == 0 else 10), torch.tensor(number)))
    received = [channel.receive() for _ in range(20)]
    assert [(number, len(data) > 10, int(tensor)) for number, data, tensor in received] == [
        (number, number % 5 == 0, number) for number in range(20)
    ]


def send_numbers(channel, count):
    for number in range(count):
        channel.send((number, b"x" * 100_000))


def test_a_process_that_ends_sends_everything_first(channel):
    with child(send_numbers, channel, 50):
        channel.close_writer()
        assert [channel.receive()[0] for _ in range(50)] == list(range(50))
        with pytest.raises(EOFError):
            channel.receive()
        assert not channel.is_within


def send_and_cancel(channel):
    channel.cancel_join()
    send_numbers(channel, 50)


def test_a_process_that_nobody_waits_for_ends_at_once(channel):
    with child(send_and_cancel, channel):
        pass  # else it would not end, because nothing is received


def be_killed(channel):
    channel.send(b"x" * LARGE)
    time.sleep(60)


def test_the_end_of_a_process_within_a_message_is_seen(channel):
    with child(be_killed, channel, code=-signal.SIGKILL) as process:
        channel.close_writer()
        assert channel.is_readable(60)
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(EOFError):
            channel.receive()
    assert channel.is_within


def test_sending_to_a_process_that_has_gone_does_nothing(channel):
    channel.close_reader()
    for _ in range(3):
        channel.send((torch.zeros(2), b"x" * LARGE))


@pytest.mark.parametrize("is_read", [True, False])
def test_closing_ends_a_thread_that_nobody_reads_from(is_read):
    before, channel = threading.active_count(), Channel()
    channel.send(b"x" * LARGE)
    assert threading.active_count() == before + 1
    if is_read:  # by another process, which does not read now
        channel.close_writer()
    else:
        channel.close()
    until = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_the_thread_closes_what_it_writes_to():
    """Closed by another thread, the number may be that of another file when the kernel reads it."""
    channel = Channel()
    channel.send(b"x" * LARGE)
    closed_by, close = [], channel.writer.close

    class Noting:
        def close(self):
            closed_by.append(threading.current_thread().name)
            close()

        def __getattr__(self, name, of=channel.writer):
            return getattr(of, name)

    channel.writer = Noting()
    channel.close()
    channel._thread.join(60)
    assert closed_by == ["seneca-channel"]


def test_what_pickle_refuses_is_an_error_and_is_not_sent(channel):
    with pytest.raises(AttributeError, match="local object"):
        channel.send((torch.zeros(2), lambda: None))
    channel.send("next")
    assert channel.receive() == "next"


def test_no_descriptor_is_left(channel):
    send_tensors(channel, 3)
    received = channel.receive()
    before = open_descriptors()
    for _ in range(50):
        send_tensors(channel, 3)
        received = channel.receive()
    assert open_descriptors() == before and len(received) == 3


def make_without_standard_streams():
    for descriptor in range(3):
        os.close(descriptor)
    made = Channel()
    os._exit(min(made.reader.fileno(), made.writer.fileno()))


def test_no_end_gets_the_number_of_a_closed_standard_stream():
    process = FORK.Process(target=make_without_standard_streams)
    process.start()
    process.join(120)
    assert process.exitcode > 2, "what a library prints would be read as a message"


def receive_with_few_descriptors(channel):
    before = open_descriptors()
    taken = set(map(int, os.listdir("/proc/self/fd")))  # of a process that has run other tests: with gaps
    limit = [number for number in range(len(taken) + 10) if number not in taken][5]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with pytest.raises(RuntimeError, match="items of ancdata"):
        channel.receive()
    assert len(channel.receive()) == 1
    assert open_descriptors() <= before + 2, "those that came are closed"


def test_a_process_that_cannot_have_more_descriptors_gets_an_error_and_goes_on(channel):
    send_tensors(channel, 40)
    send_tensors(channel, 1)
    with child(receive_with_few_descriptors, channel):
        pass


def send_more_than_may_be_under_way(channel, limit):
    os.setresuid(65534, 65534, 65534)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    for number in range(limit):
        channel.send((number, torch.tensor(number), torch.tensor(-number)))
        if number == limit // 2 + 2:
            assert channel._left, "the kernel has refused some: these wait"
        while channel._left > channel._sent + 5:  # each holds its memory open until it is sent
            time.sleep(0.001)


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user, who has nothing else under way")
def test_if_too_many_descriptors_are_under_way_the_next_wait_for_them(channel):
    limit = open_descriptors() + 100  # holds for those under way, too
    with child(send_more_than_may_be_under_way, channel, limit):
        channel.close_writer()
        time.sleep(1)  # let it send all that it can
        for number in range(limit):
            assert channel.receive() == (number, torch.tensor(number), torch.tensor(-number))


class Refusing:
    """A socket whose next calls of sendmsg() fail, after some that do not."""

    def __init__(self, channel, error, *, passes=0, times=1):
        self._socket, self._error, self.passes, self.times = channel.writer, error, passes, times
        channel.writer = self

    def sendmsg(self, *args):
        self.passes -= 1
        if self.passes < 0 < self.times:
            self.times -= 1
            raise OSError(self._error, os.strerror(self._error))
        return self._socket.sendmsg(*args)

    def __getattr__(self, name):
        return getattr(self._socket, name)


@pytest.mark.parametrize("passes", [0, 1, 2], ids=["at first", "in the thread", "within a message"])
@pytest.mark.parametrize("error", [errno.ENOMEM, errno.ENOBUFS, errno.ETOOMANYREFS], ids=errno.errorcode.get)
def test_a_message_waits_while_the_kernel_is_short_of_something(channel, error, passes):
    refusing = Refusing(channel, error, passes=passes, times=5)
    for number in range(3):
        channel.send((number, torch.tensor(number), b"x" * LARGE))
    assert [channel.receive()[:2] for _ in range(3)] == [(k, torch.tensor(k)) for k in range(3)]
    assert refusing.times == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # who sends sees it there
@pytest.mark.parametrize("passes", [0, 2], ids=["at first", "in the thread"])
def test_what_the_kernel_refuses_ends_the_channel(channel, passes):
    """Else messages behind it would come within it, or nothing would come and nobody would know why."""
    Refusing(channel, errno.EPERM, passes=passes)
    with pytest.raises(PermissionError):
        while True:
            channel.send(b"x" * LARGE)
            time.sleep(0.001)
    with pytest.raises(PermissionError):
        channel.send("next")
    with pytest.raises(EOFError):
        channel.receive()
    assert channel.is_within == (passes > 0)


def test_a_descriptor_that_others_have_closed_is_an_error_not_the_end_of_the_reader(channel):
    number = channel.writer.detach()
    channel.writer = socket.socket(fileno=os.dup2(number, 900))
    os.close(number)
    os.close(900)
    with pytest.raises(OSError, match="Bad file descriptor"):
        channel.send("lost")
    channel.writer.detach()


def send_in_two_parts(channel, go_on):
    header_and_more = 20
    whole = []
    writer = channel.writer

    class Parts:
        def sendmsg(self, buffers, beside, flags):
            whole.append(bytes(buffers[0]))
            return len(buffers[0])

    channel.writer = Parts()
    channel.send((1, b"x" * 100))
    writer.send(whole[0][:header_and_more])
    go_on.wait(60)
    writer.send(whole[0][header_and_more:])


def test_a_receive_that_a_signal_handler_interrupts_goes_on_later(channel):
    go_on = FORK.Event()

    def interrupt(signum, frame):
        raise InterruptedError

    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        with child(send_in_two_parts, channel, go_on):
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(InterruptedError):
                channel.receive()
            assert channel.is_within
            go_on.set()
            assert channel.receive() == (1, b"x" * 100)
    finally:
        signal.signal(signal.SIGALRM, former)
