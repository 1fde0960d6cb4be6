"""What is found in a dataset: its grade, the reasons, and the names under which jobs share."""

import importlib.metadata
import json
import os
import re
import runpy
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset, random_split
from torchvision_here import torchvision, v1, v2

import seneca
from seneca import transforms as T
from seneca.data.support import inspect_dataset

SIZE = (32, 32)
OURS = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip()])
OF_V1 = v1.Compose([v1.Resize(SIZE), v1.ToTensor()])
OF_V2 = v2.Compose([v2.Resize(SIZE), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])

pytestmark = pytest.mark.filterwarnings("ignore:.*ToTensor")


def folder_of_v(root, transform=None, **keywords):
    return torchvision.datasets.ImageFolder(str(root), transform, **keywords)


class Renamed(torchvision.datasets.ImageFolder):
    """A subclass that leaves its items as they are made."""

    def find_classes(self, directory):
        names = sorted(os.listdir(directory), reverse=True)
        return names, {name: i for i, name in enumerate(names)}


class WithPath(torchvision.datasets.ImageFolder):
    """A subclass with items of its own."""

    def __getitem__(self, index):
        return *super().__getitem__(index), self.samples[index][0]


class Numbers(Dataset):
    """Opaque: numbers, with a transform by torchvision's convention."""

    def __init__(self, count, transform=None, seed=0):
        self.values = torch.arange(count) + seed
        self.transform = transform

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        value = self.values[index]
        return value if self.transform is None else self.transform(value)


class Sounds:
    """Staged: bytes, arrays of them, and something random."""

    def __init__(self, count=6, gain=1.0):
        self.count = count
        self.gain = gain

    def __len__(self):
        return self.count

    def read(self, index):
        return bytes([index] * 4)

    def decode(self, data):
        return np.frombuffer(data, np.uint8).astype(np.float32)

    def augment(self, array, rng):
        return array * self.gain * rng.uniform(0.5, 1)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))


def double(value):
    return 2 * value


def negate(image):
    return 255 - np.asarray(image)


def shrink(image):
    return image.resize((8, 8))


# Grades


@pytest.mark.small(1)
@pytest.mark.parametrize("transform", [OURS, OF_V1, OF_V2], ids=["seneca's", "v1", "v2"])
def test_folders_of_pictures_with_known_transforms_are_native(picture_folder, transform):
    datasets = [
        seneca.ImageFolder(picture_folder, transform),
        folder_of_v(picture_folder, transform),
        Renamed(str(picture_folder), transform),
        torchvision.datasets.DatasetFolder(
            str(picture_folder), torchvision.datasets.folder.default_loader, (".jpg",), transform
        ),
    ]
    for dataset in datasets:
        grade = inspect_dataset(dataset)
        assert (grade.name, grade.base, grade.own) == ("native", dataset, None)
        assert len(grade.files) == 48 and grade.pipeline is not None
        assert grade.total_bytes == grade.files.total_bytes() > 0
        assert grade.why == (f"{type(dataset).__name__} and its transform run in the native core",)


def test_equal_folders_and_transforms_have_equal_names_whoever_wrote_the_classes(picture_folder):
    ours, of_v1, of_v2 = (
        inspect_dataset(dataset).stages
        for dataset in (
            seneca.ImageFolder(picture_folder, T.Compose([T.Resize(SIZE), T.ToTensor()])),
            folder_of_v(picture_folder, OF_V1),
            folder_of_v(picture_folder, OF_V2),
        )
    )
    assert ours.source == of_v1.source == of_v2.source
    assert ours.decoded == of_v1.decoded == of_v2.decoded
    assert ours.augmented == of_v1.augmented == of_v2.augmented


def test_a_target_transform_is_no_part_of_a_picture(picture_folder):
    plain = inspect_dataset(folder_of_v(picture_folder, OF_V1))
    grade = inspect_dataset(folder_of_v(picture_folder, OF_V1, target_transform=double))
    assert (grade.name, grade.why) == (plain.name, plain.why) and grade.name == "native"
    assert grade.stages.present(13, "picture") == ("picture", 2)
    assert (grade.stages.source, grade.stages.decoded) == (plain.stages.source, plain.stages.decoded)
    assert grade.stages.augmented == plain.stages.augmented, "the label is put to it afterwards"


def test_labels_that_are_no_whole_numbers_are_no_part_of_a_picture(picture_folder):
    dataset = folder_of_v(picture_folder, OF_V1)
    dataset.samples = [(path, float(label)) for path, label in dataset.samples]
    assert inspect_dataset(dataset).name == "native"


