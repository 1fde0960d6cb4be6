"""The kinds of sampler. This is the one module that examines a sampler's class."""

from __future__ import annotations

import contextlib
import copy
import enum
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    ConcatDataset,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
)

from seneca.epochs.dataset_state import has_state
from seneca.epochs.shard import each_of

__all__ = [
    "Kind",
    "draw_seed",
    "epoch_of",
    "foreseen",
    "generators_of",
    "kind_of",
    "permutation",
    "seed_of",
    "some_of",
    "subset_named",
    "with_seed",
]

# Samplers that yield random permutations, by the full names of their classes. Nothing else about them
# matters. accelerate replaces a RandomSampler by this one, in order to seed it by the epoch.
RESEEDED = frozenset({"accelerate.data_loader.SeedableRandomSampler"})

# What the order of torch's samplers depends on. A subclass that has one of these has an order of its own.
DECIDES: dict[type, set[str]] = {
    SequentialSampler: {"__iter__", "__len__", "data_source", "set_epoch"},
    RandomSampler: {
        *("__iter__", "__len__", "data_source", "replacement", "num_samples", "generator", "set_epoch"),
    },
    SubsetRandomSampler: {"__iter__", "__len__", "indices", "generator", "set_epoch"},
    DistributedSampler: {
        *("__iter__", "__len__", "dataset", "num_replicas", "rank", "epoch", "seed", "shuffle"),
        *("drop_last", "num_samples", "total_size"),
    },
}


class Kind(enum.Enum):
    """How a sampler goes over a dataset, as far as its class shows."""

    SEQUENTIAL = "each sample once, in the order of the dataset"
    SHUFFLED = "each sample once, in a random order that torch draws"
    RESEEDED = "each sample once, in a random order that a framework draws"
    SHARDED = "one rank's shard, as torch deals it"
    SUBSET = "each of some samples once, in a random order that torch draws"
    RANDOM = "random samples: with replacement, or another number than the dataset has"
    OTHER = "an order that only the sampler knows"

    @property
    def permutes(self) -> bool:
        """Whether another random order of all samples would be as good."""
        return self in (Kind.SHUFFLED, Kind.RESEEDED)


def kind_of(sampler: Any, count: int | None, *, subsets: bool = True) -> Kind:
    """Find out how ``sampler`` goes over a dataset of ``count`` samples; None: the length is not known.

    A subclass counts as its base class if it keeps no state, and overrides nothing on which the order
    depends.

    ``subsets``: whether the indices of a ``SubsetRandomSampler`` are checked, which takes long for a long
    list. If not, its kind is OTHER.
    """
    if _is_torchs(sampler, SequentialSampler):
        whole = count is not None and len(sampler) == count
        return Kind.SEQUENTIAL if whole else Kind.OTHER
    if _is_torchs(sampler, RandomSampler):
        whole = count is not None and len(sampler.data_source) == len(sampler) == count
        return Kind.SHUFFLED if whole and not sampler.replacement else Kind.RANDOM
    if _is_torchs(sampler, DistributedSampler):
        return Kind.SHARDED if count is not None and _shards_evenly(sampler, count) else Kind.OTHER
    if _is_torchs(sampler, SubsetRandomSampler):
        is_subset = subsets and some_of(sampler.indices, count) is not None
        return Kind.SUBSET if is_subset else Kind.OTHER
    if isinstance(sampler, RandomSampler) and _full_name(type(sampler)) in RESEEDED:
        whole = count is not None and len(sampler.data_source) == len(sampler) == count
        return Kind.RESEEDED if whole and not sampler.replacement else Kind.OTHER
    return Kind.OTHER


def some_of(given: Any, count: int | None) -> np.ndarray | None:
    """Indices as an int64 array; None: they are not some of ``count`` samples, each once."""
    try:
        indices = np.asarray(given)
    except (TypeError, ValueError):
        return None
    if count is None or indices.ndim != 1 or indices.dtype.kind not in "iu" or len(indices) == 0:
        return None
    if indices.min() < 0 or indices.max() >= count:
        return None
    met = np.zeros(count, bool)
    met[indices] = True
    return indices.astype(np.int64, copy=False) if np.count_nonzero(met) == len(indices) else None


def subset_named(dataset: Any, sampler: Any) -> str | None:
    """A name of the indices that a ``Subset`` and a ``SubsetRandomSampler`` choose; None: there are none.

    Nested ones are named one after the other, and so are the parts of a ``ConcatDataset``.
    """
    digest, before = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16).digest()
    if _is_torchs(sampler, SubsetRandomSampler):
        _add_indices(digest, sampler.indices)
    _add_subsets(digest, dataset)
    return None if digest.digest() == before else digest.hexdigest()


