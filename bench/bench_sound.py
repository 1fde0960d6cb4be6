"""How fast do sounds become batches, whole and cropped, compared with other loaders?

Question. FLACs of 30 s, stereo, at 44,100 frames a second become mono at 8,000: the whole clip, and a random
crop of a sixth. How many clips/s does one job of Seneca's give that keeps nothing, how many from the second
epoch on if it keeps DECODED, and how many do two jobs give that share? How many give torch's DataLoader with
soundfile and torchaudio's resample, DALI's decoder on the CPU, and SPDL on FFmpeg?

Method. The benchmark makes the clips: from recordings of ``--data``, which it joins, or from tones. Both are
mixed with noise of -60 dB, since silence costs a FLAC nothing. Links to them make epochs long. Each
measurement is a process of its own with as many workers as cores; the files come from the page cache. After
``--warm`` seconds it counts for ``--seconds``. Rounds go over all rows in turn; a ratio is the median of the
rounds' ratios. The processors' time of a clip counts worker processes too.

DALI and SPDL may have an environment of their own (``--peer-python``); bench/README.md says how to make it.
What is missing is named. All filters have six zero crossings to each side. Their windows differ, and so does
what lies beyond the ends of a crop that is decoded alone (``torch-part``, ``spdl``).

    python -m bench.bench_sound --data recordings/ --json sound.json
    python -m bench.bench_sound --only torch,seneca --rounds 1
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import wave
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
for place in (str(ROOT / "bench"), str(ROOT)):  # run as a file, or with -m: both find all of it
    if place not in sys.path:
        sys.path.insert(0, place)

import report  # noqa: E402
from bench_decode import MeasurementFailed, last_line  # noqa: E402
from bench_jobs import left_behind  # noqa: E402
from links import make_links  # noqa: E402
from sound_peers import FILE_RATE, PEERS, RATE, paths_of  # noqa: E402

CHANNELS, CLASSES = 2, 10
NOISE = 0.001  # of the largest value
SHAPES = {"whole": 1, "sixth": 6}
"""Name of a shape: which part of a clip it is."""
AGAINST = (("seneca", "torch"), ("seneca", "dali"), ("seneca", "spdl"), ("seneca", "torch-part"))
AGAINST += (("seneca-decoded", "torch"), ("seneca-two", "seneca"))


def recordings(data: Path | None, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, int]]:
    """Sounds without end, each of one channel with its rate: those of ``data`` in turn, or tones.

    Raises:
        FileNotFoundError: ``data`` has no WAV file.
    """
    if data is None:
        while True:
            time = np.arange(round(FILE_RATE * rng.uniform(0.2, 0.8))) / FILE_RATE
            pitch = rng.uniform(100, 800) * (1 + 0.1 * np.sin(2 * np.pi * rng.uniform(1, 6) * time))
            phase = 2 * np.pi * np.cumsum(pitch) / FILE_RATE
            tone = sum(np.sin(k * phase) / k for k in range(1, 9)) * np.hanning(len(time))
            yield tone, FILE_RATE
    paths = sorted(data.rglob("*.wav"))
    if not paths:
        raise FileNotFoundError(f"no .wav files below {data}")
    while True:
        with wave.open(str(paths[rng.integers(len(paths))])) as file:
            if file.getsampwidth() != 2 or file.getnchannels() != 1:
                raise FileNotFoundError(f"--data takes WAVs of 16 bits and one channel, below {data}")
            yield np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768, file.getframerate()


def make_clips(folder: Path, data: Path | None, count: int, seconds: float) -> None:
    """``count`` FLACs in class folders: recordings one after the other, each from another side."""
    import soundfile

    rng = np.random.default_rng(0)
    source, frames = recordings(data, rng), round(FILE_RATE * seconds)
    for number in range(count):
        clip, at = NOISE * rng.standard_normal((frames, CHANNELS)), 0
        while at < frames:
            sound, rate = next(source)
            places = np.arange(0, len(sound), rate / FILE_RATE)
            sound = np.interp(places, np.arange(len(sound)), sound)[: frames - at]
            side = rng.uniform(0.2, 0.8)
            peak = max(np.abs(sound).max(), 1e-9) / 0.8
            clip[at : at + len(sound)] += sound[:, None] / peak * (side, 1 - side)
            at += len(sound) + round(rng.uniform(0, 0.2) * FILE_RATE)
        inside = folder / f"class_{number % CLASSES}"
        inside.mkdir(parents=True, exist_ok=True)
        soundfile.write(inside / f"{number:04d}.flac", clip, FILE_RATE, subtype="PCM_16")


def measure(name: str, shape: str, folder: Path, cache: str, options: argparse.Namespace) -> dict:
    """One measurement of one row: ``per_s`` and ``cpu_ms``."""
    clip_frames = round(RATE * options.clip_seconds)
    command = [python_of(name, options), ROOT / "bench" / "sound_peers.py", "measure", name]
    for option, value in [
        ("--folder", folder),
        ("--samples", options.links),
        ("--frames", clip_frames // SHAPES[shape]),
        ("--clip-frames", clip_frames),
        ("--batch", options.batch),
        ("--cache", cache),
        ("--warm", options.warm),
        ("--seconds", options.seconds),
    ]:
        command += [option, value]
    return last_line([str(word) for word in command], sorted(os.sched_getaffinity(0)))


def python_of(name: str, options: argparse.Namespace) -> str:
    """The interpreter that measures a loader: this one for Seneca and torch, the peers' for the others."""
    return options.peer_python if name in ("dali", "spdl") else sys.executable


