"""Two jobs that learn to guess words that are left out share the sentences that either has prepared.

    python examples/masked_words.py              # sentences of its own making
    python examples/masked_words.py book.txt     # or the lines of a text

Items are of any length, and the user's collate function makes batches of them.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

import seneca

MASK, WORDS = 1, 500  # 0 fills up


class Sentences(torch.utils.data.Dataset):
    """Each line as numbers of words, some of them left out, and which these were."""

    def __init__(self, lines):
        common = Counter(word for line in lines for word in line.split()).most_common(WORDS - 2)
        self.numbers = {word: i + 2 for i, (word, _) in enumerate(common)}
        self.lines = lines

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        words = torch.tensor([self.numbers.get(word, MASK) for word in self.lines[index].split()])
        left_out = torch.rand(len(words)) < 0.2
        return torch.where(left_out, MASK, words), torch.where(left_out, words, 0)


def collate(items):
    return tuple(pad_sequence(part, batch_first=True) for part in zip(*items, strict=True))


def made_up():
    """Who does what to whom: the words of a line belong together."""
    rng = np.random.default_rng(1)
    for _ in range(1500):
        a, b = rng.integers(12, size=2)
        yield f"the person{a} who has a thing{a} sees the animal{b}" + f" and its young{b}" * int(
            rng.integers(2)
        )


def train(job, lines, together):
    torch.set_num_threads(1)
    options = dict(batch_size=64, shuffle=True, num_workers=1, collate_fn=collate, cache_bytes="32MiB")
    loader = seneca.DataLoader(Sentences(lines), **options)
    words, reader = nn.Embedding(WORDS, 32), nn.GRU(32, 32, batch_first=True, bidirectional=True)
    guess = nn.Linear(64, WORDS)
    parameters = [*words.parameters(), *reader.parameters(), *guess.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    together.wait()  # who comes later is served less
    for epoch in range(2):
        for given, wanted in loader:
            scores = guess(reader(words(given))[0])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"job {job}, epoch {epoch + 1}: loss {loss.item():.2f}")
    print(f"job {job}: served {loader.stats()['served']}\n{loader.explain()}")


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text().splitlines() if sys.argv[1:] else made_up()
    together = torch.multiprocessing.get_context("fork").Barrier(2)
    lines = [line for line in text if line.strip()]
    torch.multiprocessing.start_processes(train, (lines, together), nprocs=2, start_method="fork")
