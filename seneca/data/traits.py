"""The traits that a job publishes about its dataset, so that people learn why two jobs do not share."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from seneca.data.sources.arrow import is_table
from seneca.data.sources.listing import Listing
from seneca.data.stages import Pictures, number_of
from seneca.data.support import Support
from seneca.identity import title_of

__all__ = ["MOST", "Traits", "title"]

MOST = 64  # parts that a job publishes; of more, the last ones count together
REST = "other parts"
# Names of parts of a dataset.
PARTS = {"train", "training", "val", "valid", "validation", "test", "testing", "eval", "dev"}


class Traits(NamedTuple):
    """The traits that distinguish a dataset.

    Attributes:
        like: Names the class and the length, 64 bits. Only datasets that are alike in these are compared.
        source: Names the samples as they are in storage, 64 bits.
        kind: Names all payloads that can be shared, 64 bits. Equal datasets have equal ones.
        parts: A digest of 64 bits of each part, by its name for people.
        title: The dataset's name, see :func:`title`.
    """

    like: int
    source: int
    kind: int
    parts: dict[str, int]
    title: str

    @classmethod
    def of(cls, support: Support) -> Traits | None:
        """The traits of a dataset; None: nothing of it can be shared.

        Raises:
            OSError: Storage cannot be asked for the files of pictures.
        """
        stages, files, pipeline = support.stages, support.files, support.pipeline
        if isinstance(stages, Pictures):
            pipeline = stages.pipeline
        parts: dict[str, bytes] = {}
        if stages is not None:
            names = stages.source, stages.decoded, stages.augmented
        elif files is not None and pipeline is not None:
            names = files.fingerprint(), pipeline.head_fingerprint, pipeline.augmented_fingerprint
        else:
            return None
        if files is not None:
            parts["the files"] = files.fingerprint()
        if pipeline is not None:
            for i, step in enumerate(pipeline.steps):
                parts[f"step {i + 1} of the transform, {step.kind}"] = repr(
                    sorted(step.args.items())
                ).encode()
            how = pipeline.channels if pipeline.sound else (pipeline.decode, pipeline.apply_orientation)
            parts[f"how {'sounds' if pipeline.sound else 'pictures'} are decoded"] = repr(how).encode()
        if support.made_of is not None:
            parts |= support.made_of.traits
        numbers = {name: number_of(parts[name]) for name in sorted(parts, key=_rank)}
        if len(numbers) > MOST:
            rest = list(numbers)[MOST - 1 :]
            last = number_of(*(numbers.pop(name).to_bytes(8, "little") for name in rest))
            numbers[REST] = last
        return cls(
            number_of(title_of(type(support.base)).encode(), str(len(support.base)).encode()),
            number_of(names[0]),
            number_of(names[0], *(one.to_bytes(8, "little") for one in names[1:])),
            numbers,
            title(support.base),
        )


def title(dataset: Any) -> str:
    """What people call a dataset: the last name of its folder or file, as ``photos`` or ``imagenet/train``.

    If that is not known, it is the name of its class. No code of the user's is run.
    """
    own = getattr(dataset, "__dict__", {})
    listing, root = own.get("listing"), own.get("root")
    if isinstance(listing, Listing) and len(listing.containers) == 1:
        root = listing.containers[0]
    elif is_table(dataset):
        root = dataset.info.dataset_name
    name = _last_name(os.fsdecode(root)) if isinstance(root, (str, bytes, os.PathLike)) and root else ""
    return name or type(dataset).__name__


def _last_name(path: str) -> str:
    """The last part of a path or a URL, and the one before it if the last only names a part of a dataset."""
    _, is_url, place = path.partition("://")
    if is_url:
        host, _, rest = place.partition("?")[0].partition("/")
        place = f"{host.rpartition('@')[2]}/{rest}"  # without a password
    else:
        place = os.path.abspath(path)
    parts = [part for part in place.split("/") if part]
    return "/".join(parts[-2 if parts[-1].lower() in PARTS else -1 :]) if parts else ""


def _rank(name: str) -> tuple[bool, str]:
    """Attributes come before globals, settings and code."""
    return name.startswith("the "), name
