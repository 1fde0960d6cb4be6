"""What code may read beside its state, kind by kind. Jobs that differ in it share nothing, and learn why."""

import os
import time
import zipfile

import numpy as np
import pytest
from rows import Row, compare_jobs, dataset

PACKAGE = """
    K = 1
    CFG = {"k": 1}
    class C: pass
    config = C()
    config._items = {"k": 1}
    def f(i): return i * K
    def g(i): return f(i)
"""
OTHER = "type('Z', (), {'__call__': lambda s, i: i * 3, 'm': lambda s, i: i * 3, '__module__': 'my'})()"


def a_package(side):
    side.installed("pkg", "1.0", PACKAGE)


def of_package(name, item, b, named, before="import pkg"):
    return Row(name, dataset(item, before=before), b=f"import pkg; {b}", named=named, prepare=a_package)


# --- Settings of the process.

SETTINGS = [
    Row(
        "time zone",
        dataset("return datetime.datetime.fromtimestamp(1_700_000_000 + 3600 * i).weekday()"),
        "os.environ['TZ'] = 'UTC'; time.tzset()",
        "os.environ['TZ'] = 'Etc/GMT-1'; time.tzset()",
        "time zone",
    ),
    Row(
        "print options of NumPy",
        dataset("return str(np.array([i / 3]))"),
        b="np.set_printoptions(precision=3)",
        named="print options",
    ),
    Row(
        "print options of torch",
        dataset("return str(torch.tensor([i / 3]))"),
        b="torch.set_printoptions(precision=3)",
        named="print options",
    ),
    Row(
        "pictures of any size",
        dataset("return i"),
        b="import PIL.Image; PIL.Image.MAX_IMAGE_PIXELS = None",
        named="MAX_IMAGE_PIXELS",
    ),
    Row(
        "warnings that are errors",
        dataset("return i"),
        b="import warnings; warnings.simplefilter('error', RuntimeWarning)",
        named="warnings",
    ),
    Row(
        "a plugin of Pillow",
        dataset("return i"),
        b="import PIL.Image; PIL.Image.register_open('XYZ', type('F', (), {'__module__': 'my'}))",
        named="plugins",
    ),
    Row(
        "errors of NumPy",
        dataset("return i"),
        b="np.seterr(over='raise')",
        named="NumPy's handling of errors",
    ),
    Row(
        "the decimal context",
        dataset("import decimal\nreturn str(decimal.Decimal(i) / 3)"),
        b="import decimal; decimal.getcontext().prec = 5",
        named="decimal",
    ),
    Row(
        "locale",
        dataset("import locale\nreturn locale.str(i / 3)"),
        "import locale; locale.setlocale(locale.LC_ALL, 'C')",
        "import locale; locale.setlocale(locale.LC_ALL, 'C.UTF-8')",
        "locale",
    ),
    Row(
        "precision of products",
        dataset("return i"),
        b="torch.set_float32_matmul_precision('medium')",
        named="matrix products",
    ),
    Row("fields of csv", dataset("return i"), b="import csv; csv.field_size_limit(10)", named="csv"),
]

# --- Values behind installed code, and code of packages that was replaced.

BEHIND = [
    of_package("a constant", "return i * pkg.K", "pkg.K = 2", "pkg.K"),
    of_package("a dict", "return i * pkg.CFG['k']", "pkg.CFG['k'] = 2", "pkg.CFG"),
    of_package("an object", "return i * pkg.config._items['k']", "pkg.config._items['k'] = 2", "pkg.config"),
    of_package(
        "an object that was imported",
        "return i * config._items['k']",
        "pkg.config._items['k'] = 2",
        "config",
        before="from pkg import config",
    ),
    Row(
        "arguments of the process",
        dataset("return i * len(sys.argv[1])"),
        "sys.argv[:] = ['x', 'ab']",
        "sys.argv[:] = ['x', 'abc']",
        "sys.argv",
    ),
    *(
        of_package(f"replaced by {name}", "return pkg.f(i)", f"import functools; pkg.f = {other}", "pkg")
        for name, other in (
            ("a partial", "functools.partial(lambda i: i * 3)"),
            ("an object", OTHER),
            ("a bound method", f"{OTHER}.m"),
            ("a function", "lambda i: i * 3"),
        )
    ),
    Row(
        "torch's functional",
        dataset("return torch.nn.Identity()(i)"),
        b="import torch.nn.functional as F; F.relu = lambda x, inplace=False: x",
        named="torch.nn.functional.relu",
    ),
    Row(
        "how Pillow opens",
        dataset("return i"),
        b="import PIL.Image; o = PIL.Image.open; PIL.Image.open = lambda *a, **k: o(*a, **k)",
        named="PIL.Image.open",
    ),
    Row(
        "a builtin",
        dataset("return i"),
        b="import builtins; o = builtins.open; builtins.open = lambda *a, **k: o(*a, **k)",
        named="builtins.open",
    ),
    Row(
        "a single dispatch",
        dataset(
            "return f(i)",
            before="""
            @functools.singledispatch
            def f(x): return x
            @f.register
            def _(x: int): return x * K
            """,
        ),
        "K = 1",
        "K = 2",
        "K",
    ),
    Row(
        "what pickles by its name",
        dataset(
            "return i * self.one.k",
            "self.one = ONE",
            before="""
            class S:
                def __reduce__(s): return 'ONE'
            ONE = S()
            ONE.k = K
            """,
        ),
        "K = 1",
        "K = 2",
        "one.k",
    ),
]

