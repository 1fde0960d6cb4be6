"""Modules count by what of them is used, packages by their release, and the main module as any other."""

import base64
import functools
import hashlib
import importlib
import io
import json
import pickle
import random
import shutil
import sys
import threading
import types

import numpy as np
import pytest
import ready
import torch
from fingerprints import made, run

from seneca.errors import NotFingerprinted
from seneca.identity import fingerprint, modules

JOB = '''
import json, multiprocessing, sys
import numpy as np, torch
from seneca.identity import fingerprint
import helpers

SCALE = {"a": 2, "b": [1]}

def scaled(x):
    return x * SCALE["a"] if __name__ else helpers.half(x)

class Mine(torch.utils.data.Dataset):
    """A dataset."""
    kinds = {"cat", "dog", "ape"}

    def __init__(self):
        self.samples = [(f"{i}.jpeg", i) for i in range(10)]
        self.names = {"a", "b", "c", ("d", 1)}
        self.transform = scaled
        self.table = np.arange(3.0)
        self.parent = self

    def __getitem__(self, index):
        import helpers
        return self.transform(self.table[index])

    def copy(self):
        return super().copy() or Mine()

def worker(dataset, queue):
    queue.put(fingerprint(dataset).hex())

def main(*methods):
    found = [fingerprint(Mine()).hex()]
    for method in methods:
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        process = context.Process(target=worker, args=(Mine(), queue))
        process.start()
        found.append(queue.get())
        process.join()
    return found

if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
'''


@pytest.mark.whole_size(shown_by="test_the_main_module_is_the_same_under_its_name_in_a_worker")
def test_a_main_module_its_workers_and_an_import_of_it_agree(tmp_path, monkeypatch):
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "helpers.py").write_text("def half(x): return x / 2\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "job.py").write_text("\n# Moved.\n" + JOB.replace("A dataset", "Another"))
    (elsewhere / "helpers.py").write_text("def half(x): return x / 2\n")
    changed = shutil.copytree(elsewhere, tmp_path / "changed")
    (changed / "helpers.py").write_text("def half(x): return x / 3\n")

    def imported(folder):
        with monkeypatch.context() as context:
            context.syspath_prepend(folder)
            context.setattr(sys, "dont_write_bytecode", True)
            for name in ("job", "helpers"):
                context.setitem(sys.modules, name, None)  # and afterwards there is none
                del sys.modules[name]
            job = importlib.import_module("job")
            return fingerprint(job.Mine()).hex()

    moved = ready.run(elsewhere / "job.py")
    assert moved.returncode == 0, moved.stderr
    found = [*run(tmp_path / "job.py", 1, "fork", "spawn"), *json.loads(moved.stdout), imported(tmp_path)]
    assert len(found) == 5 and len(set(found)) == 1
    assert imported(changed) not in found


def test_the_main_module_is_the_same_under_its_name_in_a_worker():
    main, worker = types.ModuleType("__main__"), types.ModuleType("__mp_main__")
    assert fingerprint(main) == fingerprint(worker)
    main.SIZE = 1
    assert fingerprint(main) != fingerprint(worker)
    worker.SIZE = 1
    assert fingerprint(main) == fingerprint(worker)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="blocks are instructions")
def test_where_exceptions_go_counts():
    it = made("def it(f):\n  try: f()\n  except ValueError: return 1")
    first = fingerprint(it)
    it.__code__ = it.__code__.replace(co_exceptiontable=b"")
    assert fingerprint(it) != first


def test_modules_of_ones_own_count_by_what_is_used_or_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "seneca_test_helpers.py"

    def found(source, text):
        path.write_text(text)
        sys.modules.pop("seneca_test_helpers", None)
        with monkeypatch.context() as context:
            context.setattr(sys, "dont_write_bytecode", True)
            return fingerprint(made("import seneca_test_helpers as m\n" + source))

    by_attribute = (
        "def it(x): return m.f(x)",
        "def it(x):\n  import seneca_test_helpers\n  return seneca_test_helpers.f(x)",
        "def it(x):\n  import seneca_test_helpers as h\n  return h.f(x)",
        "def it(x):\n  from seneca_test_helpers import f\n  return f(x)",
        "def it(x):\n  from seneca_test_helpers import f as g\n  return [g(y) for y in x]",
    )
    whole = (
        "it = [m]",
        "def it(x): return getattr(m, x)",
        "def it(x): import seneca_test_helpers; return x",
        "def it(x):\n  import seneca_test_helpers as h\n  return getattr(h, x)",
    )
    one, two, three = "def f(x): return 1\n", "def f(x): return 1\ng = 0\n", "def f(x): return 2\n"
    for source in by_attribute:
        assert found(source, one) == found(source, two) != found(source, three), source
    for source in whole:
        assert found(source, one) == found(source, one) != found(source, two), source


