"""The four forms that a sample takes on its way from storage to the training loop."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Form"]


class Form(IntEnum):
    """How far a sample has been prepared; a later form is a larger number.

    ::

        STORAGE --fetch--> ENCODED --decode--> DECODED --augment--> AUGMENTED

    The numbers are those of the records in shared memory, so they never change.

    Example:
        >>> max(Form.ENCODED, Form.DECODED).name
        'DECODED'
    """

    STORAGE = 0
    """Nowhere but in storage: nothing of it is held in memory."""

    ENCODED = 1
    """The file's own bytes, as storage gave them."""

    DECODED = 2
    """What the deterministic head of the transforms yields: uint8, height x width x 3."""

    AUGMENTED = 3
    """What the random tail yields, still uint8; only normalising and layout are left."""
