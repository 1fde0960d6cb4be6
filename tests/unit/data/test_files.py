"""The files of a folder: the table of their paths, and the fingerprint of what they are."""

import hashlib
import os
import pickle
import shutil

import numpy as np
import pytest

from seneca import ImageFolder
from seneca.data.files import PictureFiles, files_of


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


def as_named(root, paths):
    """The definition of :meth:`PictureFiles.names`, path by path."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        digest.update(os.fsencode(path.removeprefix(os.path.join(root, ""))) + b"\0")
    return digest.digest()


@pytest.mark.parametrize("root", ["{}", "{}/", "pictures", "./pictures/", "pictures/../pictures", ""])
def test_names_are_of_the_part_below_the_root(tmp_path, monkeypatch, root):
    touch(tmp_path, "pictures/a/1.jpg", "pictures/pictures/2.jpg", "pictures/b/pictures/3.jpg")
    (tmp_path / "pictures" / "b" / os.fsdecode(b"\xff.jpg")).touch()
    monkeypatch.chdir(tmp_path)
    root = root.format(tmp_path / "pictures")
    dataset = ImageFolder(root or ".")
    paths = [path.removeprefix("./") if root == "" else path for path, _ in dataset.samples]
    files = PictureFiles(root, [(path, 0) for path in paths])
    assert len(paths) == 4 and files.names() == as_named(root, paths)
    files = PictureFiles(root, [(path, 0) for path in paths])
    files.path_table()  # makes the same joined text
    assert files.names() == as_named(root, paths)


def test_a_path_with_a_nul_is_refused(tmp_path):
    files = PictureFiles(str(tmp_path), [(f"{tmp_path}/a\0b.jpg", 0), (f"{tmp_path}/c.jpg", 1)])
    for ask in (files.stat, files.names, files.path_table):
        with pytest.raises(ValueError, match="NUL character; rename it"):
            ask()


def changed_in_place(path):
    path.write_bytes(b"other")
    os.utime(path, ns=(0, 2))


def replaced(path):
    path.with_suffix(".new").write_bytes(b"longer than before")
    path.with_suffix(".new").replace(path)


def touched(path):
    os.utime(path, ns=(0, 3))


def linked_elsewhere(path):
    changed_in_place(path.with_suffix(".store"))
    path.unlink()
    path.symlink_to(path.with_suffix(".store"))


def target_changed(path):
    path.resolve().write_bytes(b"z" * 12)


@pytest.mark.small(2)
@pytest.mark.parametrize(
    "change",
    [changed_in_place, replaced, touched, linked_elsewhere, target_changed],
    ids=lambda f: f.__name__,
)
def test_the_next_stat_of_the_same_dataset_finds_one_changed_file_among_many(tmp_path, change):
    touch(tmp_path, *(f"a/{i}.jpg" for i in range(300)))
    (tmp_path / "a" / "link.jpg").symlink_to(tmp_path / "a" / "3.jpg")
    dataset = ImageFolder(tmp_path)
    before = dataset.fingerprint()
    files_of(dataset).stat()
    assert dataset.fingerprint() == before
    change(tmp_path / "a" / ("link.jpg" if change is target_changed else "77.jpg"))
    assert dataset.fingerprint() == before, "a fingerprint is of the last stat()"
    files_of(dataset).stat()
    assert dataset.fingerprint() not in (before, b"")
    assert dataset.fingerprint() == ImageFolder(tmp_path).fingerprint(), "as another job finds it"


def test_a_file_with_its_size_and_time_set_back_is_found_by_its_ends_if_these_are_read(tmp_path):
    """A stat() of a job that has asked before finds what one that begins now finds."""
    touch(tmp_path, "a/1.jpg")
    dataset, path = ImageFolder(tmp_path), tmp_path / "a" / "1.jpg"
    before = dataset.fingerprint()
    status = os.stat(path)
    path.write_bytes(b"y")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    files_of(dataset).stat()
    assert dataset.fingerprint() == ImageFolder(tmp_path).fingerprint() != before


def move_ctime(path, beyond):
    """Move a file's ctime beyond another. The kernel's clock of files goes by milliseconds."""
    while os.stat(path).st_ctime_ns <= beyond:
        os.chmod(path, 0o600)


def test_ctimes_show_which_samples_have_changed(tmp_path):
    touch(tmp_path, *(f"a/{i}.jpg" for i in range(8)))
    files = files_of(ImageFolder(tmp_path))
    before, name = files.newest_ctime(), files.seen().name
    assert before == max(os.stat(path).st_ctime_ns for path, _ in files.samples)
    assert files.changed_since(before) is None
    for index in (6, 3):
        move_ctime(files.path_of(index), before)
    assert files.changed_since(before) is None and files.seen().name == name, "as the last stat() has them"
    assert files.ctime(3) > before, "now"
    fingerprint = files.fingerprint()
    files.stat()
    samples, ctimes = files.changed_since(before)
    assert samples.tolist() == [3, 6] and ctimes.tolist() == [files.ctime(3), files.ctime(6)]
    wanted = np.array([6, 0])
    move_ctime(files.path_of(6), files.newest_ctime())
    assert files.ctimes(wanted, now=True).tolist() == [files.ctime(6), files.ctime(0)]
    assert files.ctimes(wanted, now=False).tolist() == [ctimes[1], files.ctime(0)]
    assert files.newest_ctime() == ctimes.max() and files.seen().name != name
    assert files.fingerprint() == fingerprint
    assert len(files.changed_since(0)[0]) == 8


def test_a_pair_has_changed_with_its_mask(tmp_path):
    touch(tmp_path, *(f"a/{i}.jpg" for i in range(6)))
    paths = sorted(map(str, (tmp_path / "a").iterdir()))
    files = PictureFiles(str(tmp_path), list(zip(paths[::2], paths[1::2], strict=True)), pairs=True)
    before = files.newest_ctime()
    for path in (paths[1], paths[4]):
        move_ctime(path, before)
    files.stat()
    samples, ctimes = files.changed_since(before)
    assert samples.tolist() == [0, 2]
    assert ctimes.tolist() == [os.stat(paths[1]).st_ctime_ns, os.stat(paths[4]).st_ctime_ns]
    assert files.ctime(0) == ctimes[0]


def test_a_process_takes_what_another_has_seen(tmp_path, monkeypatch):
    touch(tmp_path, "a/1.jpg", "a/2.jpg")
    seen = pickle.loads(pickle.dumps(files_of(ImageFolder(tmp_path)).seen()))
    files = PictureFiles(str(tmp_path), ImageFolder(tmp_path).samples)
    monkeypatch.setattr(files._paths, "stated_now", None)
    files.take(seen)
    assert (files.fingerprint(), files.total_bytes(), files.newest_ctime()) == (*seen[:2], seen.newest)
    assert files.changed_since(0)[0].tolist() == [0, 1]


def test_a_copy_with_equal_times_has_the_same_fingerprint(tmp_path):
    touch(tmp_path, "one/a/1.jpg", "one/b/2.jpg")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert ImageFolder(tmp_path / "one").fingerprint() == ImageFolder(tmp_path / "two").fingerprint()


def test_a_file_that_has_gone_is_named(tmp_path):
    touch(tmp_path, *(f"a/{i:03}.jpg" for i in range(200)))
    dataset = ImageFolder(tmp_path)
    (tmp_path / "a" / "150.jpg").unlink()
    with pytest.raises(FileNotFoundError) as raised:
        dataset.fingerprint()
    assert raised.value.filename == str(tmp_path / "a" / "150.jpg")


def other_label(samples):
    samples[3] = (samples[3][0], 7)


def other_kind_of_label(samples):
    samples[3] = (samples[3][0], float(samples[3][1]))


def another_file(samples):
    samples[3] = samples[4]


def one_less(samples):
    samples.pop()


def label_in_place(samples):
    samples[5][1] = 1.5


def path_in_place(samples):
    samples[5][0] = samples[6][0]


@pytest.mark.parametrize(
    "change",
    [other_label, other_kind_of_label, another_file, one_less, label_in_place, path_in_place],
    ids=lambda f: f.__name__,
)
def test_files_are_those_in_the_list_now(tmp_path, change):
    touch(tmp_path, *(f"a/{i}.jpg" for i in range(8)))
    dataset = ImageFolder(tmp_path)
    if change in (label_in_place, path_in_place):
        dataset.samples[5] = list(dataset.samples[5])  # can change without becoming another object
    files_of(dataset).labels()
    assert files_of(dataset).has_whole_labels()
    change(dataset.samples)
    files = files_of(dataset)
    fresh = PictureFiles(dataset.root, dataset.samples)
    assert files.samples == dataset.samples and len(files.samples) == len(fresh)
    assert [type(label) for _, label in files.samples] == [type(label) for _, label in fresh.samples]
    assert files.has_whole_labels() == fresh.has_whole_labels()
    assert files.labels().tolist() == fresh.labels().tolist()
    assert files.fingerprint() == fresh.fingerprint()


def test_what_is_known_of_files_ends_with_the_working_folder(tmp_path, monkeypatch):
    touch(tmp_path, "one/data/a/1.jpg", "two/data/a/1.jpg")
    os.utime(tmp_path / "two" / "data" / "a" / "1.jpg", ns=(0, 5))
    monkeypatch.chdir(tmp_path / "one")
    dataset = ImageFolder("data")
    before = dataset.fingerprint()
    monkeypatch.chdir(tmp_path / "two")
    assert dataset.fingerprint() == ImageFolder("data").fingerprint() != before
