"""Where the members of a tar archive are: where Python's tarfile finds them. Or why there is no place."""

import functools
import io
import os
import subprocess
import tarfile
import zlib

import numpy as np
import pytest
from sizes import size

from seneca.data.sources.tar import members_of_tar
from seneca.errors import SourceError

NAMES = [
    "a.jpg",
    "deep/" * 30 + "b.jpg",
    "x" * 99 + ".jpg",
    "long/" + "y" * 240 + ".jpg",
    "ümläut/ß.jpg",
    "empty.jpg",
]


def content(name):
    return b"" if name.startswith("empty") else name.encode() * (1 + zlib.crc32(name.encode()) % 300)


def write(path, format_, **options):
    with tarfile.open(path, "w", format=format_, **options) as archive:
        archive.addfile(directory("deep"))
        for name in NAMES:
            if format_ == tarfile.USTAR_FORMAT and len(os.path.basename(name)) > 100:
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content(name))
            archive.addfile(info, io.BytesIO(content(name)))


def directory(name):
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    return info


def members(path):
    file = os.open(path, os.O_RDONLY)
    try:
        return list(members_of_tar(functools.partial(os.pread, file), str(path), os.fstat(file).st_size))
    finally:
        os.close(file)


@pytest.mark.parametrize("format_", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_are_where_tarfile_finds_them(tmp_path, format_):
    path = tmp_path / "some.tar"
    write(path, format_, **({"pax_headers": {"comment": "of all"}} if format_ == tarfile.PAX_FORMAT else {}))
    data = path.read_bytes()
    with tarfile.open(path) as archive:
        theirs = [(m.name, m.offset_data, m.size) for m in archive if m.isfile()]
    ours = members(path)
    assert [tuple(m) for m in ours] == theirs and len(ours) >= 4
    for name, offset, length in ours:
        assert data[offset : offset + length] == content(name)


def test_what_gnu_tar_writes_is_read(tmp_path):
    folder = tmp_path / "pictures" / ("d" * 60) / ("e" * 60)
    folder.mkdir(parents=True)
    (folder / "one.jpg").write_bytes(b"one" * 700)
    for format_ in ("gnu", "pax", "ustar"):
        path = tmp_path / f"{format_}.tar"
        subprocess.run(["tar", f"--format={format_}", "-cf", path, "-C", tmp_path, "pictures"], check=True)
        ((name, offset, length),) = members(path)
        assert name.endswith("one.jpg") and path.read_bytes()[offset : offset + length] == b"one" * 700


def test_an_archive_without_an_end_is_read(tmp_path):
    path = tmp_path / "some.tar"
    write(path, tarfile.GNU_FORMAT)
    whole = members(path)
    last = whole[-1]
    os.truncate(path, last.offset + -(-last.length // 512) * 512)
    assert members(path) == whole


def link(kind, **more):
    info = tarfile.TarInfo("linked.jpg")
    info.type, info.linkname = kind, "a.jpg"
    for name, value in more.items():
        setattr(info, name, value)
    return info


@pytest.mark.parametrize(
    ("kind", "says"),
    [(tarfile.LNKTYPE, "a hard link"), (tarfile.SYMTYPE, "a symbolic link"), (b"S", "sparse")],
)
def test_a_member_without_bytes_of_its_own_is_named(tmp_path, kind, says):
    path = tmp_path / "some.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(link(kind))
    with pytest.raises(SourceError, match=f"linked.jpg is {says}.*write the archive again with"):
        members(path)


def test_sparse_members_of_pax_are_named(tmp_path):
    path = tmp_path / "some.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(link(tarfile.REGTYPE, pax_headers={"GNU.sparse.major": "1"}))
    with pytest.raises(SourceError, match=r"linked.jpg is sparse"):
        members(path)


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_a_compressed_archive_says_what_to_do(tmp_path, mode):
    path = tmp_path / "some.tar"
    with tarfile.open(path, mode) as archive:
        archive.addfile(tarfile.TarInfo("a.jpg"))
    with pytest.raises(SourceError, match=r"some.tar is no tar archive; decompress it first"):
        members(path)


@pytest.mark.parametrize("cut", [1, 511, 700, 1024])
def test_an_archive_that_was_cut_off_says_so(tmp_path, cut):
    path = tmp_path / "some.tar"
    with tarfile.open(path, "w") as archive:
        for name in ("a.jpg", "b.jpg"):
            info = tarfile.TarInfo(name)
            info.size = 2000
            archive.addfile(info, io.BytesIO(bytes(2000)))
    last = members(path)[-1]
    os.truncate(path, last.offset + 2000 - cut)
    with pytest.raises(SourceError, match=r"ends within its member|damaged or cut off"):
        members(path)


def header(name, kind=b"0", size=0, **fields):
    """A header whose checksum is right. ``fields`` are offsets and bytes, ``at_124`` for one."""
    info = tarfile.TarInfo(name)
    info.size = size
    block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    block[156:157] = kind
    for where, data in fields.items():
        at = int(where.removeprefix("at_"))
        block[at : at + len(data)] = data
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def words(text, kind=b"x", name="words"):
    """An extended header."""
    return header(name, kind, len(text)) + text + bytes(-len(text) % 512)


def word(text):
    length = next(n for n in range(len(text), len(text) + 30) if n == len(f"{n} ") + len(text) + 1)
    return b"%d %s\n" % (length, text)


def listed(data):
    return list(members_of_tar(lambda length, at: data[at : at + length], "some.tar", len(data)))


ONE = header("a.jpg", size=3) + b"abc" + bytes(509)
LONG = word(b"path=" + b"b" * 200 + b".jpg")


@pytest.mark.parametrize(
    "data",
    {
        "a kind that nobody knows, in place of a header with the name": words(LONG, b"Q") + ONE,
        "a name for all members": words(LONG, b"g") + ONE,
        "a size for all members": words(word(b"size=3"), b"g") + ONE,
        "sparse, for all members": words(word(b"GNU.sparse.major=1"), b"g") + ONE,
        "a word that ends within another": words(LONG.replace(b"213 ", b"212 ") + b"7") + ONE,
        "a word that ends where it begins": words(b"0 path=a\n") + ONE,
        "a word that ends before it begins": words(b"\n1 path=a\n") + ONE,
        "a word without a value": words(word(b"path")) + ONE,
        "a word with a length of many digits": words(b"9" * 5000 + b" path=a\n") + ONE,
        "a word without a length": words(b"path=a\n") + ONE,
        "two names": words(LONG) + words(b"another.jpg\0", b"L") + ONE,
        "two sizes": words(word(b"size=3")) + words(word(b"size=2")) + ONE,
        "a long name of no bytes": words(b"\0another", b"L") + ONE,
        "a long name that goes on behind its end": header("long", b"L", 5) + b"b.jpgs" + bytes(506) + ONE,
        "a folder by its own name, with bytes, and no folder by its long one": words(b"b.jpg\0", b"L")
        + header("a/", b"\0", 3)
        + bytes(512),
        "a folder that has bytes": header("a", b"5", 512) + ONE,
        "a folder of old that has bytes": header("a/", b"0", 512) + ONE,
        "a size with many digits": words(word(b"size=" + b"9" * 5000)) + ONE,
        "a size that some read as 0 and some as 3": header("a.jpg", at_124=b"\x0000000000003") + bytes(512),
        "a size with an underscore": header("a.jpg", at_124=b"000000001_1\0") + bytes(512),
    }.items(),
    ids=lambda data: data[0],
)
def test_what_leads_to_another_name_or_place_is_an_error(data):
    with pytest.raises(
        SourceError, match=r"^some\.tar (has a damaged header|has a size that is|ends within)"
    ):
        listed(data[1])


def test_extended_headers_of_solaris_are_those_of_pax():
    ((name, offset, length),) = listed(words(LONG, b"X") + ONE)
    assert (name, offset, length) == ("b" * 200 + ".jpg", 1536, 3)


def test_a_header_of_a_hundred_thousand_words_is_read_once():
    """Each word was once copied with all that follow it: 30 seconds for 1 MiB."""
    text = word(b"a=b") * size(20_000, 100_000)

    class Counted(bytes):
        """Bytes that count how many of them are copied."""

        copied = 0

        def __getitem__(self, place):
            found = super().__getitem__(place)
            if isinstance(place, slice):
                Counted.copied += len(found)
                found = Counted(found)
            return found

        def partition(self, sign):
            Counted.copied += len(self)
            return super().partition(sign)

    data = Counted(words(text) + ONE)
    assert [member.name for member in listed(data)] == ["a.jpg"]
    assert Counted.copied < 5 * len(data)


def test_damage_is_an_error_or_the_members_are_within_the_archive(tmp_path):
    """Bytes of headers are changed. Checksums are made right again, or they would find all of it."""
    rng = np.random.default_rng(5)
    path = tmp_path / "some.tar"
    write(path, tarfile.PAX_FORMAT)
    sound = path.read_bytes()
    headers = [at for at in range(0, len(sound), 512) if sound[at + 257 : at + 262] == b"ustar"]
    read = failed = 0
    for _ in range(size(400, 4000)):
        data = bytearray(sound)
        for at in rng.choice(headers, 2).tolist():
            for place in rng.integers(0, 512, rng.integers(1, 4)).tolist():
                data[at + place] = int(rng.choice([0, 32, 48, 55, 57, 128, 255, int(rng.integers(256))]))
            data[at + 148 : at + 156] = b" " * 8
            data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
        path.write_bytes(data)
        try:
            for name, offset, length in members(path):
                assert (
                    offset >= 512 and length >= 0 and offset + length <= len(data) and isinstance(name, str)
                )
            read += 1
        except SourceError as error:
            assert str(path) in str(error)
            failed += 1
    assert min(read, failed) > size(10, 100)
