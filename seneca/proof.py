"""Jobs prove to each other that they mean the same by their samples.

Jobs find each other by fingerprints, and a fingerprint is a guess about code. Therefore each also shows what
it means::

    before it shares     it makes a few samples itself  --> equal to those that the first job left?
    while it shares      it makes one in 4,096 of what it is served again --> equal to what it was served?

The samples are chosen by the dataset's fingerprint, and made with the generators of random numbers in fixed
states, which are put back. Where making a sample again gives something else, nothing can be shown, and
sharing rests on the fingerprint alone.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import torch
import xxhash
from torch.utils.data import get_worker_info

from seneca._core import store
from seneca._pipeline import items
from seneca.errors import SegmentError
from seneca.forms import Form
from seneca.stages import KeptStages, Opaque, Pictures, Stages, number_of
from seneca.terms import Names, Terms

__all__ = ["Board", "Proof", "Verdict", "drawing", "fixed_generators", "shape_of"]

MOST = 4  # examples of a kind; SN_EXAMPLE_SAMPLES in csrc/shm/sn_layout.h
PATIENCE_S = 0.25  # after which no other example is begun
TEXT_BYTES = 1024


class Verdict(IntEnum):
    """Of examples."""

    UNKNOWN = 0
    PROVED = 1
    UNPROVABLE = 2
    REFUSED = 3


class Board:
    """What the processes of one dataset have found of its examples, in memory that all of them see.

    A verdict is one word, with the names that it is about: processes that write at once overwrite each
    other's, and whoever reads another's takes none.
    """

    def __init__(self) -> None:
        self._words = torch.zeros(4 + TEXT_BYTES // 8, dtype=torch.int64).share_memory_()

    def read(self, names: Names, look: int | None = None) -> Verdict:
        """What was found under these names; for this look at the dataset, where that is said."""
        about, verdict = divmod(int(self._words[0 if look is None else 1]), 4)
        return Verdict(verdict) if about == _about(names, look) else Verdict.UNKNOWN

    def write(
        self, names: Names, verdict: Verdict, text: str = "", *, look: int = 0, lasts: bool = True
    ) -> None:
        """Say what was found; ``text`` tells people. What does not last is of this look alone."""
        data = text.encode()[:TEXT_BYTES]
        words = self._words.numpy()
        words[3 : 4 + TEXT_BYTES // 8].view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
        words[2] = len(data)
        words[1] = _about(names, look) * 4 + verdict
        words[0] = _about(names, None) * 4 + (verdict if lasts else Verdict.UNKNOWN)

    @property
    def text(self) -> str:
        """What was told with the last verdict."""
        words = self._words.numpy()
        length = min(max(0, int(words[2])), TEXT_BYTES)
        return words[3 : 4 + TEXT_BYTES // 8].view(np.uint8)[:length].tobytes().decode(errors="replace")

    @property
    def is_shared(self) -> bool:
        """Whether other processes see it."""
        return self._words.is_shared()


def _about(names: Names, look: int | None) -> int:
    """61 bits, so that a verdict fits beside them."""
    source, decoded, augmented = names
    parts = source, decoded.to_bytes(8, "little"), augmented.to_bytes(8, "little"), repr(look).encode()
    return number_of(*parts) >> 3


# Generators of random numbers.


def _states() -> tuple[Any, ...]:
    return random.getstate(), np.random.get_state(legacy=True), torch.get_rng_state()


def _restore(states: tuple[Any, ...]) -> None:
    python, numpy, torchs = states
    random.setstate(python)
    np.random.set_state(numpy)
    torch.set_rng_state(torchs)


def _equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    (_, keys, *place), (_, others, *other_place) = one[1], other[1]
    same = one[0] == other[0] and place == other_place and np.array_equal(keys, others)
    return same and torch.equal(one[2], other[2])


@contextlib.contextmanager
def drawing() -> Iterator[Callable[[], bool]]:
    """Leave Python's, NumPy's and torch's global generators as they are.

    Yields:
        Whether any of them has been drawn from so far.
    """
    before = _states()
    try:
        yield lambda: not _equal(before, _states())
    finally:
        _restore(before)


@contextlib.contextmanager
def fixed_generators(seed: int) -> Iterator[None]:
    """Have the global generators, and what a worker is told of its seed, begin with ``seed``; and put them
    back.

    torch's generators of other devices are left alone: nothing is to be begun on a device here.
    """
    info: Any = get_worker_info()
    own_seed = None if info is None else info.seed
    with drawing():
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.default_generator.manual_seed(seed)
        if info is not None:
            object.__setattr__(info, "seed", seed)  # which refuses to be changed
        try:
            yield
        finally:
            if info is not None:
                object.__setattr__(info, "seed", own_seed)


# Examples.


class Example(NamedTuple):
    """What a sample comes to in a payload.

    Attributes:
        digest: Of its bytes; 0: it could not be made, or not be laid out.
        shape: Types and sizes, for people.
    """

    digest: int
    shape: str


NOTHING = Example(0, "")


class Kind(NamedTuple):
    """A kind of payloads of which examples are left.

    Attributes:
        number: Names what they hold.
        form: Which of the forms they are.
        make: Makes the payload of a sample.
    """

    number: int
    form: Form
    make: Callable[[int], Example]


class Proof:
    """Whether what this process makes is what the other processes of a cache make.

    Args:
        terms: On which it shares.
        segment: Of the cache.
        board: What other processes of this dataset have found.
        vouched: Whether the user has given a key: items that hang on their batch are then the user's affair.
    """

    def __init__(self, terms: Terms, segment: store.Segment, board: Board, *, vouched: bool) -> None:
        self._terms = terms
        self._segment = segment
        self._board = board
        self._vouched = vouched
        self._look: int | None = None  # for which all is found
        self._holds = True

    def holds(self, look: int) -> bool:
        """Whether to share, in an epoch for which the dataset was looked at so.

        Raises:
            BlockingIOError: The lock was not to be had; not now.
        """
        if look != self._look:
            self._holds = self._find(look)
            self._look = look
        return self._holds

    def _find(self, look: int) -> bool:
        names, stages = self._terms.names, self._terms.stages
        known = self._board.read(names)
        if known is Verdict.REFUSED:
            return False
        if known is Verdict.UNKNOWN:
            return self._prove(look, MOST, before=False)
        # The files of pictures are looked at in every epoch. What other datasets read shows in what they
        # make.
        if (
            known is Verdict.PROVED
            and not isinstance(stages, Pictures)
            and self._board.read(names, look) is Verdict.UNKNOWN
        ):
            return self._prove(look, 1, before=True)
        return True

    def _prove(self, look: int, most: int, *, before: bool) -> bool:
        """Make examples and compare.

        Args:
            look: See :meth:`holds`.
            most: How many.
            before: Whether they were proved for an earlier look.
        """
        samples = _chosen(self._terms.source, self._terms.n_samples)
        if most < len(samples):
            samples = [samples[look % len(samples)]]
        verdict, text = Verdict.PROVED, ""
        for kind in _kinds(self._terms.stages, shares=self._terms.shares):
            found, why = self._compare(kind, samples, before)
            verdict, text = max((verdict, text), (found, why), key=lambda one: one[0])
            if verdict is Verdict.REFUSED:
                break  # whoever means something else leaves no examples of it
        if verdict < Verdict.REFUSED and not self._vouched and not before:
            if why := _hangs_on_its_batch(self._terms.stages, samples):
                verdict, text = Verdict.REFUSED, why
        # Where the dataset has changed since it was proved, what was shared is given up, and begun anew.
        lasts = not (before and verdict is Verdict.REFUSED and self._segment.distrusted)
        self._board.write(self._terms.names, verdict, text, look=look, lasts=lasts)
        return verdict < Verdict.REFUSED

    def _compare(self, kind: Kind, samples: Sequence[int], before: bool) -> tuple[Verdict, str]:
        began = time.monotonic()
        mine: dict[int, Example] = {}
        for sample in samples:
            if mine and time.monotonic() > began + PATIENCE_S:
                break
            mine[sample] = kind.make(sample)
        places = _chosen(self._terms.source, self._terms.n_samples)
        digests = [mine.get(sample, NOTHING).digest for sample in places]
        shape = next((one.shape for one in mine.values() if one.digest), "")
        try:
            theirs = self._segment.compare_examples(kind.number, digests, shape)
        except (SegmentError, store.Unlinked):
            return Verdict.PROVED, ""  # it was given up: nothing is shared
        if theirs is None:
            return Verdict.PROVED, ""
        of_them, their_shape, job, pid = theirs
        for sample, own, other in zip(places, digests, of_them, strict=False):
            if own and other and own != other:
                if kind.make(sample).digest != own:
                    return Verdict.UNPROVABLE, f"sample {sample} is another each time that it is made"
                if job == self._segment.job_key and before:
                    self._segment.distrust(sample, Form.STORAGE)
                return Verdict.REFUSED, _difference(
                    sample,
                    kind.form,
                    mine[sample].shape,
                    their_shape,
                    job,
                    pid,
                    own_job=job == self._segment.job_key,
                )
        return Verdict.PROVED, ""


def _difference(
    sample: int, form: Form, shape: str, their_shape: str, job: int, pid: int, *, own_job: bool
) -> str:
    who = f"this job's process {pid}" if own_job else f"the job {job:016x} (process {pid})"
    what = f"{shape} here and {their_shape} there" if shape != their_shape else f"{shape}, with other values"
    return (
        f"nothing is shared here: sample {sample} is not what {who} makes of it ({form.name}: {what}), "
        "though both datasets have equal names. Make what they differ in part of the dataset's state, or "
        "give each a cache= name of its own"
    )


def _chosen(source: bytes, n_samples: int) -> list[int]:
    """The samples that are made as examples: the same for all who have this dataset."""
    generator = np.random.default_rng(int.from_bytes(source, "little"))
    return generator.choice(n_samples, min(MOST, n_samples), replace=False).tolist()


def _kinds(stages: Stages, *, shares: bool) -> list[Kind]:
    kinds: list[Kind] = []
    if isinstance(stages, KeptStages):

        def encoded(sample: int) -> Example:
            return _example(lambda: _digest(data := stages.read(sample), f"{len(data)} bytes"), sample)

        def decoded(sample: int) -> Example:
            def make() -> Example:
                payload = stages.decode(sample, stages.read(sample))
                return _digest(payload.data, f"{payload.height} x {payload.width}" if payload.height else "")

            return _example(make, sample)

        kinds.append(Kind(number_of(b"encoded", stages.source), Form.ENCODED, encoded))
        kinds.append(Kind(stages.decoded, Form.DECODED, decoded))
    if shares:
        kinds.append(Kind(stages.augmented, Form.AUGMENTED, lambda sample: made_alone(stages, sample)))
    return kinds


def made_alone(stages: Stages, sample: int) -> Example:
    """A sample, made by itself with fixed generators."""
    return _example(lambda: digest_of_item(stages.make([sample])[0]), sample)


def _example(make: Callable[[], Example], sample: int) -> Example:
    try:
        with fixed_generators(sample + 1):
            return make()
    except Exception:
        return NOTHING  # whoever asks for the sample is told what is wrong with it


def digest_of_item(item: Any) -> Example:
    """What an item's bytes are in a slot."""
    layout = items.lay_out(item)
    buffer = bytearray(layout.size_bytes)
    layout.write(memoryview(buffer))
    return _digest(buffer, shape_of(item))