def present(names: Sequence[str], options: argparse.Namespace) -> list[str]:
    """Those that can run here; what the others lack is printed."""
    cpus, answered = sorted(os.sched_getaffinity(0)), {}
    for python in dict.fromkeys(python_of(name, options) for name in names):
        answers = last_line([python, ROOT / "bench" / "sound_peers.py", "about"], cpus)
        answered |= {name: answers[name] for name in names if python_of(name, options) == python}
    for name in names:
        if answered[name]["missing"]:
            print(f"{name} is left out: it needs {answered[name]['missing']}")
        else:
            print(f"{name}: {answered[name]['text']} ({', '.join(answered[name]['versions'])})")
    return [name for name in names if not answered[name]["missing"]]


def row_of(name: str, shape: str, rounds: list[dict], torch: list[dict] | None) -> dict[str, Any]:
    """The row of one loader from its rounds, and from torch's, if it ran."""
    row: dict[str, Any] = {
        "what": name,
        "shape": shape,
        "per_s": round(statistics.median(one["per_s"] for one in rounds), 1),
        "cpu_ms": round(statistics.median(one["cpu_ms"] for one in rounds), 3),
        "rounds": [one["per_s"] for one in rounds],
        "vs_torch": ratio(rounds, torch, "per_s"),
        "cpu_vs_torch": ratio(torch, rounds, "cpu_ms"),
    }
    if "prepared_per_delivered" in rounds[0]:
        row["prepared_per_delivered"] = statistics.median(one["prepared_per_delivered"] for one in rounds)
    return row


def ratio(ours: list[dict] | None, theirs: list[dict] | None, what: str) -> float | None:
    """The median of the rounds' ratios; None: one of both did not run."""
    if not ours or not theirs:
        return None
    return round(
        statistics.median(one[what] / other[what] for one, other in zip(ours, theirs, strict=True)), 2
    )


