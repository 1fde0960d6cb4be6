"""How soon does the first batch of a large folder come, and what does each later epoch ask of the files?

Method: a tree of ``--folders`` x ``--files`` real pictures is made in a temporary folder, and removed. A
process makes the dataset and begins three epochs. Timed are the listing, and each epoch from ``iter()`` to
its first batch. The same process then times ``os.stat`` of each path, to compare with. Three processes run,
one after the other: the second finds the list of the first. Memory is the process's own, divided by the
number of files. Inodes are in memory. On cold storage all columns wait for storage.

::

    python -m bench.bench_files --folders 1000 --files 1300
"""

from __future__ import annotations

import argparse
import gc
import io
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT)]

import report  # noqa: E402
from jobs import JobFailed, Voice, started  # noqa: E402
from PIL import Image  # noqa: E402

import seneca  # noqa: E402
from seneca import transforms as T  # noqa: E402

EPOCHS = 3


def make_tree(root: Path, folders: int, files: int) -> None:
    """Real JPEGs of 48 x 48, some hundred bytes each."""
    picture = io.BytesIO()
    Image.linear_gradient("L").resize((48, 48)).convert("RGB").save(picture, "JPEG")
    for folder in range(folders):
        place = root / f"n{folder:08}"
        place.mkdir(parents=True)
        for i in range(files):
            (place / f"n{folder:08}_{i}.jpg").write_bytes(picture.getvalue())


def measure(voice: Voice, number: int, root: str, verify_files: str) -> list[float]:
    """One job: seconds of os.stat of all, of the listing, and to each first batch; bytes a file."""
    os.environ["XDG_CACHE_HOME"] = f"{root}.cache"  # where lists are kept
    began_with, begun = own_bytes(), time.perf_counter()
    train = seneca.ImageFolder(root, T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip()]))
    times = [time.perf_counter() - begun]
    more = [(own_bytes() - began_with) / len(train)]
    options = {"cache_bytes": "256MiB", "split": "50-50-0", "verify_files": verify_files}
    loader = seneca.DataLoader(train, batch_size=256, shuffle=True, num_workers=2, **options)
    for _ in range(EPOCHS):
        begun = time.perf_counter()
        batches = iter(loader)
        next(batches)
        times.append(time.perf_counter() - begun)
        if len(more) == 1:
            more.append((own_bytes() - began_with) / len(train))
        del batches
        voice.alive()
    begun = time.perf_counter()
    for path, _ in train.samples:
        os.stat(path)
    return [time.perf_counter() - begun, *times, *more]


def own_bytes() -> int:
    """The memory that this process has for itself, without what it maps of files and segments."""
    gc.collect()
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Anonymous:"))


def main() -> int:
    """Measure, print, and return the exit status: 1 when a job failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folders", type=int, default=1000)
    parser.add_argument("--files", type=int, default=1300, help="in each folder")
    options = parser.parse_args()
    print(report.machine(["torch", "seneca-loader"]))
    lines = []
    with tempfile.TemporaryDirectory(prefix="seneca-bench-files-") as root:
        make_tree(Path(root) / "train", options.folders, options.files)
        for verify_files in ("epoch", "epoch", "run"):
            try:
                with started([(measure, (f"{root}/train", verify_files))]) as (job,):
                    seconds = job.hear("done")
            except JobFailed as error:
                print(error, file=sys.stderr)
                return 1
            lines.append([verify_files, *(f"{one:.2f}" for one in seconds)])
    head = ["verify_files", "os.stat of all", "listing", *(f"first batch {i + 1}" for i in range(EPOCHS))]
    head += ["B a file, listed", "B a file, with a batch"]
    report.print_table(f"{options.folders * options.files:,} files, seconds", head, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
