"""Folders are listed once for all processes of a user: what a process maps is what it would list."""

import copy
import errno
import fcntl
import multiprocessing
import os
import pickle
import random
import threading
import time

import numpy as np
import pytest
import ready
from sizes import size

from seneca import ImageFolder, SoundFolder
from seneca._runtime.mounts import Mount
from seneca._runtime.warn import SenecaWarning
from seneca.data import listed_folder
from seneca.data.files import PictureFiles, files_of
from seneca.data.folder import IMG_EXTENSIONS
from seneca.data.sources import kept_arrays

ODD = [
    "é.jpg",
    "\udcff.jpg",
    "\ufffd.jpg",
    "\U0001f600.jpg",
    "Z.JPG",
    "a.jpg",
    "ß.jpg",
    "\udc80\udcff.JPeG",
    "µ.png",
]


def touch(root, *names):
    for name in names:
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"x")


def as_torchvision_lists(root, extensions=IMG_EXTENSIONS):
    """``torchvision.datasets.folder.make_dataset``, and ``find_classes``."""
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    found = []
    for number, name in enumerate(classes):
        for folder, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            for file in sorted(files):
                if file.lower().endswith(extensions):
                    found.append((os.path.join(folder, file), number))
    return found


def until_the_clock_of_files_moves(folder):
    """The times of what is changed after this are others."""
    probe = folder / ".probe"
    probe.touch()
    before = os.stat(probe).st_mtime_ns
    while os.stat(probe).st_mtime_ns == before:
        os.utime(probe)
    probe.unlink()


