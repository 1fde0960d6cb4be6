"""PictureList: pictures with targets of any kind run natively, and a wrong entry is named with its remedy."""

import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import seneca
from seneca import PictureList
from seneca import transforms as T
from seneca.data.support import inspect_dataset

WHOLE = T.Compose([T.CenterCrop((20, 30)), T.PILToTensor()])


@pytest.fixture
def paths(tmp_path):
    """Ten pictures, each of one grey, which is ten times its number."""
    (tmp_path / "in" / "b").mkdir(parents=True)
    made = []
    for number in range(10):
        path = tmp_path / "in" / ("b" if number % 2 else "") / f"{number}.png"
        Image.new("RGB", (30, 20), (10 * number,) * 3).save(path)
        made.append(str(path))
    return made


def greys(images):
    return (images[:, 0, 0, 0] // 10).tolist()


TARGETS = {
    "int": lambda i: i,
    "float": lambda i: i / 4,
    "str": str,
    "numpy": lambda i: np.float32(i),
    "tensor": lambda i: torch.arange(3) + i,
    "tuple": lambda i: (i, str(i)),
    "dict": lambda i: {"box": torch.full((2, 2), i), "name": str(i), "of": {"x": i / 2}},
}


@pytest.mark.small(3)
@pytest.mark.parametrize("kind", TARGETS)
def test_targets_of_any_kind_are_collated_as_torch_does(paths, kind):
    entries = [(path, TARGETS[kind](number)) for number, path in enumerate(paths)]
    dataset = PictureList(entries, WHOLE)
    loader = seneca.DataLoader(dataset, batch_size=4, num_workers=1, cache=None)
    assert loader.explain().startswith("native: PictureList and its transform run in the native core")
    plain = torch.utils.data.DataLoader(dataset, batch_size=4)
    for (images, targets), (expected, wanted) in zip(loader, plain, strict=True):
        assert torch.equal(images, expected)
        assert repr(targets) == repr(wanted)


def test_target_transform_and_a_collate_fn_of_dicts_run_natively_and_copy_no_picture(paths, monkeypatch):
    from seneca.native.collate import PictureView

    wholes = []
    views = PictureView.of
    monkeypatch.setattr(PictureView, "of", lambda whole: wholes.append(whole.data_ptr()) or views(whole))

    def named(items):
        pictures, targets = zip(*items, strict=True)
        return {"pixel_values": torch.stack(pictures), "labels": torch.tensor(targets)}

    entries = [(path, str(number)) for number, path in enumerate(paths)]
    dataset = PictureList(entries, WHOLE, target_transform=int)
    loader = seneca.DataLoader(dataset, batch_size=5, collate_fn=named, num_workers=1, cache=None)
    assert loader.explain().startswith("native: ")
    for place, batch in enumerate(loader):
        assert type(batch["pixel_values"]) is torch.Tensor
        assert batch["pixel_values"].data_ptr() == wholes[place]
        assert greys(batch["pixel_values"]) == batch["labels"].tolist()
    assert len(wholes) == 2


def test_relative_paths_belong_to_the_root_or_to_the_current_folder(paths, tmp_path, monkeypatch):
    names = [os.path.relpath(path, tmp_path / "in") for path in paths]
    entries = list(zip(names, range(10), strict=True))
    below = PictureList(entries, WHOLE, root=tmp_path / "in")
    monkeypatch.chdir(tmp_path / "in")
    here = PictureList(((Path(name), number) for name, number in entries), WHOLE)
    absolute = PictureList(zip(paths, range(10), strict=True), WHOLE)
    assert [path for path, _ in here.samples] == names and here.root == ""
    assert below.samples == absolute.samples and below.root == absolute.root == str(tmp_path / "in")
    for dataset in (below, here, absolute):
        loader = seneca.DataLoader(dataset, batch_size=10, cache=None)
        ((images, labels),) = loader
        assert greys(images) == labels.tolist() == dataset.targets == list(range(10))
        assert dataset.fingerprint() == below.fingerprint()


def test_the_common_folder_is_one_of_whole_names(tmp_path):
    names = ["images/a.png", "images2/a.png", "images-3/deep/a.png"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    assert PictureList([(tmp_path / name, 0) for name in names]).root == str(tmp_path)
    assert PictureList([(tmp_path / names[0], 0)]).root == str(tmp_path / "images")


def test_lists_of_the_same_files_have_one_name_whatever_their_targets(paths):
    one = PictureList([(path, 1) for path in paths])
    other = PictureList([(path, {"a": 2}) for path in paths])
    turned = PictureList([(path, 1) for path in reversed(paths)])
    assert one.fingerprint() == other.fingerprint() != turned.fingerprint()
    assert one.total_bytes() == sum(map(os.path.getsize, paths))


def test_duplicates_are_named_and_may_be_allowed(paths, tmp_path):
    entries = [(paths[0], "a"), (paths[1], "b"), (f"{tmp_path}/in/../in/0.png", "c")]
    message = r"entry 2 has the path of entry 0: .*0\.png'; remove one of them, or pass allow_duplicates=True"
    with pytest.raises(ValueError, match=message):
        PictureList(entries)
    dataset = PictureList(entries, WHOLE, allow_duplicates=True)
    ((images, labels),) = seneca.DataLoader(dataset, batch_size=3, num_workers=1, cache=None)
    assert list(labels) == ["a", "b", "c"] and greys(images) == [0, 1, 0]


def test_a_missing_file_is_named_with_its_entry(paths):
    missing = paths[0].replace("0.png", "none.png")
    message = rf"of entry 7; correct or remove the entry, or name with root= .*: '{re.escape(missing)}'"
    with pytest.raises(FileNotFoundError, match=message) as error:
        PictureList([*((path, 1) for path in paths[:7]), (missing, 1), (missing + "2", 1)])
    assert error.value.filename == missing


def test_a_folder_or_a_device_in_the_place_of_a_file_is_named(paths):
    folder = os.path.dirname(paths[0])
    with pytest.raises(IsADirectoryError, match=r"entry 1 is a folder: .*open it with seneca.ImageFolder"):
        PictureList([(paths[0], 1), (folder, 1)])
    with pytest.raises(OSError, match=r"entry 1 is no regular file: '/dev/null'; remove the entry"):
        PictureList([(paths[0], 1), ("/dev/null", 1)])


@pytest.mark.parametrize(
    "entries, kind, message",
    [
        ("train/", TypeError, r"takes pairs \(path, target\), but got str; seneca.open\(\)"),
        (3, TypeError, "but got int"),
        ([], ValueError, "the list of pictures is empty"),
        (["ab"], TypeError, r"entry 0 is 'ab'; give a pair \(path, target\)"),
        ([("a", 1, 2)], TypeError, r"entry 0 is \('a', 1, 2\); give a pair"),
        ([(float("nan"), 1)], TypeError, "entry 0 has the path nan, a float; give a text"),
        ([(b"a.png", 1)], TypeError, "entry 0 has the path b'a.png', a bytes"),
        ([("", 1)], ValueError, "entry 0 has an empty path"),
        ({"a.png": 1}, TypeError, "entry 0 is 'a.png'; give a pair"),
    ],
)
def test_what_is_no_list_of_pairs_is_refused(entries, kind, message):
    with pytest.raises(kind, match=message):
        PictureList(entries)


def test_a_list_pickles_and_joins_others(paths):
    first = PictureList([(path, number) for number, path in enumerate(paths[:6])], WHOLE)
    second = PictureList([(path, 6 + number) for number, path in enumerate(paths[6:])], WHOLE)
    again = pickle.loads(pickle.dumps(first))
    assert again.samples == first.samples and torch.equal(again[3][0], first[3][0])
    whole = torch.utils.data.ConcatDataset([first, second])
    assert inspect_dataset(whole).name == "native"
    ((images, labels),) = seneca.DataLoader(whole, batch_size=10, num_workers=1, cache=None)
    assert greys(images) == labels.tolist() == list(range(10))


def test_with_a_transform_of_pythons_it_is_staged(paths):
    dataset = PictureList([(path, {"at": i}) for i, path in enumerate(paths)], np.asarray)
    grade = inspect_dataset(dataset)
    assert grade.name == "staged" and "pictures are decoded natively" in grade.why[0]
    assert repr(dataset) == f"PictureList(10 pictures in {dataset.root})"
