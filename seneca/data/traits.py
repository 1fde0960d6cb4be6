"""The traits that a job publishes about its dataset, so that people learn why two jobs do not share."""

from __future__ import annotations

from typing import NamedTuple

from seneca.data.stages import Pictures, number_of
from seneca.data.support import Support
from seneca.identity import title_of

__all__ = ["MOST", "Traits"]

MOST = 64  # parts that a job publishes; of more, the last ones count together
REST = "other parts"


class Traits(NamedTuple):
    """The traits that distinguish a dataset.

    Attributes:
        like: Names the class and the length, 64 bits. Only datasets that are alike in these are compared.
        source: Names the samples as they are in storage, 64 bits.
        kind: Names all payloads that can be shared, 64 bits. Equal datasets have equal ones.
        parts: A digest of 64 bits of each part, by its name for people.
    """

    like: int
    source: int
    kind: int
    parts: dict[str, int]

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
        )


def _rank(name: str) -> tuple[bool, str]:
    """Attributes come before globals, settings and code."""
    return name.startswith("the "), name
