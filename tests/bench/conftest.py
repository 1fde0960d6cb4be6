"""The benchmarks' C programs, compiled in a third of the time: how fast they are is not what is tested.

At the small size their jobs are forks, which have torch already.
"""

import multiprocessing
import os
from collections.abc import Iterator
from types import SimpleNamespace

import jobs
import pytest
import torch
from sizes import WHOLE

# They all have csrc/ in them. An object is compiled once; the next programs have links to it.
KEEPS = """#!/bin/bash
[[ " $* " == *" -c "* ]] || exec {compiler} "$@"
kept=$(md5sum <<< "${{*:1:$#-1}}")
kept={folder}/${{kept%% *}}
made=${{!#}}
ln "$kept" "$made" 2> /dev/null || {{ {compiler} "$@" && ln -f "$made" "$kept"; }}
"""


@pytest.fixture(scope="session", autouse=True)
def quickly_compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    compiler = tmp_path_factory.mktemp("objects") / "keeping-cc"
    compiler.write_text(KEEPS.format(folder=compiler.parent, compiler=os.environ.get("CC", "cc")))
    compiler.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SENECA_CFLAGS", os.environ.get("SENECA_CFLAGS", "") + " -O0")
        patch.setenv("CC", str(compiler))
        yield


@pytest.fixture(autouse=True)
def quickly_started(monkeypatch: pytest.MonkeyPatch) -> None:
    if WHOLE:
        return
    run, fork = jobs._run, multiprocessing.get_context("fork")

    def run_in_a_fork(*arguments: object) -> None:
        torch.set_num_threads(1)  # OpenMP's threads are the parent's and did not come along
        run(*arguments)

    monkeypatch.setattr(jobs, "_run", run_in_a_fork)
    monkeypatch.setattr(jobs, "multiprocessing", SimpleNamespace(get_context=lambda _: fork))
