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
LINKS = {b"1": "a hard link", b"2": "a symbolic link", b"S": "sparse", b"M": "a part of a member"}
WITHOUT_BYTES = b"3456DVAIE"  # devices, folders, FIFOs, volumes, and what GNU's and Solaris' tar say of files
FOLDERS_AND_DEVICES = b"3456"
PLACE = ("path", "size")  # words that say where a member is, and therefore belong to one
NEW_LINE = ord("\n")
MOST_DIGITS = 20  # of a number of bytes


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
        if kind in b"xXLg":
            if length > MOST_EXTENSION_BYTES:
                raise SourceError(
                    f"{path} has a header of {length} bytes at byte {at}, which is not believed"
                )
            data = read(following - begins, begins)
            if data[length:].strip(b"\0"):  # some readers take the whole block
                raise SourceError(f"{path} has a damaged header at byte {at}: it does not end where it says")
            words = _extension(kind, data[:length], path, at)
            if any(extended.get(word, words[word]) != words[word] for word in PLACE if word in words):
                raise SourceError(
                    f"{path} has a damaged header at byte {at}: its member has two names or sizes"
                )
            if kind != b"g":
                extended |= words
            elif any(word in PLACE or word.startswith("GNU.sparse") for word in words):
                raise SourceError(f"{path} has a damaged header at byte {at}: it is for all members")
        elif kind != b"K":  # the name that a link leads to
            name = extended.get("path") or _name(header)
            # Old archives have no other sign of a folder. The name in the header itself may be one, too.
            is_folder = name.endswith("/") or (kind == b"\0" and _name(header).endswith("/"))
            if length and (kind in FOLDERS_AND_DEVICES or (kind in REGULAR and is_folder)):
                raise SourceError(
                    f"{path} has a damaged header at byte {at}: {name} is no file and has bytes"
                )
            if kind in REGULAR and not is_folder:
                if any(word.startswith("GNU.sparse") for word in extended):
                    raise SourceError(f"{path}: {name} is sparse, and its bytes are not in one piece; {COPY}")
                yield Member(name, begins, length)
            elif kind in LINKS:
                raise SourceError(f"{path}: {name} is {LINKS[kind]}, not a file of its own; {COPY}")
            elif kind not in REGULAR and kind not in WITHOUT_BYTES:
                raise SourceError(f"{path} has a damaged header at byte {at}: {name} is of no known kind")
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
    # Bytes of zero before the digits end the number for some readers, and say nothing to others.
    digits = field.rstrip(b" \0").lstrip(b" ") or b"0"
    return int(digits, 8) if not digits.strip(b"01234567") else -1


def _decimal(text: str, path: str, at: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
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
        name = os.fsdecode(data.split(b"\0", 1)[0])
        if not name:
            raise SourceError(f"{path} has a damaged header at byte {at}")
        return {"path": name}
    words, begin, end = {}, 0, len(data.rstrip(b"\0"))
    while begin < end:
        space = data.find(b" ", begin, begin + MOST_DIGITS)
        digits = data[begin:space] if space >= 0 else b""
        following = begin + int(digits) if digits.isdigit() else 0
        word, equals, value = data[space + 1 : max(0, following - 1)].partition(b"=")
        if not (
            space < following - 1 < end and following > begin and data[following - 1] == NEW_LINE and equals
        ):
            raise SourceError(f"{path} has a damaged header at byte {at}")
        words[os.fsdecode(word)] = os.fsdecode(value)
        begin = following
    return words
