"""What does it cost, or gain, to change the import alone?

Question. Does a dataset of torchvision's, with its transforms, run as fast through seneca.DataLoader as
Seneca's own (grade native)? Does it stay as fast with what scripts add: a sampler, a batch sampler, a
worker_init_fn, a target_transform, a collate_fn that mixes pictures? And a dataset of which Seneca knows
nothing, in a job that is alone and has nothing to share: is it as fast as with torch's DataLoader (grade
opaque)? How much faster than torch's DataLoader with Pillow-SIMD are PNGs and WebPs, and the usual recipes of
augmentation, if Seneca's loader recognises them? And pairs of a picture and a mask, as for segmentation, and
pictures with boxes, as for detection?

Pairs are torchvision's VOCSegmentation of the photographs with made-up masks of 21 classes, PNGs with a
palette. Boxes are those of its VOCDetection, three made-up ones in each photograph. The picture is cropped
while it is a PIL image, where Pillow-SIMD resizes it. The rows of SSD300 have the preset of torchvision's
reference for it, resized to 300 x 300, for one job, and for two and four that share the two cores.

Masked words and ratings are the datasets of examples/masked_words.py (texts of any length, with a
collate_fn) and examples/recommendation.py (nested dicts), with more rows than there.

The items of the opaque rows take the processor for as long as their names say; no time is a tensor and an
addition. Two or more jobs have one worker each, and no training step; their speeds are added.

Method. Every measurement is a process of its own with two workers; after a second it counts for
``--seconds``. Rounds go over all rows in turn; a ratio is the median of the rounds' ratios, as a busy
machine bends all rows of a round alike. The time that processors spend on a sample, in the loader's process
and its workers, is counted too: where others use the machine, its ratio says more than that of the speed.

    python -m bench.bench_drop_in --data train/ --json drop_in.json
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for place in ("bench", ".", "tests", "examples"):  # tests: torchvision without its operators
    if str(ROOT / place) not in sys.path:
        sys.path.insert(0, str(ROOT / place))

import report  # noqa: E402
from bench_jobs import pictures  # noqa: E402
from links import make_links, pictures_of  # noqa: E402

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LINKS = 40_000  # more than are loaded while it counts
OTHERS = 100  # different PNGs, and as many WebPs
MASKS = 200  # different ones
PAIR_LINKS = 20_000
KINDS = ("jpeg", "png", "webp", "pairs")
LINES = 60_000  # of text
ROWS = 60_000  # of ratings
SHORT = 208  # samples of a short epoch
WARM_S = 1.0
JOB_S = 120.0  # a job that takes longer to begin, or to end, has failed

# Row: the row that it is compared with.
COMPARED = {
    "torchvision's folder": "seneca's folder",
    "weighted sampler": "torchvision's folder",
    "batch sampler": "torchvision's folder",
    "worker_init_fn": "torchvision's folder",
    "target_transform": "torchvision's folder",
    "MixUp in collate_fn": "torchvision's folder",
    "PNGs": "PNGs, torch",
    "pairs, seneca": "pairs, torch",
    "boxes, seneca": "boxes, torch",
    "SSD300, seneca": "SSD300, torch",
    "two jobs of SSD300, seneca": "two jobs of SSD300, torch",
    "four jobs of SSD300, seneca": "four jobs of SSD300, torch",
    "WebPs": "WebPs, torch",
    "opaque pictures, seneca": "opaque pictures, torch",
    "opaque items, seneca": "opaque items, torch",
    "opaque items of 0.1 ms, seneca": "opaque items of 0.1 ms, torch",
    "opaque items of 1 ms, seneca": "opaque items of 1 ms, torch",
    "short epochs of opaque items, seneca": "short epochs of opaque items, torch",
    "short epochs of 2 workers that stay, seneca": "short epochs of 2 workers that stay, torch",
    "masked words, seneca": "masked words, torch",
    "two jobs with masked words, seneca": "two jobs with masked words, torch",
    "ratings, seneca": "ratings, torch",
    "two jobs with ratings, seneca": "two jobs with ratings, torch",
    "two jobs with items of 0.3 ms and 64 KB, seneca": "two jobs with items of 0.3 ms and 64 KB, torch",
    "two jobs with items of 1 ms and 64 KB, seneca": "two jobs with items of 1 ms and 64 KB, torch",
}

TIMM = "timm's training transform"

# What a recipe adds behind RandomResizedCrop(224) and a flip, as torchvision writes it.
RECIPES: dict[str, Callable[[Any], list[Any]]] = {
    "plain crops": lambda v1: [],
    "RandAugment": lambda v1: [v1.RandAugment()],
    "TrivialAugmentWide": lambda v1: [v1.TrivialAugmentWide()],
    "RandomRotation": lambda v1: [v1.RandomRotation(15)],
    "smooth rotation": lambda v1: [v1.RandomRotation(15, v1.InterpolationMode.BILINEAR)],
    "RandomAffine": lambda v1: [v1.RandomAffine(10, (0.1, 0.1), (0.8, 1.2), 5)],
    "RandomPerspective": lambda v1: [v1.RandomPerspective()],
    "ElasticTransform": lambda v1: [v1.ElasticTransform()],
    "AugMix": lambda v1: [v1.AugMix()],
    "GaussianBlur": lambda v1: [v1.GaussianBlur(23, (0.1, 2.0))],
    "SimCLR": lambda v1: [
        v1.RandomApply([v1.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8),
        v1.RandomGrayscale(),
        v1.RandomApply([v1.GaussianBlur(23, (0.1, 2.0))]),
    ],
}
COMPARED |= {f"{name}, seneca": f"{name}, torch" for name in (*RECIPES, TIMM)}


class Items:
    """An opaque dataset. An item takes the processor for a time; what is measured beyond is the loader."""

    def __init__(self, ms: float = 0.0, floats: int = 3 * 32 * 32, samples: int = 200_000) -> None:
        import torch

        self.ms, self.samples = ms, samples
        self.data = torch.arange(500 * floats, dtype=torch.float32).reshape(500, floats)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> Any:
        until = time.thread_time_ns() + int(1e6 * self.ms)
        while self.ms and time.thread_time_ns() < until:
            pass
        return self.data[index % len(self.data)] + 1, index


class Wrapped:
    """Another dataset, behind a class that Seneca does not know."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index]