def test_python_transforms_are_staged_and_what_is_static_in_front_is_kept(picture_folder):
    grade = inspect_dataset(
        folder_of_v(picture_folder, v1.Compose([v1.Resize(SIZE), T.Static(shrink), negate]))
    )
    assert grade.name == "staged" and grade.pipeline is None
    assert grade.why[0].startswith("the transform runs as Python, because ")
    assert grade.why[0].endswith("pictures are decoded natively, kept after resize, Static")
    payload = grade.stages.decode(0, grade.stages.read(0))
    assert (payload.height, payload.width) == (0, 0), "an item, for what Static made could be anything"
    item, label = grade.stages.present(0, grade.stages.augment(0, payload))
    assert item.shape == (8, 8, 3) and label == 0
    assert np.array_equal(item, grade.stages.augment_encoded(0, grade.stages.read(0)))
    bare = inspect_dataset(folder_of_v(picture_folder, negate))
    assert bare.why[0].endswith("pictures are decoded natively")
    assert bare.stages.decode(0, bare.stages.read(0)).height > 0
    assert inspect_dataset(folder_of_v(picture_folder)).name == "staged", (
        "without a transform items are PIL images"
    )


@pytest.mark.small(2)
@pytest.mark.parametrize("how", ["__getitem__", "__getitems__", "loader", "accimage"])
def test_folders_that_make_items_in_their_own_way_are_opaque(picture_folder, how, monkeypatch):
    dataset = WithPath(str(picture_folder), OF_V1) if how == "__getitem__" else Renamed(str(picture_folder))
    if how == "__getitems__":
        monkeypatch.setattr(Renamed, "__getitems__", lambda self, indices: [], raising=False)
    elif how == "loader":
        dataset.loader = dataset.pil_loader = double
    elif how == "accimage":
        monkeypatch.setattr(torchvision, "get_image_backend", lambda: "accimage")
    grade = inspect_dataset(dataset)
    assert (grade.name, grade.files) == ("opaque", None)
    assert "is shared by whole items" in grade.why[0]


def test_a_dataset_that_offers_stages_is_staged():
    grade = inspect_dataset(Sounds())
    assert (grade.name, grade.why) == ("staged", ("Sounds offers read, decode and augment",))
    assert grade.stages.decoded not in (0, grade.stages.augmented) and grade.total_bytes > 0


@pytest.mark.parametrize("dataset", [Numbers(5), TensorDataset(torch.arange(5)), list(range(5)), range(5)])
def test_anything_else_is_opaque(dataset):
    grade = inspect_dataset(dataset)
    assert grade.name == "opaque" and grade.stages.decoded == 0
    assert grade.why == (
        f"{type(dataset).__name__} is shared by whole items: what is in between is not known",
    )


class Locked(Numbers):
    def __init__(self, count):
        super().__init__(count)
        self.lock = threading.Lock()


def test_what_cannot_be_fingerprinted_is_not_shared_but_with_a_key():
    grade = inspect_dataset(Locked(5))
    assert (grade.name, grade.stages) == ("unshared", None)
    assert re.match(r"Locked\.lock .*; leave it out, or say what the items depend on with key=", grade.why[0])
    one, same, other = (inspect_dataset(Locked(5), key=key) for key in ("a", "a", "b"))
    assert one.name == "opaque"
    assert (one.stages.source, one.stages.augmented) == (same.stages.source, same.stages.augmented)
    assert one.stages.source != other.stages.source and one.stages.augmented != other.stages.augmented
    assert inspect_dataset(Locked(6), key="a").stages.source != one.stages.source, "another number of samples"


def test_pictures_with_a_key_meet_whatever_the_transform_holds(picture_folder):
    lock = threading.Lock()

    def locked(image):
        with lock:
            return np.asarray(image)[:8, :8]

    dataset = folder_of_v(picture_folder, locked)
    assert inspect_dataset(dataset).name == "unshared" and ".lock" in inspect_dataset(dataset).why[0]
    one, same, other = (inspect_dataset(dataset, key=key).stages for key in ("a", "a", "b"))
    assert one.augmented == same.augmented != other.augmented
    assert one.source == same.source == other.source, "the files are seen, and speak for themselves"


