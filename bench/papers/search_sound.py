"""CoorDL's search over hyperparameters on sound: eight jobs that decode FLACs, resample and crop them.

Decoding a sound costs more than decoding a picture, therefore jobs that share gain more. The clips are those
of ``bench/bench_sound.py``: recordings in a row, or tones, as FLACs of 44,100 frames a second. They are in
the page cache, and nothing is kept of what is made of them.
"""

from __future__ import annotations

import importlib.util
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_sound import make_clips
from jobs import JobFailed
from links import make_links
from sound_peers import RATE, paths_of
from sound_peers import Setup as SoundSetup

from papers.result import PAPER, Goal, Result, Row
from papers.search import of_a_job, per_loader
from papers.setup import NAMES, NONE_SHARED, SEED, WITH_CACHE, Setup, whose
from papers.training import Training, run_together

IN_THE_PAPER = 5.6
GRANULE_BYTES = 4096


@dataclass(frozen=True)
class Size:
    """How much is run."""

    jobs: int = 8
    clips: int = 40  # different ones
    clip_s: float = 30.0
    part: int = 6  # a sample is so small a part of a clip, from a random place
    samples: int = 1500  # links to the clips
    batch: int = 8
    workers: int = 1
    seconds: float = 10.0  # that count
    copies: float = 0.2  # of the samples, that the stage has room for


def run(setup: Setup, size: Size | None = None) -> Result:
    """Every loader.

    Raises:
        JobFailed: there is no package that writes FLACs.
    """
    size = size or Size()
    if importlib.util.find_spec("soundfile") is None:
        raise JobFailed("the clips are written by soundfile, which is not installed")
    with tempfile.TemporaryDirectory(prefix="seneca-bench-sound-") as work:
        clips, folder = Path(work) / "clips", Path(work) / "links"
        make_clips(clips, setup.sound, size.clips, size.clip_s)
        make_links(clips, folder, size.samples, [Path(path) for path in paths_of(clips)])
        found = {name: of_loader(setup, size, name, folder) for name in (*setup.peers, "seneca")}
    base = "dali" if "dali" in found else "torch" if "torch" in found else "minio"
    times = found["seneca"]["per_s"] / found[base]["per_s"]
    measure = f"times {NAMES[base]}'s clips/s"
    rows = [
        *per_loader("clips/s a job", found, "per_s", "clips/s"),
        *per_loader("CPU of a clip", found, "cpu_ms", "ms"),
        Row(measure, "CoorDL in the paper, times DALI", IN_THE_PAPER, "x", PAPER),
        Row(measure, "Seneca", times, "x", whose("seneca")),
    ]
    return Result(
        "search_sound",
        "CoorDL: a search over hyperparameters on sound",
        f"{size.jobs} jobs train on one dataset of sounds at once: how fast is each?",
        [
            f"{size.clips} FLACs of {size.clip_s:g} s, stereo, 44,100 frames a second, in the page cache;"
            f" {size.samples} links to them. A sample is mono, {RATE} frames a second, a random"
            f" {size.part}th of a clip.",
            f"Batches of {size.batch}, {size.workers} worker a job, no training step; {size.seconds:g} s"
            f" count; orders from seed {SEED}. Seneca keeps nothing; its stage has copies of"
            f" {size.copies:.0%}.",
        ],
        rows,
        [Goal(measure, times, IN_THE_PAPER, "x")],
    )


def of_loader(setup: Setup, size: Size, name: str, folder: Path) -> dict[str, float]:
    """The rate and the CPU time of a job of one loader."""
    clip_frames = round(RATE * size.clip_s)
    frames = clip_frames // size.part
    with setup.cache(name) as cache:
        sounds = SoundSetup(
            folder, size.samples, size.batch, size.workers, frames, clip_frames, cache or "unused"
        )
        options: dict[str, Any] = {}
        if cache is not None:
            room = round(size.copies * size.samples) * (4 * frames + GRANULE_BYTES)
            options = {"cache": cache, "cache_bytes": room}
            options |= NONE_SHARED if name == "minio" else {"split": "0-0-100"}
        one = Training(
            f"sound-{'seneca' if name in WITH_CACHE else name}",
            sounds,
            options,
            seconds=size.seconds,
            warm_s=size.seconds / 3,
            seed=SEED,
        )
        return of_a_job(run_together([one] * size.jobs, python=setup.python_of(name)))
