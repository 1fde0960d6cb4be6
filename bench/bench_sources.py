"""What does it cost to read pictures where they lie: in an archive, a Parquet file or a table?

Method. The same pictures, each several times, as a folder, a tar archive, a zip archive and, where
``datasets`` is installed, as a Parquet file and a Hugging Face table on disk. One job loads each with
``seneca.open()``, without a cache, for a few seconds. Each measurement is a process of its own. Rounds take
turns; the ratio to the folder of the same round is taken, and medians are shown. ``shards`` are tar archives
as WebDataset has them.

Other loaders (``source_peers.py``) load the same pictures with torchvision's transforms, in as many worker
processes as Seneca has threads: ``datasets in torch`` the table, ``webdataset`` the shards with its own
loader, ``streaming`` shards of MosaicML Streaming, which alone reads those. What is not installed is named.

``bucket`` is the same folder in a bucket whose server, nginx, waits 20 ms before each answer. It runs on the
same cores, and takes its part of them. ``job ms`` is the processor's time of the job for a
sample, with its worker processes, and without the server's.

    python -m bench.bench_sources --data train/
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import multiprocessing
import os
import statistics
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT)]

from job_loaders import import_torchvision  # noqa: E402
from links import make_links, pictures_of  # noqa: E402
from object_server import BUCKET, bucket_of, why_not  # noqa: E402
from report import machine, print_table  # noqa: E402
from source_peers import PEERS, loader_of_peer, missing, write_mds, write_shards  # noqa: E402

BATCH, SIZE, WORKERS = 32, 224, 2
SAMPLES = 3000  # of an epoch: it lasts a second, and waits for the bucket's first answers once
WAIT_S = 0.02  # of the bucket's server, for each answer


def write_tables(data: Path, path: Path, parquet: Path) -> None:
    """The pictures as ``save_to_disk`` writes them, and as a Parquet file that can be read in place."""
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq

    import seneca

    folder = seneca.ImageFolder(data)
    kinds = {"image": datasets.Image(), "label": datasets.ClassLabel(names=folder.classes)}
    features = datasets.Features(kinds)
    pictures = [{"bytes": folder.read(i), "path": None} for i in range(len(folder))]
    table = pa.table({"image": pictures, "label": folder.targets}, schema=features.arrow_schema)
    pq.write_table(table, parquet, compression="none", use_dictionary=False)
    info = datasets.DatasetInfo(features=features)
    datasets.Dataset(datasets.table.InMemoryTable(table), info=info, fingerprint="0" * 16).save_to_disk(path)


def pack(data: Path, scratch: Path) -> dict[str, str]:
    """The same pictures in each kind of container; where each is, and the rows that there are."""
    pictures = pictures_of(data)
    with tarfile.open(scratch / "all.tar", "w", dereference=True) as tar:
        tar.add(data, "all")
    with zipfile.ZipFile(scratch / "all.zip", "w") as archive:
        for path in pictures:
            archive.write(path, path.relative_to(data))
    write_shards(pictures, scratch / "shards")
    found = {"folder": str(data), "tar": str(scratch / "all.tar"), "zip": str(scratch / "all.zip")}
    found["shards"] = str(scratch / "shards" / "train-*.tar")
    if importlib.util.find_spec("datasets"):
        write_tables(data, scratch / "table", scratch / "all.parquet")
        found["parquet"] = str(scratch / "all.parquet")
        found["table"] = str(scratch / "table")
    forms = {"datasets in torch": "table", "webdataset": "shards", "streaming": "mds"}
    for peer in PEERS:
        package = missing(peer)
        if package is not None:
            print(f"{peer}: left out; pip install {package}")
            continue
        if peer == "streaming":
            write_mds(pictures, scratch / "mds")
        found[peer] = str(scratch / forms[peer])
    if (why := why_not()) is not None:
        print(f"bucket: left out; {why}")
        return found
    if importlib.util.find_spec("obstore"):
        found["bucket (obstore)"] = f"s3://{BUCKET}/"
    if importlib.util.find_spec("s3fs"):
        found["bucket (s3fs)"] = f"s3://{BUCKET}/"
    return found


def loader_of(what: str, where: str) -> Any:
    import seneca
    from seneca import transforms as T

    if what in PEERS:
        V = import_torchvision().transforms
        norm = V.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)
        own = V.Compose([V.RandomResizedCrop(SIZE), V.RandomHorizontalFlip(), V.ToTensor(), norm])
        return loader_of_peer(what, where, own, BATCH, WORKERS)
    if what == "bucket (s3fs)":
        from seneca.data.sources import stores

        stores.BY_OBSTORE = ()
    source: Any = where
    if what == "table":
        import datasets

        source = datasets.load_from_disk(where)
    norm = T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)
    transform = T.Compose([T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip(), norm])
    opened = seneca.open(source, transform)
    return seneca.DataLoader(opened, BATCH, shuffle=True, num_workers=WORKERS, cache=None)


def measure(what: str, where: str, seconds: float, answers: Any) -> None:
    loader, samples, began = loader_of(what, where), 0, 0.0
    used = _cpu_s()
    while not began or time.perf_counter() - began < seconds:
        for number, batch in enumerate(loader):
            if not began and number == 2:
                began, samples, used = time.perf_counter(), 0, _cpu_s()
            samples += len(batch[1])
    answers.put((samples / (time.perf_counter() - began), 1e3 * (_cpu_s() - used) / samples))


def _cpu_s() -> float:
    """The processor's time of this process and of its workers, which live."""
    tick, found = os.sysconf("SC_CLK_TCK"), time.process_time()
    for worker in multiprocessing.active_children():
        fields = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
        found += (int(fields[11]) + int(fields[12])) / tick
    return found


