"""Fingerprints of what items are made of: a dataset's state and code, and the ``worker_init_fn``."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from seneca._runtime.packages import release_of
from seneca.data.kinds.kind import Request, class_name
from seneca.data.stages import number_of
from seneca.epochs.generators import fixed_generators
from seneca.identity import Fingerprinter, Identity, MadeOf

__all__ = ["Fingerprints", "fingerprint_init", "fingerprint_items", "seeds_only"]

TRANSFORM_ATTRIBUTES = ("transform", "target_transform", "transforms")  # by torchvision's convention
IGNORE_OPAQUE = "ignored"  # a key: values that cannot be seen count for nothing, and raise nothing

# These seed generators and do nothing else. Their arguments (a rank, for example) are no part of an item.
SEEDS_ONLY = frozenset(
    {
        "lightning.fabric.utilities.seed.pl_worker_init_function",
        "lightning_fabric.utilities.seed.pl_worker_init_function",
        "pytorch_lightning.utilities.seed.pl_worker_init_function",
        "timm.data.loader._worker_init",
        "transformers.trainer_utils.seed_worker",
    }
)


class Fingerprints(NamedTuple):
    """The names of a dataset's samples and items.

    Attributes:
        source, augmented: As in :class:`seneca.data.stages.Stages`.
        found: Attributes of :class:`seneca.data.kinds.kind.Support`: what these names were made of.
    """

    source: bytes
    augmented: int
    found: dict[str, Any]


def fingerprint_items(request: Request, *, is_staged: bool) -> Fingerprints:
    """Name a dataset's samples and items. Samples of stages are named without the transform."""
    base, fingerprinter = request.base, request.fingerprinter
    name = class_name(base)
    without = _attributes_without_transform(base, is_staged)
    samples = None if without is None else fingerprinter.identify_part(type(base), without, name)
    whole = fingerprinter.identify(base, name)
    samples = samples or whole
    init, made_of = fingerprint_init(request, whole)
    # ``worker_init_fn`` is part of the source only for stages, whose code makes what is kept. Of whole
    # items the source only names the frame.
    source = _with_length(samples.here + (init if is_staged else b""), base)
    found = {
        "samples": _with_length(samples.state, base),
        "made_of": made_of,
        "watch": fingerprinter.watch,
        "attributes": fingerprinter.attributes(base, _repeat),
    }
    return Fingerprints(source, number_of(b"items", whole.here + init), found)


def fingerprint_init(request: Request, before: Identity) -> tuple[bytes, MadeOf]:
    """Identify ``worker_init_fn``: b"" if items do not depend on it. Also say what all is made of.

    ``before`` is what the fingerprinter identified last.
    """
    if seeds_only(request.worker_init_fn):
        return b"", before.made_of
    init = request.fingerprinter.identify(request.worker_init_fn, "worker_init_fn", part="worker_init_fn")
    return init.here, init.made_of


def seeds_only(function: Callable[[int], None] | None) -> bool:
    """Whether items do not depend on ``function``: it is None, or is known to only seed generators."""
    inner = function.func if isinstance(function, functools.partial) else function
    name = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', '')}"
    return inner is None or name in SEEDS_ONLY


def _repeat(make: Callable[[], Any]) -> Any:
    """Call a function again that was called before; return a new object if it draws random numbers."""
    with fixed_generators(1) as drawn:
        made = make()
        return object() if drawn() else made


def _attributes_without_transform(dataset: Any, is_staged: bool) -> dict[str, Any] | None:
    """The attributes without those of the transform: jobs with other transforms have these too.

    None: all attributes name the samples.
    """
    state = getattr(dataset, "__dict__", None)
    says_itself = any(
        {"__fingerprint__", "__getstate__", "__reduce__", "__reduce_ex__"} & vars(kind).keys()
        for kind in type(dataset).__mro__[:-1]
    )
    if not isinstance(state, dict) or says_itself or not any(name in state for name in TRANSFORM_ATTRIBUTES):
        return None
    if is_staged and _uses_transform_early(type(dataset)):
        return None
    return {name: value for name, value in state.items() if name not in TRANSFORM_ATTRIBUTES}


def _uses_transform_early(kind: type) -> bool:
    """Whether any code that may take part in reading or decoding names a transform.

    This code is all code of the class and all that it leads to, except ``augment``, ``label`` and methods
    with double underscores, which Python calls.
    """
    fingerprinter = Fingerprinter(key=IGNORE_OPAQUE)
    fingerprinter.pass_over(*kind.__mro__)
    for base in kind.__mro__:
        if release_of(base.__module__) is not None:
            if "read" in vars(base) or "decode" in vars(base):
                return True  # this fingerprinter does not go into installed code
            continue
        for name, member in vars(base).items():
            if not name.startswith("__") and name not in ("augment", "label"):
                fingerprinter.identify(member)
    return not fingerprinter.words.isdisjoint(TRANSFORM_ATTRIBUTES)


def _with_length(name: bytes, dataset: Any) -> bytes:
    return hashlib.blake2b(name + len(dataset).to_bytes(8, "little"), digest_size=16).digest()
