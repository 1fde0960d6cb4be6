"""Archives and indexes that are damaged by chance, and what has to be true of what is read of them.

A reader either raises an error that names the file, or lists members that lie within the file, each exactly
where its header says. It never reads without end, and asks for no more bytes than a file can have there.

    python tests/archive_fuzz.py --count 10000000            all kinds, as many of each as its share says
    python tests/archive_fuzz.py --kinds zip --first 4711 --count 1      one again

Each case has a number. The seed and the number make the same damage again.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import struct
import sys
import tarfile
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from made_pages import BEFORE, VALUES, packed, page, repeated

from seneca.data.sources import archives, indexes, shards
from seneca.data.sources.archives import Members, expand_paths, list_members
from seneca.data.sources.kept_arrays import HEAD
from seneca.data.sources.listing import PIECE, STATED, Listing
from seneca.data.sources.lmdb_pages import values_of_database
from seneca.data.sources.parquet_pages import Chunk, MissingValue, values_of_chunk
from seneca.data.sources.tar import members_of_tar
from seneca.data.sources.zip import members_of_zip
from seneca.errors import SourceError

__all__ = ["KINDS", "SHARES", "run"]

PATH = "/of/the/archive"
ROOM_BYTES = 1 << 30  # of memory that the script may take more than it has at its start
PICTURE = b"\xff\xd8\xff"

Found = list[tuple[str, int, int]]


def damaged(chance: random.Random, sound: bytes, places: list[int], others: list[bytes]) -> bytearray:
    """The same with some damage. ``places`` are those of headers, which are hit more often."""
    data = bytearray(sound)
    kind = chance.random()
    if kind < 0.75:
        for _ in range(chance.randint(1, 4)):
            near = chance.choice(places) + chance.randrange(64) if chance.random() < 0.7 else None
            at = chance.randrange(len(data)) if near is None or near >= len(data) else near
            if chance.random() < 0.7:
                data[at] = chance.choice((0, 1, 32, 47, 48, 55, 127, 128, 255, chance.randrange(256)))
            else:  # a number of 2, 4 or 8 bytes
                size = chance.choice((2, 4, 8))
                limit = 1 << 8 * size
                some = (0, limit - 1, limit >> 1, len(data), len(data) + 1, chance.randrange(limit), at)
                number = (chance.choice(some) + chance.choice((0, 0, 1, -1))) % limit
                data[at : at + size] = number.to_bytes(size, "little")[: max(0, len(data) - at)]
    elif kind < 0.83:
        del data[chance.randrange(len(data)) :]
    elif kind < 0.89:  # some bytes are lost, or come twice
        at, size = chance.choice(places), chance.choice((1, 4, 16, 512, 4096, chance.randrange(1, 600)))
        if chance.random() < 0.5:
            del data[at : at + size]
        else:
            data[at:at] = data[at : at + size]
    elif kind < 0.96:  # a part is another one's: of this archive, or of another
        source = chance.choice((sound, *others))
        size = chance.choice((4, 8, 30, 46, 100, 512, 4096))
        begin, at = chance.randrange(max(1, len(source) - size)), chance.choice(places)
        if chance.random() < 0.7:
            begin = chance.choice(places)
        part = source[begin : begin + size]
        data[at : at + len(part)] = part
    else:  # it was written over by another one, which is shorter
        source = chance.choice((sound, *others))
        size = chance.randrange(len(source))
        data[:size] = source[:size]
    return data


class Reads:
    """What a reader asks for of some bytes, as ``os.pread`` answers; and how much that is."""

    def __init__(self, data: bytes | bytearray, most: int) -> None:
        self.data, self.most, self.count, self.bytes = data, most, 0, 0

    def __call__(self, length: int, at: int) -> bytes:
        assert 0 <= length <= self.most, f"{length} bytes were asked for"
        assert 0 <= at < 1 << 63, f"bytes at {at} were asked for"
        got = bytes(self.data[at : at + length])
        self.count += 1
        self.bytes += len(got)
        assert self.bytes <= 4 * len(self.data) + 65536, "the file was read again and again"
        assert self.count <= len(self.data) + 64, "there is no end"
        return got


class Tar:
    """Members of tar archives, compared with those that Python's tarfile finds."""

    raises = (SourceError,)
    names = PATH  # what its errors have in them

    def __init__(self) -> None:
        self.sound = [
            self._made(tarfile.USTAR_FORMAT, ["c/1.jpg", "d/2.jpg", "d/3.jpg"]),
            self._made(tarfile.GNU_FORMAT, ["c/" + "x" * 120 + ".jpg", "c/2.jpg", "c/2.cls"]),
            self._made(tarfile.PAX_FORMAT, ["ü/1.jpg", "ü/1.cls", "a" * 130 + ".jpg", "2.jpg", "2.cls"]),
        ]

    def _made(self, format_: int, names: list[str]) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=format_) as archive:
            for number, name in enumerate(names):
                data = b"7" if name.endswith(".cls") else bytes([number]) * (400 * number + 90)
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return out.getvalue()[: out.tell() - 8192]  # most of the zeros at its end say nothing

    def damage(self, chance: random.Random) -> bytearray:
        sound = chance.choice(self.sound)
        headers = [at for at in range(0, len(sound), 512) if sound[at + 257 : at + 262] == b"ustar"]
        if chance.random() < 0.6:  # in fields that say something
            data = bytearray(sound)
            for _ in range(chance.randint(1, 3)):
                at = chance.choice(headers)
                where, size = chance.choice(((0, 100), (124, 12), (156, 1), (257, 8), (345, 155), (512, 40)))
                data[at + where + chance.randrange(size)] = chance.choice(
                    (0, 32, 48, 49, 55, 57, 76, 83, 88, 103, 120, 128, 255, chance.randrange(256))
                )
        else:
            data = damaged(chance, sound, headers, self.sound)
        if chance.random() < 0.9:  # else checksums find most of it
            for at in range(0, len(data) - 511, 512):
                if data[at + 257 : at + 262] == b"ustar":
                    data[at + 148 : at + 156] = b" " * 8
                    data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
        return data

    def read(self, data: bytearray) -> Found:
        read = Reads(data, 1 << 20)
        members = list_members(members_of_tar(read, PATH, len(data)), read, PATH)
        return list(zip(members.names, members.offsets.tolist(), members.lengths.tolist(), strict=True))

    def check(self, data: bytearray, found: Found) -> None:
        inside(data, found)
        apart(found)
        try:
            with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
                theirs = [(m.name, m.offset_data, m.size) for m in archive if m.isreg()]
                end = archive.offset  # where it stops, silently, if it finds something damaged there
        except (tarfile.TarError, ValueError, OverflowError):
            return  # it finds nothing
        ours = {(offset, length): name for name, offset, length in found}
        for name, offset, length in theirs:
            if (offset, length) in ours and data[offset - 512 + 257 : offset - 512 + 263] == b"ustar\0":
                assert ours[offset, length].rstrip("/") == name.rstrip("/"), "it has another name"
        known = {(offset, length) for _, offset, length in theirs}
        assert {one for one in ours if one[0] <= end} <= known, "it is nowhere in the archive"