# --- Code that is found late.

LATE = "def f(i): return i * {}\nclass T:\n  def __call__(s, i): return i * {}\n"
BY_NAME = """
    def make(self):
        import importlib
        module, _, name = self.cfg['_target_'].rpartition('.')
        return getattr(importlib.import_module(module), name)()
"""


def late(side, folder=None):
    side.module("late", LATE.format(*[side.pick(2, 3)] * 2), folder=folder)


def loose(side):
    late(side, side.folder / "lib" / "site-packages")


def in_zip(side):
    with zipfile.ZipFile(side.folder / "late.zip", "w") as archive:
        archive.writestr("late.py", LATE.format(*[side.pick(2, 3)] * 2))
    side.module("beside", "")
    import sys

    sys.path.insert(0, str(side.folder / "late.zip"))


def patched(side):
    """An installed file with other content, and a time before that of its installation."""
    side.installed("pkg", "1.0", LATE.format(2, 2))
    path = side.folder / "lib" / "site-packages" / "pkg.py"
    if side.name == "B":
        before = path.stat()
        path.write_text(LATE.format(3, 3))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns - 10**12))


CODE = [
    Row("a loose file", dataset("return late.f(i)", before="import late"), named="code of f", prepare=loose),
    Row(
        "import_module",
        dataset("import importlib\nreturn importlib.import_module('late').T()(i)"),
        named="late",
        prepare=late,
    ),
    Row(
        "a target",
        dataset("return self.make()(i)", "self.cfg = {'_target_': 'late.T'}", BY_NAME),
        named="late",
        prepare=late,
    ),
    Row(
        "a target that is loaded",
        dataset("return self.make()(i)", "import late\nself.cfg = {'_target_': 'late.T'}", BY_NAME),
        named="T.__call__",
        prepare=late,
    ),
    Row("a zip", dataset("return late.f(i)", before="import late"), named="code of f", prepare=in_zip),
    Row("a zip, later", dataset("import late\nreturn late.f(i)"), named="module late", prepare=in_zip),
    Row("a patch", dataset("return pkg.f(i)", before="import pkg"), named="package pkg", prepare=patched),
]

# --- Places.


def labels(path):
    def prepare(side):
        (side.folder / path).parent.mkdir(parents=True, exist_ok=True)
        np.save(side.folder / path, np.full(96, side.pick(1, 2)))
        os.chdir(side.folder)

    return prepare


def a_program(side):
    (side.folder / "bin").mkdir()
    program = side.folder / "bin" / "mytool"
    program.write_text(f"#!/bin/sh\necho {side.pick(1, 2)}\n")
    program.chmod(0o755)
    os.environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"


