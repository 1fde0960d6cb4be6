"""Members of a tar archive, and where their bytes are. Only the headers are read, 512 bytes for each member.

The formats are those that ``tar`` and Python write: ustar and its GNU and pax extensions (IEEE Std 1003.1,
pax: "ustar Interchange Format" and "pax Header Block"; GNU tar manual, "Basic Tar Format").
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from seneca.data.sources.listing import Member
from seneca.errors import SourceError

__all__ = ["members_of_tar"]

BLOCK = 512
REGULAR = b"\0" + b"07"
MOST_EXTENSION_BYTES = 1 << 20  # of the names and other words that a member's extended header has
KINDS = {b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a FIFO"}


def members_of_tar(read: Callable[[int, int], bytes], path: str, size: int) -> Iterator[Member]:
    """The regular files in an archive, in its order.

    Args:
        read: Reads so many bytes from an offset on, fewer at the archive's end.
        path: Its path, for messages.
        size: Its size in bytes.

    Raises:
        SourceError: It is no tar archive, is damaged or cut off, or has a member whose bytes are not in one
            piece.
    """
    at = 0
    extended: dict[str, str] = {}
    while True:
        header = read(BLOCK, at)
        if header.count(0) == len(header) and (header or at):
            return  # two blocks of zeros end an archive; some writers leave them out
        if len(header) < BLOCK or not _is_sound(header):
            what = "no tar archive" if at == 0 else f"damaged or cut off at byte {at}"
            hint = (
                "; decompress it first: a compressed archive has no place for each member" if at == 0 else ""
            )
            raise SourceError(f"{path} is {what}{hint}")
        kind, length = header[156:157], _number(header[124:136])
        if "size" in extended and kind in REGULAR:
            length = _decimal(extended["size"], path, at)
        begins, following = at + BLOCK, at + BLOCK + -(-length // BLOCK) * BLOCK
        if length < 0 or begins + length > size:
            raise SourceError(f"{path} ends within its member at byte {at}: it was not copied to its end")
        if kind in b"xLg":
            if length > MOST_EXTENSION_BYTES:
                raise SourceError(
                    f"{path} has a header of {length} bytes at byte {at}, which is not believed"
                )
            if kind != b"g":  # global words (a comment, say) name no member
                extended |= _extension(kind, read(length, begins), path, at)
        elif kind != b"K":  # the name that a link leads to
            name = extended.get("path") or _name(header)
            if kind in REGULAR and not name.endswith("/"):
                if any(word.startswith("GNU.sparse") for word in extended):
                    raise SourceError(f"{path}: {name} is sparse, and its bytes are not in one piece; {COPY}")
                yield Member(name, begins, length)
            elif kind in b"12S":
                what = KINDS.get(kind, "sparse")
                raise SourceError(f"{path}: {name} is {what}, not a file of its own; {COPY}")
            extended = {}
        at = following


COPY = "write the archive again with --hard-dereference --dereference and without --sparse"


def _is_sound(header: bytes) -> bool:
    """Whether the header's checksum is right: the sum of its bytes, with the checksum itself as spaces."""
    try:
        said = int(header[148:156].strip(b" \0") or b"-1", 8)
    except ValueError:
        return False
    return said == sum(header) - sum(header[148:156]) + 8 * ord(" ")


def _number(field: bytes) -> int:
    """A number in a header: octal digits; or, with the highest bit set, bytes of a binary number."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    try:
        return int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        return -1


def _decimal(text: str, path: str, at: int) -> int:
    if not (text.isascii() and text.isdigit()):
        raise SourceError(f"{path} has a size that is no number in its header before byte {at}")
    return int(text)


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0", 1)[0]
    if header[257:263] == b"ustar\0":  # GNU's own format has other things in the prefix's place
        prefix = header[345:500].split(b"\0", 1)[0]
        name = prefix + b"/" + name if prefix else name
    return os.fsdecode(name)


def _extension(kind: bytes, data: bytes, path: str, at: int) -> dict[str, str]:
    """The words of a header that belongs to the next member."""
    if kind == b"L":
        return {"path": os.fsdecode(data.split(b"\0", 1)[0])}
    words = {}
    while data.strip(b"\0"):
        length, space, _ = data.partition(b" ")
        if not space or not length.isdigit() or not len(length) + 1 < int(length) <= len(data):
            raise SourceError(f"{path} has a damaged header at byte {at}")
        word, _, value = data[len(length) + 1 : int(length) - 1].partition(b"=")
        words[os.fsdecode(word)] = os.fsdecode(value)
        data = data[int(length) :]
    return words