def torchvision_folder(folder: str, recipe: str = "plain crops") -> Any:
    """As most scripts write it."""
    from torchvision_here import torchvision

    v1 = torchvision.transforms
    steps = [v1.RandomResizedCrop(224), v1.RandomHorizontalFlip(), *RECIPES[recipe](v1)]
    steps += [v1.ToTensor(), v1.Normalize(MEAN, STD)]
    return torchvision.datasets.ImageFolder(folder, v1.Compose(steps))


def pairs(folder: str) -> Any:
    """As torchvision's guide to transforms v2 writes it."""
    import torch
    from torchvision_here import torchvision

    v2, tv_tensors = torchvision.transforms.v2, torchvision.tv_tensors
    steps = [
        v2.RandomResizedCrop(320),
        v2.RandomHorizontalFlip(),
        v2.ToImage(),
        v2.ToDtype(
            {tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}, scale=True
        ),
        v2.Normalize(MEAN, STD),
    ]
    dataset = torchvision.datasets.VOCSegmentation(folder, transforms=v2.Compose(steps))
    return torchvision.datasets.wrap_dataset_for_transforms_v2(dataset)


def boxes(folder: str) -> Any:
    """Likewise for detection."""
    import torch
    from torchvision_here import torchvision

    v2 = torchvision.transforms.v2
    steps = [v2.RandomResizedCrop(320), v2.RandomHorizontalFlip(), v2.SanitizeBoundingBoxes(), v2.ToImage()]
    steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    dataset = torchvision.datasets.VOCDetection(folder, transforms=v2.Compose(steps))
    return torchvision.datasets.wrap_dataset_for_transforms_v2(dataset)


def ssd300(folder: str) -> Any:
    """The preset "ssd" of torchvision's reference for detection, with the size that its model makes of it."""
    import torch
    from torchvision_here import torchvision

    v2 = torchvision.transforms.v2
    steps = [v2.RandomPhotometricDistort(), v2.RandomZoomOut(fill=[123, 117, 104]), v2.RandomIoUCrop()]
    steps += [v2.RandomHorizontalFlip(), v2.Resize((300, 300)), v2.ToImage()]
    steps += [v2.ToDtype(torch.float32, scale=True), v2.ConvertBoundingBoxFormat("XYXY")]
    steps += [v2.SanitizeBoundingBoxes(), v2.ToPureTensor()]
    dataset = torchvision.datasets.VOCDetection(folder, transforms=v2.Compose(steps))
    return torchvision.datasets.wrap_dataset_for_transforms_v2(dataset)


