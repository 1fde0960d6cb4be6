"""Whether a ``worker_init_fn`` can be left out where threads prepare, and no worker process begins.

As a rule such a function seeds generators, or sets up the worker: its cores, its signals, its libraries. None
of that reaches pictures that the native core prepares. The function's code is read to find out.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from seneca.data.kinds.fingerprints import seeds_only

__all__ = ["can_be_left_out", "only_seeds"]

# A function that only seeds names nothing else. These are of torch's recipe for reproducible workers, and of
# what is written in its place.
OF_SEEDS = frozenset(
    {
        *("torch", "initial_seed", "manual_seed", "manual_seed_all", "cuda", "random", "seed", "np", "numpy"),
        *("get_worker_info", "utils", "data", "id", "worker_info", "int", "default_rng", "SeedSequence"),
        *("generate_state", "os", "getpid", "time", "time_ns", "min", "max", "get_rank", "distributed"),
    }
)
REACHES = frozenset({"get_worker_info", "_worker_info", "dataset"})  # a worker's dataset
KNOWN = ("torch.", "numpy.", "random")  # their functions are known by name


def only_seeds(function: Callable[[int], None] | None) -> bool:
    """Whether a ``worker_init_fn`` does nothing but seed generators."""
    if seeds_only(function):
        return True
    codes = _codes_of(function)
    return codes is not None and all(OF_SEEDS.issuperset(code.co_names) for code in codes)


def can_be_left_out(function: Callable[[int], None] | None, *, runs_python: bool) -> bool:
    """Whether batches are the same if this ``worker_init_fn`` is not called.

    Args:
        function: The function.
        runs_python: Whether code of the user's makes a part of each batch: a ``collate_fn``, or a
            ``target_transform``. It may need anything that the function sets up.
    """
    if only_seeds(function):
        return True
    codes = _codes_of(function)
    if runs_python or codes is None:
        return False
    return all(REACHES.isdisjoint(code.co_names) for code in codes)


def _codes_of(function: Any) -> list[types.CodeType] | None:
    """The code of a function and of the functions that it names; None: it is not all Python's."""
    found: dict[int, types.CodeType] = {}
    waiting = [function]
    while waiting:
        one = waiting.pop()
        while isinstance(one, functools.partial):
            waiting += [*one.args, *one.keywords.values()]
            one = one.func
        if isinstance(one, types.MethodType):
            one = one.__func__
        if not isinstance(one, types.FunctionType):
            if one is function or callable(one):
                return None
            continue  # an argument of a partial
        if id(one.__code__) in found:
            continue
        found[id(one.__code__)] = one.__code__
        found |= {id(code): code for code in _inner(one.__code__)}
        cells = [cell.cell_contents for cell in one.__closure__ or ()]
        named = [one.__globals__[name] for name in one.__code__.co_names if name in one.__globals__]
        called = [thing for thing in [*cells, *named] if callable(thing)]
        waiting += [thing for thing in called if not f"{thing.__module__}.".startswith(KNOWN)]
    return list(found.values())


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _inner(constant)
