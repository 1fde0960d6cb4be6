"""seneca.open(): pictures in containers are those of the folder, and loaders share them."""

import os
import pickle
import shutil
import tarfile
import zipfile

import pytest
import torch
from sizes import size
from torch.utils.data import Subset

import seneca
from seneca import transforms as T
from seneca.data.archive import PictureArchive
from seneca.data.files import files_of
from seneca.errors import DecodeError
from seneca.tuning import profile

CROP = T.Compose([T.RandomResizedCrop(32), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)])


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(params=["tar", "zip", "two tars"])
def packed(request, picture_folder, tmp_path):
    """The pictures of the folder, in archives."""
    classes = sorted(entry.name for entry in os.scandir(picture_folder))
    if request.param == "zip":
        with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
            for path in sorted(picture_folder.rglob("*.jpg"), reverse=True):
                archive.write(path, path.relative_to(picture_folder))
        return str(tmp_path / "all.zip")
    parts = [classes] if request.param == "tar" else [classes[:1], classes[1:]]
    for number, part in enumerate(parts):
        with tarfile.open(tmp_path / f"{number}.tar", "w") as archive:
            for name in part:
                archive.add(picture_folder / name, f"root/{name}")
    return [str(tmp_path / f"{number}.tar") for number in range(len(parts))]


def batches(dataset, **options):
    defaults = {"batch_size": 7, "num_workers": 2, "shuffle": True, "cache": None}
    loader = seneca.DataLoader(dataset, **(defaults | options), generator=torch.Generator().manual_seed(4))
    return [(images.clone(), labels.clone()) for images, labels in loader]


def assert_equal(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])


@pytest.mark.small(1)
@pytest.mark.parametrize("share", ["nothing", "pictures"])
def test_batches_are_those_of_the_folder(packed, picture_folder, segment_folder, share):
    folder, archive = seneca.open(picture_folder, CROP), seneca.open(packed, CROP)
    assert type(folder) is seneca.ImageFolder and type(archive) is PictureArchive
    assert (archive.classes, archive.targets) == (folder.classes, folder.targets)
    assert archive.class_to_idx == folder.class_to_idx and len(archive) == len(folder)
    options = {} if share == "nothing" else {"cache": "auto", "cache_bytes": "8MB", "share": "none"}
    assert_equal(
        batches(archive, **options), batches(folder, cache=None, share="none") if options else batches(folder)
    )
    assert [archive.read(i) for i in range(9)] == [folder.read(i) for i in range(9)]


@pytest.mark.small(1)
def test_it_is_native_and_says_what_it_is_recognised_by(packed):
    loader = seneca.DataLoader(seneca.open(packed, CROP), num_workers=1)
    text = loader.explain()
    assert text.startswith("native: PictureArchive") and "samples in" in text and "both ends" in text


@pytest.mark.small(1)
@pytest.mark.parametrize("transform", [lambda picture: picture.size, None])
def test_python_transforms_get_the_same_pictures(packed, picture_folder, segment_folder, transform):
    folder, archive = seneca.ImageFolder(picture_folder, transform), seneca.open(packed, transform)
    for index in (0, 5, len(folder) - 1):
        mine, theirs = archive[index], folder[index]
        assert mine[1] == theirs[1] and (
            mine[0] == theirs[0] if transform else list(mine[0].getdata()) == list(theirs[0].getdata())
        )
    if transform:
        together = [
            seneca.DataLoader(d, 5, num_workers=1, cache="auto", cache_bytes="8MB") for d in (folder, archive)
        ]
        assert [labels.tolist() for _, labels in together[0]] == [
            labels.tolist() for _, labels in together[1]
        ]


@pytest.mark.small(1)
def test_it_pickles_and_forks(packed):
    archive = seneca.open(packed, CROP)
    again = pickle.loads(pickle.dumps(archive))
    assert again.fingerprint() == archive.fingerprint() and again.read(3) == archive.read(3)
    assert len(batches(Subset(again, [1, 3]), num_workers=1)) == 1


@pytest.mark.small(1)
def test_archives_at_two_places_are_one_dataset_and_other_content_is_another(packed, tmp_path):
    paths = [packed] if isinstance(packed, str) else packed
    other = tmp_path / "other"
    other.mkdir()
    copies = [shutil.copy2(path, other) for path in paths]
    assert seneca.open(copies).fingerprint() == seneca.open(paths).fingerprint()
    os.utime(copies[0], ns=(1, 1))
    assert seneca.open(copies).fingerprint() != seneca.open(paths).fingerprint()


