"""A Python that has imported torch and Seneca, and forks itself for each script that a test runs.

These imports take seconds. A test that needs a process of its own, and does not test how one starts, runs its
script here::

    test --arguments, environment, folder; stdin, stdout, stderr--> server --fork--> the script
         <------------------------------------------ process id, and its status once that is asked for

A script is a ``__main__``, and the interpreter ends after it, as in a Python of its own. What it shares with
others is the seed of hashes, and the flags of the interpreter: a test of these starts a Python. A test of how
Seneca is imported, or of what it reads from the environment as it is, asks for a ``fresh`` one.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import multiprocessing.process
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence

__all__ = ["Script", "Server", "run"]

PATIENCE_S = 300  # what takes so long has hung, however loaded the machine is


class Server:
    """The process that forks. It ends with the one that began it.

    ``environment``: what it has besides. What takes effect as a process begins, it has for all its scripts.
    ``modules``: what it has imported besides torch.
    """

    def __init__(self, environment: Mapping[str, str] | None = None, *, modules: Sequence[str] = ()) -> None:
        self._socket, there = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with there:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(there.fileno()), *modules],
                pass_fds=[there.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})},
            )
        self.of = os.getpid()

    def ask(self, request: Mapping[str, object], descriptors: Sequence[int] = ()) -> int:
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            answer = self._socket.recv(100)
        except BrokenPipeError:
            answer = b""
        assert answer, f"the server of scripts has ended, with status {self._process.wait(PATIENCE_S)}"
        return int(answer)

    def close(self) -> None:
        self._socket.close()
        if self.of == os.getpid():
            self._process.wait(PATIENCE_S)


class Script:
    """One that runs: much as ``subprocess.Popen`` with ``text=True`` and three pipes."""

    def __init__(
        self,
        *arguments: str | os.PathLike[str],
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] = ".",
        start_new_session: bool = False,
        fresh: bool = False,
        server: Server | None = None,
    ) -> None:
        """Begin it.

        Args:
            arguments: As Python's: ``"-c"`` and code, or the path of a script; then those of the script.
            env: Its whole environment; None: that of this process.
            cwd: The folder in which it runs.
            start_new_session: It leads a session, and therefore a group, of its own.
            fresh: Torch is imported, and Seneca is not.
            server: Of which it is a fork; None: of the one that all such scripts have.
        """
        stdin, here_writes = os.pipe()
        here_reads, stdout = os.pipe()
        self.stdin, self.stdout = os.fdopen(here_writes, "w"), os.fdopen(here_reads)
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 -- it lives as long as this does
        request = {
            "arguments": [os.fspath(each) for each in arguments],
            "environment": dict(os.environ if env is None else env),
            "cwd": os.path.abspath(cwd),
            "session": start_new_session,
        }
        self._server = server or _server(fresh)
        self.pid = self._server.ask(request, [stdin, stdout, self._stderr.fileno()])
        self.returncode: int | None = None
        self._end = os.pidfd_open(self.pid)
        os.close(stdin)
        os.close(stdout)

    def poll(self) -> int | None:
        """Its status, negative: the signal that ended it; None: it runs."""
        if self.returncode is None and select.select([self._end], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float = PATIENCE_S) -> int:
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                self.kill()
                raise AssertionError(f"the script hangs: {self._said()}")
            self.returncode = self._server.ask({"wait": self.pid})
            os.close(self._end)
        return self.returncode

    def communicate(self, text: str = "", timeout: float = PATIENCE_S) -> tuple[str, str]:
        """Send it this, and wait for its end: what it has said on stdout and on stderr."""
        if not self.stdin.closed:
            self.stdin.write(text)
            self.stdin.close()
        with self.stdout:
            said = self.stdout.read()
        self.wait(timeout)
        return said, self._said()

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _said(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read()


def run(
    *arguments: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] = ".",
    fresh: bool = False,
    server: Server | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, with an empty stdin. As :class:`Script` otherwise."""
    script = Script(*arguments, env=env, cwd=cwd, fresh=fresh, server=server)
    out, err = script.communicate()
    return subprocess.CompletedProcess(arguments, script.wait(), out, err)


_servers: dict[bool, Server] = {}


def _server(fresh: bool) -> Server:
    """This process's. A fork of it begins its own: both would read the answers of one."""
    if _servers and next(iter(_servers.values())).of != os.getpid():
        _close_servers()
    if not _servers:
        atexit.register(_close_servers)
    if fresh not in _servers:
        _servers[fresh] = Server(modules=[] if fresh else ["seneca.loader"])
    return _servers[fresh]


def _close_servers() -> None:
    while _servers:
        _servers.popitem()[1].close()


def _serve(asked: socket.socket) -> tuple[dict, list[int]] | None:
    """What a child is to run, in the child; None in the server, once nobody asks any more."""
    while True:
        line, descriptors, _, _ = socket.recv_fds(asked, 1 << 20, 3)
        if not line:
            return None
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                return request, descriptors
        for descriptor in descriptors:
            os.close(descriptor)
        asked.send(str(answer).encode())


def _become(request: dict, descriptors: list[int]) -> tuple[types.CodeType, dict[str, object]]:
    """Make this process what a Python is before its script: the code of that, and the names of its module."""
    if request["session"]:
        os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    multiprocessing.process.ORIGINAL_DIR = request["cwd"]  # from where spawned workers import the script
    first, *rest = request["arguments"]
    main = types.ModuleType("__main__")
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if first == "-c":
        source, *rest = rest
        sys.path[:0] = ["", *paths]
        code = compile(source, "<string>", "exec")
    else:
        main.__file__ = first
        sys.path[:0] = [os.path.dirname(os.path.abspath(first)), *paths]
        with open(first) as file:
            code = compile(file.read(), first, "exec")
    sys.argv = [first, *rest]
    sys.modules["__main__"] = main
    np.random.seed()  # else all scripts would draw the same
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the test was started by
    return code, vars(main)


def _keep_at_the_end() -> None:
    """What this process has, no script takes apart at its end: it would copy the memory for that, for 150 ms.

    Python takes apart all modules, and torch its operators.
    """
    kept = {name: module for name, module in sys.modules.items() if name != "__main__"}
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    def leave() -> None:
        for name, module in kept.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]

    # What is registered last runs first: multiprocessing needs the modules when it ends its children.
    exit_of_multiprocessing = multiprocessing.util._exit_function
    atexit.unregister(exit_of_multiprocessing)
    atexit.register(leave)
    atexit.register(exit_of_multiprocessing)
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)


if __name__ == "__main__":
    import huge_pages
    import numpy as np
    import torch.utils.data  # noqa: F401

    sys.path.pop(0)  # this file's
    for _module in sys.argv[2:]:
        importlib.import_module(_module)
    multiprocessing.set_start_method("fork")  # a script that came with -c has no module that another imports
    _keep_at_the_end()
    gc.freeze()  # at its end each script would examine all objects of torch, and copy the memory they lie in
    huge_pages.collapse()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for the tests
    _asked = socket.socket(fileno=int(sys.argv[1]))
    _job = _serve(_asked)
    if _job is not None:
        _asked.close()
        exec(*_become(*_job))  # no name here holds what the script has: it goes while modules are whole
