"""Pairs of jobs that look alike and mean different things: neither is ever given the other's items.

And pairs that look different and mean the same: they share.
"""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
import subprocess
import sys
import sysconfig
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
import torch
from pairs import BATCH, SAMPLES, Scenario, Side, assert_nothing_wrong, run, senecas
from PIL import Image

import seneca
from seneca.grades import grade_of

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18


class Items(torch.utils.data.Dataset):
    """What all the datasets here have in common: an item says which it is."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return index, self.item(index)


class Scaled:
    """A transform with state."""

    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k


def check(scenario: Scenario, folder: Path, *, shares: bool | None = None, by_names: bool = True) -> None:
    """Run a pair: nothing is wrong, and it shares or not, where that is said.

    Args:
        by_names: Whether what differs has another name, so that no example had to show it.
    """
    seen = run(scenario, folder)
    assert_nothing_wrong(seen)
    shown = [text for one in seen for text in one.told if "nothing is shared here" in text]
    assert not (by_names and shown), shown
    if shares is not None:
        assert [one.others > 0 for one in seen] == [shares] * 2, [one.explained for one in seen]


# Where files are


class OfArrays(Items):
    def __init__(self, pattern):
        self.files = sorted(glob.glob(pattern))

    def item(self, index):
        return torch.from_numpy(np.load(self.files[index]))


class OfAFolder(Items):
    def __init__(self, root):
        self.root = root

    def item(self, index):
        return torch.from_numpy(np.load(os.path.join(self.root, f"{index:02}.npy")))


def write_arrays(folder: Path, factor: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(SAMPLES):
        np.save(folder / f"{index:02}.npy", np.full(3, index * factor))
    return folder


def relative_files(side: Side):
    write_arrays(Path("data"), side.pick(1, 100))
    return OfArrays("data/*.npy")


def relative_folder(side: Side):
    write_arrays(Path("data"), side.pick(1, 100))
    return OfAFolder("data")


def relative_folder_in_code(side: Side):
    write_arrays(Path("data"), side.pick(1, 100))

    class InCode(Items):
        def item(self, index):
            return torch.from_numpy(np.load(f"data/{index:02}.npy"))

    return InCode()


@pytest.mark.parametrize("make", [relative_files, relative_folder, relative_folder_in_code])
def test_relative_paths_in_two_working_folders(make, tmp_path):
    check(Scenario(make), tmp_path)


def mounted(side: Side):
    """A mount namespace of this job's own, where the folder that both name is this job's data."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "unshare")
    data = write_arrays(side.folder / "data", side.pick(1, 100))
    times = 1_700_000_000
    for path in [*data.iterdir(), data]:
        os.utime(path, (times, times))
    place = side.both / "data"
    place.mkdir(exist_ok=True)
    assert libc.mount(os.fsencode(data), os.fsencode(place), None, MS_BIND, None) == 0
    return place


def can_mount() -> bool:
    done = subprocess.run(["unshare", "-m", "true"], capture_output=True)
    return done.returncode == 0


@pytest.mark.skipif(not can_mount(), reason="mount namespaces are not allowed here")
@pytest.mark.parametrize("of_files", [True, False])
def test_equal_paths_in_two_containers(of_files, tmp_path):
    def make(side):
        place = mounted(side)
        return OfArrays(f"{place}/*.npy") if of_files else OfAFolder(str(place))

    check(Scenario(make), tmp_path)


class Stored(seneca.StagedDataset):
    """A dataset with stages, whose files are its own affair."""

    def __init__(self, root):
        self.root = root

    def __len__(self):
        return SAMPLES

    def read(self, index):
        return (Path(self.root) / f"{index:02}.npy").read_bytes()

    def decode(self, data):
        return np.frombuffer(data[-24:], np.int64)

    def augment(self, array, rng):
        return torch.from_numpy(array.copy())

    def label(self, index):
        return index

    def __getitem__(self, index):
        return index, torch.from_numpy(np.load(os.path.join(self.root, f"{index:02}.npy")))


def labelled_first(batch):
    return [(index, x) for x, index in batch]