@pytest.mark.parametrize(
    ("dataset", "why"),
    [
        (Stream(), "an IterableDataset has no indices by which jobs could share"),
        (Subset(Numbers(9), [1, 2, 1]), "the Subset's indices are not each once and within the dataset"),
        (Subset(Numbers(9), [1, 9]), "the Subset's indices are not each once and within the dataset"),
        (Subset(Numbers(9), [1, -1]), "the Subset's indices are not each once and within the dataset"),
        (
            Subset(Subset(Numbers(9), [1, 2]), [0, 2]),
            "the Subset's indices are not each once and within the dataset",
        ),
        (Subset({"a": 1, "b": 2}, ["a", "b"]), "the Subset's indices are not whole numbers"),
        (Subset(Numbers(9), [0.5]), "the Subset's indices are not whole numbers"),
        (object(), "object has no length"),
    ],
)
def test_what_has_no_names_for_its_samples_is_not_shared(dataset, why):
    grade = inspect_dataset(dataset)
    assert (grade.name, grade.stages, grade.why) == ("unshared", None, (why,))


def test_without_a_cache_only_pictures_are_inspected(picture_folder):
    assert inspect_dataset(Locked(5), shares=False).why == ("cache=None",)
    assert inspect_dataset(seneca.ImageFolder(picture_folder, OURS), shares=False).name == "native"


# Subsets


def test_subsets_and_splits_are_of_their_parent():
    parent = Numbers(100)
    whole = inspect_dataset(parent)
    train, test = random_split(parent, [70, 30])
    nested = Subset(Subset(parent, range(10, 60)), [5, 0, 49])
    for subset in (train, test, nested):
        grade = inspect_dataset(subset)
        assert grade.base is parent
        assert grade.stages.source == whole.stages.source
        assert grade.stages.augmented == whole.stages.augmented
    assert (
        inspect_dataset(nested).own.tolist() == [15, 10, 59]
        and inspect_dataset(nested).own.dtype == np.uint32
    )
    assert inspect_dataset(test).own.tolist() == list(test.indices)
    assert inspect_dataset(Subset(parent, [])).why == ("Subset is empty",)


@pytest.mark.parametrize("indices", [(3, 1), range(2), np.array([4, 2]), torch.tensor([7, 1])])
def test_subsets_take_any_indices_that_are_whole_numbers(indices):
    assert inspect_dataset(Subset(Numbers(9), indices)).own.tolist() == [int(i) for i in indices]


def test_a_subset_of_pictures_is_native(picture_folder):
    grade = inspect_dataset(Subset(folder_of_v(picture_folder, OF_V2), [40, 3]))
    assert (grade.name, len(grade.files), grade.own.tolist()) == ("native", 48, [40, 3])


def test_a_class_derived_from_subset_is_a_dataset_of_its_own():
    class Halved(Subset):
        def __getitem__(self, index):
            return self.dataset[self.indices[index]] / 2

        __getitems__ = None

    grade = inspect_dataset(Halved(Numbers(9), [1, 1]))
    assert (grade.name, grade.own, len(grade.base)) == ("opaque", None, 2)


def test_datasets_of_datasets_are_opaque():
    assert inspect_dataset(ConcatDataset([Numbers(3), Numbers(4)])).name == "opaque"


# Names


def names(dataset):
    stages = inspect_dataset(dataset).stages
    return stages.source, stages.decoded, stages.augmented


def test_a_transform_names_copies_and_not_samples():
    plain, doubled = Numbers(5), Numbers(5, double)
    assert names(plain)[0] == names(doubled)[0] and names(plain)[2] != names(doubled)[2]
    assert names(plain) == names(Numbers(5))
    doubled.transform = None
    assert names(plain) == names(doubled)


def test_state_and_size_name_the_samples():
    assert len({names(dataset)[0] for dataset in (Numbers(5), Numbers(6), Numbers(5, seed=1))}) == 3
    assert names(Sounds())[0] == names(Sounds())[0] != names(Sounds(gain=0.5))[0]


def test_what_says_itself_what_it_stands_for_is_taken_at_its_word():
    class Named(Numbers):
        def __fingerprint__(self):
            return "numbers, version 1"

    assert names(Named(5)) == names(Named(5, seed=3, transform=threading.Lock()))
    assert names(Named(5)) != names(Named(6))


