"""Traps of the cores, planted."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from engine import Process

from seneca.cli.checks import cores
from seneca.cli.checks.host import Host


def test_a_quota_below_the_cores_is_a_warning(planted, says):
    says(cores.quota(planted.host), "ok", "all 8 cores")
    planted.write("/sys/fs/cgroup/job/cpu.max", "250000 100000\n")
    says(cores.quota(planted.host), "warning", "the time of 2.5 cores", "OMP_NUM_THREADS=3")
    planted.write("/sys/fs/cgroup/job/cpu.max", "800000 100000\n")
    says(cores.quota(planted.host), "ok")


def test_a_quota_of_the_first_version_too(planted, says):
    planted.write("/proc/self/cgroup", "3:cpu,cpuacct:/job\n")
    planted.write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n")
    planted.write("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n")
    says(cores.quota(planted.host), "warning", "the time of 1 cores", "OMP_NUM_THREADS=1")


def test_a_process_that_is_really_pinned_is_a_warning(says):
    all_cores = Host().machine_cores
    if all_cores == 1:
        pytest.skip("this machine has one core")

    def child(pipe):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        pipe.send(cores.affinity(Host()))

    with Process(child) as process:
        says(process.receive(), "warning", f"of {all_cores}", f"taskset -pc 0-{all_cores - 1}")


def test_slurm_is_asked_for_more_cores(planted, says, monkeypatch):
    says(cores.affinity(planted.host), "ok", "8 of 8 cores")
    planted.affinity = frozenset({3})
    says(cores.affinity(planted.host), "warning", "pinned to core 3 of 8", "taskset -pc 0-7")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    says(cores.affinity(planted.host), "warning", "pinned to core 3", "srun --cpus-per-task")
    planted.write("/sys/devices/system/cpu/online", "3\n")
    says(cores.affinity(planted.host), "ok")


@pytest.mark.parametrize(
    ("name", "value", "bad"),
    [
        ("OMP_PROC_BIND", "true", True),
        ("OMP_PROC_BIND", "close", True),
        ("OMP_PROC_BIND", "FALSE", False),
        ("GOMP_CPU_AFFINITY", "0-3", True),
        ("KMP_AFFINITY", "granularity=fine,compact,1,0", True),
        ("KMP_AFFINITY", "disabled", False),
    ],
)
def test_binding_by_openmp_is_a_warning(planted, says, monkeypatch, name, value, bad):
    monkeypatch.setenv(name, value)
    finding = cores.binding(planted.host)
    says(
        finding, "warning" if bad else "ok", f"{name}={value}" if bad else "", f"unset {name}" if bad else ""
    )


@pytest.mark.parametrize(
    ("variables", "verdict", "words", "remedy"),
    [
        ({}, "ok", "not set: torch starts 8 threads in each job", "OMP_NUM_THREADS=4"),
        ({"OMP_NUM_THREADS": "8"}, "ok", "OMP_NUM_THREADS=8, 8 cores", ""),
        ({"OMP_NUM_THREADS": "16,2"}, "warning", "OMP_NUM_THREADS=16", "export OMP_NUM_THREADS=8"),
        ({"MKL_NUM_THREADS": "64"}, "warning", "MKL_NUM_THREADS=64", "export MKL_NUM_THREADS=8"),
        ({"LOCAL_WORLD_SIZE": "4"}, "warning", "they start 32 threads on 8", "OMP_NUM_THREADS=2"),
        ({"LOCAL_WORLD_SIZE": "4", "OMP_NUM_THREADS": "1"}, "ok", "OMP_NUM_THREADS=1", ""),
        ({"LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "4"}, "ok", "OMP_NUM_THREADS=4", ""),
        ({"LOCAL_WORLD_SIZE": "1"}, "ok", "", ""),
        ({"SLURM_NTASKS_PER_NODE": "2", "OMP_NUM_THREADS": "6"}, "warning", "12 threads", "THREADS=4"),
    ],
)
def test_more_threads_than_cores_are_a_warning(planted, says, monkeypatch, variables, verdict, words, remedy):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    says(cores.threads(planted.host), verdict, words, remedy)


def test_one_core_has_nothing_to_divide(planted, says):
    planted.affinity = frozenset({0})
    finding = cores.threads(planted.host)
    says(finding, "ok", "not set, 1 core")
    assert not finding.remedy


def test_the_core_says_what_it_uses(planted, says):
    code = "from seneca._core.codec import simd; print(simd())"
    printed = {
        wanted: subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "SENECA_SIMD": wanted},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for wanted in ("", "none")
    }
    assert printed["none"] == "None" and printed[""] in ("AVX2", "NEON", "None")
    if printed[""] != "None":
        says(cores.vectors(planted.host), "ok", printed[""])


def test_no_vector_instructions_are_a_warning(planted, says, monkeypatch):
    monkeypatch.setattr("seneca._core.codec.simd", lambda: None)
    says(cores.vectors(planted.host), "warning", "lacks one of AVX2", "-cpu host")
    monkeypatch.setenv("SENECA_SIMD", "none")
    says(cores.vectors(planted.host), "warning", "SENECA_SIMD=none", "unset SENECA_SIMD")
