"""The loaders that bench_decode.py compares with the C loops, each measured by one run of this file.

    python bench/decode_peers.py about                      which there are, and what they lack here
    python bench/decode_peers.py measure NAME --folder ...  images a second, as JSON in the last line

It runs in whatever interpreter the peers are installed in, on the cores that it is started on: as
many workers as it may use cores. Nothing of seneca is imported but for the loader of that name.
Settings are each peer's fastest that still do the same: where a default is faster than ours and
looser (a resize that does not antialias), the peer keeps it, and its description says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import report
from bench_jobs import measure, row_of
from job_loaders import AHEAD, MEAN, SIZE, STD, Opened, Setup, missing, open_dali, open_seneca, open_torch
from jobs import together


@dataclass(frozen=True)
class Crop:
    """Where a picture is cropped, as the C loops crop it."""

    path: str
    top: int
    left: int
    height: int
    width: int
    flip: bool


def read_boxes(boxes: Path) -> list[Crop]:
    """The crops that ``decode_loop boxes`` has printed, epoch after epoch, files in their order."""
    crops = []
    for line in boxes.read_text().splitlines():
        _, top, left, height, width, flip, path = line.split(" ", 6)
        crops.append(Crop(path, int(top), int(left), int(height), int(width), flip == "1"))
    return crops


def open_simplejpeg(setup: Setup, job: int, *, boxes: Path, fast: bool = False) -> Opened:
    """simplejpeg decodes all of a picture, Pillow resizes the crop, NumPy normalises; job K of many
    takes every so-many-th picture. The files are in memory, the output in two batches in turn."""
    import numpy as np
    import simplejpeg
    from PIL import Image

    crops = read_boxes(boxes)[job :: len(os.sched_getaffinity(0))]
    files = {crop.path: Path(crop.path).read_bytes() for crop in crops}
    scale = (1 / (255 * np.array(STD, np.float32))).reshape(3, 1, 1)
    shift = (-np.array(MEAN, np.float32) / np.array(STD, np.float32)).reshape(3, 1, 1)
    rooms = [np.empty((setup.batch, 3, SIZE, SIZE), np.float32) for _ in range(2)]
    labels = np.zeros(setup.batch, np.int64)

    def batches() -> Iterator[Any]:
        turn = itertools.cycle(crops)
        for out in itertools.cycle(rooms):
            for place, crop in zip(out, turn, strict=False):
                pixels = simplejpeg.decode_jpeg(files[crop.path], fastdct=fast, fastupsample=fast)
                box = pixels[crop.top : crop.top + crop.height, crop.left : crop.left + crop.width]
                image = np.asarray(Image.fromarray(box).resize((SIZE, SIZE), Image.Resampling.BILINEAR))
                if crop.flip:
                    image = image[:, ::-1]
                # Planes first: NumPy casts rows that lie together several times as fast.
                np.multiply(np.ascontiguousarray(image.transpose(2, 0, 1)), scale, out=place)
                place += shift
            yield out, labels

    return Opened(batches(), dict)


def open_tf(setup: Setup, job: int, *, fast: bool = False) -> Opened:
    """tf.data: only the crop is decoded, resized as tf.image.resize does by default (bilinear, no
    antialiasing), in ``workers`` threads of its own."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    files = sorted(str(path) for path in setup.folder.glob("*/*"))
    classes = {name: number for number, name in enumerate(sorted({Path(file).parent.name for file in files}))}
    labels = [classes[Path(file).parent.name] for file in files]
    scale = tf.constant([1 / (255 * std) for std in STD], tf.float32)
    shift = tf.constant([-mean / std for mean, std in zip(MEAN, STD, strict=True)], tf.float32)

    def prepare(file: Any, label: Any) -> Any:
        encoded = tf.io.read_file(file)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(encoded),
            tf.zeros([0, 0, 4]),
            aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(0.08, 1.0),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        image = tf.image.decode_and_crop_jpeg(
            encoded,
            tf.concat([begin[:2], size[:2]], 0),
            channels=3,
            fancy_upscaling=not fast,
            dct_method="INTEGER_FAST" if fast else "INTEGER_ACCURATE",
        )
        image = tf.image.random_flip_left_right(tf.image.resize(image, (SIZE, SIZE)))
        return image * scale + shift, label

    dataset = (
        tf.data.Dataset.from_tensor_slices((files, labels))
        .shuffle(len(files), seed=1 + job)
        .repeat()
        .map(prepare, num_parallel_calls=setup.workers, deterministic=False)
        .batch(setup.batch, drop_remainder=True)
        .prefetch(AHEAD)
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = setup.workers
    options.threading.max_intra_op_parallelism = 1
    return Opened(iter(dataset.with_options(options)), dict)


def open_spdl(setup: Setup, job: int, *, boxes: Path) -> Opened:
    """SPDL: FFmpeg decodes all of a picture, crops, resizes and flips it (swscale, bilinear), torch
    normalises; ``workers`` threads take a batch each, since a step a picture costs them more."""
    import spdl.io
    import torch
    from spdl.pipeline import PipelineBuilder

    torch.set_num_threads(1)  # its threads would be in the way of SPDL's
    crops = read_boxes(boxes)
    files = {crop.path: Path(crop.path).read_bytes() for crop in crops}
    scale = (1 / (255 * torch.tensor(STD))).reshape(1, 3, 1, 1)
    shift = (-torch.tensor(MEAN) / torch.tensor(STD)).reshape(1, 3, 1, 1)

    def decode(crop: Crop) -> Any:
        steps = f"crop={crop.width}:{crop.height}:{crop.left}:{crop.top}:exact=1"
        steps += f",scale={SIZE}:{SIZE}:flags=bilinear,{'hflip,' if crop.flip else ''}format=pix_fmts=rgb24"
        return spdl.io.decode_packets(spdl.io.demux_image(files[crop.path]), filter_desc=steps)

    def prepare(batch: list[Crop]) -> Any:
        pixels = spdl.io.to_torch(spdl.io.convert_frames([decode(crop) for crop in batch]))
        images = torch.empty(len(batch), 3, SIZE, SIZE)
        images.copy_(pixels.permute(0, 3, 1, 2))
        return images.mul_(scale).add_(shift), torch.zeros(len(batch), dtype=torch.int64)

    pipeline = (
        PipelineBuilder()
        .add_source(itertools.cycle(crops))
        .aggregate(setup.batch)
        .pipe(prepare, concurrency=setup.workers)
        .add_sink(AHEAD)
        .build(num_threads=setup.workers)
    )

    def batches() -> Iterator[Any]:
        with pipeline.auto_stop():
            yield from pipeline

    return Opened(batches(), dict)


@dataclass(frozen=True)
class Peer:
    """One loader to compare with."""

    text: str
    open: Callable[..., Opened]
    needs: tuple[str, ...]  # modules
    distributions: tuple[str, ...]  # whose versions are printed
    takes_boxes: bool = False  # it crops where the C loops crop; others draw boxes of their own
    processes: bool = False  # a process a core, and nothing is brought together

    def missing(self) -> str | None:
        """What has to be installed before it can run, or None."""
        if self.open is open_seneca:
            return missing("seneca")
        for module in self.needs:
            if importlib.util.find_spec(module) is None:
                return module
        return None


_PILLOW = ("simplejpeg", "pillow-simd", "pillow", "numpy")
PEERS = {
    "seneca": Peer("seneca.DataLoader, cache=None", open_seneca, ("seneca",), ("seneca-loader", "torch")),
    "simplejpeg": Peer(
        "simplejpeg (whole picture) + Pillow + NumPy, a process a core, no loader",
        open_simplejpeg,
        ("simplejpeg", "PIL", "numpy", "torch"),
        _PILLOW,
        takes_boxes=True,
        processes=True,
    ),
    "simplejpeg-fast": Peer(
        "the same with fastdct and fastupsample",
        partial(open_simplejpeg, fast=True),
        ("simplejpeg", "PIL", "numpy", "torch"),
        _PILLOW,
        takes_boxes=True,
        processes=True,
    ),
    "torch": Peer(
        "torch DataLoader, torchvision transforms on Pillow, a process a core",
        open_torch,
        ("torchvision",),
        ("torch", "torchvision", "pillow-simd", "pillow"),
    ),
    "dali": Peer(
        "DALI on the CPU: decoders.image_random_crop, resize, crop_mirror_normalize",
        open_dali,
        ("nvidia", "nvidia.dali", "torch"),
        ("nvidia-dali-cuda120", "nvidia-dali-cuda130"),
    ),
    "dali-fast": Peer(
        "the same with use_fast_idct",
        partial(open_dali, fast=True),
        ("nvidia", "nvidia.dali", "torch"),
        ("nvidia-dali-cuda120", "nvidia-dali-cuda130"),
    ),
    "tf": Peer(
        "tf.data: decode_and_crop_jpeg (INTEGER_ACCURATE), resize without antialiasing, NHWC",
        open_tf,
        ("tensorflow",),
        ("tensorflow-cpu", "tensorflow"),
    ),
    "tf-fast": Peer(
        "the same with INTEGER_FAST and no fancy upscaling",
        partial(open_tf, fast=True),
        ("tensorflow",),
        ("tensorflow-cpu", "tensorflow"),
    ),
    "spdl": Peer(
        "SPDL: FFmpeg (whole picture, swscale bilinear), a thread a core, a batch a step",
        open_spdl,
        ("spdl", "spdl.io", "spdl.pipeline", "torch"),
        ("spdl", "torch"),
        takes_boxes=True,
    ),
}


def about() -> dict[str, Any]:
    """Of each peer: what it lacks (None: nothing) and the versions of what it runs on."""
    return {
        name: {"missing": peer.missing(), "versions": report.versions(peer.distributions)}
        for name, peer in PEERS.items()
    }


def run(options: argparse.Namespace) -> dict[str, float]:
    """Measure one peer on the cores of this process: ``per_s`` and ``cpu_ms``."""
    peer = PEERS[options.name]
    cores = len(os.sched_getaffinity(0))
    jobs, workers = (cores, 1) if peer.processes else (1, cores)
    setup = Setup(options.folder, options.samples, options.batch, workers, cache=None)
    opener = partial(peer.open, boxes=options.boxes) if peer.takes_boxes else peer.open
    row = row_of(options.name, together(jobs, measure, opener, setup, options.warm, options.seconds))
    return {"per_s": row["per_s"], "cpu_ms": row["cpu_ms"]}


def main(arguments: list[str] | None = None) -> int:
    """Answer ``about`` or ``measure`` with one line of JSON, the last of the output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("about", help="what each peer lacks")
    one = commands.add_parser("measure", help="run one peer")
    one.add_argument("name", choices=list(PEERS))
    one.add_argument("--folder", type=Path, required=True, help="class folders of the pictures")
    one.add_argument("--samples", type=int, required=True, help="pictures in it")
    one.add_argument("--boxes", type=Path, required=True, help="what decode_loop boxes has printed")
    one.add_argument("--batch", type=int, required=True)
    one.add_argument("--warm", type=float, required=True)
    one.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args(arguments)
    print(json.dumps(about() if options.command == "about" else run(options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
