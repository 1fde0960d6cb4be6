"""What do five papers about shared loading find, and what do their experiments give with Seneca?

Question. Each paper says how much its system saves: time, reads, CPU, waiting. The same experiments with
real jobs on this machine: what do Seneca, torch's DataLoader, DALI and a cache like MinIO give?

Method. One module an experiment; its docstring and ``conditions`` say how it measures. Slow storage gives 40
MB/s to all jobs together: root gets a disk that the kernel holds back (``--storage disk``), others a token
bucket that is preloaded (``--storage bucket``); ``given`` takes the folder as it is. All orders have seeds,
which are printed. The papers' machines had other storage, cores and GPUs: compare ratios and shares, never
seconds. Run it on a quiet machine.

    python -m bench.papers --data train/ --html papers.html
    python -m bench.papers --data train/ --only makespan,hits
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for place in (str(ROOT / "bench"), str(ROOT)):
    if place not in sys.path:
        sys.path.insert(0, place)

import report  # noqa: E402
import slow_reads  # noqa: E402
from bench_jobs import pictures  # noqa: E402
from compiled import CompileError  # noqa: E402
from jobs import JobFailed  # noqa: E402
from links import make_links, pictures_of  # noqa: E402

from papers.disk import NoDisk, slow_disk  # noqa: E402
from papers.page import page  # noqa: E402
from papers.printed import show  # noqa: E402
from papers.result import Result  # noqa: E402
from papers.setup import SEED, Setup, loaders_here  # noqa: E402
from papers.slow_storage import Bucket, Storage  # noqa: E402

EXPERIMENTS = (
    "makespan",
    "hits",
    "search",
    "search_sound",
    "joader",
    "imbalance",
    "shares",
    "kept_caches",
    "accuracy",
)
RATE = 40_000_000
FILES = 1500
IN_MEMORY = 6000  # samples: links to the pictures


def here() -> list[str]:
    """The experiments that this checkout has: modules with a function ``run``."""
    there = [name for name in EXPERIMENTS if importlib.util.find_spec(f"papers.{name}") is not None]
    return [name for name in there if hasattr(importlib.import_module(f"papers.{name}"), "run")]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line, checked; a mistake in it ends the process with status 2."""
    experiments = here()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of class folders of pictures; made up if not given")
    parser.add_argument("--cifar", type=Path, help="folder with train/ and test/; made up if not given")
    parser.add_argument("--sound", type=Path, help="folder of WAVs of one channel; tones if not given")
    parser.add_argument("--only", default=",".join(experiments), help=f"of {','.join(experiments)}")
    parser.add_argument("--html", type=Path, default=Path("papers.html"), help="the page (papers.html)")
    parser.add_argument("--json", type=Path, help="also write all results to this file")
    parser.add_argument("--peer-python", help="the interpreter that has DALI")
    parser.add_argument(
        "--files", type=int, default=FILES, help="files of the slow disk, those of --data in turn"
    )
    parser.add_argument(
        "--storage",
        choices=("auto", "disk", "bucket", "given"),
        default="auto",
        help="auto: a disk, or a bucket where none can be made",
    )
    options = parser.parse_args(arguments)
    options.only = options.only.split(",")
    for name in options.only:
        if name not in experiments:
            parser.error(f"no experiment {name}; there are {', '.join(experiments)}")
    for folder in (options.data, options.cifar, options.sound):
        if folder is not None and not folder.is_dir():
            parser.error(f"no such folder: {folder}")
    if options.files < 1:
        parser.error("--files must be at least 1")
    if options.peer_python is not None and shutil.which(options.peer_python) is None:
        parser.error(f"no such interpreter: {options.peer_python}")
    if options.storage in ("bucket", "given") and options.data is None:
        parser.error(f"--storage {options.storage} needs --data")
    return options


@contextmanager
def slow_storage(options: argparse.Namespace, data: Path, arguments: Sequence[str]) -> Iterator[Storage]:
    """The storage that the options ask for. For a bucket, this program becomes the same with it preloaded.

    Raises:
        NoDisk: none can be made, and no bucket either without ``--data``.
        CompileError, NotHeldBack: of the bucket.
    """
    if options.storage == "given":
        yield Storage(data)
        return
    if not slow_reads.was_run_anew():
        try:
            if options.storage != "bucket":
                with slow_disk(data, options.files, RATE) as disk:
                    yield disk
                return
        except NoDisk as error:
            if options.storage == "disk":
                raise
            if options.data is None:
                raise NoDisk(f"{error}; a token bucket in place of the disk needs --data") from error
            print(f"A token bucket takes the place of a slow disk: {error}", flush=True)
        slow_reads.run_anew(__file__, arguments, data, RATE)
    with slow_reads.held_back(str(pictures_of(data)[0])):
        yield Bucket(data, RATE)


def run(options: argparse.Namespace, setup: Setup, machine: str) -> int:
    """All experiments that are asked for; the exit status, 1 where one failed. The page grows with each."""
    results: list[Result] = []
    failed = False
    for name in options.only:
        began = time.monotonic()
        try:
            result: Result = importlib.import_module(f"papers.{name}").run(setup)
        except JobFailed as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
            continue
        result.took_s = time.monotonic() - began
        results.append(result)
        show(result)
        options.html.write_text(page(results, machine))
        if options.json is not None:
            options.json.write_text(json.dumps([as_json(each) for each in results], indent=1) + "\n")
    if results:
        print(f"\nThe page: {options.html}")
    return 1 if failed else 0


def as_json(result: Result) -> dict:
    """The fields of a result, and of each goal whether it is met."""
    goals = [{**dataclasses.asdict(goal), "met": goal.met} for goal in result.goals]
    return {**dataclasses.asdict(result), "goals": goals}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write the page, and return the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse(arguments)
    machine = report.machine(["seneca-loader", "torch", "torchvision", "pillow-simd"])
    try:
        with (
            pictures(options.data) as data,
            slow_storage(options, data, arguments) as storage,
            tempfile.TemporaryDirectory(prefix="seneca-bench-") as fast,
        ):
            print(f"{machine}\nseeds begin with {SEED}; {storage.words()}", flush=True)
            links = Path(fast) / "links"
            make_links(copied(data, Path(fast) / "pictures"), links, IN_MEMORY)
            loaders, missing = loaders_here(storage, options.peer_python)
            print(*missing, sep="\n", flush=True)
            setup = Setup(
                storage, links, IN_MEMORY, options.cifar, loaders, options.peer_python, sound=options.sound
            )
            return run(options, setup, machine)
    except (FileNotFoundError, NoDisk, CompileError, slow_reads.NotHeldBack) as error:
        print(f"bench.papers: {error}", file=sys.stderr)
        return 2


def copied(data: Path, to: Path) -> Path:
    """The pictures in a folder that nothing holds back."""
    for path in pictures_of(data):
        target = to / path.relative_to(data)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return to


if __name__ == "__main__":
    sys.exit(main())