class Zip:
    """Members of zip archives: what is at the place of each, as it was before the damage."""

    raises = (SourceError,)
    names = PATH  # what its errors have in them

    def __init__(self) -> None:
        self.sound, self.places, self.truth = [], [], []
        for number, names in enumerate((["c/1.jpg", "c/2.jpg", "d/3.jpg"], ["d/ü.jpg", "1.jpg", "1.cls"])):
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w") as archive:
                if number:
                    archive.mkdir("d")
                for name in names:
                    data = b"5" if name.endswith(".cls") else name.encode() * (90 if number else 40)
                    with archive.open(zipfile.ZipInfo(name), "w", force_zip64=name == "1.jpg") as member:
                        member.write(data)
            self._add(out.getvalue())
        stream = Unseekable()  # sizes come after the bytes, as where a pipe is written to
        with zipfile.ZipFile(stream, "w") as archive:
            for name in ("c/1.jpg", "c/2.jpg"):
                archive.writestr(name, name.encode() * 50)
        self._add(bytes(stream.data))
        self.file = os.memfd_create("archive")

    def _add(self, data: bytes) -> None:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            local = [entry.header_offset for entry in entries]
            truth = {}
            for entry in entries:
                after = entry.header_offset + 30 + len(entry.filename.encode())
                at = data.index(archive.read(entry), after) if entry.file_size else after
                truth[entry.filename] = (at, entry.file_size)
            begin = archive.start_dir
        central = [at for at in range(begin, len(data)) if data[at : at + 2] == b"PK"]
        self.sound.append(data)
        self.places.append([*local, *central])
        self.truth.append(truth)

    def damage(self, chance: random.Random) -> bytearray:
        number = chance.randrange(len(self.sound))
        self.number, sound = number, self.sound[number]
        if chance.random() < 0.1:  # entries of the list of members trade names, places or all
            data = bytearray(sound)
            begins = [at for at in self.places[number] if sound[at : at + 4] == b"PK\1\2"]
            one, other = chance.choice(begins), chance.choice(begins)
            where, size = chance.choice(((42, 4), (46, 7), (20, 8), (16, 4), (4, 60)))
            part = data[one + where : one + where + size]
            data[one + where : one + where + size] = data[other + where : other + where + size]
            data[other + where : other + where + size] = part
            return data
        return damaged(chance, sound, self.places[number], self.sound)

    def read(self, data: bytearray) -> Found:
        os.ftruncate(self.file, 0)
        os.pwrite(self.file, data, 0)
        return [tuple(member) for member in members_of_zip(self.file, PATH, len(data))]

    def check(self, data: bytearray, found: Found) -> None:
        inside(data, found)
        apart(found)
        truth = self.truth[self.number]
        if len(data) == len(self.sound[self.number]) and all(
            data[at : at + size] == self.sound[self.number][at : at + size] for at, size in truth.values()
        ):
            for name, offset, length in found:
                assert truth.get(name, (offset, length)) == (offset, length), f"{name} is another's or cut"
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = Counter(archive.namelist())
            for name, offset, length in found:
                if names[name] == 1:
                    try:
                        theirs = archive.read(name)
                    except zipfile.BadZipFile as error:
                        assert "Bad CRC-32" in str(error), f"zipfile says of {name}: {error}"
                        continue
                    except NotImplementedError:  # it is said to need a later version
                        continue
                    assert theirs == data[offset : offset + length], f"{name} has other bytes"


