"""Datasets that Seneca does not load natively, and what would make them so."""

import sys
import threading
import types
from typing import ClassVar

import pytest
import torch
from PIL import Image

from seneca.data.support import inspect_dataset


class Numbers(torch.utils.data.Dataset):
    """Opaque."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.tensor(index)


class Rows(torch.utils.data.Dataset):
    """The usual five lines."""

    def __init__(self, rows, transform=None):
        self.rows, self.transform = rows, transform

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        path, label = self.rows[index]
        image = Image.open(path).convert("RGB")
        return (image if self.transform is None else self.transform(image)), label


class RowsByHelper(Rows):
    def __getitem__(self, index):
        return self._image(index), self.rows[index][1]

    def _image(self, index):
        with open(self.rows[index][0], "rb") as file:
            return Image.open(file).convert("RGB")


@pytest.mark.small(1)
@pytest.mark.parametrize("kind", [Rows, RowsByHelper])
def test_a_dataset_that_opens_pictures_by_path_is_advised_to_use_picture_list(kind):
    grade = inspect_dataset(kind([("a.jpg", 1)]))
    assert grade.name == "opaque"
    assert "give seneca.PictureList([(path, target), ...], transform) instead" in grade.why[0]
    assert "seneca.StagedDataset" in grade.why[0]
    assert "PictureList" not in inspect_dataset(Numbers(3)).why[0]


@pytest.mark.parametrize("column", ["Image", "Value"])
@pytest.mark.parametrize("key", [None, "a table"])
def test_a_table_of_hugging_face_is_advised_to_use_open(monkeypatch, column, key):
    """As ``datasets`` has it: a class of this name, with typed columns."""

    class Table(Numbers):
        features: ClassVar = {"image": type(column, (), {})()}

    class LockedTable(Table):
        def __init__(self, count):
            super().__init__(count)
            self.lock = threading.Lock()

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(Dataset=Table))
    for table, support in ((Table(3), "opaque"), (LockedTable(3), "opaque" if key else "unshared")):
        grade = inspect_dataset(table, key=key)
        assert grade.name == support
        named = "seneca.open(dataset, transform) reads its pictures natively, in place of set_transform()"
        assert (named in grade.why[0]) == (column == "Image")
