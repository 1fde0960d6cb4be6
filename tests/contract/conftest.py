"""Who is under test, on which samples; and what is cleared away after every row."""

from __future__ import annotations

import gc
import multiprocessing
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.utils.data
from sizes import size
from subjects import SAMPLES, Stock, Subject
from toys import Numbers

import seneca
from seneca import transforms as T
from seneca.testing import make_pictures

SUBJECTS = ("seneca alone", "seneca sharing")
STOCK = "torch over a SharedDataset"
MARKERS = (
    "meant(difference): the row holds what differs from torch on purpose; subjects.MEANT says why",
    "stock: the row holds for torch's own class over a SharedDataset as well",
)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "load" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker
        # At the small size torch's own is under test where something differs from it.
        subjects = ["torch"] * size(marked("meant") is not None, True) + [*SUBJECTS]
        metafunc.parametrize("load", subjects + [STOCK] * (marked("stock") is not None), indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue  # of another folder of tests
        # The row about notices catches them itself.
        item.add_marker(pytest.mark.filterwarnings("ignore:seneca. "))


@pytest.fixture
def load(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """A loader class with its options: torch's; Seneca's without a cache, or with one of this row's own."""
    name = "contract-" + secrets.token_hex(6)
    yield {
        "torch": Subject(torch.utils.data.DataLoader),
        "seneca alone": Subject(seneca.DataLoader, {"cache": None}),
        "seneca sharing": Subject(seneca.DataLoader, {"cache": name, "cache_bytes": "2MiB"}),
        STOCK: Stock(torch.utils.data.DataLoader, {"cache": name, "cache_bytes": "2MiB"}),
    }[request.param]
    _clear_away(name)


def _clear_away(name: str) -> None:
    """What a row that fails leaves behind: its traceback keeps iterators, and these their workers."""

    def left() -> tuple[list[multiprocessing.Process], list[Path]]:
        segments = [Path("/dev/shm", entry) for entry in os.listdir("/dev/shm") if name in entry]
        return multiprocessing.active_children(), segments

    if any(left()):
        gc.collect()
    children, segments = left()
    for child in children:
        child.kill()
        child.join()
    for segment in segments:
        segment.unlink()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of SAMPLES small pictures, each the only one of its class; not to be written to."""
    folder = tmp_path_factory.mktemp("contract")
    return make_pictures(folder, count=SAMPLES, classes=SAMPLES, sides=(32, 64))


def make_dataset(kind: str, pictures: Path) -> torch.utils.data.Dataset:
    """SAMPLES samples ``(tensor, label)``, whose label is their index: a user's own, or pictures.

    Seneca serves the pictures natively, with threads in this process.
    """
    if kind == "numbers":
        return Numbers(SAMPLES)
    return seneca.ImageFolder(
        pictures, {"pictures": T.Resize((8, 12)), "crops": T.RandomResizedCrop(8)}[kind]
    )


@pytest.fixture(params=["numbers", "pictures"])
def dataset(request: pytest.FixtureRequest, pictures: Path) -> torch.utils.data.Dataset:
    """A dataset that workers load, and one that Seneca loads natively."""
    return make_dataset(request.param, pictures)


@pytest.fixture(params=["numbers", "pictures", "crops"])
def any_dataset(request: pytest.FixtureRequest, pictures: Path) -> torch.utils.data.Dataset:
    """Besides, pictures whose augmented copies differ, so that they are shared as such."""
    return make_dataset(request.param, pictures)
