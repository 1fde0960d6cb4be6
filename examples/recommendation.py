"""Two jobs that learn what people like share the rows that either has prepared.

    python examples/recommendation.py

The rows are made up. The dataset is any map-style one: whole items are shared, here dicts.
"""

import numpy as np
import torch
from torch import nn

import seneca

PEOPLE, FILMS, ROWS, TASTES = 300, 200, 3000, 6


class Ratings(torch.utils.data.Dataset):
    """Who liked which film, with what they liked before and a film that they may not like."""

    def __init__(self):
        rng = np.random.default_rng(1)
        people, films = (rng.normal(size=(n, TASTES)).astype(np.float32) for n in (PEOPLE, FILMS))
        self.person = rng.integers(PEOPLE, size=ROWS)
        noise = rng.gumbel(size=(ROWS, FILMS)).astype(np.float32)
        self.film = (people[self.person] @ films.T + noise).argmax(1)

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        before = self.film[:index][self.person[:index] == self.person[index]][-5:]
        history = np.bincount(before, minlength=FILMS).astype(np.float32)
        return {
            "person": self.person[index],
            "films": {"liked": self.film[index], "other": int(torch.randint(FILMS, ()))},
            "history": torch.from_numpy(history),
        }


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.people, self.films = nn.Embedding(PEOPLE, 16), nn.Embedding(FILMS, 16)
        self.history = nn.Linear(FILMS, 16, bias=False)

    def forward(self, batch):
        """How much more each film that was liked is expected to be than the other."""
        person = self.people(batch["person"]) + self.history(batch["history"])
        films = self.films(batch["films"]["liked"]) - self.films(batch["films"]["other"])
        return (person * films).sum(1)


def train(job, together):
    torch.set_num_threads(1)
    loader = seneca.DataLoader(Ratings(), batch_size=64, shuffle=True, num_workers=1, cache_bytes="32MiB")
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    together.wait()  # who comes later is served less
    for epoch in range(2):
        right = 0
        for batch in loader:
            more = model(batch)
            optimizer.zero_grad()
            nn.functional.softplus(-more).mean().backward()
            optimizer.step()
            right += int((more > 0).sum())
        print(f"job {job}, epoch {epoch + 1}: {right / ROWS:.0%} of the pairs in the right order")
    print(f"job {job}: served {loader.stats()['served']}\n{loader.explain()}")


if __name__ == "__main__":
    together = torch.multiprocessing.get_context("fork").Barrier(2)
    torch.multiprocessing.start_processes(train, (together,), nprocs=2, start_method="fork")