@pytest.fixture
def lists(tmp_path, monkeypatch):
    """The number of times that folders were listed. Any listing is worth a file, and no folder is too new."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(listed_folder, "WORTH_A_FILE", 1)
    monkeypatch.setattr(listed_folder, "RACY_NS", -(10**18))
    count, real = [], listed_folder._list
    monkeypatch.setattr(listed_folder, "_list", lambda *args: count.append(1) or real(*args))
    return count


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    touch(root, *(f"{label}/{number}.jpg" for label in "abc" for number in range(4)), "b/deep/er/1.jpg")
    until_the_clock_of_files_moves(tmp_path)
    return root


def kept_files(tmp_path):
    return sorted((tmp_path / "cache" / "seneca" / "listings").iterdir())


@pytest.mark.parametrize("worth", [1, 1 << 20], ids=["in a file", "in memory"])
def test_the_order_is_torchvisions(tmp_path, lists, monkeypatch, worth):
    monkeypatch.setattr(listed_folder, "WORTH_A_FILE", worth)
    root = tmp_path / "root"
    touch(root, *(f"{label}/{name}" for label in ("b", "B", "é", "\udcfe", "\U0001f600") for name in ODD))
    touch(root, *(f"b/{folder}.d/1.jpg" for folder in ODD), "b/a-b/1.jpg", "b/a/x/1.jpg", "b/no.txt")
    touch(tmp_path, "store/x.jpg", "store/sub/y.jpg")
    (root / "a").symlink_to(tmp_path / "store")
    (root / "b" / "linked").symlink_to(tmp_path / "store" / "sub")
    (root / "b" / "round").symlink_to(root / "b" / "a")
    expected = as_torchvision_lists(root)
    for _ in range(2):
        dataset = ImageFolder(root)
        assert dataset.samples == expected == list(dataset.samples) == dataset.samples[:]
        assert [dataset.samples[index] for index in range(len(expected))] == expected
        assert dataset.targets == [label for _, label in expected] and dataset.imgs is dataset.samples
        assert all(type(path) is str and type(label) is int for path, label in dataset.samples)
    assert len(lists) == (1 if worth == 1 else 2)


def test_a_tree_of_random_names_is_listed_as_torchvision_lists_it(tmp_path, lists):
    letters = ["a", "B", "é", "\ufffd", "\U0001f600", "\udc9f", "\udcf0", "K", "-", "."]
    drawn = random.Random(random.randrange(2**32))
    for _ in range(200):
        parts = ["".join(drawn.choices(letters, k=drawn.randint(1, 4))) for _ in range(drawn.randint(1, 3))]
        if not {".", ".."} & {part.strip() for part in parts}:
            os.makedirs(tmp_path / "root" / "c" / os.path.join(*parts), exist_ok=True)
            touch(tmp_path / "root" / "c" / os.path.join(*parts), f"{drawn.choice(letters)}.jpg", "x.JPG")
    assert ImageFolder(tmp_path / "root").samples == as_torchvision_lists(tmp_path / "root")


@pytest.mark.parametrize("given", ["{}", "{}/", "root", "./root/", "root/../root"])
def test_the_fingerprint_is_that_of_a_list(tmp_path, root, lists, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    given = given.format(root)
    for _ in range(2):
        dataset = ImageFolder(given)
        listed = PictureFiles(dataset.root, as_torchvision_lists(dataset.root))
        assert dataset.samples == listed.samples
        files = files_of(dataset)
        assert (files.names(), files.fingerprint()) == (listed.names(), listed.fingerprint())
        blob, offsets = files.path_table()
        assert bytes(blob) == listed.path_table()[0] and np.array_equal(offsets, listed.path_table()[1])
        assert [files.read(0), files.path_of(5), len(files)] == [b"x", listed.path_of(5), 13]
        assert (
            list(files.pieces()) == list(listed.pieces())
            and files.labels().tolist() == listed.labels().tolist()
        )
    assert len(lists) == 1


def test_a_relative_folder_is_the_one_in_the_present_folder(tmp_path, lists, monkeypatch):
    touch(tmp_path, "one/data/a/1.jpg", "two/data/a/2.jpg")
    os.link(tmp_path / "two" / "data" / "a" / "2.jpg", tmp_path / "two" / "data" / "a" / "1.jpg")
    monkeypatch.chdir(tmp_path / "one")
    dataset = ImageFolder("data")
    assert dataset.samples == [("data/a/1.jpg", 0)]
    monkeypatch.chdir(tmp_path / "two")
    assert ImageFolder("data").samples == [("data/a/1.jpg", 0), ("data/a/2.jpg", 0)]
    assert bytes(files_of(dataset).path_table()[0]) == os.fsencode(tmp_path / "two/data/a/1.jpg") + b"\0"


def added(root):
    touch(root, "b/9.jpg")


def added_below(root):
    touch(root, "b/deep/er/2.jpg")


def removed(root):
    (root / "c" / "3.jpg").unlink()


def renamed(root):
    (root / "c" / "3.jpg").rename(root / "c" / "5.jpg")


def new_class(root):
    touch(root, "d/1.jpg")


def class_gone(root):
    for path in (root / "a").iterdir():
        path.unlink()
    (root / "a").rmdir()


def new_folder(root):
    touch(root, "a/new/1.jpg")


def folder_replaced(root):
    (root / "b" / "deep").rename(root.parent / "elsewhere")
    touch(root, "b/deep/er/7.jpg")


def file_becomes_a_folder(root):
    (root / "a" / "0.jpg").unlink()
    touch(root, "a/0.jpg/1.jpg")


CHANGES = [
    added, added_below, removed, renamed, new_class, class_gone, new_folder, folder_replaced,
    file_becomes_a_folder,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_folders_that_have_changed_are_listed_again(root, lists, change):
    before = ImageFolder(root)
    assert ImageFolder(root).samples == before.samples and len(lists) == 1
    old = list(before.samples)
    change(root)
    now = ImageFolder(root)
    assert now.samples == as_torchvision_lists(root) != old and len(lists) == 2
    assert before.samples == old, "what was listed before stays"
    assert ImageFolder(root).samples == now.samples and len(lists) == 2


def test_a_change_behind_a_link_is_seen(tmp_path, root, lists):
    touch(tmp_path, "store/1.jpg", "other/2.jpg")
    (tmp_path / "way").symlink_to(tmp_path / "store")
    (root / "a" / "linked").symlink_to(tmp_path / "way")
    assert ImageFolder(root).samples == ImageFolder(root).samples and len(lists) == 1
    touch(tmp_path, "store/3.jpg")
    assert ImageFolder(root).samples == as_torchvision_lists(root) and len(lists) == 2
    (tmp_path / "way").unlink()
    (tmp_path / "way").symlink_to(tmp_path / "other")
    assert ImageFolder(root).samples == as_torchvision_lists(root) and len(lists) == 3


def test_a_link_that_leads_nowhere_may_lead_to_a_folder_later(tmp_path, root, lists):
    (root / "a" / "later.jpg").symlink_to(tmp_path / "later")
    (root / "a" / "round.jpg").symlink_to(root / "a" / "round.jpg")
    assert ImageFolder(root).samples == as_torchvision_lists(root) and len(ImageFolder(root)) == 15
    touch(tmp_path, "later/1.jpg", "later/2.jpg")
    assert ImageFolder(root).samples == as_torchvision_lists(root) and len(ImageFolder(root)) == 16


def test_a_changed_file_is_no_change_of_a_listing(root, lists):
    before = ImageFolder(root).fingerprint()
    (root / "a" / "0.jpg").write_bytes(b"other")
    assert ImageFolder(root).fingerprint() != before and len(lists) == 1


def test_a_folder_that_changed_just_before_is_listed_again(root, lists, monkeypatch):
    """On a file system whose times are whole seconds, a change within the same second cannot be seen."""
    monkeypatch.setattr(listed_folder, "RACY_NS", 2 * 10**9)
    first = ImageFolder(root)
    assert ImageFolder(root).samples == first.samples and len(lists) == 2
    monkeypatch.setattr(time, "time_ns", lambda: os.stat(root / "b").st_ctime_ns + 3 * 10**9)
    ImageFolder(root)
    assert len(lists) == 3
    ImageFolder(root)
    assert len(lists) == 3, "now its times are old enough"


def test_where_times_of_folders_say_nothing_each_lists_and_maps_the_same_file(
    tmp_path, root, lists, monkeypatch
):
    real = listed_folder.mount_of
    monkeypatch.setattr(listed_folder, "mount_of", lambda path: real(path)._replace(kind="fuse.s3fs"))
    first = ImageFolder(root)
    (kept,) = kept_files(tmp_path)
    inode = os.stat(kept).st_ino
    assert ImageFolder(root).samples == first.samples and len(lists) == 2
    assert kept_files(tmp_path) == [kept] and os.stat(kept).st_ino == inode, "nothing was written"
    added(root)
    assert ImageFolder(root).samples == as_torchvision_lists(root) and len(lists) == 3


def test_other_endings_and_other_classes_of_data_are_other_lists(tmp_path, root, lists):
    touch(root, "a/1.wav", "b/1.wav", "c/1.wav")
    assert len(ImageFolder(root)) == 13 and len(SoundFolder(root)) == 3 and len(lists) == 2
    assert len(ImageFolder(root, extensions=".wav")) == 3
    assert ImageFolder(root).samples == as_torchvision_lists(root) and len(kept_files(tmp_path)) >= 2


def test_a_class_without_files_is_named_although_the_list_is_kept(root, lists):
    (root / "bb").mkdir()
    assert ImageFolder(root, allow_empty=True).targets[-1] == 3
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="no valid file for the classes bb"):
            ImageFolder(root)
    assert len(lists) == 1


def test_a_short_list_needs_no_file(tmp_path, root, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert ImageFolder(root).samples == as_torchvision_lists(root)
    assert not (tmp_path / "cache").exists()


def test_a_damaged_file_is_made_again(tmp_path, root, lists):
    expected = list(ImageFolder(root).samples)
    (kept,) = kept_files(tmp_path)
    whole = kept.read_bytes()
    for damaged in (
        b"", whole[:40], whole[:-1], whole + b"x", whole.replace(b"a/0.jpg", b"a/1.jpg"), b"\0" * len(whole)
    ):  # fmt: skip
        before = len(lists)
        kept.write_bytes(damaged)
        assert ImageFolder(root).samples == expected and len(lists) == before + 1
        assert ImageFolder(root).samples == expected and len(lists) == before + 1


def test_a_file_that_another_could_have_made_is_not_believed(tmp_path, root, lists):
    expected = list(ImageFolder(root).samples)
    (kept,) = kept_files(tmp_path)
    for make_others in (lambda: kept.chmod(0o644), lambda: os.link(kept, tmp_path / "second name")):
        before = len(lists)
        make_others()
        assert ImageFolder(root).samples == expected and len(lists) == before + 1
    kept.parent.chmod(0o777)
    with pytest.warns(
        SenecaWarning, match="is not kept, because others could change it: .* its mode is 0777"
    ):
        assert ImageFolder(root).samples == expected


def no_folder(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))


def no_room(tmp_path, monkeypatch):
    def write(fd, data, left=[300]):  # noqa: B006
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= len(data)
        return real(fd, data)

    real = os.write
    monkeypatch.setattr(kept_arrays.os, "write", write)


def no_room_at_the_end(tmp_path, monkeypatch):
    def finish(self, *arguments):
        self._add(b"something")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kept_arrays.Draft, "finish", finish)


def no_names(tmp_path, monkeypatch):
    def replace(*names):
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(os, "replace", replace)


def network(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_arrays, "mount_of", lambda path: Mount("/", "0:1", "nfs4", "x", frozenset()))


@pytest.mark.parametrize(
    "trouble", [no_folder, no_room, no_room_at_the_end, no_names, network], ids=lambda one: one.__name__
)
def test_where_nothing_can_be_kept_each_process_lists(tmp_path, root, lists, monkeypatch, trouble):
    trouble(tmp_path, monkeypatch)
    for times in (1, 2):
        assert ImageFolder(root).samples == as_torchvision_lists(root) and len(lists) == times
    folder = tmp_path / "cache" / "seneca" / "listings"
    assert not folder.exists() or list(folder.iterdir()) == []


@pytest.fixture
def together(root, lists, monkeypatch):
    """Begins three processes, of which one lists until the others wait. Returns their datasets."""
    begun, go_on, real = threading.Event(), threading.Event(), listed_folder._below

    def slow(*arguments):
        if threading.current_thread().name == "first" and arguments[1] == b"c":
            begun.set()
            assert go_on.wait(60)
        return real(*arguments)

    def begin():
        found = []
        names = "first", "second", "third"
        threads = [
            threading.Thread(target=lambda: found.append(ImageFolder(root)), name=name) for name in names
        ]
        threads[0].start()
        assert begun.wait(60)
        for thread in threads[1:]:
            thread.start()
        time.sleep(0.2)
        assert found == []
        go_on.set()
        for thread in threads:
            thread.join()
        assert len(found) == 3 and all(one.samples == as_torchvision_lists(root) for one in found)
        return [one.samples.items.paths.table._kept for one in found]

    monkeypatch.setattr(listed_folder, "_below", slow)
    return begin


def test_processes_that_begin_together_list_once(together, monkeypatch):
    """The others wait for the first, and map its table."""
    whole, real = [], listed_folder._Place.take
    monkeypatch.setattr(listed_folder._Place, "take", lambda *args: whole.append(1) or real(*args))
    assert len(set(together())) == 1 and len(whole) == 1


def test_processes_that_begin_together_list_twice_at_the_most(together, monkeypatch):
    """The folders are too new for their times to tell changes. A list that began later is as good."""
    monkeypatch.setattr(listed_folder, "RACY_NS", 10**18)
    whole, real = [], listed_folder._Place.take
    monkeypatch.setattr(listed_folder._Place, "take", lambda *args: whole.append(1) or real(*args))
    assert len(set(together())) == 2 and len(whole) == 2


def test_a_process_that_is_stopped_while_it_lists_is_not_waited_for(tmp_path, root, lists, monkeypatch):
    monkeypatch.setattr(listed_folder, "GIVE_UP_S", 0.2)
    ImageFolder(root)
    (kept,) = kept_files(tmp_path)
    kept.unlink()
    draft = kept.with_suffix(".draft")
    with open(os.open(draft, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert ImageFolder(root).samples == as_torchvision_lists(root)
        assert kept_files(tmp_path) == [draft], "it is the other's"
    assert ImageFolder(root).samples == as_torchvision_lists(root)
    assert kept_files(tmp_path) == [kept], "the one that has died left a draft, which the next one overwrites"


def in_a_child(pipe, dataset):
    table = dataset.samples.items.paths.table
    pipe.send((list(dataset.samples), dataset.fingerprint(), table._kept, dataset.targets.count(1)))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_that_is_started_maps_the_same_file(root, lists, method):
    dataset = ImageFolder(root)
    context = multiprocessing.get_context(method)
    mine, its = context.Pipe()
    child = context.Process(target=in_a_child, args=(its, dataset))
    child.start()
    its.close()
    samples, fingerprint, kept, of_one = mine.recv()
    child.join()
    assert samples == dataset.samples and fingerprint == dataset.fingerprint() and of_one == 5
    assert kept == dataset.samples.items.paths.table._kept is not None


def test_a_process_that_is_started_gets_the_paths_if_the_file_has_gone(tmp_path, root, lists):
    dataset = ImageFolder(root)
    kept_files(tmp_path)[0].unlink()
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    child = context.Process(target=in_a_child, args=(its, dataset))
    child.start()
    its.close()
    samples, fingerprint, kept, _ = mine.recv()
    child.join()
    assert samples == dataset.samples and fingerprint == dataset.fingerprint() and kept is None


def test_what_is_pickled_for_later_needs_no_file(tmp_path, root, lists):
    dataset = ImageFolder(root)
    pickled = pickle.dumps(dataset)
    kept_files(tmp_path)[0].unlink()
    again = pickle.loads(pickled)
    assert again.samples == dataset.samples and again.targets == dataset.targets
    assert again.fingerprint() == dataset.fingerprint()
    alike = copy.deepcopy(dataset)
    alike.samples.append(alike.samples[0])
    assert len(alike.samples) == len(dataset.samples) + 1


def test_samples_that_a_user_changes_are_a_list_of_this_dataset_alone(root, lists):
    dataset, other = ImageFolder(root), ImageFolder(root)
    before = dataset.fingerprint()
    dataset.samples[:] = dataset.samples[::2]
    dataset.samples[0] = (dataset.samples[0][0], 7)
    assert len(dataset) == 7 == len(files_of(dataset)) and files_of(dataset).labels().tolist()[0] == 7
    assert dataset.fingerprint() != before
    assert other.samples == as_torchvision_lists(root) and other.fingerprint() == before
    other.samples = other.samples[:3]
    assert len(files_of(other)) == 3


MEASURE = """
import ctypes
import sys
import torch
import seneca
from seneca import transforms as T