@pytest.mark.small(1)
@pytest.mark.parametrize("name", ["transform", "transforms", "target_transform"])
def test_stages_that_use_a_transform_are_named_with_it(name):
    """By convention the attribute is what is done afterwards; where decode() examines it, it is not."""

    class Early(Sounds):
        def _scaled(self, array):
            return array if getattr(self, name) is None else array * 2

        def decode(self, data):
            return self._scaled(super().decode(data))

    class Late(Sounds):
        def augment(self, array, rng):
            return getattr(self, name)(array)

    # The attribute as code names it, which getattr() above hides.
    for kind, method in ((Early, "_scaled"), (Late, "augment")):
        code = getattr(kind, method).__code__
        getattr(kind, method).__code__ = code.replace(co_names=(*code.co_names, name))

    made = []
    for kind in (Early, Early, Late, Late):
        dataset = kind()
        setattr(dataset, name, [None, double][len(made) % 2])
        made.append(names(dataset))
    early, early_doubled, late, late_doubled = made
    assert early[1] != early_doubled[1] and early[2] != early_doubled[2]
    assert late[:2] == late_doubled[:2] and late[2] != late_doubled[2]


def test_a_changed_file_is_another_source(picture_folder):
    dataset = folder_of_v(picture_folder, OF_V1)
    path, first = dataset.samples[7][0], names(dataset)
    os.utime(path, ns=(1, 2))
    touched = names(dataset)
    assert touched[0] != first[0] and touched[1:] == first[1:]
    with open(path, "ab") as file:
        file.write(b"\0")
    os.utime(path, ns=(1, 2))
    assert len({first[0], touched[0], names(dataset)[0]}) == 3, "the size alone counts as well"
    os.remove(path)
    with pytest.raises(FileNotFoundError):
        inspect_dataset(dataset)


@pytest.mark.small(1)
@pytest.mark.parametrize(
    "changed", [v1.Compose([v1.Resize(SIZE), negate]), v1.Compose([v1.Resize((8, 8)), double]), double]
)
def test_another_python_transform_has_other_names(picture_folder, changed):
    first = names(folder_of_v(picture_folder, v1.Compose([v1.Resize(SIZE), double])))
    again = names(folder_of_v(picture_folder, v1.Compose([v1.Resize(SIZE), double])))
    other = names(folder_of_v(picture_folder, changed))
    assert first == again
    assert first[0] == other[0] and first[2] != other[2]
    same_head = changed is not double and changed.transforms[0].size == SIZE
    assert (first[1] == other[1]) is same_head


DATA = """
    import numpy as np, torch
    from seneca import transforms as T

    def noisy(image):
        return np.asarray(image) + FACTOR * torch.randn(())

    class Rows(torch.utils.data.Dataset):
        def __init__(self):
            self.names = {"ab", "cd", "ef"}
            self.transform = noisy
        def __len__(self):
            return 9
        def __getitem__(self, index):
            return index * FACTOR

    class Sounds(Rows):
        def read(self, index):
            return b"x"
        def decode(self, data):
            return np.zeros(3)
        def augment(self, array, rng):
            return array + FACTOR
"""

PRINT = """
    import importlib.util, json, sys
    from torchvision_here import torchvision, v1
    from seneca.data.support import inspect_dataset

    def names_in(place):
        spec = importlib.util.spec_from_file_location("data", place)
        sys.modules["data"] = data = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(data)
        transform = v1.Compose([v1.Resize((8, 8)), data.noisy])
        datasets = data.Rows(), data.Sounds(), torchvision.datasets.ImageFolder(sys.argv[1], transform)
        stages = [inspect_dataset(dataset).stages for dataset in datasets]
        return [[one.source.hex(), one.decoded, one.augmented] for one in stages]

    print(json.dumps([names_in(place) for place in sys.argv[2:]]))
"""


