"""Pairs of jobs whose code differs: packages, modules, schemas, extensions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from enum import Enum

import pytest
import torch
from alike import Items, check
from pairs import Scenario

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


@pytest.mark.whole_size(shown_by="test_code_of_an_installed_package_at_an_unchanged_version")
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


@pytest.mark.whole_size(shown_by="test_a_config_module_that_is_set_at_run_time_and_imported_within")
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


@pytest.mark.whole_size(shown_by="test_a_config_module_that_is_set_at_run_time_and_imported_within")
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


@pytest.mark.small(1)
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


@pytest.mark.small(1)
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


@pytest.fixture(autouse=True)
def checkout(tmp_path):
    """The second module of the project that is checked out twice."""
    for name in "AB":
        path = tmp_path / name / "project" / "paths.py"
        path.parent.mkdir(parents=True)
        path.write_text("def name_of(i): return f'{i:02}.npy'\n")