def _add_subsets(digest: Any, dataset: Any) -> None:
    while isinstance(dataset, Subset):
        _add_indices(digest, dataset.indices)
        dataset = dataset.dataset
    if isinstance(dataset, ConcatDataset):
        for part in dataset.datasets:
            _add_subsets(digest, part)


def _add_indices(digest: Any, given: Any) -> None:
    """Indices that are no numbers, or cannot be read, add nothing."""
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        indices = np.asarray(given)
        if indices.dtype.kind in "iu":
            digest.update(f"{indices.shape}".encode())
            digest.update(indices.astype(np.int64, copy=False).tobytes())


def _is_torchs(sampler: Any, base: type) -> bool:
    """Whether the sampler yields what this class of torch's yields, by what the class knows of it."""
    if not isinstance(sampler, base) or has_state(sampler):
        return False
    subclasses = type(sampler).__mro__[: type(sampler).__mro__.index(base)]
    return not any(DECIDES[base] & vars(subclass).keys() for subclass in subclasses)


def _shards_evenly(sampler: DistributedSampler[Any], count: int) -> bool:
    each = each_of(count, sampler.num_replicas, sampler.drop_last)
    fits = len(sampler.dataset) == count and len(sampler) == each  # type: ignore[arg-type]  # is sized
    return fits and sampler.total_size == each * sampler.num_replicas


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def draw_seed(generator: torch.Generator | None) -> int:
    """Draw a seed as torch's samplers do, from ``generator``; None: from torch's global generator."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def seed_of(states: Sequence[torch.Tensor]) -> int:
    """A seed that these states of generators name, without a draw from any; empty: torch's global one's."""
    digest = hashlib.blake2b(digest_size=8)
    for state in states or [torch.get_rng_state()]:
        digest.update(state.numpy().tobytes())
    return int.from_bytes(digest.digest(), "little") >> 1


def with_seed(sampler: RandomSampler, seed: int) -> RandomSampler:
    """A sampler that yields what ``sampler`` yields when it draws ``seed``."""
    generator = torch.Generator().manual_seed(seed)
    return RandomSampler(sampler.data_source, sampler.replacement, sampler.num_samples, generator)


def permutation(count: int, seed: int) -> np.ndarray:
    """The order in which a ``RandomSampler`` that draws ``seed`` goes over ``count`` samples, int64.

    The sampler itself makes a list of it first, which takes five times the memory.
    """
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed)).numpy()


def foreseen(
    sampler: Any, clone: Callable[[torch.Generator | None], torch.Generator | None], epochs: int
) -> Any:
    """A sampler that yields what ``sampler`` yields next, and draws from none of its generators.

    Args:
        sampler: The sampler.
        clone: Makes a generator that draws what this one will draw. It gets None for torch's global one. It
            returns None if nobody knows.
        epochs: By how much the sampler's epoch number will have changed.

    Returns:
        The sampler; None: it is not one of torch's, or nobody knows.
    """
    if _is_torchs(sampler, SequentialSampler):
        return sampler
    if _is_torchs(sampler, DistributedSampler):
        following = copy.copy(sampler)
        following.epoch += epochs
        return following
    generator = clone(getattr(sampler, "generator", None))
    if generator is None:
        return None
    if _is_torchs(sampler, SubsetRandomSampler):
        return SubsetRandomSampler(sampler.indices, generator)
    if _is_torchs(sampler, RandomSampler):
        if sampler.generator is None:
            return with_seed(sampler, draw_seed(generator))
        return RandomSampler(sampler.data_source, sampler.replacement, sampler.num_samples, generator)
    return None


def epoch_of(sampler: Any) -> int | None:
    """The number of the epoch that a sampler of shards is set to; None: it is of another kind."""
    return sampler.epoch if _is_torchs(sampler, DistributedSampler) else None


def generators_of(*things: Any) -> list[torch.Generator]:
    """The generators of loaders and samplers, and of the samplers within them, each once."""
    found: list[torch.Generator] = []
    for thing in things:
        for one in (thing, getattr(thing, "sampler", None)):
            generator = getattr(one, "generator", None)
            if isinstance(generator, torch.Generator) and all(generator is not other for other in found):
                found.append(generator)
    return found
