"""What is found broken is what a loader refuses, with the same reason."""

from __future__ import annotations

import io
import itertools
import os
import socket
import struct
import threading
import time
import zlib

import numpy as np
import pytest
from awkward_files import FILES, PLAIN
from jpeg_surgery import after_soi, exif, picture, saved, segment, sized
from PIL import Image
from rights import ordinary_rights

import seneca
from seneca import transforms as T
from seneca._core.codec import Codec
from seneca.data import broken
from seneca.data.broken import judge, judge_all, picture_files
from seneca.data.file_verdicts import FileVerdicts
from seneca.errors import DecodeError

pytestmark = pytest.mark.filterwarnings("ignore")  # of bombs and EXIF: Pillow has much to say


@pytest.fixture
def verdicts(tmp_path):
    made = FileVerdicts(tmp_path / "verdicts.db", "terms")
    yield made
    made.close()
    assert made.problem is None


def reasons(folder, verdicts, **options):
    """By path: why a file is broken; None: it is good."""
    found = list(judge_all(str(folder), verdicts, **{"workers": 2, **options}))
    found_by_path = {one.path: one.verdict.reason for one in found}
    assert len(found_by_path) == len(found), "a file came twice"
    return found_by_path


def loaders_reasons(folder, **options):
    """By path: why the loader refuses a file; None: it delivers it. The transform needs every pixel."""
    dataset = seneca.ImageFolder(folder, T.Resize((8, 8)), **options)
    batches = iter(seneca.DataLoader(dataset, batch_size=1, num_workers=2, cache=None))
    by_path = {}
    for path, _ in dataset.samples:
        try:
            next(batches)
            by_path[path] = None
        except DecodeError as error:
            by_path[path] = error.reason
        except OSError as error:
            by_path[path] = error.strerror
    assert next(batches, None) is None
    return by_path


def png(mode, *size, **options):
    file = io.BytesIO()
    Image.new(mode, size).save(file, "PNG", **options)
    return file.getvalue()


