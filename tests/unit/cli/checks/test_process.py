"""Traps of a process's limits and environment, planted; the limits are real ones, of a child."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import resource
import sys
import tempfile

import pytest
from engine import Process

from seneca.cli.checks import process
from seneca.cli.checks.host import Host

MIB = 1 << 20


def limited(check, host, **limits):
    """What a check finds in a child with these limits, each (soft, hard)."""

    def child(pipe):
        for name, values in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), values)
        pipe.send(check(host))

    with Process(child) as one:
        return one.receive()


def test_seneca_that_is_off_is_a_problem(planted, says, monkeypatch):
    says(process.enabled(planted.host), "ok")
    monkeypatch.setenv("SENECA_DISABLE", "1")
    says(process.enabled(planted.host), "problem", "SENECA_DISABLE is set", "unset SENECA_DISABLE")


def test_a_core_that_cannot_be_loaded_is_a_problem(planted, says, monkeypatch):
    says(process.core(planted.host), "ok")
    monkeypatch.setitem(sys.modules, "seneca._core.codec", None)
    says(process.core(planted.host), "problem", "seneca._core.codec", "libjpeg62-turbo")


@pytest.mark.small(2)
@pytest.mark.parametrize(
    ("soft", "hard", "verdict", "remedy"),
    [
        (1024, 4096, "ok", ""),
        (256, 4096, "warning", "ulimit -n 4096"),
        (256, 256, "warning", "limits.conf  # now at most 256"),
    ],
)
def test_few_open_files_are_a_warning(planted, says, soft, hard, verdict, remedy):
    finding = limited(process.open_files, planted.host, NOFILE=(soft, hard))
    says(finding, verdict, f"{soft:,}", remedy)


def test_a_limit_on_files_below_a_cache_is_a_problem(planted, says):
    says(process.address_space(planted.host), "ok", "a cache of 15 GiB")
    found = limited(process.address_space, planted.host, FSIZE=(100 * MIB, 100 * MIB))
    says(found, "problem", "a file may have 100 MiB, and a cache here 15 GiB", "ulimit -f unlimited")


def test_a_limit_on_address_space_below_a_cache_is_a_problem(planted, says):
    planted.space(1 << 50, 1 << 50)
    planted.meminfo(MemAvailable=1 << 19)
    found = limited(process.address_space, planted.host, AS=(1 << 45, 1 << 45))
    says(found, "problem", "address space may have 32 TiB, and a cache here 256 TiB", "ulimit -v unlimited")


def test_cores_that_hold_the_cache_are_a_warning(planted, says):
    planted.write("/proc/self/coredump_filter", "0000003f\n")
    core = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if core == 0:
        pytest.skip("no process here may write a core")
    says(limited(process.core_dumps, planted.host, CORE=(0, core)), "ok", "writes no core")
    found = limited(process.core_dumps, planted.host, CORE=(core, core))
    says(found, "warning", "whole cache", "echo 0x33 > /proc/self/coredump_filter")
    planted.write("/proc/self/coredump_filter", "00000033\n")
    says(limited(process.core_dumps, planted.host, CORE=(core, core)), "ok", "without the cache")
    (planted.root / "proc/self/coredump_filter").unlink()
    says(limited(process.core_dumps, planted.host, CORE=(core, core)), "unknown", "", "ulimit -c 0")


def test_the_start_method_is_the_platform_s_where_none_is_set(planted, says):
    def child(pipe):
        multiprocessing.set_start_method(None, force=True)
        pipe.send(process.start_method(planted.host))

    with Process(child) as one:
        says(one.receive(), "ok", f"{multiprocessing.get_all_start_methods()[0]}: ")


def test_a_start_method_is_shown_with_its_cost(planted, says):
    def child(pipe, method):
        multiprocessing.set_start_method(method, force=True)
        pipe.send(process.start_method(planted.host))

    for method, remedy in (
        ("fork", ""),
        ("spawn", "persistent_workers"),
        ("forkserver", "persistent_workers"),
    ):
        with Process(child, method) as one:
            says(one.receive(), "ok", f"{method}: ", remedy)


@pytest.mark.parametrize(("length", "verdict"), [(75, "ok"), (76, "problem")])
def test_a_tmpdir_whose_name_is_too_long_for_a_socket_is_a_problem(
    planted, says, monkeypatch, scratch_folder, length, verdict
):
    """It is one exactly where Python itself cannot make a socket there."""
    folder = scratch_folder / ("x" * (length - len(str(scratch_folder)) - 1))
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    def child(pipe):
        multiprocessing.process.current_process()._config.pop("tempdir", None)  # the parent's
        try:
            multiprocessing.connection.Listener().close()
            pipe.send("")
        except OSError as error:
            pipe.send(str(error))

    with Process(child) as one:
        assert bool(one.receive()) == (verdict == "problem")
    says(
        process.temporary_files(planted.host),
        verdict,
        str(folder),
        "export TMPDIR=/tmp" if verdict == "problem" else "",
    )


def test_a_folder_for_profiles_that_cannot_be_written_is_a_warning(planted, says, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    says(process.cache_folder(Host()), "ok", str(tmp_path / "new/seneca"))
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    says(process.cache_folder(Host()), "warning", f"{tmp_path}/file is no folder", "export XDG_CACHE_HOME=")


def test_a_folder_for_profiles_that_others_may_change_is_a_warning(says, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "seneca").mkdir()
    (tmp_path / "seneca").chmod(0o777)
    says(process.cache_folder(Host()), "warning", "seneca may be changed by other users", "XDG_CACHE_HOME=")


def test_a_folder_for_profiles_that_belongs_to_others_is_a_warning(says, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/of-the-system")

    def child(pipe):
        if os.geteuid() == 0:
            os.setuid(65534)
        pipe.send((os.geteuid(), process.cache_folder(Host())))

    with Process(child) as one:
        uid, finding = one.receive()
    says(finding, "warning", f"/ is no folder in which user {uid} may write", "export XDG_CACHE_HOME=")
