"""Pictures for every test: real ones where there are some, otherwise made up."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import logging
import multiprocessing
import os
import secrets
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sizes import WHOLE, pytest_collection_modifyitems, pytest_configure, pytest_report_header

# One test has one core, and so has each process that it begins. OpenMP's other threads would spin there for
# each small tensor. It reads this once, as torch is imported.
if not WHOLE:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import huge_pages
import numpy as np
import simplejpeg
import torch
import torch.utils.data
from between_tests import pytest_runtest_call, pytest_runtest_teardown
from PIL import Image

from seneca._runtime.segment_folder import fault_of
from seneca.testing import make_pictures

__all__ = [  # hooks count where a conftest has them
    "encoded_pictures",
    "frozen",
    "imagenet_sample",
    "loaded",
    "name",
    "picture_folder",
    "pictures_of_all",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_report_header",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
    "scratch_folder",
    "segment_folder",
    "user_cache_of_tests",
]

# Python 3.14 begins processes by forkserver, which pickles what they get. Tests hand them lambdas and local
# classes. Those that are about another method name it.
multiprocessing.set_start_method("fork", force=True)

# glibc gives each thread an arena of its own, which keeps what was freed there. Loaders begin thousands of
# threads in one process of tests, and each fork would copy the page tables of all arenas: of half a gigabyte.
M_ARENA_MAX = -8  # of malloc.h
ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)

gc.disable()  # what is imported and collected stays

# Six times a test pytest adds a handler to each logger that does not propagate, and removes it again. torch
# has more than forty of them.
for _logger in logging.root.manager.loggerDict.values():
    if isinstance(_logger, logging.Logger):
        _logger.propagate = True

REPOSITORY = Path(__file__).parent.parent
ARCHIVE = REPOSITORY.parent / "shared" / "data" / "imagenet-sample.tar"


@pytest.fixture(scope="session", autouse=True)
def loaded() -> None:
    """What torch and Seneca import in the first epoch of a process, and in that of a loader with workers.

    A test's worker that dies meanwhile would break the import off where it is, and leave modules half made.
    Each process that a test forks would import it again, and find out again what is installed.
    """
    import seneca.loader  # noqa: F401
    from seneca.identity import fingerprint

    fingerprint(torch.relu)
    for _ in torch.utils.data.DataLoader([0, 1], num_workers=1, multiprocessing_context="fork"):
        pass


@pytest.fixture(scope="session", autouse=True)
def user_cache_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What Seneca remembers for its user is not that of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("user-cache")))
        yield


@pytest.fixture(scope="module", autouse=True)
def frozen() -> None:
    """What there is before a module's tests stays, and the collector passes over it.

    Hundreds of tests collect garbage, to see what a loader leaves behind. Each would inspect all objects of
    torch and of pytest again, for a third of a second. Each forked child would copy the memory they lie in.

    What earlier modules have freed goes back to the kernel, or each fork would copy the page tables of it.
    What is left lies in huge pages.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    huge_pages.collapse()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def imagenet_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of class folders of JPEGs, photographs where there are any; not to be written to.

    In this order: the folder named by SENECA_TEST_DATA; ``shared/data/imagenet-sample.tar`` beside
    the repository; 120 made-up pictures.
    """
    if given := os.environ.get("SENECA_TEST_DATA"):
        return Path(given)
    folder = tmp_path_factory.mktemp("imagenet-sample")
    if not ARCHIVE.exists():
        return make_pictures(folder, count=120)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "imagenet-sample"


@pytest.fixture
def name() -> Iterator[str]:
    """A cache of this test's own; nothing of it may be left."""
    name = "test-" + secrets.token_hex(6)

    def left() -> list[str]:
        return [entry for entry in os.listdir("/dev/shm") if name in entry]

    yield name
    if left():
        gc.collect()  # what an error's traceback held
    found = left()
    for entry in found:
        os.unlink(f"/dev/shm/{entry}")
    assert not found


@pytest.fixture
def segment_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder that SENECA_DIR names meanwhile. Nothing may be left in it."""
    folder = tmp_path / "caches"
    folder.mkdir(mode=0o700)
    if (fault := fault_of(str(folder))) is not None:
        pytest.skip(f"the folder of temporary files cannot hold a cache: {fault}")
    monkeypatch.setenv("SENECA_DIR", str(folder))
    yield str(folder)
    gc.collect()
    assert os.listdir(folder) == []


@pytest.fixture
def scratch_folder() -> Iterator[Path]:
    """A folder for a program's temporary files, TMPDIR, with a short name.

    torch's workers send tensors through sockets there, whose paths may have 107 bytes. With a longer path
    they send none, and torch's loader waits for ever. A test's own folder, ``tmp_path``, is that long after
    some runs of pytest.
    """
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def encoded_pictures() -> dict[str, bytes]:
    """The files of ``picture_folder``, by their paths in it."""
    files: dict[str, bytes] = {}
    rng = np.random.default_rng(7)
    for label in range(4):
        for number in range(12):
            height, width = (int(side) for side in rng.integers(33, 97, 2))
            # Smooth, so that two decoders differ by rounding and not by edges.
            small = Image.fromarray(rng.integers(0, 256, (5, 6, 3), dtype=np.uint8))
            picture = small.resize((width, height), Image.Resampling.BICUBIC)
            file = io.BytesIO()
            if number < 10:
                subsampling = ("444", "420", "422", "440", "411")[number % 5]
                file.write(simplejpeg.encode_jpeg(np.asarray(picture), 92, "RGB", subsampling))
            elif number == 10:
                picture.convert("L").save(file, "JPEG", quality=92)
            else:
                picture.save(file, "JPEG", quality=92, progressive=True)
            files[f"class_{label}/{number:02d}.jpg"] = file.getvalue()
    return files


class _Pictures:
    """A folder that tests have one after the other. Once one has changed it, the next gets a new one."""

    def __init__(self, new: Callable[[str], Path], files: dict[str, bytes]) -> None:
        self._new, self._files = new, files
        self._folder: Path | None = None
        self._state: dict[str, tuple[int, int]] = {}

    def unchanged(self) -> Path:
        if self._folder is None or self._state != self._found():
            self._folder = self._new("pictures-") / "pictures"
            for name, data in self._files.items():
                path = self._folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            time.sleep(0.02)  # times of files go in steps, of 10 ms at most: a change from now on has another
            self._state = self._found()
        return self._folder

    def _found(self) -> dict[str, tuple[int, int]]:
        """All that lies there: whatever is done to it changes one of these times."""
        paths = [str(self._folder)]
        for path in paths:  # those of folders grow it
            with contextlib.suppress(OSError):
                paths += [entry.path for entry in os.scandir(path) if not os.path.islink(path)]
        states = {path: os.lstat(path) for path in paths if os.path.lexists(path)}
        return {path: (state.st_ino, state.st_ctime_ns) for path, state in states.items()}


@pytest.fixture(scope="session")
def pictures_of_all(
    tmp_path_factory: pytest.TempPathFactory, encoded_pictures: dict[str, bytes]
) -> _Pictures:
    """To write these files for each of hundreds of tests, and to remove them, takes milliseconds."""
    return _Pictures(tmp_path_factory.mktemp, encoded_pictures)


@pytest.fixture
def picture_folder(pictures_of_all: _Pictures) -> Path:
    """48 small JPEGs in 4 classes: every subsampling, odd sides, some grey, some progressive.

    A test may do with them what it likes.
    """
    return pictures_of_all.unchanged()
