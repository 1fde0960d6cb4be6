"""Samples that are made for a comparison: their payloads as 64-bit digests, and their shapes in words."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import xxhash

from seneca.data import serialize as items
from seneca.data.stages import KeptStages, Opaque, Stages
from seneca.epochs.dataset_state import has_state
from seneca.epochs.generators import drawing, fixed_generators
from seneca.forms import Form
from seneca.workers.terms import Terms

__all__ = [
    "NOTHING",
    "Example",
    "compare_served",
    "example_of",
    "hangs_on_its_batch",
    "may_be_made_again",
    "shape_of",
    "stays_the_same",
]


ATTEMPTS = 32  # attempts after which a sample counts as the same each time
PATIENCE_S = 0.5  # after this time no other attempt is begun


class Example(NamedTuple):
    """A sample's payload, as a digest.

    Attributes:
        digest: The digest of its bytes; 0: the sample could not be made, or not be laid out.
        shape: Types and sizes in words, for people.
    """

    digest: int
    shape: str


NOTHING = Example(0, "")


def may_be_made_again(terms: Terms) -> bool:
    """Whether making a sample again proves anything and leaves the dataset as it was.

    It does not if the dataset draws from a generator of its own, or keeps a state.
    """
    return not terms.own_generator and not has_state(getattr(terms.stages, "dataset", None))


def example_of(stages: Stages, sample: int, form: Form) -> Example:
    """The example of a sample in this form, made from storage with fixed generators.

    Returns:
        The example; :data:`NOTHING`: making the sample raised.
    """
    return _with_fixed_generators(lambda: _make(stages, sample, form), sample)


def _with_fixed_generators(make: Callable[[], Example], sample: int) -> Example:
    try:
        with fixed_generators(sample + 1):
            return make()
    except Exception:
        return NOTHING  # the error is raised when somebody asks for the sample


def _make(stages: Stages, sample: int, form: Form) -> Example:
    if form == Form.AUGMENTED:
        return _of_item(stages.make([sample])[0])
    assert isinstance(stages, KeptStages)
    data = stages.read(sample)
    if form == Form.ENCODED:
        return _of_bytes(data, f"{len(data)} bytes")
    payload = stages.decode(sample, data)
    shape = f"{payload.height} x {payload.width}" if payload.height else f"{len(payload.data)} bytes"
    return _of_bytes(payload.data, shape)


def _of_item(item: Any) -> Example:
    """The example of an item, from its bytes as they would lie in a slot."""
    layout = items.lay_out(item)
    buffer = bytearray(layout.size_bytes)
    layout.write(memoryview(buffer))
    return _of_bytes(buffer, shape_of(item))


def _of_bytes(data: Any, shape: str) -> Example:
    return Example(xxhash.xxh3_64_intdigest(data) or 1, shape)


def compare_served(
    stages: Stages, sample: int, form: Form, served: Any, *, is_seeded: bool = False
) -> bool | None:
    """Make a sample again, as often as it takes to be sure, and compare it with what was served.

    Args:
        stages: The stages of the dataset.
        sample: The sample.
        form: The form that it was served from.
        served: The payload's bytes; if the form is AUGMENTED, the item.
        is_seeded: Whether the stages give each sample the same random numbers whenever it is made.

    Returns:
        Whether they are equal. None: nobody can tell, because the sample draws random numbers, differs each
        time that it is made, or cannot be made now.
    """
    with drawing() as drawn:
        try:
            given = _of_item(served) if form == Form.AUGMENTED else _of_bytes(served, "")
            found = _make(stages, sample, form)
            if drawn() and not is_seeded:
                return None
            if found.digest == given.digest:
                return True
            same = stays_the_same(lambda: _make(stages, sample, form), found)
        except Exception:
            return None  # for example, the file is gone: there is nothing to compare with
        return None if (drawn() and not is_seeded) or not same else False


def stays_the_same(make: Callable[[], Example], found: Example, *, attempts: int = ATTEMPTS) -> bool:
    """Whether an example is always the same, as far as some attempts can tell.

    One attempt is not enough: an item may depend on a generator that nobody can set, and differ only seldom.
    """
    began = time.monotonic()
    for attempt in range(attempts):
        if attempt >= 2 and time.monotonic() > began + PATIENCE_S:
            break
        if make().digest != found.digest:
            return False
    return True


def hangs_on_its_batch(stages: Stages, samples: Sequence[int]) -> str:
    """Why items may not be shared: an item depends on the other samples of its batch. Empty: it does not.

    Only datasets that make items by batches can have such items.
    """
    if not isinstance(stages, Opaque) or not getattr(stages.dataset, "__getitems__", None):
        return ""
    batch = list(samples)
    began = time.monotonic()
    for k, sample in enumerate(batch):
        if k >= 2 and time.monotonic() > began + PATIENCE_S:
            break
        alone = example_of(stages, sample, Form.AUGMENTED)
        beside = functools.partial(_first_of, stages, batch[k:] + batch[:k])
        together = _with_fixed_generators(beside, sample)
        if not alone.digest or not together.digest or alone.digest == together.digest:
            continue
        if example_of(stages, sample, Form.AUGMENTED).digest != alone.digest:
            return ""  # it differs each time, whatever is beside it
        return (
            f"items are not shared: what __getitems__ makes of sample {sample} hangs on its batch "
            f"({alone.shape} alone, {together.shape} beside others). Pad in collate_fn, or say by "
            "key= that any will do"
        )
    return ""


def _first_of(stages: Stages, samples: list[int]) -> Example:
    return _of_item(stages.make(samples)[0])


def shape_of(value: Any, depth: int = 3) -> str:
    """Types and sizes of an item, in a few words.

    Example:
        >>> shape_of((torch.zeros(2, 3), 1, {"a": "text"}))
        '(float32 (2, 3), int, {a: str})'
    """
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    if depth and isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shape_of(one, depth - 1)}" for key, one in value.items()) + "}"
    if depth and isinstance(value, (list, tuple)):
        inside = ", ".join(shape_of(one, depth - 1) for one in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    size = getattr(value, "size", None)
    return f"{type(value).__name__} {size}" if type(size) is tuple else type(value).__name__
