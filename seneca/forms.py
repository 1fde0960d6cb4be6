"""The five forms that a sample takes on its way from storage to the training loop."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["KEPT_FORMS", "UNRECODED", "Form", "unrecoded_text"]


class Form(IntEnum):
    """How far a sample has been prepared. The forms are in the order in which they follow each other.

    ::

        STORAGE --fetch--> ENCODED --decode--> DECODED --augment--> AUGMENTED
                              |                   |
                              +-----> RECODED ----+  (JPEGs only)

    The numbers never change, because records in shared memory and audit logs hold them.

    Example:
        >>> [form.name for form in Form]
        ['STORAGE', 'ENCODED', 'RECODED', 'DECODED', 'AUGMENTED']
    """

    STORAGE = 0
    """The sample is in storage alone: memory holds nothing of it."""

    ENCODED = 1
    """The file's own bytes, as storage gave them."""

    RECODED = 4
    """A JPEG's quantised coefficients, all of them, in a layout that takes a fraction of the time to decode.
    It has about a fifth more bytes than the file, and the same pixels."""

    DECODED = 2
    """The result of the deterministic head of the transform: uint8, height x width x 3."""

    AUGMENTED = 3
    """The result of the random tail, still uint8: only normalising, erasing, casting and layout are left."""


KEPT_FORMS = (Form.ENCODED, Form.RECODED, Form.DECODED)
"""Those that a cache keeps across epochs."""

UNRECODED = {
    "kind": "are of a kind that has no RECODED form",
    "damaged": "are damaged",
    "large": "would be too large",
}
"""Why files stay ENCODED where they might be RECODED: the names of the counters, and a text for each."""


def unrecoded_text(counts: dict[str, int]) -> str:
    """Say how many files stay ENCODED, and why. Empty: none does.

    Args:
        counts: How many, by the causes of :data:`UNRECODED`.

    Example:
        >>> unrecoded_text({"kind": 2, "damaged": 0, "large": 1})
        '3 files were not kept RECODED: 2 are of a kind that has no RECODED form, 1 would be too large'
    """
    causes = [f"{counts[why]:,} {text}" for why, text in UNRECODED.items() if counts[why]]
    return f"{sum(counts.values()):,} files were not kept RECODED: {', '.join(causes)}" if causes else ""
