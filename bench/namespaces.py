"""Hosts that share nothing but a network, on one machine: network namespaces on a bridge, with limited rates.

::

    host 0 --veth, tbf--+
    host 1 --veth, tbf--+-- bridge, in a namespace of its own
    host 2 --veth, tbf--+

    with network(3, megabits=1000) as hosts:
        subprocess.run([*hosts[0].command, "ping", "-c1", hosts[1].address])

Nothing of this machine's own network is touched. All of it goes when the namespaces are removed. This needs
root, and the commands ``ip`` and ``tc`` (Debian: ``iproute2``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

__all__ = ["Namespace", "network", "why_not"]

BURST = "256kb"  # more than the 64 KiB that the kernel hands on as one packet
LATENCY = "50ms"  # that a packet waits before it is dropped


class Namespace(NamedTuple):
    """A host of a network: its address there, and what to put before a command that is to run on it."""

    name: str
    address: str

    @property
    def command(self) -> list[str]:
        return ["ip", "netns", "exec", self.name]


def why_not() -> str:
    """Why there can be no such network here, and what would change that; empty: there can be one."""
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"no command {tool}; apt-get install iproute2"
    try:
        with network(1, megabits=100):
            return ""
    except subprocess.CalledProcessError as error:
        return f"{' '.join(error.cmd)}: {error.stderr.strip()}; run as root, where namespaces are allowed"


@contextmanager
def network(hosts: int, *, megabits: int) -> Iterator[list[Namespace]]:
    """Hosts whose links carry so many megabits a second each way.

    Raises:
        subprocess.CalledProcessError: A namespace, link or limit cannot be made; ``stderr`` says why.
    """
    own = f"seneca-{os.getpid()}"
    found = [Namespace(f"{own}-{i}", f"192.168.77.{i + 1}") for i in range(hosts)]
    with ExitStack() as made:
        switch = _namespace(made, f"{own}-switch")
        _ip(switch, "link", "add", "bridge", "type", "bridge")
        _ip(switch, "link", "set", "bridge", "up")
        for i, host in enumerate(found):
            _namespace(made, host.name)
            _ip(switch, "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth0", "netns", host.name)
            _ip(switch, "link", "set", f"port{i}", "master", "bridge", "up")
            _ip(host.name, "address", "add", f"{host.address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip(host.name, "link", "set", device, "up")
            for where, device in ((host.name, "eth0"), (switch, f"port{i}")):
                limit = ["tbf", "rate", f"{megabits}mbit", "burst", BURST, "latency", LATENCY]
                _run("ip", "netns", "exec", where, "tc", "qdisc", "add", "dev", device, "root", *limit)
        yield found


def _namespace(made: ExitStack, name: str) -> str:
    _run("ip", "netns", "add", name)
    made.callback(_run, "ip", "netns", "delete", name)
    return name


def _ip(namespace: str, *words: str) -> None:
    _run("ip", "-n", namespace, *words)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
