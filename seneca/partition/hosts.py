"""Several hosts that read the same files, and leave each other what they have read."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["ALONE", "REMOTE_CPU_S_PER_BYTE", "Hosts"]

REMOTE_CPU_S_PER_BYTE = 0.5e-9
"""CPU seconds for a byte from a server by TCP: 0.2e-9 of the client and 0.3e-9 of the server, as
``bench/bench_remote.py`` measures for four files at once. Each host has a server, and serves as much as it is
served."""


@dataclass(frozen=True)
class Hosts:
    """Equal hosts. Each runs the same jobs on the same dataset, and reads from the same storage.

    Args:
        count: The number of hosts.
        nic_bytes_per_s: What the network card of a host receives, and at the same time sends.
        remote_bytes: The memory for files of the server on each host (``remote=``). 0: there are no servers.
        are_apart: Whether no host runs a server itself. Then all that a server has comes by the network.

    Raises:
        ValueError: An argument is not as described. The message says which.

    Example:
        >>> hosts = Hosts(4, nic_bytes_per_s=1.25e9, remote_bytes=64 * 2**30)
        >>> hosts.served(150e9), hosts.elsewhere
        (1.0, 0.75)
    """

    count: int = 1
    nic_bytes_per_s: float = math.inf
    remote_bytes: int = 0
    are_apart: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"hosts are at least 1, but got {self.count!r}")
        if not self.nic_bytes_per_s > 0 or self.remote_bytes < 0:
            raise ValueError(
                f"nic_bytes_per_s is above 0 and remote_bytes at least 0, but got {self.nic_bytes_per_s!r} "
                f"and {self.remote_bytes!r}"
            )

    def served(self, files_bytes: float) -> float:
        """The share of the files that the servers of all hosts together have room for."""
        return min(1.0, self.count * self.remote_bytes / files_bytes)

    @property
    def elsewhere(self) -> float:
        """The share of these that are on another host."""
        return 1.0 if self.are_apart else 1.0 - 1.0 / self.count


ALONE = Hosts()