class Unseekable(io.RawIOBase):
    """What is written to a pipe."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, some: Any) -> int:
        self.data += some
        return len(some)


class Parquet:
    """Values of pages: each has its length before it, and none is another's."""

    raises = (SourceError, MissingValue)
    names = PATH

    def __init__(self) -> None:
        self.sound, self.level = [], []
        for level in (0, 1):
            for second in (False, True):
                levels = repeated(5) + packed([1] * 5) if level else None
                extra = () if second else [(5, [(1, b"a" * 30), (2, b"b")])]
                pages = page(VALUES[:10], levels, second, extra=extra), page(VALUES[10:], levels, second)
                self.sound.append(BEFORE + b"".join(pages))
                self.level.append(level)

    def damage(self, chance: random.Random) -> bytearray:
        self.number = chance.randrange(len(self.sound))
        sound = self.sound[self.number]
        places = [4, 4, 20, sound.index(VALUES[2]) - 4, sound.rindex(VALUES[2]) + 80]
        return damaged(chance, sound, places, self.sound)

    def read(self, data: bytearray) -> Found:
        self.chunk = Chunk(4, len(data), 20, self.level[self.number])
        offsets, lengths = values_of_chunk(Reads(data, 1 << 20), self.chunk, PATH)
        names = map(str, range(20))
        return list(zip(names, offsets.tolist(), lengths.tolist(), strict=True))

    def check(self, data: bytearray, found: Found) -> None:
        inside(data, found)
        apart(found)
        for _, offset, length in found:
            assert data[offset - 4 : offset] == struct.pack("<I", length), "its length is another one"