def lines_of(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The rows as cells."""
    return [
        [
            row["shape"],
            row["what"],
            f"{row['per_s']:,.0f}",
            f"{(max(row['rounds']) - min(row['rounds'])) / row['per_s']:.0%}",
            times(row["vs_torch"]),
            f"{row['cpu_ms']:.2f}",
            times(row["cpu_vs_torch"]),
        ]
        for row in rows
    ]


def duels(results: dict[tuple[str, str], list[dict]]) -> list[list[str]]:
    """Ours against others, a line each: how many times as fast, by the clock and by CPU time."""
    lines = []
    for ours, theirs in AGAINST:
        cells = []
        for shape in SHAPES:
            pair = results.get((shape, ours)), results.get((shape, theirs))
            cells += [times(ratio(*pair, "per_s")), times(ratio(*reversed(pair), "cpu_ms"))]
        if any(cells):
            lines.append([f"{ours} / {theirs}", *cells])
    return lines


def times(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f} x"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line, checked; a mistake in it ends the process with status 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of WAVs of one channel; tones if not given")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a measurement")
    parser.add_argument("--warm", type=float, default=1.0, help="seconds it runs before that")
    parser.add_argument("--rounds", type=int, default=3, help="over all rows; a row shows its median")
    parser.add_argument("--only", default=",".join(PEERS), help=f"loaders to measure, of {','.join(PEERS)}")
    parser.add_argument("--clips", type=int, default=200, help="different ones")
    parser.add_argument("--clip-seconds", type=float, default=30.0)
    parser.add_argument("--links", type=int, default=1500, help="samples an epoch")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--peer-python", default=sys.executable, help="the interpreter that has the peers")
    options = parser.parse_args(arguments)
    options.only = options.only.split(",")
    for name in options.only:
        if name not in PEERS:
            parser.error(f"no loader {name}; there are {', '.join(PEERS)}")
    if options.seconds <= 0 or options.warm < 0 or options.clip_seconds < 1:
        parser.error("--seconds must be positive, --clip-seconds at least 1, and --warm not negative")
    if min(options.rounds, options.clips, options.links, options.batch) < 1:
        parser.error("--rounds, --clips, --links and --batch must be at least 1")
    if options.data is not None and not options.data.is_dir():
        parser.error(f"no such folder: {options.data}")
    if shutil.which(options.peer_python) is None:
        parser.error(f"no such interpreter: {options.peer_python}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return the exit status: 1 when a measurement of ours failed."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that all is cleaned up
    cache = f"bench-sound-{os.getpid()}"
    try:
        with tempfile.TemporaryDirectory(prefix="seneca-bench-sound-") as work:
            clips, folder = Path(work) / "clips", Path(work) / "links"
            make_clips(clips, options.data, options.clips, options.clip_seconds)
            paths = [Path(path) for path in paths_of(clips)]
            make_links(clips, folder, options.links, paths)
            kilobytes = sum(path.stat().st_size for path in paths) / len(paths) / 1000
            decoded = 4 * RATE * options.clip_seconds / 1000
            print(report.machine(["numpy", "torch", "soundfile"]))
            print(f"{len(paths)} clips of {options.clip_seconds:g} s and {kilobytes:,.0f} kB, ", end="")
            print(f"{decoded:,.0f} kB as DECODED")
            return run(options, folder, cache)
    except (FileNotFoundError, MeasurementFailed) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; all measurements have ended", file=sys.stderr)
        return 130
    finally:
        left_behind(f"{cache}-*")  # DECODED, which is kept for all rounds


def run(options: argparse.Namespace, folder: Path, cache: str) -> int:
    """All rounds, the tables, the JSON."""
    names = present(options.only, options)
    keys = [(shape, name) for shape in SHAPES for name in names]
    keys = [key for key in keys if key[0] != "whole" or not PEERS[key[1]].only_crops]
    results: dict[tuple[str, str], list[dict]] = {key: [] for key in keys}
    failed: set[tuple[str, str]] = set()
    for number in range(options.rounds):
        for key in keys:
            shape, name = key
            if key in failed:
                continue
            try:
                results[key].append(measure(name, shape, folder, cache, options))
            except MeasurementFailed as error:
                failed.add(key)
                print(f"{shape}, {name} has failed and is left out: {error}", file=sys.stderr)
                continue
            per_s = results[key][-1]["per_s"]
            print(f"  round {number + 1}, {shape}, {name}: {per_s:,.1f} clips/s", flush=True)
    done = {key: rounds for key, rounds in results.items() if key not in failed}
    rows = [row_of(name, shape, done[shape, name], done.get((shape, "torch"))) for shape, name in done]
    title = (
        f"median of {options.rounds} rounds of {options.seconds:g} s, {len(os.sched_getaffinity(0))} cores"
    )
    head = ["clips", "loader", "per s", "spread", "of torch", "CPU ms", "of torch"]
    report.print_table(title, head, lines_of(rows))
    if lines := duels(done):
        head = ["", *(word for shape in SHAPES for word in (shape, "by CPU"))]
        report.print_table("how many times as fast", head, lines)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(name.startswith("seneca") for _, name in failed) else 0


if __name__ == "__main__":
    sys.exit(main())
