"""The four forms that a sample takes on its way from storage to the training loop."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Form"]


class Form(IntEnum):
    """How far a sample has been prepared; a later form is a larger number.

    ::

        STORAGE --fetch--> ENCODED --decode--> DECODED --augment--> AUGMENTED

    The numbers never change, because records in shared memory hold them.

    Example:
        >>> max(Form.ENCODED, Form.DECODED).name
        'DECODED'
    """

    STORAGE = 0
    """The sample is in storage alone: memory holds nothing of it."""

    ENCODED = 1
    """The file's own bytes, as storage gave them."""

    DECODED = 2
    """The result of the deterministic head of the transform: uint8, height x width x 3."""

    AUGMENTED = 3
    """The result of the random tail, still uint8: only normalising, erasing, casting and layout are left."""
