"""Merging the states of all ranks of a run into one state: what the ranks have delivered together."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from seneca.epochs.dataset_state import alike
from seneca.epochs.shard import Shard
from seneca.epochs.state import ORDERS, flags, packed, unnamed, unpacked
from seneca.errors import StateError

__all__ = ["merge_states"]

# Keys that are equal in the states of all ranks, if these were saved after the same batch.
OF_ALL_RANKS = (
    "seneca_state",
    "n_samples",
    "dataset",
    "subset",
    "epoch",
    "order",
    "sampler",
    "sampler_epoch",
    "dealt",
    "before",
)


def merge_states(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge the states of all ranks into one, for another number of ranks or for a single process.

    The merged state says what all ranks together have delivered. Each sample that no rank has delivered is
    still delivered in the epoch, by one of the ranks that resume. A loader whose ``load_state_dict`` gets the
    list of all states merges them itself.

    Args:
        states: The states of all ranks, in any order, saved after the same batch. If the run was a single
            process, its state alone.

    Raises:
        StateError: A rank's state is missing. Or the states are not of one epoch of one run. Or only the
            run's own sampler could say its order.

    Example:
        >>> import torch, seneca
        >>> data = torch.arange(8)
        >>> def rank(number, ranks):
        ...     sampler = torch.utils.data.DistributedSampler(data, ranks, number)
        ...     return seneca.DataLoader(data, 2, sampler=sampler, cache=None)
        >>> two = [rank(0, 2), rank(1, 2)]
        >>> seen = [int(one) for loader in two for one in next(iter(loader))]
        >>> three = [rank(number, 3) for number in range(3)]
        >>> for loader in three:
        ...     loader.load_state_dict(seneca.merge_states([loader.state_dict() for loader in two]))
        >>> rest = [int(one) for loader in three for batch in loader for one in batch]
        >>> set(seen).isdisjoint(rest), sorted({*seen, *rest}), len(rest)
        (True, [0, 1, 2, 3, 4, 5, 6, 7], 6)
    """
    if not states or not all(isinstance(state, dict) and "seneca_state" in state for state in states):
        raise StateError("states of ranks are a list of what state_dict() has returned, one a rank")
    first = states[0]
    for name in OF_ALL_RANKS:
        values = {str(state.get(name)) for state in states}
        if len(values) > 1:
            different = " and ".join(sorted(value[:60] for value in values))
            raise StateError(f"the states are not of one step of one run: their {name} is {different}")
    of_dataset = first.get("dataset_state")
    if not all(alike(state.get("dataset_state"), of_dataset) for state in states):
        raise StateError(
            "the dataset keeps a state, which differs between the ranks: give each rank the state that it "
            "saved; or, if the dataset can do without its own, delete 'dataset_state' from each"
        )
    if "order" not in first:
        return copy.deepcopy(first)
    if first["n_samples"] is None:
        raise StateError(
            f"the states are in the midst of {ORDERS[first['order']]}, of a dataset without a length: "
            "what was delivered of it cannot be known; go on with as many ranks"
        )
    ranks = first["ranks"][1] if "ranks" in first else 1
    given = {state["ranks"][0] if "ranks" in state else 0: state for state in states}
    if missing := set(range(ranks)) - set(given):
        raise StateError(
            f"the epoch was divided among {ranks} ranks, and the states of ranks "
            f"{', '.join(map(str, sorted(missing)))} are missing"
        )
    if len(given) < len(states):
        raise StateError("two of the states are of one rank, or of runs that each had the whole epoch")
    delivered = np.zeros(first["n_samples"], bool)
    for state in given.values():
        if state["done"] != 0:  # else the order does not matter, and may not have been sharded yet
            order = _order_of(state)
            done = unpacked(state["done"])[: len(order)]
            delivered[order[: len(done)][done]] = True
        delivered |= flags(state.get("before", 0), len(delivered))
    written = [part for state in given.values() for part in state.get("audit", [{"log": None, "batches": 0}])]
    kept = ["seneca_state", "n_samples", "dataset", "subset", "epoch", "sampler", "sampler_epoch"]
    kept += ["seed", "nonce"]
    if of_dataset is not None:
        kept.append("dataset_state")
    return {
        **{name: first[name] for name in kept if name in first},
        "generators": first["generators"],
        "order": "seneca",
        "done": packed(delivered),
        **({"audit": written} if any(part["log"] for part in written) else {}),
    }


def _order_of(state: dict[str, Any]) -> np.ndarray:
    """The sample at each place of the order.

    Raises:
        StateError: The state does not say that, or a sample has several places.
    """
    count = state["n_samples"]
    if state["order"] == "seneca" or state["sampler"] == "SequentialSampler":
        return np.arange(count)
    if "ranks" in state:
        (rank, ranks), (shuffle, seed, drop_last) = state["ranks"], state["dealt"]
        shard = Shard(count, rank, ranks, shuffle, seed, state["sampler_epoch"], drop_last)
        return shard.indices(flags(state["before"], count) if state["before"] else None)
    permuted = tuple(state.get("draws", (count, count, False))) == (count, count, False)
    if state["sampler"] == "RandomSampler" and permuted and ("order_seed" in state or state["generators"]):
        generator = torch.Generator()
        if "order_seed" in state:
            generator.manual_seed(state["order_seed"])
        else:
            generator.set_state(unnamed(state["generators"][-1]))
        return torch.randperm(count, generator=generator).numpy()
    raise StateError(
        f"only the run's own {state['sampler']}{_draws(state)} can say what was delivered; "
        "go on with as many ranks"
    )


def _draws(state: dict[str, Any]) -> str:
    if "draws" not in state:
        return ""
    count, times, replacement = state["draws"]
    return f", which draws {times} times out of {count} samples{' with replacement' if replacement else ''},"
