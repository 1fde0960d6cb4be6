"""A made-up host below a folder, on which a test plants what goes wrong."""

from __future__ import annotations

import pytest

from seneca.cli.checks.finding import CheckStatus
from seneca.cli.checks.host import Host, Space

GIB = 1 << 30
SHM_LINE = "25 1 0:22 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=33554432k\n"
VARIABLES = (
    "KUBERNETES_SERVICE_HOST", "container", "SENECA_DISABLE", "SENECA_SIMD", "JSIMD_FORCENONE",
    "SLURM_JOB_ID", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LOCAL_WORLD_SIZE",
    "SLURM_NTASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
)  # fmt: skip


class Planted:
    """A host with 64 GiB of memory, of which 60 are free, a /dev/shm of 32 GiB, and 8 cores."""

    def __init__(self, root, monkeypatch):
        self.root = root
        self.uid, self.affinity = 1000, frozenset(range(8))
        self._monkeypatch = monkeypatch
        (root / "dev/shm").mkdir(parents=True)
        self.write("/proc/self/mountinfo", f"20 1 8:1 / / rw - ext4 /dev/sda1 rw\n{SHM_LINE}")
        self.write("/proc/self/cgroup", "0::/job\n")
        self.write("/sys/devices/system/cpu/online", "0-7\n")
        self.meminfo()
        self.space(32 * GIB, 30 * GIB)

    def write(self, name, text):
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def meminfo(self, **gib):
        fields = {"MemTotal": 64, "MemAvailable": 60, **gib}
        self.write("/proc/meminfo", "".join(f"{name}: {size << 20} kB\n" for name, size in fields.items()))

    def space(self, total, free, inodes=0, free_inodes=0):
        """How large /dev/shm is."""
        found = Space(int(total), int(free), inodes, free_inodes)
        self._monkeypatch.setattr(Host, "space", lambda host, name: found)

    @property
    def host(self):
        return Host(self.root, self.uid, self.affinity)


@pytest.fixture
def planted(tmp_path, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return Planted(tmp_path / "host", monkeypatch)


@pytest.fixture
def says():
    """``says(finding, verdict, words, remedy)`` compares a finding with what it must be."""

    def compare(finding, verdict, words="", remedy=""):
        assert finding.verdict is CheckStatus(verdict), finding
        assert words in finding.found, finding
        assert remedy in finding.remedy and (remedy or verdict in ("ok", "unknown")), finding
        assert "\n" not in finding.found + finding.remedy

    return compare
