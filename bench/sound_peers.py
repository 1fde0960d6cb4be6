"""The loaders that bench_sound.py compares, each measured by one run of this file.

    python bench/sound_peers.py about                       which there are, and what they lack here
    python bench/sound_peers.py measure NAME --folder ...   clips a second, as JSON in the last line

It runs in whatever interpreter the loader is installed in, on the cores that it is started on. Every loader
reads FLACs of 44,100 frames a second, makes them mono, resamples them to 8,000 and crops them at random to
``frames``; those that are as long stay whole. Filters have six zero crossings to each side, as torchaudio's.
What a loader needs is imported where it is used.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import report
from bench_jobs import cpu_s, row_of
from job_loaders import AHEAD, Opened
from jobs import Voice, together

FILE_RATE, RATE = 44_100, 8_000
ZERO_CROSSINGS, ROLLOFF = 6, 0.99  # torchaudio's


@dataclass(frozen=True)
class Setup:
    """What every job of one measurement has in common."""

    folder: Path  # class folders
    samples: int
    batch: int
    workers: int
    frames: int  # of a result
    clip_frames: int  # of a whole clip, at RATE
    cache: str

    part = None  # every job trains on all of them


class Resample:
    """torchaudio.transforms.Resample in plain torch: one convolution, as torchaudio computes it."""

    def __init__(self, rate: int, new_rate: int) -> None:
        import torch

        divisor = math.gcd(rate, new_rate)
        self.before, self.after = rate // divisor, new_rate // divisor
        cutoff = min(self.before, self.after) * ROLLOFF
        self.reach = math.ceil(ZERO_CROSSINGS * self.before / cutoff)
        places = torch.arange(-self.reach, self.reach + self.before, dtype=torch.float64) / self.before
        phases = torch.arange(0, -self.after, -1)[:, None] / self.after
        t = ((phases + places) * cutoff).clamp(-ZERO_CROSSINGS, ZERO_CROSSINGS)
        window = torch.cos(t * math.pi / ZERO_CROSSINGS / 2) ** 2
        self.kernel = (torch.sinc(t) * window * (cutoff / self.before)).float()[:, None]

    def __call__(self, waveform: Any) -> Any:
        from torch.nn.functional import conv1d, pad

        frames = math.ceil(self.after * waveform.shape[-1] / self.before)
        padded = pad(waveform, (self.reach, self.reach + self.before))
        made = conv1d(padded[:, None], self.kernel, stride=self.before)
        return made.transpose(1, 2).reshape(len(waveform), -1)[:, :frames]


def resampler() -> tuple[Any, str]:
    """torchaudio's transform or, where that does not import, the same in plain torch; and which it is."""
    try:
        import torchaudio
    except (ImportError, OSError, RuntimeError):  # the last two: it was built for another torch
        return Resample(FILE_RATE, RATE), "a convolution in plain torch, as torchaudio's"
    return torchaudio.transforms.Resample(FILE_RATE, RATE), f"torchaudio {torchaudio.__version__}"


def paths_of(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.glob("*/*.flac"))


class Clips:
    """The dataset of a script for torch: soundfile reads, torchaudio resamples."""

    def __init__(self, setup: Setup, *, part: bool) -> None:
        self.paths, self.frames, self.part = paths_of(setup.folder), setup.frames, part
        self.clip_frames = setup.clip_frames
        self.resample = resampler()[0]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        import soundfile
        import torch

        first = random.randint(0, self.clip_frames - self.frames)
        stretch: dict[str, int] = {}
        if self.part:  # no more than is kept; its ends differ, as nothing is beyond them
            start, count = first * FILE_RATE // RATE, self.frames * FILE_RATE // RATE
            stretch, first = {"start": start, "frames": count}, 0
        frames, _ = soundfile.read(self.paths[index], dtype="float32", always_2d=True, **stretch)
        waveform = self.resample(torch.from_numpy(frames.T).mean(0, keepdim=True))
        return waveform[:, first : first + self.frames], index


def open_torch(setup: Setup, job: int, *, part: bool = False) -> Opened:
    """torch's DataLoader; in each worker process torch has one thread."""
    from torch.utils.data import DataLoader

    loader = DataLoader(
        Clips(setup, part=part),  # type: ignore[arg-type]
        setup.batch,
        shuffle=True,
        num_workers=setup.workers,
        prefetch_factor=AHEAD,
        persistent_workers=True,
        multiprocessing_context="fork",  # Linux's default until Python 3.14
    )
    return Opened(_for_ever(loader), dict)


def open_seneca(setup: Setup, job: int, **options: Any) -> Opened:
    """Seneca, ``workers`` C threads in the job's process."""
    import seneca
    from seneca import transforms as T

    crop = T.RandomTimeCrop(setup.frames)
    loader: Any = seneca.DataLoader(
        seneca.SoundFolder(setup.folder, crop, rate=RATE, mono=True),
        setup.batch,
        shuffle=True,
        num_workers=setup.workers,
        prefetch_factor=AHEAD,
        **(options or {"cache": None}),
    )
    return Opened(_for_ever(loader), loader.stats, indices=lambda: loader.last_indices)