@pytest.mark.parametrize("workers", [0, 1])
def test_files_behind_a_dataset_that_are_rewritten_before_the_second_job_begins(workers, tmp_path):
    def make(side):
        data = side.both / "data"
        return Stored(str(data if side.name == "B" else write_arrays(data, 1)))

    def between(side, dataset, epoch):
        if side.name == "A" and epoch == 1:
            write_arrays(side.both / "data", 100)

    check(
        Scenario(
            make,
            options=lambda side: {
                "split": "0-100-0", "num_workers": workers, "collate_fn": labelled_first,
                "persistent_workers": False,
            },
            between=between,
            b_starts_in=2,
            epochs=4,
        ),
        tmp_path,
    )  # fmt: skip


def picture_folder(side: Side, kind: str):
    """Pictures of equal sizes, times and names, and of other colours."""
    for index in range(SAMPLES):
        path = side.folder / "pictures" / f"class{index % 2}" / f"{index:02}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        level = (index * 3 + side.pick(0, 100)) % 256
        Image.new("RGB", (16, 16), (level,) * 3).save(
            path, **({"compress_level": 0} if kind == "png" else {})
        )
        os.utime(path, (1, 1))
    return side.folder / "pictures"


@pytest.mark.parametrize("kind", ["bmp", "png"])
@pytest.mark.parametrize("grade", ["native", "staged"])
def test_pictures_of_equal_names_sizes_and_times(kind, grade, tmp_path):
    from torchvision_here import torchvision, v2

    steps = [v2.CenterCrop(16), v2.RandomHorizontalFlip(), v2.PILToTensor()]
    if grade == "staged":
        steps.append(torch.clone)

    def make(side):
        return torchvision.datasets.ImageFolder(str(picture_folder(side, kind)), v2.Compose(steps))

    def labelled(dataset, **options):
        return Numbered(senecas(dataset, **{**options, "collate_fn": None}))

    def want(side, dataset, index):
        return None if index < 0 else dataset[index][0]

    seen = run(
        Scenario(make, loader=labelled, want=want, options=lambda side: {"split": "0-50-50"}), tmp_path
    )
    assert_nothing_wrong(seen)
    assert all(one.explained.startswith(grade) for one in seen)


class Numbered:
    """A loader of pictures and labels, as one of numbers and pictures; -1 for a picture that is none of its
    own."""

    def __init__(self, loader):
        self.loader = loader
        self.stats, self.explain, self.dataset = loader.stats, loader.explain, loader.dataset

    def __iter__(self):
        means = [self.dataset[i][0].float().mean().item() for i in range(SAMPLES)]
        for pictures, _ in self.loader:
            levels = pictures.float().mean(dim=(1, 2, 3)).tolist()
            yield [
                (means.index(level) if level in means else -1, picture)
                for level, picture in zip(levels, pictures, strict=True)
            ]


# Code


def test_code_of_an_installed_package_at_an_unchanged_version(tmp_path):
    def make(side):
        side.installed("myproj", "0.1.0", f"def value(i): return i * {side.pick(1, 100)}")
        import myproj

        class OfPackage(Items):
            def item(self, index):
                return torch.tensor(myproj.value(index))

        return OfPackage()

    check(Scenario(make), tmp_path)


def test_a_project_installed_from_its_folder_that_is_set_at_run_time(tmp_path):
    text = "ONLY = {}\ndef value(i): return ONLY.get(i, i)"

    def make(side):
        side.installed("myproj", "0.1.0", text, source=side.both)
        import myproj

        myproj.ONLY = side.pick({}, {5: 500, 6: 600})  # too few samples for an example to show it

        class OfPackage(Items):
            def item(self, index):
                return torch.tensor(myproj.value(index))

        return OfPackage()

    check(Scenario(make), tmp_path, shares=False)


def test_another_version_of_what_an_installed_package_uses(tmp_path):
    def make(side):
        side.installed("libb", side.pick("1.0", "2.0"), f"K = {side.pick(1, 100)}")
        side.installed("liba", "1.0", "import libb\ndef f(i): return i * libb.K", requires="libb>=1")
        import liba

        class OfPackage(Items):
            def item(self, index):
                return torch.tensor(liba.f(index))

        return OfPackage()

    check(Scenario(make), tmp_path)


def test_an_installed_package_that_was_edited_in_place(tmp_path):
    def make(side):
        side.installed("edited", "1.0", "def f(i): return i")
        if side.name == "B":
            path = side.folder / "lib" / "site-packages" / "edited.py"
            path.write_text("def f(i): return i * 100")
            os.utime(path, ns=(2**62, 2**62))
        import edited

        class OfPackage(Items):
            def item(self, index):
                return torch.tensor(edited.f(index))

        return OfPackage()

    check(Scenario(make), tmp_path)