def run(what: str, where: str, seconds: float) -> tuple[float, float]:
    """Samples a second, and milliseconds of the processor for each."""
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    process = context.Process(target=measure, args=(what, where, seconds, answers))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"the process for {what} ended with {process.exitcode}")
    rate, cost = answers.get()
    return float(rate), float(cost)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench_sources", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder of class folders of JPEGs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--only", help="some rows, with commas between them; the folder is always there")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()

    packages = ["torch", "datasets", "pyarrow", "torchvision", "webdataset", "mosaicml-streaming"]
    print(machine([*packages, "pillow", "pillow-simd"]))
    with tempfile.TemporaryDirectory(prefix="seneca-bench-") as scratch:
        data = Path(scratch) / "folder"
        make_links(args.data, data, SAMPLES)
        sources = pack(data, Path(scratch))
        if args.only:
            wanted = {"folder", *args.only.split(",")}
            if wanted - sources.keys():
                parser.error(f"--only takes some of {', '.join(sources)}")
            sources = {what: where for what, where in sources.items() if what in wanted}
        rates: dict[str, list[float]] = {what: [] for what in sources}
        costs: dict[str, list[float]] = {what: [] for what in sources}
        with contextlib.ExitStack() as servers:
            if any(what.startswith("bucket") for what in sources):
                os.environ["AWS_ENDPOINT_URL"] = servers.enter_context(bucket_of(data, WAIT_S))
                os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
                os.environ |= {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
            for _ in range(args.rounds):
                for what, where in sources.items():
                    rate, cost = run(what, where, args.seconds)
                    rates[what].append(rate)
                    costs[what].append(cost)
    ratios = {
        what: [one / folder for one, folder in zip(of, rates["folder"], strict=True)]
        for what, of in rates.items()
    }
    print_table(
        "One job, no cache: samples/s, and compared with the folder",
        ["source", "samples/s", "of the folder", "rounds", "job ms"],
        [
            [
                what,
                f"{statistics.median(rates[what]):,.0f}",
                f"{statistics.median(of):.2f}",
                f"{min(of):.2f} to {max(of):.2f}",
                f"{statistics.median(costs[what]):.2f}",
            ]
            for what, of in ratios.items()
        ],
    )
    if args.json:
        args.json.write_text(json.dumps(rates, indent=1))


if __name__ == "__main__":
    main()