def open_decoded(setup: Setup, job: int) -> Opened:
    """The same in a cache that keeps DECODED, of the epoch before or of another run."""
    room = setup.samples * (4 * setup.clip_frames + 4096) + (64 << 20)
    options = {"cache_bytes": room, "split": "0-100-0", "keep": "10min"}
    opened = open_seneca(setup, job, cache=f"{setup.cache}-decoded", **options)
    for _ in range(-(-setup.samples // setup.batch)):
        next(opened.batches)
    return opened


def open_shared(setup: Setup, job: int) -> Opened:
    """One of two jobs, whose cache passes copies between them and keeps nothing."""
    room = max(64, setup.samples // 20) * (4 * setup.frames + 4096)
    name = f"{setup.cache}-{setup.frames}"
    return open_seneca(setup, job, cache=name, cache_bytes=room, split="0-0-100")


def open_dali(setup: Setup, job: int) -> Opened:
    """DALI on the CPU: its decoder mixes and resamples the whole clip, then a slice."""
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    @pipeline_def
    def graph() -> tuple[Any, Any]:
        encoded, label = fn.readers.file(files=paths_of(setup.folder), random_shuffle=True, name="reader")
        # A quality of 28 is six zero crossings to each side; its default of 50 is sixteen.
        sound, _ = fn.decoders.audio(encoded, sample_rate=RATE, downmix=True, quality=28)
        if setup.frames < setup.clip_frames:
            first = fn.random.uniform(range=[0, setup.clip_frames - setup.frames])
            first = fn.cast(first, dtype=types.INT32)
            sound = fn.slice(sound, start=first, shape=[setup.frames], axes=[0])
        return fn.reshape(sound, shape=[1, -1]), label

    pipe = graph(
        batch_size=setup.batch,
        num_threads=setup.workers,
        device_id=None,
        set_affinity=False,
        prefetch_queue_depth=AHEAD,
        seed=1 + job,
    )
    pipe.build()
    iterator = DALIGenericIterator([pipe], ["sounds", "labels"], reader_name="reader", auto_reset=True)

    def batches() -> Iterator[Any]:
        while True:
            try:
                (out,) = next(iterator)
            except StopIteration:
                continue  # the end of an epoch; auto_reset has begun the next
            yield out["sounds"], out["labels"].flatten()

    return Opened(batches(), dict)


def open_spdl(setup: Setup, job: int) -> Opened:
    """SPDL: FFmpeg decodes the stretch that is kept, mixes and resamples it; a thread takes a batch."""
    import spdl.io
    import torch
    from spdl.pipeline import PipelineBuilder

    torch.set_num_threads(1)  # its threads would be in the way of SPDL's
    paths = paths_of(setup.folder)
    steps = f"aformat=channel_layouts=mono,aresample={RATE}:filter_size={2 * ZERO_CROSSINGS}"
    steps += f":cutoff={ROLLOFF},aformat=sample_fmts=flt"

    def prepare(chosen: list[int]) -> Any:
        sounds = torch.zeros(len(chosen), 1, setup.frames)
        for out, index in zip(sounds, chosen, strict=True):
            first = random.uniform(0, setup.clip_frames - setup.frames) / RATE
            stretch = (first, first + setup.frames / RATE) if setup.frames < setup.clip_frames else None
            packets = spdl.io.demux_audio(Path(paths[index]).read_bytes(), timestamp=stretch)
            made = spdl.io.to_torch(
                spdl.io.convert_frames(spdl.io.decode_packets(packets, filter_desc=steps))
            )
            kept = made[: setup.frames, 0]
            out[0, : len(kept)] = kept
        return sounds, torch.tensor(chosen)

    pipeline = (
        PipelineBuilder()
        .add_source(_shuffled(len(paths)))
        .aggregate(setup.batch)
        .pipe(prepare, concurrency=setup.workers)
        .add_sink(AHEAD)
        .build(num_threads=setup.workers)
    )

    def batches() -> Iterator[Any]:
        with pipeline.auto_stop():
            yield from pipeline

    return Opened(batches(), dict)


def _shuffled(count: int) -> Iterator[int]:
    while True:
        yield from random.sample(range(count), count)


def _for_ever(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


@dataclass(frozen=True)
class Peer:
    """One loader to compare."""

    text: str
    open: Callable[[Setup, int], Opened]
    needs: tuple[str, ...]  # modules
    distributions: tuple[str, ...]  # whose versions are printed
    jobs: int = 1
    only_crops: bool = False

    def missing(self) -> str | None:
        """What has to be installed before it can run, or None."""
        for module in self.needs:
            if importlib.util.find_spec(module) is None:
                return module
        if "spdl.io" in self.needs:
            from spdl.io.utils import get_ffmpeg_versions

            try:
                get_ffmpeg_versions()
            except RuntimeError:
                return "FFmpeg's libraries"
        return None


PEERS = {
    "torch": Peer(
        "torch DataLoader, soundfile reads the clip, {resampler}",
        open_torch,
        ("torch", "soundfile"),
        ("torch", "soundfile"),
    ),
    "torch-part": Peer(
        "the same, but soundfile seeks and reads the crop alone, whose ends are then not the same",
        partial(open_torch, part=True),
        ("torch", "soundfile"),
        ("torch", "soundfile"),
        only_crops=True,
    ),
    "seneca": Peer("seneca.DataLoader, cache=None", open_seneca, ("seneca",), ("seneca-loader", "torch")),
    "seneca-decoded": Peer(
        "the same from the second epoch on, with all of DECODED kept",
        open_decoded,
        ("seneca",),
        ("seneca-loader", "torch"),
    ),
    "seneca-two": Peer(
        "two jobs that share copies and keep nothing; clips/s of both",
        open_shared,
        ("seneca",),
        ("seneca-loader", "torch"),
        jobs=2,
    ),
    "dali": Peer(
        "DALI on the CPU: decoders.audio (whole clip, quality 28), slice",
        open_dali,
        ("nvidia", "nvidia.dali", "torch"),
        ("nvidia-dali-cuda120", "nvidia-dali-cuda130", "torch"),
    ),
    "spdl": Peer(
        "SPDL: FFmpeg (the stretch that is kept, aresample of 12 taps), a batch a step",
        open_spdl,
        ("spdl", "spdl.io", "spdl.pipeline", "torch"),
        ("spdl", "torch"),
    ),
}


def measure(
    voice: Voice,
    number: int,
    opener: Callable[[Setup, int], Opened],
    setup: Setup,
    warm_s: float,
    seconds: float,
) -> dict:
    """One job: open, warm up, wait, run, and count clips for ``seconds``.

    Returns:
        What :func:`bench_jobs.row_of` takes.

    Raises:
        TypeError: the loader gives something else than float32 (batch, 1, frames).
    """
    opened = opener(setup, number)
    sounds, _ = next(opened.batches)
    if "float32" not in str(sounds.dtype) or tuple(sounds.shape[1:]) != (1, setup.frames):
        raise TypeError(f"the loader gave {sounds.dtype} {tuple(sounds.shape)}")
    voice.say("ready")
    voice.wait()
    begun = time.monotonic()
    while time.monotonic() - begun < warm_s:
        next(opened.batches)
    samples, start = 0, time.monotonic()
    now, used_s = start, cpu_s()
    while now - start < seconds:
        samples += len(next(opened.batches)[0])
        now = time.monotonic()
    used_s = cpu_s() - used_s
    return {"samples": samples, "elapsed_s": now - start, "cpu_s": used_s, "stats": opened.stats()}


def about() -> dict[str, Any]:
    """Of each loader: what it is, what it lacks (None: nothing) and the versions of what it runs on."""
    found = {}
    for name, peer in PEERS.items():
        missing = peer.missing()
        text = peer.text
        if missing is None and "{resampler}" in text:
            text = text.format(resampler=resampler()[1])
        versions = report.versions(peer.distributions)
        found[name] = {"text": text, "missing": missing, "versions": versions}
    return found


def run(options: argparse.Namespace) -> dict[str, float]:
    """Measure one loader on the cores of this process: ``per_s`` and ``cpu_ms``."""
    peer, workers = PEERS[options.name], len(os.sched_getaffinity(0))
    setup = Setup(
        options.folder,
        options.samples,
        options.batch,
        workers,
        options.frames,
        options.clip_frames,
        options.cache,
    )
    row = row_of(options.name, together(peer.jobs, measure, peer.open, setup, options.warm, options.seconds))
    return {name: row[name] for name in ("per_s", "cpu_ms", "prepared_per_delivered") if name in row}


def main(arguments: list[str] | None = None) -> int:
    """Answer ``about`` or ``measure`` with one line of JSON, the last of the output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("about", help="what each loader lacks")
    one = commands.add_parser("measure", help="run one loader")
    one.add_argument("name", choices=list(PEERS))
    one.add_argument("--folder", type=Path, required=True, help="class folders of the clips")
    one.add_argument("--samples", type=int, required=True, help="clips in it")
    one.add_argument("--frames", type=int, required=True, help="of a result")
    one.add_argument("--clip-frames", type=int, required=True, help="of a whole clip after resampling")
    one.add_argument("--batch", type=int, required=True)
    one.add_argument("--cache", required=True, help="the name that names of caches begin with")
    one.add_argument("--warm", type=float, required=True)
    one.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args(arguments)
    print(json.dumps(about() if options.command == "about" else run(options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
