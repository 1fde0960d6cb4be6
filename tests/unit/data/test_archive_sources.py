"""A new kind of container is a module and a row of SOURCES, as docs/contributing/add-a-source.md says."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

import seneca
from seneca import transforms as T
from seneca.data import sources
from seneca.data.sources import Listing, Source
from seneca.data.sources.listing import PIECE, STATED, State

ENDINGS = (".toy",)
HEADER = struct.Struct("<QI")  # of each picture: its size, its label


def pack(path, pictures):
    """A toy container: pictures one after the other, each behind its header."""
    with open(path, "wb") as file:
        for data, label in pictures:
            file.write(HEADER.pack(len(data), label) + data)


def matches(paths):
    return bool(paths) and all(path.endswith(ENDINGS) for path in paths)


def list_pictures(paths, options):
    stated, ctimes = np.zeros(len(paths), STATED), np.zeros(len(paths), np.int64)
    names, pieces, labels = [], [], []
    for number, path in enumerate(paths):
        state = State.of(os.stat(path))
        stated[number], ctimes[number] = state.stated, state.ctime_ns
        with open(path, "rb") as file:
            while header := file.read(HEADER.size):
                length, label = HEADER.unpack(header)
                names.append(f"{len(names)}{options.extensions[0]}")
                pieces.append((file.tell(), length, number))
                labels.append(label)
                file.seek(length, os.SEEK_CUR)
    return Listing(paths, stated, names, np.array(pieces, PIECE), labels, ctimes=ctimes)


@pytest.fixture
def toy(picture_folder, tmp_path, monkeypatch):
    """The path of a toy container, whose kind has a row."""
    samples = seneca.ImageFolder(picture_folder).samples
    path = str(tmp_path / "pictures.toy")
    pack(path, [(Path(name).read_bytes(), label) for name, label in samples])
    row = Source(matches, list_pictures, ENDINGS)
    monkeypatch.setattr(sources, "SOURCES", (*sources.SOURCES, row))
    return path


def test_a_container_with_a_row_is_opened_and_loaded_natively(toy, picture_folder):
    transform = T.Compose([T.Resize((24, 24)), T.ToTensor()])
    packed, folder = seneca.open(toy, transform), seneca.ImageFolder(picture_folder, transform)
    assert packed.targets == folder.targets
    loader = seneca.DataLoader(packed, batch_size=7, cache=None)
    assert loader.explain().startswith("native: PictureArchive")
    for batch, expected in zip(loader, seneca.DataLoader(folder, batch_size=7, cache=None), strict=True):
        assert all(map(torch.equal, batch, expected))


def test_a_container_that_changed_is_refused(toy):
    dataset = seneca.open(toy, T.Resize((24, 24)))
    os.truncate(toy, os.path.getsize(toy) - 1)
    with pytest.raises(OSError, match=r"pictures\.toy.*has changed since|has changed since.*pictures\.toy"):
        list(seneca.DataLoader(dataset, cache=None))


def test_the_error_names_the_endings_of_all_rows(toy):
    with pytest.raises(ValueError, match=r"rar is no folder, .*none of \.tar, .*\.json, \.toy$"):
        seneca.open("pictures.rar")
