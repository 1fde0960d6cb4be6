"""The bytes of a pair: the file of a picture and the file of its mask, as the one payload ENCODED.

::

    4 bytes            the length of the picture's file, the lowest byte first
    so many bytes      the picture's file
    the rest           the mask's file

The native core reads and splits the same (``csrc/codec/sn_codec.h``).
"""

from __future__ import annotations

from typing import NamedTuple

from seneca._runtime.regular_files import Piece
from seneca.errors import DecodeError

__all__ = ["PairPiece", "joined_bytes", "pair_of", "split_bytes"]

HEADER_BYTES = 4


class PairPiece(NamedTuple):
    """Where the bytes of a pair are.

    Attributes:
        picture, mask: The two files.
    """

    picture: Piece
    mask: Piece

    @property
    def path(self) -> str:
        """The file of the picture, which names the pair."""
        return self.picture.path

    def read(self) -> bytes:
        """The bytes of the pair. Errors are those of :meth:`Piece.read`."""
        return joined_bytes(self.picture.read(), self.mask.read())


def pair_of(picture: str, mask: str) -> PairPiece:
    """The pair in these two files."""
    return PairPiece(Piece(picture), Piece(mask))


def joined_bytes(picture: bytes, mask: bytes) -> bytes:
    """The bytes of a pair, from those of its two files.

    Example:
        >>> split_bytes(joined_bytes(b"a picture", b"a mask"))
        (b'a picture', b'a mask')
    """
    return len(picture).to_bytes(HEADER_BYTES, "little") + picture + mask


def split_bytes(data: bytes) -> tuple[bytes, bytes]:
    """The bytes of the two files, from those of a pair.

    Raises:
        DecodeError: They are cut off.
    """
    end = HEADER_BYTES + int.from_bytes(data[:HEADER_BYTES], "little")
    if len(data) < max(end, HEADER_BYTES):
        raise DecodeError("the bytes of a pair are cut off")
    return data[HEADER_BYTES:end], data[end:]
