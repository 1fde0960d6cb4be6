"""A process that ends leaves no cache behind, whoever of its processes was the last that used it.

And what is made and dropped within a process does not add up in it. SENECA_TEST_LOADERS says how often.
"""

import gc
import os
import threading

import pytest
import ready
import torch
from sizes import size
from torch.utils.data import Dataset

import seneca
from seneca import transforms as T

LOADERS = int(os.environ.get("SENECA_TEST_LOADERS") or 0)
ENDS = {
    "at the end": "for epoch in range(2):\n    for batch in loader: pass",
    "dropped": "for epoch in range(2):\n    for batch in loader: pass\ndel loader, dataset",
    "in mid-epoch": "for batch in loader: break",
    "iterator held": "batches = iter(loader)\nnext(batches)",
    "exit": "for batch in loader: sys.exit(3)",
    "error": "for batch in loader: raise ValueError('3')",
    "interrupt": "for batch in loader: os.kill(os.getpid(), signal.SIGINT)",
    "never begun": "batches = iter(loader)",
}
BEGIN = """
import os, signal, sys
import torch, seneca
from seneca import transforms as T

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return torch.full((100,), float(index))

kind, folder = sys.argv[1:]
options = {"batch_size": 4, "num_workers": 0 if "alone" in kind else 2}
options["persistent_workers"] = "that stay" in kind
if "spawned" in kind:
    options["multiprocessing_context"] = "spawn"
dataset = Numbers()
if "native" in kind:
    dataset = seneca.ImageFolder(folder, T.Resize((8, 8)))
elif "staged" in kind:
    dataset = seneca.ImageFolder(folder, T.Compose([T.Resize((8, 8)), bytes_of]))
if "torch" in kind:
    dataset = seneca.SharedDataset(dataset)
    loader = torch.utils.data.DataLoader(dataset, **options)
else:
    loader = seneca.DataLoader(dataset, **options)
"""
KINDS = [
    "torch, workers that stay",
    "torch, workers",
    "torch, alone",
    "opaque, workers that stay",
    "opaque, alone",
    "native, workers that stay",
]


@pytest.mark.small(4)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_ends_leaves_nothing(picture_folder, segment_folder, kind, end):
    """The fixture of the folder asserts that nothing is left."""
    done = ready.run("-c", BEGIN + ENDS[end], kind, picture_folder)
    expected = {"exit": 3, "error": 1, "interrupt": 1}
    assert done.returncode in (expected.get(end, 0), -2 if end == "interrupt" else 0), done.stderr
    assert os.listdir(segment_folder) == []


@pytest.mark.whole_size(shown_by="test_a_process_that_ends_leaves_nothing")
def test_spawned_workers_leave_nothing(tmp_path, picture_folder, segment_folder):
    path = tmp_path / "job.py"
    inner = "\n".join("    " + line for line in (BEGIN + ENDS["at the end"]).strip().splitlines())
    names = "import sys, torch\n" + BEGIN[BEGIN.index("class") : BEGIN.index("kind,")]
    path.write_text(names + "if __name__ == '__main__':\n" + inner.replace("class Numbers", "class Unused"))
    done = ready.run(path, "torch, spawned workers that stay", picture_folder)
    assert done.returncode == 0, done.stderr
    assert os.listdir(segment_folder) == []


class Numbers(Dataset):
    def __init__(self, fails=False):
        self.fails = fails

    def __len__(self):
        return 24

    def __getitem__(self, index):
        if self.fails and index == 9:
            raise ValueError("9")
        return torch.full((100,), float(index))


def held():
    """What this process holds: descriptors, threads, mappings, children."""
    gc.collect()
    with open("/proc/self/maps") as maps, open(f"/proc/self/task/{os.getpid()}/children") as children:
        return {
            "descriptors": len(os.listdir("/proc/self/fd")),
            "threads": threading.active_count(),
            "tasks": len(os.listdir("/proc/self/task")),
            "mappings": sum("/seneca-" in line or "memfd" in line for line in maps),
            "children": len(children.read().split()),
        }


@pytest.mark.parametrize("kind", ["opaque", "native"])
@pytest.mark.parametrize("way", ["made and dropped", "break", "error"])
@pytest.mark.small(1)
@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_adds_up_in_a_process(picture_folder, segment_folder, kind, way, workers):
    count = LOADERS or size(5, 60 if workers == 0 or kind == "native" else 20)

    def once():
        data = Numbers(way == "error")
        if kind == "native":
            data = seneca.ImageFolder(picture_folder, T.Resize((8, 8)))
        options = {"cache_bytes": "4MiB", "num_workers": workers}
        if kind == "native" and way == "error":
            options["collate_fn"] = fails
        loader = seneca.DataLoader(data, 4, **options)
        if way == "made and dropped":
            for _ in loader:
                pass
        elif way == "break":
            for _ in loader:
                break
        else:
            with pytest.raises(ValueError, match="9"):
                list(loader)

    for _ in range(3):
        once()
    before = held()
    for _ in range(count):
        once()
    assert held() == before


def fails(items):
    raise ValueError("9")
