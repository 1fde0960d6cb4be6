"""Two jobs that learn to distinguish spoken digits share what is read, decoded and augmented.

    python examples/spoken_digits.py                 # tones of its own making
    python examples/spoken_digits.py recordings      # a folder or an archive of DIGIT_NAME.wav

The dataset offers its stages (``seneca.StagedDataset``). Needs soundfile.
"""

import io
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import nn

import seneca

LENGTH, MASKED = 4000, 400  # half a second at 8 kHz, and how much of it is silenced


class Digits:
    def __init__(self, folder):
        # With the time of change, so that a new recording under an old name is another sample.
        self.samples = [(path, path.stat().st_mtime_ns) for path in sorted(Path(folder).rglob("*.wav"))]

    def __len__(self):
        return len(self.samples)

    def label(self, index):
        return int(self.samples[index][0].name[0])

    def read(self, index):
        return self.samples[index][0].read_bytes()

    def decode(self, data):
        return soundfile.read(io.BytesIO(data), dtype="float32")[0]

    def augment(self, sound, rng):
        times = np.arange(0, len(sound), rng.uniform(0.8, 1.25))  # faster or slower
        sound = np.interp(times, np.arange(len(sound)), sound)[:LENGTH].astype(np.float32)
        masked = rng.integers(LENGTH - MASKED)
        sound[masked : masked + MASKED] = 0
        return np.pad(sound, (0, LENGTH - len(sound)))[None]


def make_tones(folder):
    for i in range(400):
        soundfile.write(f"{folder}/{i % 10}_{i}.wav", np.sin(np.arange(3000 + i) * (0.1 + i % 10 / 20)), 8000)


def train(job, folder, together):
    torch.set_num_threads(1)
    options = dict(batch_size=16, shuffle=True, num_workers=1, cache_bytes="32MiB")
    loader = seneca.DataLoader(Digits(folder), **options)
    net = nn.Sequential(nn.Conv1d(1, 32, 64, 8), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
    together.wait()  # who comes later is served less
    for sounds, labels in loader:
        loss = nn.functional.cross_entropy(net(sounds), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"job {job}: loss {loss.item():.2f}, served {loader.stats()['served']}\n{loader.explain()}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        if not sys.argv[1:]:
            make_tones(folder)
        elif Path(sys.argv[1]).is_dir():
            folder = sys.argv[1]
        else:
            shutil.unpack_archive(sys.argv[1], folder, filter="data")
        together = torch.multiprocessing.get_context("fork").Barrier(2)
        torch.multiprocessing.start_processes(train, (folder, together), nprocs=2, start_method="fork")
