"""The name that people know a dataset by. What else jobs publish of it: tuning/test_neighbours.py."""

import pathlib
import shutil

import pytest
import torch
from torch.utils.data import TensorDataset

import seneca
from seneca.data.traits import title


class Dataset(torch.utils.data.Dataset):
    def __init__(self, root):
        self.root = root


@pytest.mark.parametrize(
    ("root", "name"),
    [
        ("/data/photos", "photos"),
        ("/data/photos/", "photos"),
        (pathlib.Path("/data/photos"), "photos"),
        (b"/data/photos", "photos"),
        ("/data/imagenet/train", "imagenet/train"),
        ("/data/imagenet/Val/", "imagenet/Val"),
        ("/train", "train"),
        ("/", "Dataset"),
        ("", "Dataset"),
        (None, "Dataset"),
        (7, "Dataset"),
        ("s3://bucket/imagenet/train", "imagenet/train"),
        ("s3://bucket/", "bucket"),
        ("https://ann:secret@host/", "host"),
        ("https://ann:secret@host/train", "host/train"),
        ("https://host/a/photos.tar?X-Signature=secret/x", "photos.tar"),
    ],
)
def test_a_root_names_the_dataset(root, name):
    assert title(Dataset(root)) == name


def test_a_relative_root_is_that_of_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "photos" / "train").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "photos" / "train")
    assert title(Dataset(".")) == "photos/train"


def test_a_dataset_without_a_root_has_the_name_of_its_class():
    assert title(TensorDataset(torch.zeros(2))) == "TensorDataset"


def test_an_archive_has_the_name_of_its_file(picture_folder, tmp_path):
    paths = [shutil.make_archive(str(tmp_path / name), "tar", picture_folder) for name in ("photos", "more")]
    assert title(seneca.open(paths[0])) == "photos.tar"
    assert title(seneca.open(paths)) == tmp_path.name


def test_code_of_the_dataset_is_not_run():
    class Careful(torch.utils.data.Dataset):
        @property
        def root(self):
            raise AssertionError("it was run")

        def __getattr__(self, name):
            raise AssertionError("it was run")

    assert title(Careful()) == "Careful"
