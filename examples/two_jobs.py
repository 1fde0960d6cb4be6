"""Start this from two terminals, on the same folder, and watch ``prepared`` in what they print.

    python examples/two_jobs.py train/        # and once more beside it

Each is given every picture once an epoch; what one has prepared, the other need not.
"""

import sys

import torch
from torch import nn

import seneca
from seneca import transforms as T

train = seneca.ImageFolder(
    sys.argv[1],
    transform=T.Compose(
        [T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)]
    ),
)
loader = seneca.DataLoader(train, batch_size=64, shuffle=True, num_workers=1)

torch.set_num_threads(1)  # leave the other cores to the other job
network = nn.Sequential(
    nn.Conv2d(3, 32, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Conv2d(32, 64, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, len(train.classes)),
)
optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)

for epoch in range(3):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.2f}")

print(loader.stats())