class Lmdb:
    """Values of a database: each key has the value that it had."""

    raises = (SourceError,)
    names = PATH  # what its errors have in them

    def __init__(self) -> None:
        import lmdb

        self.sound, self.places, self.keys = [], [], []
        self.values: set[tuple[str, int, int]] = set()  # where the databases say that values are
        for count, most in ((6, 3000), (120, 900)):
            with tempfile.TemporaryDirectory() as folder:
                path = f"{folder}/it"
                chance = random.Random(count)
                with lmdb.open(path, subdir=False, map_size=1 << 20) as database:
                    for some in range(2):  # the second time pages of the first are left over
                        with database.begin(write=True) as writing:
                            for number in range(some, count):
                                size = chance.choice((20, most // 3, most))
                                value = PICTURE + bytes([number]) * size
                                writing.put(b"%06d" % number, value)
                data = Path(path).read_bytes()
            found = list(values_of_database(Reads(data, 1 << 16), PATH, len(data)))
            self.sound.append(data)
            assert len(found) == count
            self.keys.append({key for key, *_ in found})
            self.values |= {(key, offset, length) for key, offset, length, _ in found}
            used = [at for at in range(0, len(data), 4096) if data[at + 10] & 7]
            nodes = [at + 16 for at in used if data[at + 10] & 3]
            self.places.append([0, 16, 64, 112, 4112, 4160, 4208, *used, *nodes, *nodes])

    def damage(self, chance: random.Random) -> bytearray:
        self.number = chance.randrange(len(self.sound))
        return damaged(chance, self.sound[self.number], self.places[self.number], self.sound)

    def read(self, data: bytearray) -> Found:
        found = values_of_database(Reads(data, 1 << 16), PATH, len(data))
        return [(key, offset, length) for key, offset, length, _ in found]

    def check(self, data: bytearray, found: Found) -> None:
        inside(data, found)
        apart(found)
        assert [key for key, *_ in found] == sorted({key for key, *_ in found})
        sound = self.sound[self.number]
        for key, offset, length in found:
            beginning = data[offset : offset + 4]
            # A key whose own bytes are damaged is another key: nothing in the format shows it. Nor does
            # anything if pages of one database lie in another, and point there as into their own.
            is_known = key in self.keys[self.number] and (key, offset, length) not in self.values
            if is_known and length >= 4 and beginning == sound[offset : offset + 4]:
                assert beginning == PICTURE + bytes([int(key)]), f"{key} has another one's bytes"


class Idx:
    """An index beside an archive changes nothing of what is listed."""

    raises: tuple[type[Exception], ...] = ()
    names = PATH

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.tar = Tar().sound[2]
        self.path = f"{self.folder.name}/some.tar"
        Path(self.path).write_bytes(self.tar)
        self.file = os.open(self.path, os.O_RDONLY)
        self.expected = [tuple(m) for m in self._members()]
        lines = [f"jpg {offset} {length} {name.encode().hex()}" for name, offset, length in self.expected]
        self.sound = "\n".join([f"v1.2 {len(lines)}", *lines, ""]).encode()
        self.index = f"{self.folder.name}/some.idx"

    def _members(self) -> Found:
        read = indexes.headers_ahead(self.file, self.path, len(self.tar))
        return [tuple(m) for m in members_of_tar(read, self.path, len(self.tar))]

    def damage(self, chance: random.Random) -> bytearray:
        return damaged(chance, self.sound, [0, 5, 10, 14, 18, 30], [b"9" * 300, b" 7 7 7 7\n" * 40])

    def read(self, data: bytearray) -> Found:
        with open(self.index, "wb", buffering=0) as file:
            file.write(data)
        return self._members()

    def check(self, data: bytearray, found: Found) -> None:
        assert found == self.expected


class Shards:
    """A list of shards: an error, or one archive for each shard."""

    raises = (SourceError, FileNotFoundError)
    names = ""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.urls = [f"{self.folder.name}/train-{number}.tar" for number in range(3)]
        described = [
            {"url": os.path.basename(url), "nsamples": 2, "filesize": 10240 + 512 * number}
            for number, url in enumerate(self.urls)
        ]
        index = {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": described}
        self.sound = json.dumps(index).encode()
        self.path = f"{self.folder.name}/shards.json"
        pieces = np.zeros(6, PIECE)
        pieces["container"] = [0, 0, 1, 1, 2, 2]
        stated = np.array([(10240 + 512 * number, 0) for number in range(3)], STATED)
        self.listing = Listing(self.urls, stated, [f"{n}.jpg" for n in range(6)], pieces)

    def damage(self, chance: random.Random) -> bytearray:
        words = [
            b"[" * 20000,
            b'"url": ',
            b"9" * 5000,
            b"{0..999999999}",
            b"*",
            b"\\u0000",
            b"\\ud800",
            b"[a-z]",
        ]
        if chance.random() < 0.3:
            data = bytearray(self.sound)
            at = chance.choice((data.index(b"train-1"), data.index(b"train-1") + 6, data.rindex(b"train-")))
            data[at:at] = chance.choice(words)
            return data
        places = [self.sound.index(b"{", 2), self.sound.index(b"url"), self.sound.rindex(b"nsamples")]
        return damaged(chance, self.sound, [*places, self.sound.index(b"train-1")], words)

    def read(self, data: bytearray) -> Found:
        with open(self.path, "wb", buffering=0) as file:
            file.write(data)
        described = shards.list_of_shards(self.path)
        found = expand_paths([shard.url for shard in described])
        assert found == [shard.url for shard in described], "a shard is not one archive"
        for url in found:
            os.fsencode(url)
            assert "\0" not in url
        if found != self.urls:
            raise FileNotFoundError(self.path)  # as the archives' reader says
        shards.check_shards(self.path, described, self.listing)
        return [(url, 0, 0) for url in found]

    def check(self, data: bytearray, found: Found) -> None:
        assert [name for name, *_ in found] == self.urls


class Kept:
    """What an earlier run has listed: the same, or nothing."""

    raises: tuple[type[Exception], ...] = ()
    names = PATH

    def __init__(self) -> None:
        names = [f"c/{number}.jpg" for number in range(5)]
        offsets, lengths = np.arange(5, dtype=np.uint64) * 900, np.arange(5, dtype=np.uint32) + 7
        self.members = Members.of(names, offsets, lengths, {})
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "kept.members"
        archives._keep(self.path, "", self.members)
        self.sound = self.path.read_bytes()
        self.places = [*range(HEAD.size), self.sound.index(b'{"about"')]

    def damage(self, chance: random.Random) -> bytearray:
        return damaged(chance, self.sound, self.places, [])

    def read(self, data: bytearray) -> Found:
        with open(self.path, "wb", buffering=0) as file:
            file.write(data)
        members = archives._load(self.path)
        if members is None:
            raise Refused
        return list(zip(members.names, members.offsets.tolist(), members.lengths.tolist(), strict=True))

    def check(self, data: bytearray, found: Found) -> None:
        its = self.members
        assert found == list(zip(its.names, its.offsets.tolist(), its.lengths.tolist(), strict=True))


class Refused(Exception):
    """A reader says that there is nothing, which is what it should say."""


def inside(data: bytearray, found: Found) -> None:
    for name, offset, length in found:
        assert 0 <= offset <= offset + length <= len(data), f"{name} is not within the file"


def apart(found: Found) -> None:
    last = 0
    for name, offset, length in sorted(found, key=lambda one: one[1:]):
        assert offset >= last or not length, f"{name} has bytes of another one"
        last = max(last, offset + length)


KINDS: dict[str, Callable[[], Any]] = {
    "tar": Tar,
    "zip": Zip,
    "parquet": Parquet,
    "lmdb": Lmdb,
    "idx": Idx,
    "shards": Shards,
    "kept": Kept,
}
SHARES = {"tar": 450, "zip": 250, "parquet": 200, "lmdb": 75, "idx": 10, "shards": 10, "kept": 5}
"""Of a thousand. The last ones write a file for each case, and take long."""


def run(name: str, count: int, seed: int, first: int = 0, keep_going: bool = False) -> Counter[str]:
    """Damage and read so many archives of a kind; how many were read, and how many refused.

    Raises:
        AssertionError: What was read is wrong, or it raised something else. It says how to make it again.
    """
    kind = KINDS[name]()
    result: Counter[str] = Counter()
    examples: dict[str, int] = {}
    for number in range(first, first + count):
        chance = random.Random(seed << 40 | number)
        data = kind.damage(chance)
        try:
            try:
                found = kind.read(data)
            except (*kind.raises, Refused) as error:
                result["refused"] += 1
                named = isinstance(error, (Refused, MissingValue)) or kind.names in str(error)
                assert named, f"the error does not name the file: {error!r}"
                continue
            kind.check(data, found)
            result["read"] += 1
        except Exception as error:
            if not keep_going:
                again = f"--kinds {name} --seed {seed} --first {number} --count 1"
                raise AssertionError(f"python tests/archive_fuzz.py {again}: {error!r}") from error
            result[f"{type(error).__name__}: {str(error)[:70]}"] += 1
            examples.setdefault(f"{type(error).__name__}: {str(error)[:70]}", number)
    for what, number in examples.items():
        result[f"{what} (as {number})"] = result.pop(what)
    return result


@contextmanager
def less_room() -> Iterator[None]:
    """A huge allocation fails here."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**20))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--keep-going", action="store_true", help="count what is wrong, and go on")
    args = parser.parse_args()
    kinds = args.kinds.split(",")
    parts = sum(SHARES[kind] for kind in kinds)
    print(f"seed {args.seed}", flush=True)
    with less_room():
        for kind in kinds:
            count, began = max(1, args.count * SHARES[kind] // parts), time.perf_counter()
            result = run(kind, count, args.seed, args.first, args.keep_going)
            took = time.perf_counter() - began
            print(f"{kind:8} {count:10,} in {took:7.1f} s: ", end="")
            print(", ".join(f"{n:,} {what}" for what, n in result.most_common()), flush=True)


if __name__ == "__main__":
    main()
