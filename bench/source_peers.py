"""What bench_sources compares with: the loaders of WebDataset, MosaicML Streaming and torch.

Each has the same pictures in the form that it is made for, torchvision's transforms, and two worker processes
that stay from epoch to epoch. What a loader needs is imported where it is used.
"""

from __future__ import annotations

import importlib.util
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["PEERS", "classes_of", "loader_of_peer", "missing", "write_mds", "write_shards"]

SHARDS = 4  # a shard is one worker's: two for each
SHUFFLED = 1000  # samples among which WebDataset draws, as its own examples have it
PEERS = {  # the package to install for each, and its module
    "datasets in torch": ("datasets", "datasets"),
    "webdataset": ("webdataset", "webdataset"),
    "streaming": ("mosaicml-streaming", "streaming"),
}


def missing(peer: str) -> str | None:
    """What has to be installed before this loader can run, or None."""
    package, module = PEERS[peer]
    for name, of in ((package, module), ("torchvision", "torchvision")):
        if importlib.util.find_spec(of) is None:
            return name
    return None


def classes_of(pictures: Sequence[Path]) -> dict[str, int]:
    return {name: number for number, name in enumerate(sorted({path.parent.name for path in pictures}))}


def write_shards(pictures: Sequence[Path], folder: Path) -> None:
    """The pictures as shards of WebDataset: ``.jpg`` members with their labels in ``.cls`` members."""
    folder.mkdir()
    labels = classes_of(pictures)
    for shard in range(SHARDS):
        with tarfile.open(folder / f"train-{shard:03}.tar", "w", dereference=True) as tar:
            for number in range(shard, len(pictures), SHARDS):
                tar.add(pictures[number], f"{number:06}.jpg")
                label = folder / "label"
                label.write_text(str(labels[pictures[number].parent.name]))
                tar.add(label, f"{number:06}.cls")
    (folder / "label").unlink()


def write_mds(pictures: Sequence[Path], folder: Path) -> None:
    """The pictures as shards of MosaicML Streaming. JPEGs stay as they are."""
    MDSWriter = _streaming().MDSWriter
    labels = classes_of(pictures)
    with MDSWriter(out=str(folder), columns={"image": "bytes", "label": "int"}, size_limit=1 << 24) as out:
        for path in pictures:
            out.write({"image": path.read_bytes(), "label": labels[path.parent.name]})


def loader_of_peer(peer: str, where: str, transform: Any, batch: int, workers: int) -> Any:
    """The loader of one of :data:`PEERS`. Its batches are pairs of pictures and labels.

    Args:
        peer: One of :data:`PEERS`.
        where: The folder of its shards or its table.
        transform: What makes a tensor of a picture of Pillow's.
        batch: Samples in a batch.
        workers: Worker processes, at least one.
    """
    import torch.utils.data

    options: dict[str, Any] = {"batch_size": batch, "num_workers": workers, "persistent_workers": True}
    options["multiprocessing_context"] = "fork"  # Linux's default until Python 3.14
    if peer == "webdataset":
        return _webdataset(where, transform, options)
    if peer == "streaming":
        return _streaming_loader(where, transform, options)
    import datasets

    def transformed(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {"image": [transform(one.convert("RGB")) for one in rows["image"]], "label": rows["label"]}

    table = datasets.load_from_disk(where).with_transform(transformed)
    return torch.utils.data.DataLoader(table, shuffle=True, collate_fn=_of_rows, **options)


def _of_rows(rows: list[dict[str, Any]]) -> tuple[Any, Any]:
    import torch

    return torch.stack([row["image"] for row in rows]), torch.tensor([row["label"] for row in rows])


def _webdataset(where: str, transform: Any, options: dict[str, Any]) -> Any:
    import webdataset

    shards = sorted(map(str, Path(where).glob("*.tar")))
    samples = webdataset.WebDataset(shards, shardshuffle=len(shards), empty_check=False)
    samples = samples.shuffle(SHUFFLED).decode("pilrgb").to_tuple("jpg", "cls").map_tuple(transform, int)
    return webdataset.WebLoader(samples, **options)


def _streaming_loader(where: str, transform: Any, options: dict[str, Any]) -> Any:
    import io

    from PIL import Image

    streaming = _streaming()

    class Pictures(streaming.StreamingDataset):
        def __getitem__(self, index: int) -> tuple[Any, int]:
            row = super().__getitem__(index)
            with Image.open(io.BytesIO(row["image"])) as image:
                return transform(image.convert("RGB")), row["label"]

    pictures = Pictures(local=where, shuffle=True, batch_size=options["batch_size"])
    return streaming.StreamingDataLoader(pictures, **options)


def _streaming() -> Any:
    """The package, which imports torchvision itself."""
    sys.path[:0] = [str(Path(__file__).parent)]
    from job_loaders import import_torchvision

    import_torchvision()
    import streaming

    return streaming