@pytest.mark.small(1)
def test_labels_need_not_be_whole_numbers(packed):
    archive = seneca.open(packed, CROP, labels=lambda name: len(name) / 4)
    assert archive.targets == [len(name) / 4 for name in archive.listing.names]
    ((_, labels),) = batches(archive, batch_size=len(archive), shuffle=False)
    assert labels.dtype == torch.float64 and labels.tolist() == archive.targets


def test_another_name_or_another_container_of_a_picture_is_another_dataset(tmp_path):
    def names_of(*archives):
        paths = []
        for number, names in enumerate(archives):
            paths.append(str(tmp_path / f"{number}.zip"))
            with zipfile.ZipFile(paths[-1], "w") as archive:
                for name in names:
                    archive.writestr(name, b"")
        return files_of(seneca.open(paths, CROP)).names()

    one = names_of(["a/1.jpg", "a/2.jpg"], ["b/3.jpg"])
    assert names_of(["a/1.jpg", "a/2.jpg"], ["b/3.jpg"]) == one
    others = [[["a/1.jpg", "a/4.jpg"], ["b/3.jpg"]], [["a/1.jpg"], ["a/2.jpg", "b/3.jpg"]]]
    others.append([["a/1.jpg", "a/2.jpg"], ["b/3.jpg"], ["c/4.jpg"]])
    assert len({one, *(names_of(*archives) for archives in others)}) == 4


@pytest.fixture
def archive(picture_folder, tmp_path):
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        archive.add(picture_folder, "root")
    return seneca.open(tmp_path / "all.tar", CROP)


def replaced(path):
    shutil.copy(path, f"{path}.new")
    os.replace(f"{path}.new", path)


def truncated(path):
    os.truncate(path, os.path.getsize(path) // 2)


def rewritten(path):
    with open(path, "r+b") as file:
        file.write(file.read(1))


@pytest.mark.small(2)
@pytest.mark.parametrize("change", [replaced, truncated, rewritten, os.unlink])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_container_that_changes_in_an_epoch_is_named(archive, change, workers):
    path = archive.listing.containers[0]
    loader = seneca.DataLoader(
        archive, 4, num_workers=workers, cache=None, prefetch_factor=1 if workers else None
    )
    batches_of_epoch = iter(loader)
    next(batches_of_epoch)
    change(path)
    says = "No such file" if change is os.unlink else "has changed since it was opened; open it again"
    with pytest.raises(
        (DecodeError, OSError), match=f"{os.path.basename(path)}.*{says}|{says}.*{os.path.basename(path)}"
    ):
        list(batches_of_epoch)
    with pytest.raises(OSError, match=says):
        archive.read(1)


def test_a_container_that_changed_between_epochs_is_named(archive, segment_folder):
    loader = seneca.DataLoader(archive, 4, num_workers=1, cache="auto", cache_bytes="8MB")
    list(loader)
    rewritten(archive.listing.containers[0])
    with pytest.raises(
        OSError, match=r"has changed since it was opened; open it again with seneca.open\(\).*all.tar"
    ):
        iter(loader)


def test_it_can_be_profiled(archive, monkeypatch):
    for name in ("STORAGE_S", "ALONE_S", "TOGETHER_S", "MEMORY_S"):
        monkeypatch.setattr(profile, name, size(0.05, getattr(profile, name)))
    assert seneca.profile(archive, cache_bytes="8MB").samples == len(archive)


@pytest.mark.parametrize(
    ("source", "error", "says"),
    [
        (7, TypeError, "path of a folder or an archive.*but got int"),
        (
            "pictures.rar",
            ValueError,
            "pictures.rar is no folder, archive, table or database: .* none of .tar, .zip, .*, .mdb, .json",
        ),
        (["one.mdb", "two.mdb"], ValueError, "one.mdb and the others cannot be one dataset; open each"),
        ("none.tar", FileNotFoundError, "none.tar"),
    ],
)
def test_what_cannot_be_opened_is_named(source, error, says):
    with pytest.raises(error, match=says):
        seneca.open(source)
