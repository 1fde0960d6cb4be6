"""The state of a loader, as ``state_dict()`` returns it: what it holds, and how the parts are packed.

A **place** of an epoch is one position in its order. Each place is delivered once. ``order`` says what a
place is:

* ``"seneca"``: an index of the dataset, because Seneca chooses the order.
* ``"samples"``: a position in the order of a sampler, from 0.
* ``"batches"``: a position in the order of a batch sampler of the user's, from 0.
* ``"stream"``: a batch of an ``IterableDataset``, from 0.

A state never holds samples. If the delivered places are the first ones, it holds their number, else one bit
for each place.

A state is a dict of plain values. It always has these keys:

* ``seneca_state``: :data:`VERSION`.
* ``n_samples``: the length of the dataset.
* ``epoch``: the number of the epoch that is under way, or of the next one.
* ``generators``: the states of the generators of loader and sampler, before the sampler draws for this epoch.

In mid-epoch it has these keys too:

* ``dataset``: the fingerprint of the samples, if it is known.
* ``subset``: of a ``Subset`` or ``SubsetRandomSampler``: a name of its indices.
* ``order``: what a place is.
* ``sampler``: the name of the sampler's class.
* ``done``: the places delivered.
* ``audit``: the logs of what was delivered, if there are any. See :mod:`seneca.audit.log`.
* ``seed``, ``nonce``, ``order_seed``, ``sampler_state``, ``sampler_epoch``, ``global_generator``: what the
  order and the random numbers of samples depend on. Only those that matter are there.
* ``draws``: of a random sampler: the number of samples that it draws from, how many it draws, and whether
  with replacement.
* ``sampler_now``: of a sampler that keeps a state: its state after the batch delivered last.
  ``sampler_state`` is its state from before the epoch. See :mod:`seneca.epochs.sampler_state`.
* ``base_seed``: torch's seed of the worker processes, if samples depend on it: with an
  ``IterableDataset``, or a dataset that keeps a state.
* ``cut``: of an ``IterableDataset``: how many processes make batches, and how many samples a batch has.

Where a ``DistributedSampler`` shards the epoch, a state in mid-epoch also has these keys:

* ``ranks``: this process's rank, and the number of ranks.
* ``dealt``: the sampler's ``shuffle``, ``seed`` and ``drop_last``.
* ``before``: the indices delivered before the rest of the epoch was sharded anew; 0: none.
* ``yielded``: samples delivered since then, repeated ones included.
* ``in_turn``: whether each rank is known to deliver in the order of its shard.

If the rest of an epoch is yet to be sharded, the state has only ``ranks`` and ``before`` of these keys.

``dataset_state`` is the state that the dataset keeps, if it keeps one. It is there between epochs too. See
:mod:`seneca.epochs.dataset_state`.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator

import numpy as np
import torch

__all__ = [
    "ORDERS",
    "VERSION",
    "flags",
    "named",
    "of_length",
    "packed",
    "unchanged_global_generator",
    "unnamed",
    "unpacked",
]

VERSION = 1
ORDERS = {
    "seneca": "Seneca's own order",
    "samples": "the samples of a sampler",
    "batches": "the batches of a batch sampler",
    "stream": "the batches of an IterableDataset",
}
NUMBERS = 2**21  # numbers of a generator that are searched to name its state, in some 10 ms


def named(state: torch.Tensor) -> dict[str, int] | bytes:
    """A generator's state in few bytes: its seed, and how many numbers it has given since.

    If seed and number do not reproduce the state, all of it is returned, compressed to some 3 KB.
    """
    generator = torch.Generator()
    generator.set_state(state)
    seed = generator.initial_seed()
    first = int(torch.empty((), dtype=torch.int32).random_(generator=generator))
    for count in (2**12, NUMBERS):
        numbers = torch.empty(count, dtype=torch.int32).random_(generator=generator.manual_seed(seed))
        for given in np.flatnonzero(numbers.numpy() == first)[:4].tolist():
            name = {"seed": seed, "given": given}
            if torch.equal(unnamed(name), state):
                return name
    return zlib.compress(state.numpy().tobytes())


def unnamed(name: dict[str, int] | bytes) -> torch.Tensor:
    """The generator's state that :func:`named` has named."""
    if isinstance(name, bytes):
        return torch.frombuffer(bytearray(zlib.decompress(name)), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(name["seed"])
    torch.empty(name["given"], dtype=torch.int32).random_(generator=generator)
    return generator.get_state()


@contextlib.contextmanager
def unchanged_global_generator() -> Iterator[None]:
    """Put torch's global generator back as it was before the block."""
    before = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(before)


def packed(done: np.ndarray) -> int | bytes:
    """The places that are delivered, a bool each, in the form that a state holds."""
    count = int(np.count_nonzero(done))
    return count if done[:count].all() else np.packbits(done, bitorder="little").tobytes()


def unpacked(done: int | bytes) -> np.ndarray:
    """The places that are delivered, a bool each. Places behind the last bool are not delivered."""
    if isinstance(done, int):
        return np.ones(done, bool)
    return np.unpackbits(np.frombuffer(done, np.uint8), bitorder="little").astype(bool)


def flags(done: int | bytes, count: int) -> np.ndarray:
    """As :func:`unpacked`, with exactly ``count`` places."""
    return of_length(unpacked(done), count)


def of_length(flags: np.ndarray, count: int) -> np.ndarray:
    """The first ``count`` flags, filled up with False if there are fewer."""
    return np.pad(flags[:count], (0, max(0, count - len(flags))))
