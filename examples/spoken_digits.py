"""Two jobs that learn to distinguish spoken digits share what is read, decoded and augmented.

    python examples/spoken_digits.py                 # tones of its own making
    python examples/spoken_digits.py recordings      # a folder of class folders of sounds, or their archive

A folder is opened as a `seneca.SoundFolder`, and an archive is read in place. The model is M5 of "Very deep
convolutional neural networks for raw waveforms" (Dai et al., 2017) with a quarter of its channels.
"""

import os
import sys
import tempfile

import torch
from torch import nn

import seneca
from seneca import transforms as T
from seneca.testing import make_sounds

RATE, LENGTH = 8000, 8000  # frames a second, and of a result: one second
EPOCHS = 6

train = T.Compose(
    [T.RandomTimeCrop(LENGTH), T.RandomTimeShift((-0.1, 0.1), rollover=False), T.RandomGain((-6, 6))]
)


class M5(nn.Sequential):
    """Scores of classes from waveforms (B, 1, frames)."""

    def __init__(self, classes, width=32):
        def block(before, after, kernel, stride=1):
            convolution = nn.Conv1d(before, after, kernel, stride, padding=kernel // 2)
            return [convolution, nn.BatchNorm1d(after), nn.ReLU(), nn.MaxPool1d(4)]

        super().__init__(
            *block(1, width, 79, stride=4),
            *block(width, width, 3),
            *block(width, 2 * width, 3),
            *block(2 * width, 4 * width, 3),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(4 * width, classes),
        )


def learn(job, sounds, together):
    torch.set_num_threads(1)
    dataset = seneca.open(sounds, train, rate=RATE, mono=True)
    loader = seneca.DataLoader(dataset, batch_size=16, shuffle=True, num_workers=1, cache_bytes="128MiB")
    model = M5(len(dataset.classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    together.wait()  # who comes later is served less
    for epoch in range(EPOCHS):
        right = 0
        for waveforms, labels in loader:  # float32 (B, 1, LENGTH), int64 (B,)
            scores = model(waveforms)
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += int((scores.argmax(1) == labels).sum())
        print(f"job {job}, epoch {epoch + 1}: loss {loss.item():.2f}, {right / len(dataset):.0%} right")
    print(f"job {job}: served {loader.stats()['served']}\n{loader.explain()}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sounds = sys.argv[1] if sys.argv[1:] else os.fspath(make_sounds(folder, count=400, rate=RATE))
        together = torch.multiprocessing.get_context("fork").Barrier(2)
        torch.multiprocessing.start_processes(learn, (sounds, together), nprocs=2, start_method="fork")