def all_black(width, height):
    """A PNG of so many pixels, made without memory for them.

    This process would keep that memory, and each that it forks would copy the map of it.
    """

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = bytes(1 + (width + 7) // 8)  # a byte for the filter, and a bit for each pixel
    rows = zlib.compress(row * height)
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def gif():
    file = io.BytesIO()
    picture().save(file, "GIF")
    return file.getvalue()


def sixteen_bits():
    file = io.BytesIO()
    Image.fromarray(np.arange(40 * 50, dtype=np.uint16).reshape(40, 50) * 30).save(file, "PNG")
    return file.getvalue()


MORE = {
    "truncated.jpg": PLAIN[: len(PLAIN) // 2],
    "empty.jpg": b"",
    "no-picture.jpg": b"something else",
    "a-gif.jpg": gif(),
    "truncated-gif.jpg": gif()[:300],
    "truncated.png": sixteen_bits()[:200],
    "bomb.png": all_black(20_000, 20_000),
    "bomb.jpg": sized(PLAIN, 20_000, 20_000),
    "cmyk.jpg": saved(picture().convert("CMYK")),
    "16-bits.png": sixteen_bits(),
    "palette.png": png("P", 40, 50, transparency=0),
    "corrupt-exif.jpg": after_soi(PLAIN, exif(b"MM\0*\xff\xff\xff\xff")),
    "ends-with-a-warning.jpg": PLAIN[: len(PLAIN) // 2] + b"\xff\xd9",
    "UPPER.JPEG": PLAIN,
    "no-utf-8-\udce9.jpg": PLAIN[:99],
}
REFUSED = {
    "truncated.jpg": "image file is truncated",
    "empty.jpg": "no format of pictures that Pillow knows",
    "no-picture.jpg": "no format of pictures that Pillow knows",
    "bomb.png": "Image size (400000000 pixels) exceeds limit",
    "bomb.jpg": "Image size (400000000 pixels) exceeds limit",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Every kind of awkward file, and what is no file."""
    root = tmp_path_factory.mktemp("awkward")
    inside = root / "files" / "folder.jpg"
    inside.mkdir(parents=True)
    for name, data in itertools.chain(((file.name, file.bytes) for file in FILES), MORE.items()):
        (inside / os.fsdecode(os.fsencode(name))).write_bytes(data)
    (inside / "notes.txt").write_text("no picture by its name")
    os.mkfifo(inside / "fifo.jpg")
    (inside / "device.jpg").symlink_to("/dev/zero")
    (inside / "dangling.jpg").symlink_to("nothing")
    (inside / "itself.jpg").symlink_to("itself.jpg")
    (inside / "link.jpg").symlink_to("UPPER.JPEG")
    (inside / "unreadable.jpg").write_bytes(PLAIN)
    (inside / "unreadable.jpg").chmod(0)
    with socket.socket(socket.AF_UNIX) as listens:
        here = os.getcwd()
        os.chdir(inside)  # the names of sockets are short
        listens.bind("socket.jpg")
        os.chdir(here)
    return root


def test_what_is_broken_is_what_the_loader_refuses_for_the_same_reason(folder, verdicts):
    with ordinary_rights():
        ours, loaders = reasons(folder, verdicts), loaders_reasons(folder)
    assert len(ours) > 300 and ours == loaders
    by_name = {os.path.basename(path): reason for path, reason in ours.items()}
    for name, reason in REFUSED.items():
        assert by_name[name].startswith(reason), name
    for name, reason in {
        "fifo.jpg": "is a FIFO, not a regular file",
        "device.jpg": "is a device, not a regular file",
        "socket.jpg": "is a socket or a missing device, not a regular file",
        "dangling.jpg": "No such file or directory",
        "itself.jpg": "Too many levels of symbolic links",
        "unreadable.jpg": "Permission denied",
    }.items():
        assert by_name[name] == reason, name
    good = ("a-gif.jpg", "16-bits.png", "cmyk.jpg", "corrupt-exif.jpg", "ends-with-a-warning.jpg", "link.jpg")
    assert {by_name[name] for name in good} == {None}


def test_a_verdict_that_is_kept_is_the_same_and_what_could_not_be_read_is_tried_again(folder, verdicts):
    with ordinary_rights():
        first = reasons(folder, verdicts)
        verdicts.save()
        second = list(judge_all(str(folder), verdicts, workers=2))
    assert {one.path: one.verdict.reason for one in second} == first
    unread = {os.path.basename(one.path) for one in second if not one.known}
    names = ("fifo", "device", "socket", "dangling", "itself", "unreadable")
    assert unread == {f"{name}.jpg" for name in names}


def test_the_limit_of_pixels_is_that_of_the_loader(tmp_path, verdicts):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "a.jpg").write_bytes(saved(picture(40, 50)))
    (tmp_path / "class" / "b.png").write_bytes(png("RGB", 40, 51))
    for limit, refused in ((2039, 1), (1999, 2)):
        ours = reasons(tmp_path, FileVerdicts(tmp_path / f"{limit}.db", ""), max_pixels=limit)
        assert ours == loaders_reasons(tmp_path, max_pixels=limit)
        assert sum(reason is not None for reason in ours.values()) == refused


def test_a_file_larger_than_the_loader_reads_is_not_read(tmp_path, verdicts, monkeypatch):
    with open(tmp_path / "huge.jpg", "wb") as file:
        file.truncate((1 << 30) + 1)
    monkeypatch.setattr(broken, "read_regular", None)
    assert list(reasons(tmp_path, verdicts).values()) == ["File too large"]


def test_whatever_pillow_raises_is_a_reason(monkeypatch):
    def fails(*_, **__):
        raise ZeroDivisionError("in a plugin")

    monkeypatch.setattr(Image, "open", fails)
    assert judge(gif(), Codec()).reason == "ZeroDivisionError: in a plugin"


def test_a_lack_of_memory_is_no_fault_of_the_file(tmp_path, verdicts, monkeypatch):
    def fails(*_, **__):
        raise MemoryError

    (tmp_path / "a.jpg").write_bytes(gif())
    monkeypatch.setattr("seneca.transforms._apply.open_picture", fails)
    with pytest.raises(MemoryError):
        reasons(tmp_path, verdicts)
    assert verdicts.of(os.stat(tmp_path / "a.jpg")) is None


@pytest.mark.parametrize(
    ("data", "format", "progressive"),
    [
        (PLAIN, "JPEG", False),
        (saved(picture(), progressive=True), "JPEG", True),
        (after_soi(saved(picture(), progressive=True), b"\xff\xff"), "JPEG", True),
        (after_soi(saved(picture(), progressive=True), segment(0xC4, b"\0\1" + bytes(16))), "JPEG", True),
        (after_soi(PLAIN, exif(b"\xff\xc2" * 9)), "JPEG", False),
        (gif(), "GIF", False),
        (sixteen_bits(), "PNG", False),
    ],
)
def test_of_a_good_picture_format_kind_and_pixels_are_found(data, format, progressive):
    assert judge(data, Codec()) == (None, format, progressive, 40 * 50)


# --- the listing


def listed(folder):
    return sorted((os.path.relpath(path, folder), error) for path, error in picture_files(str(folder)))


def test_files_at_every_depth_are_listed_once_through_links_and_not_in_circles(tmp_path):
    for path in ("top.jpg", "class/a.PNG", "class/deep/er/b.webp", "class/c.txt", "elsewhere/d.bmp"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "class" / "up").symlink_to("..")
    (tmp_path / "class" / "deep" / "over").symlink_to("../../elsewhere")
    names = ["class/a.PNG", "class/deep/er/b.webp", "class/deep/over/d.bmp", "elsewhere/d.bmp", "top.jpg"]
    assert listed(tmp_path) == [(name, None) for name in names]


def test_a_folder_that_cannot_be_listed_is_found_and_the_others_are_checked(tmp_path, verdicts):
    for name in ("class", "closed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jpg").write_bytes(PLAIN)
    (tmp_path / "closed").chmod(0)
    try:
        with ordinary_rights():
            found = reasons(tmp_path, verdicts)
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert found == {
        f"{tmp_path}/class/a.jpg": None,
        f"{tmp_path}/closed": "cannot be listed: Permission denied",
    }


# --- the threads


@pytest.fixture
def given(monkeypatch):
    """What the listing has given. Few findings may wait for the caller."""
    given = []

    def noted(folder):
        for one in picture_files(folder):
            given.append(one)
            yield one

    monkeypatch.setattr(broken, "picture_files", noted)
    monkeypatch.setattr(broken, "AHEAD", 4)
    return given


def test_what_is_found_does_not_pile_up(picture_folder, verdicts, given):
    """The listing waits for the caller."""
    taken = 0
    for _ in judge_all(str(picture_folder), verdicts, workers=2):
        taken += 1
        assert len(given) <= taken + 4 + 2  # those that wait, and one in the hands of each thread
    assert taken == 48


@pytest.mark.parametrize("taken", [1, 38])
def test_threads_end_when_the_caller_leaves_early(picture_folder, verdicts, given, taken):
    before = set(threading.enumerate())
    findings = judge_all(str(picture_folder), verdicts, workers=3)
    for _ in range(taken):
        next(findings)
    begun = set(threading.enumerate()) - before
    while len(given) < min(48, taken + 6 + 3):  # until each thread has a finding for which there is no room
        time.sleep(0.001)
    findings.close()
    for thread in begun:
        thread.join(60)
        assert not thread.is_alive()
