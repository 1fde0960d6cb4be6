"""A job of many epochs holds no more at its end than at its begin: memory, files, threads, shared memory."""

import json
import os

import pytest
import ready
from sizes import size

EPOCHS = int(os.environ.get("SENECA_TEST_EPOCHS") or size(24, 48))
WARM = EPOCHS // 4  # by then allocators and caches have what they take
MOST_OBJECTS = 150  # more; an object of an epoch that is kept is a few
MOST_MORE = 6 << 20  # bytes; one that keeps 40 KB of an epoch has more by the end

JOB = """
import gc, glob, json, os, sys, time
import torch, seneca
from seneca import transforms as T

kind, folder, epochs, warm = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.full((1000,), float(index))

def scaled(picture):
    return torch.tensor(picture.resize((8, 8)).getdata(), dtype=torch.uint8)

options = {"batch_size": 8, "shuffle": True, "num_workers": 1 if "worker" in kind else 0}
options["persistent_workers"] = "stays" in kind
dataset = Numbers()
if "native" in kind:
    dataset = seneca.ImageFolder(folder, T.Compose([T.RandomResizedCrop(8), T.ToTensor()]))
elif "staged" in kind:
    dataset = seneca.ImageFolder(folder, scaled)
if "torch" in kind:
    loader = torch.utils.data.DataLoader(dataset, **options)
else:
    loader = seneca.DataLoader(dataset, **options)

def least(folder):  # without what is about to go: torch's threads end a moment after the epoch
    return min(len(os.listdir(folder)) for _ in range(10) if not time.sleep(0.01))

def held():
    gc.collect()
    fields = dict(line.split(":", 1) for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
    shared = glob.glob(os.environ["SENECA_DIR"] + "/*") + glob.glob(f"/dev/shm/*_{os.getpid()}_*")
    return {
        "descriptors": least("/proc/self/fd"),
        "threads": least("/proc/self/task"),
        "shared": len(shared),
        "objects": len(gc.get_objects()),
        "bytes": int(fields["Anonymous"].split()[0]) * 1024,
    }

for epoch in range(epochs):
    if epoch == warm:
        print(json.dumps(held()), flush=True)
    for batch in loader:
        pass
print(json.dumps(held()), flush=True)
"""
KINDS = [
    f"{grade}{worker}"
    for grade in ("opaque", "staged", "native", "torch")
    for worker in ("", ", a worker", ", a worker that stays")
]


@pytest.mark.small(2)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_grows(kind, picture_folder, segment_folder):
    done = ready.run("-c", JOB, kind, picture_folder, str(EPOCHS), str(WARM))
    assert done.returncode == 0, done.stderr
    before, after = map(json.loads, done.stdout.splitlines())
    print(kind, before, after)
    assert after.pop("bytes") - before.pop("bytes") <= MOST_MORE
    assert after.pop("objects") - before.pop("objects") <= MOST_OBJECTS
    assert after == before
    assert os.listdir(segment_folder) == []