def test_a_function_of_an_installed_module_that_is_replaced(tmp_path):
    def make(side):
        side.installed("patched", "1.0", "def f(i): return i")
        import patched

        if side.name == "B":
            patched.f = lambda i: i * 100

        class OfPackage(Items):
            def item(self, index):
                return torch.tensor(patched.f(index))

        return OfPackage()

    check(Scenario(make), tmp_path)


def test_a_config_module_that_is_set_at_run_time_and_kept(tmp_path):
    def make(side):
        side.module("conf", "SIZE = 0")
        import conf

        conf.SIZE = side.pick(1, 100)

        class Configured(Items):
            def __init__(self, cfg):
                self.cfg = cfg

            def item(self, index):
                return torch.tensor(index * self.cfg.SIZE)

        return Configured(conf)

    check(Scenario(make), tmp_path)


def test_a_config_module_that_is_set_at_run_time_and_imported_within(tmp_path):
    def make(side):
        side.module("conf", "SIZE = 0")
        import conf

        conf.SIZE = side.pick(1, 100)

        class Configured(Items):
            def item(self, index):
                from conf import SIZE

                return torch.tensor(index * SIZE)

        return Configured()

    check(Scenario(make), tmp_path)


def test_a_config_module_that_is_imported_whole_within_and_aliased(tmp_path):
    def make(side):
        side.module("settings.conf", "SIZE = 0")
        import settings.conf

        settings.conf.SIZE = side.pick(1, 100)

        class Configured(Items):
            def item(self, index):
                import settings.conf as c

                return torch.tensor(index * c.SIZE)

        return Configured()

    check(Scenario(make), tmp_path)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("loaded", [True, False])
def test_a_submodule_that_is_imported_within_from_two_checkouts(workers, loaded, tmp_path):
    def make(side):
        side.module("mypkg.ops", f"def f(i): return i * {side.pick(1, 100)}")
        if loaded:
            pass

        class OfPackage(Items):
            def item(self, index):
                from mypkg import ops

                return torch.tensor(ops.f(index))

        return OfPackage()

    check(Scenario(make, options=lambda side: {"num_workers": workers}), tmp_path)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("persistent", [True, False])
def test_a_helper_that_is_edited_while_the_first_job_runs(workers, persistent, tmp_path):
    def make(side):
        if side.name == "A":
            path = side.module("helpers", "def f(i): return i", folder=side.both)
            os.utime(path, (1, 1))
        else:
            side.module("helpers", "def f(i): return i * 100", folder=side.both)

        class Helped(Items):
            def item(self, index):
                from helpers import f

                return torch.tensor(f(index))

        return Helped()

    options = {"num_workers": workers, "persistent_workers": persistent and workers > 0}
    check(Scenario(make, options=lambda side: options, b_starts_in=1), tmp_path)


def test_a_main_module_s_constant(tmp_path):
    def make(side):
        factor = side.pick(1, 100)

        class Constant(Items):
            def item(self, index):
                return torch.tensor(index * factor)

        return Constant()

    check(Scenario(make), tmp_path)


# The state of the process


DATA = None


class OfGlobal(Items):
    def item(self, index):
        return torch.tensor(int(DATA[index]))


@pytest.mark.parametrize("stock", [False, True])
def test_a_worker_init_fn_that_sets_a_global(stock, tmp_path):
    def options(side):
        factor = side.pick(1, 100)

        def init(worker_id):
            global DATA
            DATA = torch.arange(SAMPLES) * factor

        return {"num_workers": 1, "worker_init_fn": init}

    def want(side, dataset, index):
        return torch.tensor(index * side.pick(1, 100))

    make = (lambda side: shared(OfGlobal())) if stock else (lambda side: OfGlobal())
    check(Scenario(make, options, want=want, loader=stock_loader if stock else senecas), tmp_path)


def test_a_worker_init_fn_is_part_of_the_names():
    """It may set what no look sees, in a library say."""
    names = {
        grade_of(OfGlobal(), worker_init_fn=init).stages.augmented
        for init in (None, lambda worker: np.seterr(all="raise"), lambda worker: np.seterr(all="ignore"))
    }
    assert len(names) == 3


def test_a_worker_init_fn_that_changes_the_dataset(tmp_path):
    def options(side):
        factor = side.pick(1, 100)

        def init(worker_id):
            torch.utils.data.get_worker_info().dataset.transform.k = factor

        return {"num_workers": 1, "worker_init_fn": init}

    def want(side, dataset, index):
        return torch.tensor(index * side.pick(1, 100))

    check(Scenario(lambda side: Transformed(1), options, want=want), tmp_path)


