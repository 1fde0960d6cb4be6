"""Samples that are made for a comparison: their payloads as 64-bit digests, and their shapes in words."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import xxhash

from seneca.data import serialize as items
from seneca.data.private import Private, times_asked
from seneca.data.stages import KeptStages, Opaque, Payload, Stages
from seneca.epochs.dataset_state import has_state
from seneca.epochs.generators import drawing, fixed_generators
from seneca.forms import Form
from seneca.workers.terms import Terms

__all__ = [
    "NOTHING",
    "Example",
    "Making",
    "compare_served",
    "depends_on_its_batch",
    "digest_of_payload",
    "example_of",
    "examples_of",
    "made_once",
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
        shape: Returns types and sizes in words, for people.
    """

    digest: int
    shape: Callable[[], str] = str


NOTHING = Example(0)


def may_be_made_again(terms: Terms) -> bool:
    """Whether making a sample again proves anything and leaves the dataset as it was.

    It does not if the dataset draws from a generator of its own, or keeps a state.
    """
    return not terms.own_generator and not has_state(getattr(terms.stages, "dataset", None))


class Making(NamedTuple):
    """One sample, made with the random generators in states that it names.

    Attributes:
        examples: Its payloads, by form. None is there if the sample could not be made, or is not to be
            shared.
        draws: Whether it has drawn random numbers.
    """

    examples: dict[int, Example]
    draws: bool


def examples_of(stages: Stages, sample: int, forms: Collection[int]) -> Making:
    """Make a sample from storage with fixed generators, and the examples of these forms of it."""
    try:
        with fixed_generators(sample + 1) as drawn:
            made = made_once(stages, sample, forms)
            return Making(made, drawn())
    except Exception:
        return Making({}, False)  # the error is raised when somebody asks for the sample


def example_of(stages: Stages, sample: int, form: int) -> Example:
    """The example of a sample in this form, made from storage with fixed generators.

    Returns:
        The example; :data:`NOTHING`: making the sample raised, or it is not to be shared.
    """
    try:
        with fixed_generators(sample + 1):
            return made_once(stages, sample, (form,)).get(form, NOTHING)
    except Exception:
        return NOTHING


def made_once(stages: Stages, sample: int, forms: Collection[int]) -> dict[int, Example]:
    """Make a sample from storage, with the generators as they are, and the examples of these forms of it.

    Returns:
        The examples. None: the sample is not to be shared, or cannot be laid out.
    """
    before = times_asked()
    try:
        made = dict(_made(stages, sample, forms))
    except items.Unsupported:
        return {}
    return made if times_asked() == before else {}


def _made(stages: Stages, sample: int, forms: Collection[int]) -> Iterator[tuple[int, Example]]:
    if not isinstance(stages, KeptStages) or tuple(forms) == (Form.AUGMENTED,):
        (item,) = stages.make([sample])
        yield Form.AUGMENTED, _of_item(item)
        return
    data = stages.read(sample)
    if Form.ENCODED in forms:
        yield Form.ENCODED, _of_bytes(Payload(data, 0, 0))
    decoded = None
    if Form.DECODED in forms:
        decoded = stages.decode(sample, data)
        yield Form.DECODED, _of_bytes(decoded)
    if Form.AUGMENTED in forms:
        item = stages.augment_encoded(sample, data) if decoded is None else stages.augment(sample, decoded)
        yield Form.AUGMENTED, _of_item(item)


def _of_item(item: Any) -> Example:
    """The example of an item, from its bytes as they would be in a slot."""
    if type(item) is Private:
        return NOTHING
    return Example(items.lay_out(item).digest() or 1, functools.partial(shape_of, item))


def _of_bytes(payload: Payload) -> Example:
    return Example(xxhash.xxh3_64_intdigest(payload.data) or 1, functools.partial(_size_of, payload))


def _size_of(payload: Payload) -> str:
    return f"{payload.height} x {payload.width}" if payload.height else f"{len(payload.data)} bytes"


def digest_of_payload(form: int, payload: Any) -> int:
    """The digest of a payload of this form, as it is in a slot.

    Raises:
        DamagedItem: The payload is AUGMENTED, and no item.
    """
    return (items.digest_of(payload) if form == Form.AUGMENTED else xxhash.xxh3_64_intdigest(payload)) or 1


def compare_served(
    stages: Stages, sample: int, form: int, digest: int, *, is_seeded: bool = False
) -> bool | None:
    """Make a sample again, as often as it takes to be sure, and compare it with what was served.

    Args:
        stages: The stages of the dataset.
        sample: The sample.
        form: The form that it was served from.
        digest: The digest of the payload that was served, as :func:`digest_of_payload` gives it.
        is_seeded: Whether the stages give each sample the same random numbers whenever it is made.

    Returns:
        Whether they are equal. None: nobody knows, because the sample draws random numbers, differs each
        time that it is made, or cannot be made now.
    """
    with drawing() as drawn:

        def again() -> Example:
            return made_once(stages, sample, (form,)).get(form, NOTHING)

        try:
            found = again()
            if (drawn() and not is_seeded) or not found.digest:
                return None
            if found.digest == digest:
                return True
            same = stays_the_same(again, found)
        except Exception:
            return None  # for example, the file is gone: there is nothing to compare with
        return None if (drawn() and not is_seeded) or not same else False


def stays_the_same(make: Callable[[], Example], found: Example, *, attempts: int = ATTEMPTS) -> bool | None:
    """Whether an example is always the same, as far as some attempts show; None: it cannot be made now.

    One attempt is not enough: an item may depend on a generator that nobody can set, and differ only seldom.
    """
    began = time.monotonic()
    for attempt in range(attempts):
        if attempt >= 2 and time.monotonic() > began + PATIENCE_S:
            break
        digest = make().digest
        if digest != found.digest:
            return False if digest else None
    return True


def depends_on_its_batch(stages: Stages, samples: Sequence[int]) -> str:
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
            f"items are not shared: what __getitems__ makes of sample {sample} depends on its batch "
            f"({alone.shape()} alone, {together.shape()} beside others). Pad in collate_fn, or say by "
            "key= that any will do"
        )
    return ""


def _with_fixed_generators(make: Callable[[], Example], sample: int) -> Example:
    try:
        with fixed_generators(sample + 1):
            return make()
    except Exception:
        return NOTHING


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