def test_a_module_that_is_not_loaded_counts_by_its_files_and_those_that_it_imports(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "seneca_test_package"
    package.mkdir()

    def found(source, *, ops="def f(x): return 1", beside="", other="K = 1"):
        (package / "__init__.py").write_text("")
        (package / "ops.py").write_text("import seneca_test_other\n" + ops)
        (package / "beside.py").write_text(beside)
        (tmp_path / "seneca_test_other.py").write_text(other)
        return fingerprint(made(source))

    sources = (
        "def it(x):\n  from seneca_test_package import ops\n  return ops.f(x)",
        "def it(x):\n  from seneca_test_package.ops import f\n  return f(x)",
        "def it(x):\n  import seneca_test_package.ops as o\n  return o.f(x)",
    )
    for source in sources:
        first = found(source)
        assert found(source) == first
        assert found(source, ops="def f(x): return 2") != first, source
        assert found(source, beside="K = 1") != first, source
        assert found(source, other="K = 2") != first, source
    assert "seneca_test_package" not in sys.modules, "nothing is imported"


@pytest.mark.small(3)
@pytest.mark.parametrize(
    ("more", "code", "counts"),
    [
        ("seneca_listed/__pycache__/m.cpython-311.pyc,,\n", "x = 1\n", False),
        ("seneca_listed-1.0.dist-info/direct_url.json,sha256=abc,9\n", "x = 1\n", False),
        ("../bin/seneca-listed,sha256=abc,9\n", "x = 1\n", False),
        ("seneca_listed/other.py,sha256=abc,9\n", "x = 1\n", True),
        ("seneca_listed/__init__.py,sha256=abc\n", "x = 1\n", True),  # a damaged line, of a loaded file
        ("", "x = 10\n", True),  # another size, though RECORD was written later
    ],
)
def test_an_installed_package_counts_by_what_its_installer_listed(more, code, counts, tmp_path, monkeypatch):
    package, about = tmp_path / "seneca_listed", tmp_path / "seneca_listed-1.0.dist-info"
    package.mkdir()
    about.mkdir()
    (about / "METADATA").write_text("Name: seneca-listed\nVersion: 1.0\n")
    listed = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1\n").digest()).rstrip(b"=").decode()
    record = f"seneca_listed/__init__.py,sha256={listed},6\nseneca_listed-1.0.dist-info/RECORD,,\n"
    monkeypatch.syspath_prepend(tmp_path)

    def digest(code, more):
        (package / "__init__.py").write_text(code)
        (about / "RECORD").write_text(record + more)
        for cached in (modules.contents, modules._own_contents):
            cached.cache_clear()
        return modules.contents("seneca-listed")

    before = digest("x = 1\n", "")
    importlib.import_module("seneca_listed")
    try:
        assert digest("x = 1\n", "") == before
        assert (digest(code, more) != before) == counts
    finally:
        del sys.modules["seneca_listed"]


def test_an_installed_package_counts_by_its_release(monkeypatch):
    module = sys.modules["seneca._runtime.packages"]
    source = "def it(x): return torch.nn.functional.relu(x)"
    before = fingerprint(made(source))
    version = module.version_of
    monkeypatch.setattr(module, "version_of", lambda name: "0.0" if name == "torch" else version(name))
    module.release_of.cache_clear()
    try:
        assert fingerprint(made(source)) != before
    finally:
        monkeypatch.undo()
        module.release_of.cache_clear()
    assert fingerprint(made(source)) == before


@pytest.mark.parametrize(
    ("value", "way"),
    [
        (threading.Lock(), " is a _thread.lock, whose state cannot be seen"),
        ([0, {"a": threading.Lock()}], "[1]['a'] is a _thread.lock"),
        (
            functools.partial(print, file=io.StringIO()),
            ".keywords['file'] is a _io.StringIO, whose state changes",
        ),
        (random.Random(), " is a random.Random, whose state changes as items are made"),
        (np.random.default_rng(), " is a numpy.random._generator.Generator, whose state"),
        (torch.Generator(), " is a torch._C.Generator, whose state"),
        (iter([1]), " is a list_iterator, whose state"),
        ((i for i in ()), " is a generator, whose state"),
        ({threading.Lock()}, "'s element is a _thread.lock"),
        (np.array([None, threading.Lock()]), ".flat[1] is a _thread.lock"),
        (torch.eye(2).to_sparse(), " is a torch.Tensor on cpu; only dense ones"),
        (torch.zeros(1, device="meta"), " is a torch.Tensor on meta; only dense ones"),
        (np.frompyfunc(lambda x: x, 1, 1), " is a numpy.ufunc, known by the name"),
        (functools.reduce(lambda a, _: [a], range(5000), len), " is nested too deep"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_seen_is_named_with_its_place(value, way):
    with pytest.raises(NotFingerprinted) as error:
        fingerprint(value, name="dataset")
    assert str(error.value).startswith("dataset" + way) and "key=" in str(error.value)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