for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD: what is freed goes back to the kernel at once
    ctypes.CDLL(None).mallopt(option, 65536)

def private():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Anonymous:"))

def batch_of(root):
    dataset = seneca.ImageFolder(root, T.RandomResizedCrop(8))
    loader = seneca.DataLoader(dataset, 8, shuffle=True, num_workers=1, cache=sys.argv[1], cache_bytes="4MiB")
    batches = iter(loader)
    next(batches)
    return dataset, loader, batches

warm = batch_of(sys.argv[2])
del warm
before = private()
held = batch_of(sys.argv[3])
print(len(held[0]), private() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="the kernel says no memory")
def test_a_process_has_few_bytes_of_its_own_for_a_file(tmp_path, picture_folder, name):
    """Two folders of different sizes: what the second has more."""
    pictures = sorted(picture_folder.glob("*/*.jpg"))
    classes = size(40, 120)
    for label in range(classes):
        (tmp_path / "large" / f"{label:03}").mkdir(parents=True)
        for number in range(1000):
            os.link(
                pictures[number % len(pictures)], tmp_path / "large" / f"{label:03}" / f"{number:030}.jpg"
            )
    (tmp_path / "small").mkdir()
    for label in range(20):
        (tmp_path / "small" / f"{label:03}").symlink_to(tmp_path / "large" / f"{label:03}")
    found = []
    for folder in ("small", "large"):
        arguments = "-c", MEASURE, name, str(picture_folder), str(tmp_path / folder)
        done = ready.run(*arguments, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
        assert done.returncode == 0, done.stderr
        found.append([int(number) for number in done.stdout.split()])
    (fewer, less), (more, most) = found
    assert (fewer, more) == (20_000, classes * 1000)
    assert (most - less) / (more - fewer) < 40