class Transformed(Items):
    def __init__(self, k):
        self.transform = Scaled(k)

    def item(self, index):
        return self.transform(torch.tensor(index))


class Thirds(Items):
    def item(self, index):
        return torch.tensor([index / 3])


def test_another_default_dtype(tmp_path):
    def make(side):
        if side.name == "B":
            torch.set_default_dtype(torch.float64)
        return Thirds()

    check(Scenario(make), tmp_path)


def test_another_default_dtype_behind_a_transform_of_pictures(tmp_path):
    from torchvision_here import torchvision, v1

    folder = seneca.pictures.make_pictures(tmp_path / "pictures", count=SAMPLES, classes=2, sides=(16, 16))

    def same_tensor(x):
        return x

    def make(side):
        if side.name == "B":
            torch.set_default_dtype(torch.float64)
        steps = [v1.RandomHorizontalFlip(), v1.ToTensor(), same_tensor]
        return torchvision.datasets.ImageFolder(str(folder), v1.Compose(steps))

    def of_the_default_dtype(dataset, **options):
        return Typed(senecas(dataset, **options))

    class Typed:
        def __init__(self, loader):
            self.loader, self.number = loader, 0
            self.stats, self.explain = loader.stats, loader.explain

        def __iter__(self):
            numbers = iter(range(SAMPLES))
            for batch in self.loader:
                yield [(next(numbers), str(picture.dtype)) for picture, _ in batch]

    def want(side, dataset, index):
        return side.pick("torch.float32", "torch.float64")

    check(Scenario(make, loader=of_the_default_dtype, want=want), tmp_path)


def test_an_environment_variable_that_the_code_names(tmp_path):
    def make(side):
        os.environ["SENECA_TEST_SCALE"] = side.pick("1", "100")

        class OfEnvironment(Items):
            def item(self, index):
                return torch.tensor(index * int(os.environ["SENECA_TEST_SCALE"]))

        return OfEnvironment()

    check(Scenario(make), tmp_path)


GLOBAL = 1


class OfMain(Items):
    def item(self, index):
        return torch.tensor(index * GLOBAL)


def test_a_global_that_forked_workers_have_and_spawned_ones_have_not(tmp_path):
    def make(side):
        global GLOBAL
        GLOBAL = 5
        return OfMain()

    def options(side):
        method = side.pick("fork", "spawn")
        return {"num_workers": 1, "multiprocessing_context": method, "persistent_workers": True}

    def want(side, dataset, index):
        return torch.tensor(index * side.pick(5, 1))

    check(Scenario(make, options, want=want, epochs=2), tmp_path)


# What the user says


class Keyed(Items):
    def __init__(self, size):
        self.size = size
        self.rng = np.random.default_rng(0)

    def item(self, index):
        return torch.full((2,), index * self.size)


def test_a_key_does_not_hide_an_argument_that_can_be_seen(tmp_path):
    scenario = Scenario(lambda side: Keyed(side.pick(1, 100)), lambda side: {"key": "mydata"})
    check(scenario, tmp_path)


def test_a_key_stands_for_what_cannot_be_seen(tmp_path):
    check(Scenario(lambda side: Keyed(3), lambda side: {"key": "mydata"}), tmp_path, shares=True)


class SaysItself(Items):
    def __fingerprint__(self):
        return "numbers"


class SaysLess(SaysItself):
    def __init__(self, k):
        self.k = k

    def item(self, index):
        return torch.tensor(index * self.k)


def test_an_inherited_fingerprint_that_does_not_know_what_the_subclass_adds(tmp_path):
    check(Scenario(lambda side: SaysLess(side.pick(1, 100))), tmp_path)


# Stages


