"""Members of a zip archive that are stored as they are, and where their bytes are."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from seneca.data.sources.listing import Member
from seneca.errors import SourceError

__all__ = ["members_of_zip"]

LOCAL_HEADER = struct.Struct("<4s2xHH4xIIIHH")  # the fields of _Local, without the last
ENCRYPTED, PATCH, UTF_8 = 0x2041, 0x20, 0x800  # bits of a member's flags
SUMMED_AFTER = 0x8  # likewise: checksum and sizes come after the bytes
SIZES_ARE_FAR = 0xFFFFFFFF  # in place of a size: it is in an extra field
EXTRA, SIZES = struct.Struct("<HH"), struct.Struct("<QQ")
FAR_SIZES = 1  # the extra field of sizes
SUMMED = b"PK\7\10"  # before what comes after the bytes, where it is given
SUMMED_BYTES = (
    12,
    16,
    20,
    24,
)  # how much comes after the bytes: with and without that, with 4 and 8 bytes a size
AT_ONCE = 64  # bytes that are read with a header, which most extra fields do not exceed
PIECE_BYTES = 1 << 20


class _Damaged(Exception):
    """A member is not where the list of members says."""


class _Place(NamedTuple):
    """Where a member is: its header, its bytes, and where they end."""

    header: int
    begin: int
    end: int
    entry: zipfile.ZipInfo


def members_of_zip(file: int, path: str, size: int) -> Iterator[Member]:
    """The files in an archive, in its order.

    What the list of members says of each is compared with the header before its bytes. If something else is
    between the member and the next one, its bytes are read, and compared with its checksum.

    Args:
        file: The open archive.
        path: Its path, for messages.
        size: Its size in bytes.

    Raises:
        SourceError: It is no zip archive, is damaged or cut off, or has a member that is compressed or
            encrypted.
    """
    try:
        with io.FileIO(os.dup(file)) as own, zipfile.ZipFile(own) as archive:
            entries, end = archive.infolist(), archive.start_dir
    except (zipfile.BadZipFile, ValueError, struct.error, OSError, NotImplementedError) as error:
        raise SourceError(f"{path} is no zip archive that can be read: {error}") from None
    places = []
    for entry in entries:
        name = entry.filename
        if entry.compress_type != zipfile.ZIP_STORED:
            raise SourceError(f"{path}: {name} is compressed; write the archive again with zip -0")
        if entry.flag_bits & (ENCRYPTED | PATCH):
            raise SourceError(f"{path}: {name} is encrypted; write the archive again without a password")
        try:
            places.append(_place(file, entry, size))
        except _Damaged:
            raise SourceError(f"{path} is damaged: {name} is not where its list of members says") from None
        if places[-1].end > size:
            raise SourceError(f"{path} ends within {name}: it was not copied to its end")
    _check_neighbours(file, path, places, end)
    for _, begin, _, entry in places:
        if not entry.filename.endswith("/"):
            yield Member(entry.filename, begin, entry.file_size)


def _place(file: int, entry: zipfile.ZipInfo, size: int) -> _Place:
    """Where a member is. Its header says the same of it as the list of members."""
    name = entry.orig_filename.encode("utf-8" if entry.flag_bits & UTF_8 else "cp437")
    at = entry.header_offset
    if not 0 <= at < size or b"\0" in name or entry.compress_size != entry.file_size:
        raise _Damaged
    length = LOCAL_HEADER.size + len(name)
    header = os.pread(file, length + AT_ONCE, at)
    if len(header) < length:
        raise _Damaged
    mark, flags, method, crc, stored, plain, name_bytes, extra_bytes = LOCAL_HEADER.unpack_from(header)
    if mark != b"PK\3\4" or name_bytes != len(name) or header[LOCAL_HEADER.size : length] != name:
        raise _Damaged
    if extra_bytes > len(header) - length:
        header = os.pread(file, length + extra_bytes, at)
    far = _far_sizes(header[length : length + extra_bytes], extra_bytes)
    sizes = far if SIZES_ARE_FAR in (stored, plain) and far else (plain, stored)
    begin = at + length + extra_bytes
    if flags & SUMMED_AFTER:
        after = os.pread(file, max(SUMMED_BYTES), begin + entry.file_size).removeprefix(SUMMED)
        crc, sizes = int.from_bytes(after[:4], "little"), (entry.file_size, entry.file_size)
        if after[4:8] != (entry.file_size & 0xFFFFFFFF).to_bytes(4, "little"):
            raise _Damaged
    if method != zipfile.ZIP_STORED or (flags ^ entry.flag_bits) & (ENCRYPTED | PATCH | UTF_8):
        raise _Damaged
    if crc != entry.CRC or sizes != (entry.file_size, entry.file_size):
        raise _Damaged
    return _Place(at, begin, begin + entry.file_size, entry)


def _far_sizes(extra: bytes, length: int) -> tuple[int, int] | None:
    """The sizes in the extra fields of a header; None: they are not there. Some writers add bytes of zero."""
    if len(extra) < length:
        raise _Damaged
    at, found = 0, None
    while len(extra) - at >= EXTRA.size:
        kind, its_bytes = EXTRA.unpack_from(extra, at)
        at += EXTRA.size
        if its_bytes > len(extra) - at:
            raise _Damaged
        if kind == FAR_SIZES and its_bytes >= SIZES.size:
            found = SIZES.unpack_from(extra, at)
        at += its_bytes
    if any(extra[at:]):
        raise _Damaged
    return found


def _check_neighbours(file: int, path: str, places: list[_Place], end: int) -> None:
    """See that no member has bytes of another, and that nothing unknown moves them."""
    ordered = sorted(places, key=lambda place: place.header)
    following = [*(place.header for place in ordered), end][1:]
    for place, header in zip(ordered, following, strict=True):
        after, name = header - place.end, place.entry.filename
        if after < 0:
            raise SourceError(f"{path} is damaged: {name} has bytes of what follows it")
        if after and not (place.entry.flag_bits & SUMMED_AFTER and after in SUMMED_BYTES):
            crc = 0
            for at in range(place.begin, place.end, PIECE_BYTES):
                crc = zlib.crc32(os.pread(file, min(PIECE_BYTES, place.end - at), at), crc)
            if crc != place.entry.CRC:
                raise SourceError(f"{path} is damaged: {name} has another checksum")
