"""The files of a folder: the table of their paths, and the fingerprint of what they are."""

import os

import numpy as np

from seneca import ImageFolder


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


def test_read_gives_the_files_own_bytes(picture_folder):
    dataset = ImageFolder(picture_folder)
    with open(dataset.samples[5][0], "rb") as file:
        assert dataset.read(5) == file.read()


def test_the_path_table_leads_to_every_file_from_any_folder(picture_folder, monkeypatch):
    monkeypatch.chdir(picture_folder.parent)
    dataset = ImageFolder("pictures")
    blob, offsets = dataset.path_table()
    monkeypatch.chdir("/")
    assert offsets.dtype == np.uint64 and offsets.shape == (49,)
    assert offsets[0] == 0 and offsets[-1] == len(blob)
    paths = [blob[offsets[i] : offsets[i + 1]] for i in range(48)]
    assert all(path.endswith(b"\0") and b"\0" not in path[:-1] for path in paths)
    wanted = [
        os.path.join(os.fsencode(picture_folder.parent), os.fsencode(path)) for path, _ in dataset.samples
    ]
    assert [path[:-1] for path in paths] == wanted
    assert all(os.path.exists(path[:-1]) for path in paths)


def test_the_path_table_takes_names_that_are_no_utf_8(tmp_path):
    touch(tmp_path, "a/1.jpg")
    odd = os.fsencode(tmp_path) + b"/a/\xff.jpg"
    with open(odd, "wb"):
        pass
    assert odd + b"\0" in ImageFolder(tmp_path).path_table()[0]


def test_the_path_table_of_nothing_is_empty(tmp_path):
    (tmp_path / "a").mkdir()
    blob, offsets = ImageFolder(tmp_path, allow_empty=True).path_table()
    assert blob == b"" and offsets.tolist() == [0]


def test_the_fingerprint_is_of_the_files_and_not_of_where_they_are_mounted(tmp_path):
    touch(tmp_path, "one/a/1.jpg", "one/b/2.jpg")
    first = ImageFolder(tmp_path / "one").fingerprint()
    (tmp_path / "one").rename(tmp_path / "two")
    assert len(first) == 16
    assert ImageFolder(str(tmp_path / "two") + "/").fingerprint() == first


def test_the_fingerprint_changes_with_name_size_and_time(tmp_path):
    touch(tmp_path, "a/1.jpg", "a/2.jpg")
    picture = tmp_path / "a" / "1.jpg"
    prints = {ImageFolder(tmp_path).fingerprint()}
    os.utime(picture, ns=(0, 1))
    prints.add(ImageFolder(tmp_path).fingerprint())
    picture.write_bytes(b"yy")
    os.utime(picture, ns=(0, 1))
    prints.add(ImageFolder(tmp_path).fingerprint())
    picture.rename(tmp_path / "a" / "3.jpg")
    prints.add(ImageFolder(tmp_path).fingerprint())
    assert len(prints) == 4


def test_the_fingerprint_follows_links_to_what_they_name(tmp_path):
    touch(tmp_path, "store/1.jpg")
    (tmp_path / "root" / "a").mkdir(parents=True)
    (tmp_path / "root" / "a" / "1.jpg").symlink_to(tmp_path / "store" / "1.jpg")
    before = ImageFolder(tmp_path / "root").fingerprint()
    (tmp_path / "store" / "1.jpg").write_bytes(b"longer")
    assert ImageFolder(tmp_path / "root").fingerprint() != before