class WithRate:
    """A transform of sounds."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, array):
        return array


class Sounds(seneca.StagedDataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return SAMPLES

    def read(self, index):
        return bytes([index] * 4)

    def augment(self, array, rng):
        return torch.from_numpy(np.array(array))

    def label(self, index):
        return index

    def __getitem__(self, index):
        return index, self.augment(self.decode(self.read(index)), None)


class ByProperty(Sounds):
    rate = property(lambda self: self.transform.rate)

    def decode(self, data):
        return np.frombuffer(data, np.uint8).astype(np.int64) * self.rate


class ByDecorated(Sounds):
    @torch.no_grad()
    def decode(self, data):
        return np.frombuffer(data, np.uint8).astype(np.int64) * self.transform.rate


def scaled(dataset, data):
    return np.frombuffer(data, np.uint8).astype(np.int64) * dataset.transform.rate


class ByHelper(Sounds):
    def decode(self, data):
        return scaled(self, data)


@pytest.mark.parametrize("kind", [ByProperty, ByDecorated, ByHelper])
def test_a_transform_that_is_used_in_decode(kind, tmp_path):
    def options(side):
        return {"split": "0-100-0", "collate_fn": labelled_first}

    check(Scenario(lambda side: kind(WithRate(side.pick(1, 100))), options), tmp_path)


class Padded(torch.utils.data.Dataset):
    """Its items are as long as the longest of their batch."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return index, torch.zeros(index + 1)

    def __getitems__(self, indices):
        return [(index, torch.zeros(max(indices) + 1)) for index in indices]


class SeldomShort(Padded):
    """Nearly all items are of the full length, as texts are that were cut off."""

    def __getitems__(self, indices):
        return [(index, torch.zeros(8 if any(i % 12 for i in indices) else 3)) for index in indices]

    def __getitem__(self, index):
        return self.__getitems__([index])[0]


@pytest.mark.parametrize("kind", [Padded, SeldomShort])
def test_items_that_hang_on_their_batch(kind, tmp_path):
    class Unlike:
        """Gives None for an item that has the length of its batch."""

        def __init__(self, loader):
            self.loader = loader
            self.stats, self.explain = loader.stats, loader.explain

        def __iter__(self):
            for batch in self.loader:
                (length,) = {len(x) for _, x in kind().__getitems__([index for index, _ in batch])}
                yield [(index, None if len(x) == length else len(x)) for index, x in batch]

    def loader(dataset, **options):
        return Unlike(senecas(dataset, **options))

    scenario = Scenario(lambda side: kind(), loader=loader, want=lambda side, dataset, index: None)
    check(scenario, tmp_path, by_names=False)


# What says what it is in an unusual way


def test_annotations_that_are_read_as_a_schema(tmp_path):
    class Row:
        height: float
        weight: float

    class Yow:
        weight: float
        height: float

    Yow.__qualname__ = Row.__qualname__
    Yow.__name__ = Row.__name__

    class OfRows(Items):
        def __init__(self, row):
            self.row = row

        def item(self, index):
            record = {"height": index, "weight": index + 100}
            return torch.tensor([record[name] for name in self.row.__annotations__])

    check(Scenario(lambda side: OfRows(side.pick(Row, Yow))), tmp_path)


def test_members_of_an_enum_with_a_state_of_their_own(tmp_path):
    def make(side):
        class Size(Enum):
            SMALL = ("small", side.pick(1, 100))

            def __new__(cls, name, k):
                one = object.__new__(cls)
                one._value_ = name
                one.k = k
                return one

        class Sized(Items):
            def __init__(self, size):
                self.size = size

            def item(self, index):
                return torch.tensor(index * self.size.k)

        return Sized(Size.SMALL)

    check(Scenario(make), tmp_path)


