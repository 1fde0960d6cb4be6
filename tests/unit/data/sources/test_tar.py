"""Where the members of a tar archive are: where Python's tarfile finds them. Or why there is no place."""

import functools
import io
import os
import subprocess
import tarfile
import zlib

import numpy as np
import pytest

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


def test_damage_is_an_error_or_the_members_are_within_the_archive(tmp_path):
    """Bytes of headers are changed. Checksums are made right again, or they would find all of it."""
    rng = np.random.default_rng(5)
    path = tmp_path / "some.tar"
    write(path, tarfile.PAX_FORMAT)
    sound = path.read_bytes()
    headers = [at for at in range(0, len(sound), 512) if sound[at + 257 : at + 262] == b"ustar"]
    read = failed = 0
    for _ in range(4000):
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
    assert read > 100 and failed > 100