def _digest(data: Any, shape: str) -> Example:
    return Example(xxhash.xxh3_64_intdigest(data) or 1, shape)


def _hangs_on_its_batch(stages: Stages, samples: Sequence[int]) -> str:
    """Whether items that are made by batches are others beside other samples; why, or empty."""
    if (
        not isinstance(stages, Opaque)
        or not getattr(stages.dataset, "__getitems__", None)
        or len(samples) < 2
    ):
        return ""
    for one, other in (samples[:2], samples[1::-1]):
        alone = made_alone(stages, one)

        def beside(one: int = one, other: int = other) -> Example:
            return digest_of_item(stages.make([one, other])[0])

        together = _example(beside, one)
        if alone.digest and together.digest and alone.digest != together.digest:
            if made_alone(stages, one).digest != alone.digest:
                return ""  # it is another each time, whatever is beside it
            return (
                f"items are not shared: what __getitems__ makes of sample {one} hangs on its batch "
                f"({alone.shape} alone, {together.shape} beside sample {other}). Pad in collate_fn, or say "
                "by key= that any will do"
            )
    return ""


# What is served.


def compare_served(stages: Stages, sample: int, form: int, served: Any) -> bool | None:
    """Make a sample again, as often as it takes to be sure, and compare it with what was served.

    Args:
        stages: Of the dataset.
        sample: Which.
        form: That it was served from.
        served: The payload's bytes, or the item where the form is AUGMENTED.

    Returns:
        Whether they are equal. None: that cannot be told, because the sample is random, is another each time
        that it is made, or cannot be made now.
    """
    with drawing() as drawn:
        try:
            wanted = digest_of_item(served).digest if form == Form.AUGMENTED else _digest(served, "").digest
            found = _digest_made(stages, sample, form)
            if drawn():
                return None
            if found == wanted:
                return True
            again = {_digest_made(stages, sample, form) for _ in range(2)}
        except Exception:
            return None  # the file has gone, say: what was served is all that there is
        return None if drawn() or again != {found} else False


def _digest_made(stages: Stages, sample: int, form: int) -> int:
    """Digest of a sample in this form, made from storage."""
    if form == Form.AUGMENTED:
        return digest_of_item(stages.make([sample])[0]).digest
    assert isinstance(stages, KeptStages)
    data: Any = stages.read(sample)
    return _digest(data if form == Form.ENCODED else stages.decode(sample, data).data, "").digest


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