SCALER = """
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
static PyObject *apply(PyObject *self, PyObject *number) {
    (void)self;
    return PyLong_FromLong(PyLong_AsLong(number) * FACTOR);
}
static PyMethodDef methods[] = {{"apply", apply, METH_O | METH_STATIC, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, NULL}};
static PyType_Spec spec = {"scaler.Scaler", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, slots};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "scaler", NULL, -1, NULL, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_scaler(void) {
    PyObject *made = PyModule_Create(&module);
    PyModule_AddObject(made, "Scaler", PyType_FromSpec(&spec));
    return made;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_another_build_of_an_extension_s_class(tmp_path):
    def make(side):
        (side.folder / "scaler.c").write_text(SCALER)
        library = side.folder / f"scaler{sysconfig.get_config_var('EXT_SUFFIX')}"
        include = sysconfig.get_path("include")
        flags = ["-shared", "-fPIC", "-I", include, f"-DFACTOR={side.pick(1, 100)}"]
        subprocess.run(["cc", *flags, "-o", library, "scaler.c"], check=True)
        sys.path.insert(0, str(side.folder))
        from scaler import Scaler

        class OfExtension(Items):
            def item(self, index):
                return torch.tensor(Scaler.apply(index))

        return OfExtension()

    check(Scenario(make), tmp_path)


# Torch's own loader


def shared(dataset):
    return seneca.SharedDataset(dataset, cache_bytes="8MiB")


class OfTorch:
    """Torch's own loader of a shared dataset, without Seneca's batch sampler."""

    def __init__(self, dataset, **options):
        options = {"batch_size": BATCH, "shuffle": True, "collate_fn": list} | options
        self.loader = torch.utils.data.DataLoader(dataset, **options)
        self.stats, self.explain = dataset.stats, dataset.explain

    def __iter__(self):
        return iter(self.loader)


def stock_loader(dataset, **options):
    return OfTorch(dataset, **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_workers": 1},
        {"num_workers": 1, "multiprocessing_context": "spawn"},
    ],
    ids=["here", "forked", "spawned"],
)
@pytest.mark.parametrize("nested", [True, False])
def test_a_change_between_epochs_in_torch_s_own_loader(options, nested, tmp_path):
    def make(side):
        return shared(Transformed(1)) if side.name == "A" else Transformed(1)

    def between(side, dataset, epoch):
        if side.name == "A" and epoch == 1:
            if nested:
                dataset.dataset.transform.k = 100
            else:
                dataset.dataset.transform = Scaled(100)

    def loader(dataset, **given):
        return (
            stock_loader(dataset, **given) if isinstance(dataset, seneca.SharedDataset) else senecas(dataset)
        )

    check(Scenario(make, lambda side: side.pick(options, {}), loader=loader, between=between), tmp_path)


class Curriculum(Items):
    def __init__(self):
        self.step = torch.zeros(1, dtype=torch.int64).share_memory_()

    def item(self, index):
        return torch.tensor(index + 100 * int(self.step))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_shared_tensor_that_one_job_sets_in_mid_epoch(workers, tmp_path):
    def within(side, dataset, epoch, batch):
        if side.name == "A" and batch == 4:
            dataset.step.fill_(1)

    def between(side, dataset, epoch):
        if side.name == "A":
            dataset.step.fill_(0)

    def options(side):
        return {"num_workers": workers, "check_every": None}

    scenario = Scenario(
        lambda side: Curriculum(),
        options,
        within=within,
        between=between,
        want=lambda side, dataset, index: None if side.name == "A" else torch.tensor(index),
        epochs=4,
    )  # what A is given hangs on how far its worker is ahead
    a, b = run(scenario, tmp_path)
    assert a.once and b.once and b.wrong == []


def test_a_change_of_a_transform_in_mid_epoch(tmp_path):
    def within(side, dataset, epoch, batch):
        if side.name == "A" and (epoch, batch) == (0, 3):
            dataset.transform.k = 100

    check(Scenario(lambda side: Transformed(1), within=within), tmp_path)


# Jobs that mean the same


def test_two_checkouts_of_one_project_share(tmp_path):
    def make(side):
        write_arrays(side.both / "data", 1)
        side.module("project.data", CHECKOUT)
        from project.data import Files

        return Files(str(side.both / "data"))

    check(Scenario(make), tmp_path, shares=True)


CHECKOUT = """
import os
import numpy as np, torch
from project import paths

class Files(torch.utils.data.Dataset):
    def __init__(self, root):
        self.root = root
        self.mode = "train"
    def __len__(self):
        return 48
    def __getitem__(self, index):
        from project.paths import name_of
        return index, torch.from_numpy(np.load(os.path.join(self.root, name_of(index))))
"""


@pytest.fixture(autouse=True)
def checkout(tmp_path):
    """The second module of the project that is checked out twice."""
    for name in "AB":
        path = tmp_path / name / "project" / "paths.py"
        path.parent.mkdir(parents=True)
        path.write_text("def name_of(i): return f'{i:02}.npy'\n")


def test_two_virtual_environments_of_the_same_versions_share(tmp_path):
    def make(side):
        side.installed("myproj", "0.1.0", "def value(i): return i * 7")
        import myproj

        class OfPackage(Items):
            def item(self, index):
                return torch.tensor(myproj.value(index))

        return OfPackage()

    check(Scenario(make), tmp_path, shares=True)


def test_two_working_folders_with_absolute_paths_share(tmp_path):
    def make(side):
        return OfArrays(f"{write_arrays(side.both / 'data', 1)}/*.npy")

    check(Scenario(make), tmp_path, shares=True)
