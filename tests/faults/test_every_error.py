"""Each class of ``seneca.errors``, provoked as a user meets it: the message names the thing and a remedy.

The same for each failure that the core has a code for.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from engine import HEADER
from pages import ROOT
from PIL import Image

import seneca
from seneca import SampleCache, errors
from seneca import transforms as T
from seneca._core.codec import Codec
from seneca._core.codes import Unlinked, picture_error, segment_error, why_private
from seneca._core.plan import Plan
from seneca.cache import sample_cache
from seneca.identity import fingerprint


class Place:
    """What a provocation works with: a cache's name, and a folder with one picture."""

    def __init__(self, name: str, folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name, self.folder, self.stack, self.monkeypatch = name, folder, stack, monkeypatch
        self.segment = f"/dev/shm/seneca-{os.geteuid()}-{name}"
        (folder / "cats").mkdir(parents=True)
        Image.new("RGB", (40, 30)).save(folder / "cats" / "1.jpg")

    def make(self, **options) -> SampleCache:
        return self.stack.enter_context(SampleCache.create(self.name, Dataset(), **SMALL | options))

    def spoil(self, field: str, number: int) -> None:
        kind, at = HEADER.fields[field][:2]
        with open(self.segment, "r+b") as file:
            file.seek(at)
            file.write(number.to_bytes(kind.itemsize, sys.byteorder))


class Dataset:
    def __init__(self, fingerprint: bytes = b"a dataset of 100") -> None:
        self.bytes = fingerprint

    def __len__(self) -> int:
        return 100

    def fingerprint(self) -> bytes:
        return self.bytes

    def total_bytes(self) -> int:
        return 1 << 20


SMALL = {"cache_bytes": "1MiB"}

# By class: what raises it, what the message names, and the remedy in it.
Provocation = Callable[[Place], object]
PROVOKED: dict[type[Exception], tuple[Provocation, str, str]] = {}


def provokes(error: type[Exception], names: str, remedy: str) -> Callable[[Provocation], Provocation]:
    def note(provocation: Provocation) -> Provocation:
        PROVOKED[error] = provocation, names, remedy
        return provocation

    return note


@provokes(errors.NotBuiltError, "has no compiled modules", "Run `make build` in")
def not_built(place: Place) -> None:
    """In another process, for it is found once. Its error comes here as workers send theirs."""
    checkout = place.folder / "checkout"
    compiled = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "seneca", checkout / "seneca", ignore=compiled)
    script = (
        "import pickle, sys\ntry:\n    import seneca._core\nexcept ImportError as error:\n"
        "    sys.stdout.buffer.write(pickle.dumps(error))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        check=True,
    )
    raise pickle.loads(run.stdout)


@provokes(errors.PlanError, "Resize", "move it in front of ToTensor")
def a_plan(place: Place) -> None:
    transform = T.Compose([T.CenterCrop(8), T.ToTensor(), T.Resize(4)])
    seneca.ImageFolder(place.folder, transform)[0]


@provokes(errors.NotFingerprinted, "dataset.lock is a _thread.lock", "leave it out, or say .* with key=")
def a_lock(_place: Place) -> None:
    dataset = Dataset()
    dataset.lock = threading.Lock()
    del dataset.bytes
    fingerprint(dataset, name="dataset")


@provokes(errors.SourceError, "some.tar", "decompress it first")
def a_source(place: Place) -> None:
    path = place.folder / "some.tar"
    path.write_bytes(b"\x1f\x8b" + bytes(600))
    seneca.open(path)


@provokes(errors.StateError, "the dataset has 5", "give the loader the dataset of the run")
def a_state(_place: Place) -> None:
    def loader(n: int) -> seneca.DataLoader:
        return seneca.DataLoader(torch.utils.data.TensorDataset(torch.arange(n)), batch_size=2, cache=None)

    saved = loader(6)
    next(iter(saved))
    loader(5).load_state_dict(saved.state_dict())


@provokes(errors.DecodeError, "1.jpg", "")  # what becomes of a damaged file is for its owner to say
def a_picture(place: Place) -> None:
    path = place.folder / "cats" / "1.jpg"
    path.write_bytes(path.read_bytes()[:200])
    seneca.ImageFolder(place.folder, T.CenterCrop(8))[0]


@provokes(errors.LeftToPillowError, "JPEG|PNG|WebP|format", "Pillow")
def a_gif(place: Place) -> None:
    Image.new("RGB", (40, 30)).save(place.folder / "1.gif")
    plan = Plan([], 0, "uint8", True, (0, 0, 0), (1, 1, 1))
    Codec().decode(plan, (place.folder / "1.gif").read_bytes())


@provokes(errors.PictureTooLargeError, "1.jpg", "max_pixels=100")
def a_large_picture(place: Place) -> None:
    seneca.ImageFolder(place.folder, T.CenterCrop(8), max_pixels=100)[0]


@provokes(errors.SegmentError, "test-[0-9a-f]+' is locked", "continue or end it, or remove /dev/shm")
def a_lock_that_is_not_let_go_of(place: Place) -> None:
    place.make()
    place.monkeypatch.setattr(sample_cache, "GIVE_UP_AFTER_S", 0.1)
    with open(place.segment) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        SampleCache.attach(place.name)


@provokes(errors.NotASegmentError, "test-[0-9a-f]+", "choose another cache name")
def another_file(place: Place) -> None:
    place.stack.callback(os.unlink, place.segment)
    Path(place.segment).touch(mode=0o600)
    Path(place.segment).write_bytes(b"something else" * 4096)
    SampleCache.attach(place.name)


