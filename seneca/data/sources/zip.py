"""Members of a zip archive that are stored as they are, and where their bytes are."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Iterator

from seneca.data.sources.listing import Member
from seneca.errors import SourceError

__all__ = ["members_of_zip"]

LOCAL_HEADER = struct.Struct("<4s22xHH")  # its name, and the lengths of the two fields that follow it
ENCRYPTED, UTF_8 = 0x1, 0x800  # bits of a member's flags


def members_of_zip(file: int, path: str, size: int) -> Iterator[Member]:
    """The files in an archive, in its order.

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
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, struct.error, OSError, NotImplementedError) as error:
        raise SourceError(f"{path} is no zip archive that can be read: {error}") from None
    for entry in entries:
        if entry.is_dir():
            continue
        if entry.compress_type != zipfile.ZIP_STORED:
            raise SourceError(f"{path}: {entry.filename} is compressed; write the archive again with zip -0")
        if entry.flag_bits & ENCRYPTED:
            raise SourceError(
                f"{path}: {entry.filename} is encrypted; write the archive again without a password"
            )
        name = entry.orig_filename.encode("utf-8" if entry.flag_bits & UTF_8 else "cp437")
        at = entry.header_offset
        header = os.pread(file, LOCAL_HEADER.size + len(name), at) if 0 <= at < size else b""
        # The header at a member's bytes has its name too: else the list of members leads to another one's.
        if not (
            header.startswith(b"PK\3\4")
            and header.endswith(name)
            and len(header) == LOCAL_HEADER.size + len(name)
        ):
            raise SourceError(f"{path} is damaged: {entry.filename} is not where its list of members says")
        begins = at + LOCAL_HEADER.size + sum(LOCAL_HEADER.unpack_from(header)[1:])
        if begins + entry.file_size > size:
            raise SourceError(f"{path} ends within {entry.filename}: it was not copied to its end")
        yield Member(entry.filename, begins, entry.file_size)
