"""How fast is the way from a JPEG to a normalised float32 batch, on one core and on all?

Question. How much of what a core can decode at best reaches the training loop: through the codec in
a bare C loop, through the loader, and through the loaders that others make?

Method. All rows see the same pictures. The C loops (bench/native/decode_loop.c, compiled with csrc/
when this runs) have the files in memory and no loader around the codec. "limit" decodes, of each
picture, only the region that RandomResizedCrop(224) asks for, exactly as torchvision on Pillow
would, and does nothing with it: no loader that decodes as Seneca does can be faster. "exact" and
"fast" do the whole way on the same crops. Loaders read a folder of links to the same files, from the
page cache, with as many workers as cores; those that take boxes crop where the C loops crop, the
others draw boxes from the same ranges. Every measurement is a process of its own, held to one core
or to all; after ``--warm`` seconds it counts for ``--seconds``. Rounds go over all rows in turn, and
a row shows the median of its rounds, with the spread beside it. The CPU time that an image costs
moves less than images/s when something else runs on the machine. Read ratios within one run.

    python bench/bench_decode.py --data train/ --json decode.json
    python bench/bench_decode.py --data train/ --only limit,exact,fast --seconds 2
    python bench/bench_decode.py --data train/ --peer-python peers/bin/python
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for place in (str(ROOT / "bench"), str(ROOT)):  # run as a file, or with -m: both find all of it
    if place not in sys.path:
        sys.path.insert(0, place)

import report  # noqa: E402
from bench_jobs import pictures  # noqa: E402
from compiled import CompileError, compile_program  # noqa: E402
from decode_peers import PEERS, read_boxes  # noqa: E402
from links import make_links, pictures_of  # noqa: E402

LOOPS = {
    "limit": "C loop: decodes the region of the crop, exactly, and nothing else",
    "exact": "C loop: the whole way to float32, exact",
    "fast": "C loop: the whole way to float32, decode=fast",
    "recode": "C loop: the whole way, which also makes the RECODED payload, of each picture that has one",
    "recoded": "C loop: from RECODED payloads in memory to float32",
    "decoded": "C loop: from decoded pictures of 400 x 470 in memory to float32",
    "augmented": "C loop: from staged copies in memory to float32",
    "copy-decoded": "memcpy of the bytes that `decoded` reads and writes",
    "copy-augmented": "memcpy of the bytes that `augmented` reads and writes",
    "fill": "memset of the bytes that each writes",
}
OURS = ("exact", "fast", "recoded", "seneca")
COPIES = {"decoded": "copy-decoded", "augmented": "copy-augmented"}
DECODING = {"exact", "fast", "recoded", *PEERS}  # whose yardstick is the limit
NAMES = [*LOOPS, *PEERS]
EPOCHS = 8  # after as many, the crops repeat; decode_loop.c has the same number
JPEG_SUFFIXES = {".jpg", ".jpeg"}
PATIENCE_S = 900.0


class MeasurementFailed(RuntimeError):
    """A measuring process ended without a result; the message is its last words."""


@dataclass(frozen=True)
class Material:
    """What all measurements work on."""

    program: Path  # decode_loop
    files: Path  # a list, one a line
    boxes: Path  # see decode_peers.read_boxes
    folder: Path  # class folders of links to the files
    samples: int  # links in it


@contextmanager
def held_to(cpus: Sequence[int]) -> Iterator[None]:
    """What is started inside runs on these processors alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def last_line(command: Sequence[str | Path], cpus: Sequence[int]) -> Any:
    """Run a command on these processors; the JSON in the last line of its output.

    Raises:
        MeasurementFailed: it ended with another status than 0, or was silent for fifteen minutes.
    """
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with held_to(cpus):
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
    with process:
        try:
            said, complaint = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise MeasurementFailed(f"no result in {PATIENCE_S:.0f} s") from None
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0 or not said.strip():
        raise MeasurementFailed((complaint.strip() or f"status {process.returncode}").splitlines()[-1])
    return json.loads(said.splitlines()[-1])


def measure(name: str, cpus: Sequence[int], material: Material, options: argparse.Namespace) -> dict:
    """One measurement of one row: ``per_s`` and ``cpu_ms``."""
    if name in LOOPS:
        command = [material.program, name, len(cpus), options.warm, options.seconds, material.files]
        counted = last_line([str(word) for word in command], cpus)
        if counted["images"] == 0:
            raise MeasurementFailed(f"not one image in {options.seconds} s")
        return {
            "per_s": counted["images"] / counted["elapsed_s"],
            "cpu_ms": 1000 * counted["cpu_s"] / counted["images"],
        }
    command = [python_of(name, options), ROOT / "bench" / "decode_peers.py", "measure", name]
    for option, value in [
        ("--folder", material.folder),
        ("--samples", material.samples),
        ("--boxes", material.boxes),
        ("--batch", options.batch),
        ("--warm", options.warm),
        ("--seconds", options.seconds),
    ]:
        command += [option, value]
    return last_line([str(word) for word in command], cpus)


