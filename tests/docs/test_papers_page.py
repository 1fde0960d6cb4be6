"""The commands of docs/papers.md run, at a small size: a command that is not in SMALL has no size yet."""

import shlex
import sys

import bench_gap
import bench_sampling
import pages
import pytest
from papers import __main__ as bench_papers
from papers import kept_caches
from sizes import size

from seneca.testing import make_pictures

PAGE = pages.ROOT / "docs" / "papers.md"
SMALL = {
    "bench.bench_sampling": "--samples 400 --peer-samples 200 --seeds 1 --workers 1",
    "bench.papers.kept_caches": "--orders 1",
    "bench.papers": "--only kept_caches --storage given --html papers.html --json papers.json",
    "bench/bench_gap.py": "--pictures 16 --batch 8 --epochs 2 --step 0 --validate 0 --size 16",
}
"""Arguments that make a command small; they come last, and so they count."""
MAINS = {
    "bench.bench_sampling": bench_sampling.main,
    "bench.papers.kept_caches": kept_caches.main,
    "bench.papers": bench_papers.main,
    "bench/bench_gap.py": lambda arguments: bench_gap.main(),
}
RUN_ELSEWHERE = {"pytest tests/bench/papers"}  # by `make test`


def commands():
    shown = {code for code in pages.code_in_text(PAGE) if code.startswith(("python ", "pytest "))}
    return sorted(shown - RUN_ELSEWHERE)


def test_the_page_has_commands_of_each_kind():
    programs = {shlex.split(command.replace("python -m ", "python "))[1] for command in commands()}
    assert programs == set(SMALL)


@pytest.mark.parametrize("command", commands())
def test_a_command_runs_and_prints_its_seed_or_its_table(command, tmp_path, monkeypatch, capsys):
    make_pictures(tmp_path / "train", count=24, classes=2, sides=(80, 120))
    (tmp_path / "mnt").symlink_to(tmp_path / "train")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kept_caches, "CAPACITIES_GB", size((240,), kept_caches.CAPACITIES_GB))
    monkeypatch.setattr(kept_caches.run, "__defaults__", size((1,), kept_caches.run.__defaults__))
    monkeypatch.setattr(bench_papers, "IN_MEMORY", 48)
    program, *arguments = shlex.split(command.replace("python -m ", "python "))[1:]
    arguments += shlex.split(SMALL[program])
    monkeypatch.setattr(sys, "argv", [program, *arguments])
    assert not MAINS[program](arguments)
    printed = capsys.readouterr().out
    assert "seed" in printed or "first" in printed
    if program == "bench.papers":
        assert (tmp_path / "papers.html").stat().st_size and (tmp_path / "papers.json").stat().st_size