PLACES = [
    Row(
        "no slash",
        dataset("return int(np.load('labels.npy')[i])"),
        named="the file labels.npy",
        prepare=labels("labels.npy"),
    ),
    Row(
        "a joined path",
        dataset("return int(np.load(Path('da') / 'labels.npy')[i])"),
        named="relative",
        prepare=labels("da/labels.npy"),
    ),
    Row(
        "a formatted path",
        dataset("return int(np.load(f'{i % 1}.npy')[i])"),
        named="relative",
        prepare=labels("0.npy"),
    ),
    Row(
        "the current folder",
        dataset("return os.getcwd()"),
        named="relative",
        prepare=lambda side: os.chdir(side.folder),
    ),
    Row(
        "a variable in a text",
        dataset("return os.path.expandvars('$MYV')"),
        "os.environ['MYV'] = '1'",
        "os.environ['MYV'] = '2'",
        "the variable MYV",
    ),
    Row(
        "home",
        dataset("return os.path.expanduser('~')"),
        "os.environ['HOME'] = '/tmp'",
        "os.environ['HOME'] = '/var'",
        "home",
    ),
    Row(
        "temporary files",
        dataset("import tempfile\nreturn tempfile.gettempdir()"),
        "import tempfile; tempfile.tempdir = '/tmp'",
        "import tempfile; tempfile.tempdir = '/var/tmp'",
        "temporary",
    ),
    Row(
        "a program",
        dataset("import subprocess\nreturn subprocess.check_output(['mytool'])"),
        named="the program mytool",
        prepare=a_program,
    ),
]

# --- Names of files in arrays, and files that change in place.


def two_sizes(side):
    (side.both / "f.txt").write_text(side.pick("1", "22"))


def in_place(side):
    """The same size and time of change, in the same inode."""
    if side.name == "B":
        time.sleep(0.02)
    (side.both / "f.txt").write_text(side.pick("1", "2"))
    os.utime(side.both / "f.txt", (5, 5))


def beside(suffix):
    def prepare(side):
        if side.name == "A":
            (side.both / "f.txt").write_text("1")
            os.utime(side.both / "f.txt", (5, 5))
        else:
            (side.both / f"f.txt{suffix}").write_text("2")

    return prepare


PACKED = (
    "import pickle\nb = pickle.dumps(FILE)\nself.n = len(b)\nself.b = np.frombuffer(b * 200, np.uint8).copy()"
)
FILES = [
    Row(
        "an array of texts",
        dataset("return open(str(self.f[0])).read()", "self.f = np.array([FILE])"),
        named="f.txt",
        prepare=two_sizes,
    ),
    Row(
        "an array of bytes",
        dataset("return open(self.f[0].decode()).read()", "self.f = np.array([FILE.encode()])"),
        named="f.txt",
        prepare=two_sizes,
    ),
    Row(
        "an array of objects",
        dataset("return open(self.f[0]).read()", "self.f = np.array([FILE, 1], object)"),
        named="f.txt",
        prepare=two_sizes,
    ),
    Row(
        "packed bytes",
        dataset("import pickle\nreturn open(pickle.loads(self.b[: self.n].tobytes())).read()", PACKED),
        named="f.txt",
        prepare=two_sizes,
    ),
    Row("in place", dataset("return open(self.f).read()", "self.f = FILE"), named="f.txt", prepare=in_place),
    *(
        Row(
            f"beside, {suffix}",
            dataset("return open(self.f).read()", "self.f = FILE"),
            named=f"f.txt{suffix}",
            prepare=beside(suffix),
        )
        for suffix in ("-wal", "-journal")
    ),
]


@pytest.mark.small(8)
@pytest.mark.parametrize("row", [*SETTINGS, *BEHIND, *CODE, *PLACES, *FILES], ids=str)
def test_jobs_that_differ_in_what_code_reads_share_nothing(row, tmp_path):
    shared, differ, _ = compare_jobs(row, tmp_path)
    assert not shared
    assert any((row.named or "") in part for part in differ), differ


SAME = [
    of_package("a package as it is", "return pkg.f(i)", "", None),
    of_package("its constant", "return i * pkg.K", "", None),
    of_package("its object", "return i * pkg.config._items['k']", "", None),
    Row("an unread variable", dataset("return i"), b="os.environ['MINE'] = '1'"),
    Row("members of a set", dataset("return i in {'a', 'b'}")),
    Row(
        "a target", dataset("return self.make()(i)", "self.cfg = {'_target_': 'torch.nn.Identity'}", BY_NAME)
    ),
    Row(
        "an array of texts",
        dataset("return open(str(self.f[0])).read()", "self.f = np.array([FILE])"),
        prepare=lambda side: (side.both / "f.txt").touch() if side.name == "A" else None,
    ),
    Row("current folders that code does not use", dataset("return i * 3")),
]


@pytest.mark.small(4)
@pytest.mark.parametrize("row", SAME, ids=str)
def test_jobs_that_differ_in_nothing_that_code_reads_share(row, tmp_path):
    shared, differ, _ = compare_jobs(row, tmp_path)
    assert shared, differ