def test_names_are_equal_in_all_processes_and_follow_the_code(picture_folder, tmp_path, monkeypatch, capsys):
    """In this process and in another, with another seed of hashes."""
    script = tmp_path / "print.py"
    script.write_text(textwrap.dedent(PRINT))

    for factor in (1, 2):
        (tmp_path / str(factor)).mkdir()
        (tmp_path / str(factor) / "data.py").write_text(textwrap.dedent(DATA) + f"\n\nFACTOR = {factor}\n")

    def arguments(*factors):
        return [str(script), str(picture_folder), *(str(tmp_path / str(one) / "data.py") for one in factors)]

    monkeypatch.setattr(sys, "argv", arguments(1))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setitem(sys.modules, "data", None)  # and afterwards there is none
    runpy.run_path(str(script))
    [[rows, sounds, pictures]] = json.loads(capsys.readouterr().out)
    hash_seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    run = subprocess.run(
        [sys.executable, "-B", *arguments(1, 2)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    again, [other_rows, other_sounds, other_pictures] = json.loads(run.stdout)
    assert again == [rows, sounds, pictures]
    assert rows[0] != other_rows[0] and rows[2] != other_rows[2]
    assert sounds[0] != other_sounds[0] and sounds[2] != other_sounds[2]
    assert pictures[:2] == other_pictures[:2] and pictures[2] != other_pictures[2]


# In words


@pytest.mark.parametrize(
    ("dataset", "options", "words"),
    [
        (
            Numbers(5),
            {},
            r"opaque: Numbers is shared by whole items: what is in between is not known; "
            r"may be shared in the cache '[0-9a-f]{16}': AUGMENTED",
        ),
        (
            Sounds(),
            {"cache": "mine"},
            "staged: Sounds offers read, decode and augment; "
            "may be shared in the cache 'mine': ENCODED, DECODED, AUGMENTED",
        ),
        (
            Sounds(),
            {"cache": "mine", "share": "decoded"},
            "staged: .* may be shared in the cache 'mine': ENCODED, DECODED",
        ),
        (Numbers(5), {"cache": None}, "not shared: cache=None"),
        (Numbers(5), {"share": "none"}, "not shared: whole items are all that could be, but share='none'"),
        (Locked(5), {}, r"not shared: Locked\.lock .* or say what the items depend on with key="),
        (Locked(5), {"key": "five"}, "opaque: Locked is shared by whole items.*: AUGMENTED"),
        (Stream(), {}, "not shared: an IterableDataset has no indices by which jobs could share"),
    ],
)
def test_explain_says_it_in_plain_words(dataset, options, words):
    explained = seneca.DataLoader(dataset, **options).explain()
    assert re.fullmatch(words, explained.split("\n")[0]), explained
    if not isinstance(dataset, Stream):
        assert seneca.SharedDataset(dataset, **options).explain() == explained


def test_explain_says_what_the_fingerprint_covers(tmp_path, monkeypatch):
    monkeypatch.setenv("SENECA_TEST_GAIN", "2")

    class OfFiles(Locked):
        def __init__(self, place):
            super().__init__(5)
            self.place = str(place)

        def __getitem__(self, index):
            place = os.fspath(self.place)
            return float(os.environ["SENECA_TEST_GAIN"]) * self.values[index], place

    first, now, covered, shown = seneca.SharedDataset(OfFiles(tmp_path), key="mine").explain().split("\n")
    assert first.startswith("opaque: ") and now.startswith("now ")
    assert covered.startswith("Fingerprint: its state, the code of ")
    for part in (
        __name__,
        f"torch=={importlib.metadata.version('torch')}",
        "the environment variables SENECA_TEST_GAIN",
        "1 path (device",
        "the key, in place of OfFiles.lock",
        "Not covered: the content of files, network responses",
    ):
        assert part in covered, covered
    assert shown.startswith("before the first batch is shared, some samples are made here")


def test_explain_of_pictures(picture_folder):
    for transform, forms in (
        (OURS, "ENCODED, RECODED, DECODED, AUGMENTED"),
        (OF_V1, "ENCODED, RECODED, DECODED"),
    ):
        native, now, covered = (
            seneca.DataLoader(folder_of_v(picture_folder, transform), cache="mine").explain().split("\n")
        )
        assert now.startswith("now ")
        assert covered.startswith("Fingerprint: 48 files (path below the folder, size,")
        assert native == (
            "native: ImageFolder and its transform run in the native core; "
            f"may be shared in the cache 'mine': {forms}"
        ), "copies that are all alike are not shared"
    ours = seneca.DataLoader(folder_of_v(picture_folder, OF_V1), collate_fn=len, cache="mine").explain()
    assert "; collate_fn and target_transform are called in this process; may be shared in" in ours
    init = {"collate_fn": len, "worker_init_fn": print}
    by_torch = seneca.DataLoader(folder_of_v(picture_folder, OF_V1), **init, cache="mine").explain()
    assert by_torch.split("\n")[0].endswith(
        "loaded by torch's workers, because its worker_init_fn may set up what items depend on"
    )
    python = seneca.DataLoader(folder_of_v(picture_folder, v1.Compose([negate])), cache="mine").explain()
    assert python.startswith("staged: the transform runs as Python, because ")


def test_the_reason_is_given_without_a_cache_too(tmp_path):
    seneca.testing.make_pictures(tmp_path, count=2)
    dataset = seneca.ImageFolder(tmp_path, lambda picture: picture)
    explained = seneca.DataLoader(dataset, cache=None).explain()
    assert explained.startswith("not shared: the transform runs as Python, because ")
    assert explained.endswith("; cache=None")