@provokes(errors.SegmentVersionError, "test-[0-9a-f]+", "one version")
def another_version(place: Place) -> None:
    place.make()
    place.spoil("layout_version", 1)
    SampleCache.attach(place.name)


@provokes(errors.SegmentCorruptError, "test-[0-9a-f]+", "end the jobs that use it")
def a_damaged_header(place: Place) -> None:
    place.make()
    place.spoil("n_slots", 1 << 20)
    SampleCache.attach(place.name)


@provokes(errors.SegmentOwnerError, "test-[0-9a-f]+", "remove it, or choose another name")
def one_that_others_may_open(place: Place) -> None:
    place.make()
    os.chmod(place.segment, 0o666)
    try:
        SampleCache.attach(place.name)
    finally:
        os.chmod(place.segment, 0o600)


@provokes(errors.SegmentFolderError, "SENECA_DIR='/nowhere'", "mkdir .* it, or unset SENECA_DIR")
def no_folder(place: Place) -> None:
    place.monkeypatch.setenv("SENECA_DIR", "/nowhere")
    SampleCache.attach(place.name)


@provokes(errors.SegmentMismatchError, "test-[0-9a-f]+", "name of its own")
def another_dataset(place: Place) -> None:
    place.make()
    SampleCache.attach(place.name, Dataset(b"another 16 bytes"))


@provokes(errors.TooManyMembersError, "test-[0-9a-f]+", "fewer workers")
def a_process_too_many(place: Place) -> None:
    place.make()
    for _ in range(200):
        place.stack.enter_context(SampleCache.attach(place.name))


@provokes(errors.TooManyJobsError, "test-[0-9a-f]+", "another cache name")
def a_job_too_many(place: Place) -> None:
    for number in range(65):
        place.stack.enter_context(SampleCache.join(place.name, Dataset(), job=f"run {number}", **SMALL))


@provokes(errors.NoSpaceError, "bytes|MiB", "smaller cache_bytes")
def more_than_there_is(place: Place) -> None:
    status = os.statvfs("/dev/shm")
    place.make(cache_bytes=2 * status.f_blocks * status.f_frsize)


@pytest.fixture
def place(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(name, tmp_path / "folder", stack, monkeypatch)


@pytest.mark.parametrize("error", [getattr(errors, name) for name in errors.__all__ if name != "SenecaError"])
def test_a_message_names_the_thing_and_a_remedy(place, error):
    provocation, names, remedy = PROVOKED[error]
    with pytest.raises(error) as caught:
        provocation(place)
    text = str(caught.value)
    assert type(caught.value) is error, "a class of its own, and not one that derives from it"
    assert re.search(names, text) and re.search(remedy, text), text
    assert "\n" not in text


# --- the codes of the core

STATUS = (ROOT / "csrc" / "base" / "sn_status.h").read_text()
CODES = {name: int(number) for name, number in re.findall(r"^\s+(SN_E_\w+) = (-\d+)", STATUS, re.M)}
PICTURES = {name for name in CODES if CODES[name] <= -5100}
UNLINKED = {"SN_E_ABANDONED", "SN_E_GONE"}  # the name is opened again: no user sees these


def test_the_codes_are_found():
    assert len(CODES) == STATUS.count("SN_E_") == 17 and len(PICTURES) == 4


@pytest.mark.parametrize("name", sorted(CODES.keys() - PICTURES))
def test_a_code_of_the_segment_is_an_error_of_senecas(name):
    error = segment_error(CODES[name])
    if name in UNLINKED:
        assert type(error) is Unlinked
    else:
        assert isinstance(error, errors.SegmentError) and error.args
        assert error.errno is None, "not a number of the system's"
    assert len(why_private(CODES[name])) > 10 or name == "SN_E_GONE"


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_a_code_of_a_picture_is_an_error_with_the_codecs_message(name):
    error = picture_error(CODES[name], "what the codec says")
    assert isinstance(error, (errors.DecodeError, errors.PlanError)) and str(error) == "what the codec says"
    assert type(error) in PROVOKED


def test_a_cache_that_is_closed_or_the_parents_says_what_to_do(place):
    cache = place.make()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            cache.stats()
        except errors.SegmentError as error:
            os.write(writes, str(error).encode())
        os._exit(0)
    os.close(writes)
    os.waitpid(child, 0)
    with open(reads) as said:
        assert said.read() == "this handle belongs to the parent process; attach again"
    cache.close()
    with pytest.raises(errors.SegmentError, match="it was closed; attach again"):
        cache.stats()


def test_a_cache_that_was_given_up_says_why_in_the_words_of_the_page():
    said = why_private(CODES["SN_E_ABANDONED"])
    assert said.startswith("the cache was given up, because three processes died")
    assert said.endswith("jobs that start now make another")


# Where a code is provoked that has no class of its own, and no test above.
ELSEWHERE = {
    "SN_E_RECORDS": ("tests/faults/test_shared_memory.py", "no room is left for the records of one more"),
    "SN_E_MAPPING": ("tests/unit/test_loader_lifetime.py", "no address space.*ulimit -v"),
    "SN_E_GONE": ("tests/unit/_core/test_segment.py", "pytest.raises(Unlinked)"),
    "SN_E_ABANDONED": ("tests/c/records.c", "SN_E_ABANDONED"),
}


@pytest.mark.parametrize("name", sorted(CODES.keys() - PICTURES))
def test_a_code_of_the_segment_is_provoked_by_some_test(name):
    if name in ELSEWHERE:
        file, text = ELSEWHERE[name]
        assert text in (ROOT / file).read_text()
    elif name not in ("SN_E_FORKED", "SN_E_CLOSED"):
        assert type(segment_error(CODES[name])) in PROVOKED