def python_of(name: str, options: argparse.Namespace) -> str:
    """The interpreter that measures a loader: this one for ours, the peers' for theirs."""
    return sys.executable if name == "seneca" else options.peer_python


def median_row(name: str, cores: int, rounds: Sequence[dict]) -> dict[str, Any]:
    """The row of one thing on so many cores from its rounds."""
    per_s = [each["per_s"] for each in rounds]
    middle = statistics.median(per_s)
    return {
        "what": name,
        "cores": cores,
        "per_s": round(middle, 1),
        "cpu_ms": round(statistics.median(each["cpu_ms"] for each in rounds), 4),
        "spread": round((max(per_s) - min(per_s)) / middle, 3),
        "rounds": [round(each, 1) for each in per_s],
    }


def lines_of(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The rows as cells, with their ratio to the limit, by clock and by CPU time, or to memcpy, on as
    many cores."""
    by_key = {(row["what"], row["cores"]): row for row in rows}
    lines = []
    for row in rows:
        limit = by_key.get(("limit", row["cores"])) if row["what"] in DECODING else None
        copy = by_key.get((COPIES.get(row["what"]), row["cores"]))
        lines.append(
            [
                row["what"],
                str(row["cores"]),
                f"{row['per_s']:,.0f}",
                f"{row['spread']:.0%}",
                f"{row['per_s'] / limit['per_s']:.3f}" if limit else "",
                f"{limit['cpu_ms'] / row['cpu_ms']:.3f}" if limit else "",
                f"{row['per_s'] / copy['per_s']:.3f}" if copy else "",
                f"{row['cpu_ms']:.3f}",
            ]
        )
    return lines


def duels(rows: Sequence[dict[str, Any]], cores: int) -> tuple[list[str], list[list[str]]]:
    """Ours against each peer, as many times as fast: the head and the lines of a table."""
    per_s = {row["what"]: row["per_s"] for row in rows if row["cores"] == cores}
    ours = [name for name in OURS if name in per_s]
    theirs = [name for name in per_s if name in PEERS and name not in OURS]
    lines = [[peer, *(f"{per_s[our] / per_s[peer]:.2f} x" for our in ours)] for peer in theirs]
    return ["against", *ours], lines


def choose(data: Path, count: int) -> list[Path]:
    """At most ``count`` JPEGs from all over ``data``, shuffled alike each time: so a second of
    measuring sees as good a mix as a minute.

    Raises:
        FileNotFoundError: there is none.
    """
    found = [path.absolute() for path in pictures_of(data) if path.suffix.lower() in JPEG_SUFFIXES]
    if not found:
        raise FileNotFoundError(f"no JPEGs in the class folders of {data}")
    chosen = [found[k * len(found) // count] for k in range(count)] if len(found) > count else found
    random.Random(0).shuffle(chosen)
    return chosen


def prepare(data: Path, work: Path, options: argparse.Namespace) -> Material:
    """Compile the loops, let them say where they crop, link the pictures for the loaders."""
    program = compile_program("decode_loop", work)
    files, boxes, folder = work / "files", work / "boxes", work / "links"
    files.write_text("".join(f"{path}\n" for path in choose(data, options.images)))
    said = subprocess.run([program, "boxes", str(EPOCHS), files], stdout=subprocess.PIPE, text=True)
    if said.returncode != 0:
        raise MeasurementFailed("the C loop could not read the pictures")
    boxes.write_text(said.stdout)
    crops = read_boxes(boxes)
    kept = [crop.path for crop in crops[: len(crops) // EPOCHS]]  # the others do not decode
    files.write_text("".join(f"{path}\n" for path in kept))
    make_links(data, folder, options.links, [Path(path) for path in kept])
    return Material(program, files, boxes, folder, options.links)


def present(names: Sequence[str], options: argparse.Namespace) -> list[str]:
    """Those that can run here; what the others lack is printed."""
    loaders = [name for name in names if name not in LOOPS]
    cpus = sorted(os.sched_getaffinity(0))
    answered: dict[str, Any] = {}
    for python in dict.fromkeys(python_of(name, options) for name in loaders):
        answers = last_line([python, ROOT / "bench" / "decode_peers.py", "about"], cpus)
        answered |= {name: answers[name] for name in loaders if python_of(name, options) == python}
    for name, answer in answered.items():
        if answer["missing"]:
            print(f"{name} is left out: it needs {answer['missing']}")
        else:
            print(f"{name}: {PEERS[name].text} ({', '.join(answer['versions'])})")
    return [name for name in names if name in LOOPS or not answered[name]["missing"]]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line, checked; a mistake in it ends the process with status 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of class folders of JPEGs; made up if not given")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a measurement")
    parser.add_argument("--warm", type=float, default=1.0, help="seconds it runs before that")
    parser.add_argument("--rounds", type=int, default=3, help="over all rows; a row shows its median")
    parser.add_argument("--only", default=",".join(NAMES), help=f"rows to measure, of {','.join(NAMES)}")
    parser.add_argument("--cores", default="1,all", help="1, all, or numbers between")
    parser.add_argument("--images", type=int, default=2000, help="pictures used, at most; held in memory")
    parser.add_argument("--links", type=int, default=20_000, help="samples an epoch of the loaders")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--peer-python", default=sys.executable, help="the interpreter that has the peers")
    options = parser.parse_args(arguments)
    options.only = options.only.split(",")
    for name in options.only:
        if name not in NAMES:
            parser.error(f"no row {name}; there are {', '.join(NAMES)}")
    most = len(os.sched_getaffinity(0))
    try:
        counts = [most if word == "all" else int(word) for word in options.cores.split(",")]
    except ValueError:
        parser.error(f"--cores takes all, or numbers such as 1,4, not {options.cores}")
    if min(counts) < 1 or max(counts) > most:
        parser.error(f"--cores: this process may use 1 to {most}")
    options.cores = list(dict.fromkeys(counts))
    if options.seconds <= 0 or options.warm < 0:
        parser.error("--seconds must be positive, and --warm not negative")
    if min(options.rounds, options.images, options.links, options.batch) < 1:
        parser.error("--rounds, --images, --links and --batch must be at least 1")
    if options.data is not None and not options.data.is_dir():
        parser.error(f"no such folder: {options.data}")
    if shutil.which(options.peer_python) is None:
        parser.error(f"no such interpreter: {options.peer_python}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return the exit status: 1 when one of our own rows failed."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that all is cleaned up
    try:
        with (
            pictures(options.data) as data,
            tempfile.TemporaryDirectory(prefix="seneca-bench-decode-") as work,
        ):
            return run(options, prepare(data, Path(work), options))
    except (CompileError, FileNotFoundError, MeasurementFailed) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; all measurements have ended", file=sys.stderr)
        return 130


def run(options: argparse.Namespace, material: Material) -> int:
    """All rounds, the tables, the JSON."""
    print(report.machine(["numpy", "torch", "pillow-simd", "pillow"]))
    kept = material.files.read_text().splitlines()
    kilobytes = sum(Path(file).stat().st_size for file in kept) / len(kept) / 1000
    print(f"{len(kept)} pictures of {kilobytes:.0f} kB")
    names = present(options.only, options)
    cpus = sorted(os.sched_getaffinity(0))
    results: dict[tuple[str, int], list[dict]] = {(name, n): [] for n in options.cores for name in names}
    failed: dict[str, str] = {}
    for number in range(options.rounds):
        for name, cores in results:
            if name in failed:
                continue
            try:
                results[name, cores].append(measure(name, cpus[:cores], material, options))
            except MeasurementFailed as error:
                failed[name] = str(error)
                print(f"{name} has failed and is left out: {error}", file=sys.stderr)
                continue
            per_s = results[name, cores][-1]["per_s"]
            print(f"  round {number + 1}, {cores} cores, {name}: {per_s:,.0f} images/s", flush=True)
    rows = [median_row(*key, rounds) for key, rounds in results.items() if key[0] not in failed]
    title = f"median of {options.rounds} rounds of {options.seconds:g} s"
    head = ["what", "cores", "images/s", "spread", "of limit", "by CPU", "of memcpy", "CPU ms"]
    report.print_table(title, head, lines_of(rows))
    for cores in options.cores:
        head, lines = duels(rows, cores)
        if lines and len(head) > 1:
            report.print_table(f"ours over theirs, {cores} cores", head, lines)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(name in LOOPS or name in OURS for name in failed) else 0


if __name__ == "__main__":
    sys.exit(main())