def apart(items: Any) -> Any:
    """The collate_fn of torchvision's reference for detection: pictures, and targets."""
    return tuple(zip(*items, strict=True))


def timm_folder(folder: str) -> Any:
    """As timm's train.py writes it, with the RandAugment and the erasing of its recipes."""
    from torchvision_here import torchvision  # first: timm imports it

    from timm.data import create_transform  # isort: skip

    recipe = {"auto_augment": "rand-m9-mstd0.5-inc1", "interpolation": "random"}
    transform = create_transform(224, is_training=True, re_prob=0.25, re_mode="pixel", **recipe)
    return torchvision.datasets.ImageFolder(folder, transform)


def seneca_folder(folder: str) -> Any:
    """The same with Seneca's classes."""
    import seneca
    from seneca import transforms as T

    steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)]
    return seneca.ImageFolder(folder, T.Compose(steps))


def masked_words() -> Any:
    """Lines of text, some of whose words are left out."""
    import masked_words as example

    lines = list(example.made_up())
    return example.Sentences(lines * (LINES // len(lines)))


def ratings() -> Any:
    """Rows of a table, as nested dicts."""
    import recommendation as example

    example.ROWS = ROWS
    return example.Ratings()


def seed_worker(worker_id: int) -> None:
    """torch's recipe for reproducible workers."""
    import random

    import numpy as np
    import torch

    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


def mixing(classes: int) -> Any:
    """torchvision's recipe for MixUp, as its documentation has it."""
    from torch.utils.data import default_collate
    from torchvision_here import torchvision

    mixup = torchvision.transforms.v2.MixUp(num_classes=classes)

    def collate_fn(batch: Any) -> Any:
        return mixup(*default_collate(batch))

    return collate_fn


def habit(row: str, dataset: Any) -> dict[str, Any]:
    """The arguments of a loader that a script would add."""
    from torch.utils.data import BatchSampler, RandomSampler, WeightedRandomSampler

    if row == "weighted sampler":
        return {"batch_size": 64, "sampler": WeightedRandomSampler([1.0] * len(dataset), len(dataset))}
    if row == "batch sampler":
        batches = [batch for batch in BatchSampler(RandomSampler(dataset), 64, drop_last=False)]
        return {"batch_sampler": batches}
    options: dict[str, Any] = {"batch_size": 16 if row.startswith("short") else 64, "shuffle": True}
    if row == "worker_init_fn":
        options["worker_init_fn"] = seed_worker
    if row == "MixUp in collate_fn":
        options["collate_fn"] = mixing(len(dataset.classes))
    if has_boxes(row):
        options["collate_fn"] = apart
    if "masked words" in row:
        import masked_words as example

        options["collate_fn"] = example.collate
    if row == "target_transform":
        dataset.target_transform = float
    return options


def loader_of(row: str, folder: str) -> Any:
    """The loader that a row measures."""
    import torch

    import seneca

    what = row.split(",")[0]
    dataset: Any = {
        "seneca's folder": lambda: seneca_folder(folder),
        "opaque pictures": lambda: Wrapped(torchvision_folder(folder)),
        "opaque items": Items,
        "short epochs of opaque items": partial(Items, samples=SHORT),
        "short epochs of 2 workers that stay": partial(Items, samples=SHORT),
        "opaque items of 0.1 ms": partial(Items, 0.1),
        "opaque items of 1 ms": partial(Items, 1),
        "two jobs with items of 0.3 ms and 64 KB": partial(Items, 0.3, 1 << 14),
        "two jobs with items of 1 ms and 64 KB": partial(Items, 1, 1 << 14),
        "masked words": masked_words,
        "two jobs with masked words": masked_words,
        "ratings": ratings,
        "two jobs with ratings": ratings,
        "pairs": lambda: pairs(folder),
        "boxes": lambda: boxes(folder),
        "SSD300": lambda: ssd300(folder),
        "two jobs of SSD300": lambda: ssd300(folder),
        "four jobs of SSD300": lambda: ssd300(folder),
        TIMM: lambda: timm_folder(folder),
        **{name: partial(torchvision_folder, folder, name) for name in RECIPES},
    }.get(what, lambda: torchvision_folder(folder))()
    kind: Any = torch.utils.data.DataLoader if row.endswith(", torch") else seneca.DataLoader
    workers = 0 if row.startswith("short epochs of opaque") else max(1, 2 // jobs_of(row))
    options: dict[str, Any] = {"num_workers": workers, "persistent_workers": "that stay" in row}
    if not row.endswith(", torch"):
        options |= {"cache": f"drop-in-{os.getppid()}", "cache_bytes": "256MiB"}
    if workers and (is_opaque(row) or row.endswith(", torch")):
        options["multiprocessing_context"] = "fork"  # as on Linux, whatever began this process
    return kind(dataset, **habit(row, dataset), **options)


def make_folders(data: Path, folder: Path) -> dict[str, str]:
    """Folders of many links, to the pictures of ``data``, and to some of them as PNGs and WebPs."""
    from PIL import Image, features

    make_links(data, folder / "jpeg", LINKS)
    for kind in ["png"] + ["webp"] * features.check("webp"):
        once = folder / f"{kind}, once" / "only"
        once.mkdir(parents=True)
        for number, path in enumerate(pictures_of(data)[:OTHERS]):
            Image.open(path).convert("RGB").save(once / f"{number}.{kind}")
        make_links(once.parent, folder / kind, LINKS)
    make_voc(data, folder / "pairs")
    return {kind: str(folder / kind) for kind in KINDS if (folder / kind).exists()}


def make_voc(data: Path, folder: Path) -> None:
    """Links to pictures, made-up masks and made-up boxes, as VOCSegmentation and VOCDetection find them."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    base, once = folder / "VOCdevkit" / "VOC2012", folder / "once"
    folders = [base / "JPEGImages", base / "SegmentationClass", base / "Annotations", once]
    lists = [base / "ImageSets" / name for name in ("Segmentation", "Main")]
    for one in folders + lists:
        one.mkdir(parents=True)
    pictures_once = pictures_of(data)[:MASKS]
    for number, path in enumerate(pictures_once):
        size = Image.open(path).size
        few = Image.fromarray(rng.integers(0, 21, (6, 8), np.uint8)).resize(size, Image.Resampling.NEAREST)
        mask = Image.frombytes("P", size, few.tobytes())  # blocks; then edges that are not straight
        mask = mask.rotate(float(rng.uniform(-30, 30)))
        mask.putpalette(rng.integers(0, 256, 768).tolist())
        mask.save(once / f"{number}.png")
        (once / f"{number}.xml").write_text(
            f"<annotation>{''.join(_object(rng, *size) for _ in range(3))}</annotation>"
        )
    for number in range(PAIR_LINKS):
        source = number % len(pictures_once)
        (folders[0] / f"{number}.jpg").symlink_to(pictures_once[source].resolve())
        (folders[1] / f"{number}.png").symlink_to(once / f"{source}.png")
        (folders[2] / f"{number}.xml").symlink_to(once / f"{source}.xml")
    for one in lists:
        (one / "train.txt").write_text("".join(f"{number}\n" for number in range(PAIR_LINKS)))


def _object(rng: Any, width: int, height: int) -> str:
    """An object of VOC, whose box lies anywhere in a picture."""
    left, right = sorted(rng.choice(width, 2, replace=False).tolist())
    top, bottom = sorted(rng.choice(height, 2, replace=False).tolist())
    box = f"<xmin>{left}</xmin><ymin>{top}</ymin><xmax>{right}</xmax><ymax>{bottom}</ymax>"
    return f"<object><name>dog</name><bndbox>{box}</bndbox></object>"


def kind_of(row: str) -> str:
    """Which of the folders a row reads."""
    if has_boxes(row):
        return "pairs"
    return next((kind for kind in KINDS if row.lower().startswith(kind)), "jpeg")


def has_boxes(row: str) -> bool:
    """Whether the items of a row are pictures with boxes."""
    return row.startswith("boxes") or "SSD300" in row


def is_opaque(row: str) -> bool:
    """Whether the dataset of a row is one of which Seneca knows nothing."""
    return row.startswith(("opaque", "short epochs", "masked words", "ratings", "two jobs with"))


def jobs_of(row: str) -> int:
    """How many jobs a row has."""
    return {"two jobs": 2, "four jobs": 4}.get(" ".join(row.split()[:2]), 1)


def cpu_s() -> float:
    """What this process and its workers have used of processors."""
    ticks = 0
    for child in multiprocessing.active_children():
        after_name = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(after_name[11]) + int(after_name[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def measure(row: str, folder: str, seconds: float, together: Any, answers: Any) -> None:
    """In a process of its own: samples a second, and the processors' time for a sample in ms."""
    loader = loader_of(row, folder)
    epoch = (batch for _ in itertools.count() for batch in loader)
    next(epoch)
    together.wait()
    begun = time.perf_counter()
    while time.perf_counter() - begun < WARM_S:
        next(epoch)
    samples, begun, used_s = 0, time.perf_counter(), cpu_s()
    while time.perf_counter() - begun < seconds:
        batch = next(epoch)
        samples += len(batch["person"] if isinstance(batch, dict) else batch[1])
    answers.put((samples / (time.perf_counter() - begun), (cpu_s() - used_s) / samples * 1e3))
    together.wait()  # the others are not to go faster because this one has ended


def run(row: str, folder: str, seconds: float) -> tuple[float, float]:
    """One measurement: samples a second of all jobs together, and the processors' time for a sample in ms."""
    spawn = multiprocessing.get_context("spawn")
    answers, together = spawn.SimpleQueue(), spawn.Barrier(jobs_of(row), timeout=JOB_S)
    arguments = (row, folder, seconds, together, answers)
    jobs = [spawn.Process(target=measure, args=arguments) for _ in range(jobs_of(row))]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
        if job.exitcode:
            raise SystemExit(f"{row}: ended with {job.exitcode}")
    speeds, used_ms = zip(*(answers.get() for _ in jobs), strict=True)
    return float(sum(speeds)), float(statistics.fmean(used_ms))


def main() -> None:
    """Measure all rows and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of class folders of pictures; made up if not given")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", nargs="+", default=[], help="only rows whose names begin so")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(report.machine(["seneca-loader", "torch", "torchvision", "pillow-simd"]))
    wanted = tuple(options.rows) or ("",)
    compared = [both for both in COMPARED.items() if both[0].startswith(wanted)]
    if importlib.util.find_spec("timm") is None:
        print(f"missing: {TIMM}, because timm is not installed: pip install timm")
        compared = [both for both in compared if not both[0].startswith(TIMM)]
    rows = list(dict.fromkeys(row for both in compared for row in reversed(both)))
    seen: dict[str, list[float]] = {row: [] for row in rows}
    used: dict[str, list[float]] = {row: [] for row in rows}
    with pictures(options.data) as data, tempfile.TemporaryDirectory(prefix="seneca-bench-") as folder:
        folders = make_folders(data, Path(folder))
        if "webp" not in folders and any(kind_of(row) == "webp" for row in rows):
            print("WebPs are left out: this Pillow was compiled without libwebp")
            rows = [row for row in rows if kind_of(row) != "webp"]
        for _ in range(options.rounds):
            for row in rows:
                per_s, cpu_ms = run(row, folders[kind_of(row)], options.seconds)
                seen[row].append(per_s)
                used[row].append(cpu_ms)
    lines, results = [], []
    for row in rows:
        speed = statistics.median(seen[row])
        ratios: list[float] = []
        if COMPARED.get(row) in seen:
            ratios = [ours / theirs for ours, theirs in zip(seen[row], seen[COMPARED[row]], strict=True)]
        ratio = statistics.median(ratios) if ratios else None
        span = f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else ""
        cpu_ms = statistics.median(used[row])
        cheaper = None
        if COMPARED.get(row) in seen:
            both_used = zip(used[COMPARED[row]], used[row], strict=True)
            cheaper = statistics.median(theirs / ours for theirs, ours in both_used)
        cpu_ratio = f"{cheaper:.3f}" if cheaper else ""
        lines.append(
            (row, f"{speed:,.0f}", f"{ratio:.3f}" if ratio else "", span, f"{cpu_ms:.2f}", cpu_ratio)
        )
        result = {"what": row, "per_s": speed, "ratio": ratio, "ratios": ratios}
        results.append({**result, "cpu_ms": cpu_ms, "cpu_ratio": cheaper})
    report.print_table(
        "Changing the import alone, 2 workers",
        ["", "samples/s", "ratio", "of the rounds", "CPU ms a sample", "ratio"],
        lines,
    )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
