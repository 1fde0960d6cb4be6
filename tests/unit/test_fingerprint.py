"""Equal fingerprints mean equal items; other code, state or globals have other fingerprints."""

import functools
import io
import json
import os
import pickle
import random
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seneca.errors import NotFingerprinted
from seneca.identity import fingerprint

ROOT = Path(__file__).parents[2]

# What every source of the tables begins with. Each makes ``it``, which is fingerprinted.
HEAD = """
import collections, dataclasses, enum, functools, logging, math, random, torch, numpy as np
from numpy.random import rand
from pathlib import Path
from random import randint
log = logging.getLogger(__name__)
"""

# name: two sources
SAME = {
    "docstring": ("def it(x): return x, None", "def it(x):\n  'Words.'\n  return x, None"),
    "another docstring": ("def it(x):\n  'Words.'\n  return x", "def it(x):\n  'Others.'\n  return x"),
    "inner docstring": (
        "def it(x):\n  def f():\n    'a'\n    return 1\n  return f",
        "def it(x):\n  def f():\n    'b'\n    return 1\n  return f",
    ),
    "inner class": (
        "def it(x):\n  class A:\n    'a'\n    b = 1\n  return A",
        "def it(x):\n\n  class A:\n    'b'\n    b = 1\n  return A",
    ),
    "lines and comments": ("def it(x): return x", "\n\n# why\ndef it(x):\n\n    # this\n    return x"),
    "annotations": ("def it(x): return x", "def it(x: int) -> int: return x"),
    "lambda and function": ("it = lambda x: x", "def it(x): return x"),
    "a class's place": ("class A:\n  b = 1\nit = A()", "\n\nclass A:\n  'Words.'\n  b = 1\nit = A()"),
    "order of methods": (
        "class it:\n  def a(s): return 1\n  def b(s): return 2",
        "class it:\n  def b(s): return 2\n  def a(s): return 1",
    ),
    "order of attributes": (
        "class A: pass\nit = A(); it.a = 1; it.b = [2]",
        "class A: pass\nit = A(); it.b = [2]; it.a = 1",
    ),
    "a global that nobody names": ("x = 1\ndef it(): return 1", "x = 2\ndef it(): return 1"),
    "strides": ("it = torch.arange(6).view(2, 3)", "it = torch.tensor([[0, 3], [1, 4], [2, 5]]).t()"),
    "order in memory": ("it = np.ones((2, 3))", "it = np.asfortranarray(np.ones((2, 3)))"),
    "negated view": ("it = torch.tensor([2.0])", "it = torch.tensor([1 - 2j]).conj().imag"),
    "sets": ("it = {'a', 'b', ('c', 1), 2.5}", "it = {2.5, ('c', 1), 'b', 'a'}"),
    "a set of what holds each other": tuple(
        f"""
class A:
  def __init__(s, name, place): s.name, s.place = name, place
  def __hash__(s): return s.place
  def __getstate__(s): return s.name, s.other
a, b = A("a", {place}), A("b", {1 - place})
a.other, b.other = b, a
it = {{a, b}}"""
        for place in (0, 1)
    ),
    "logger": (
        "log = logging.getLogger('a')\ndef it(x): log.info(x)",
        "log = logging.getLogger('b')\ndef it(x): log.info(x)",
    ),
    "lru_cache": (
        "@functools.lru_cache\ndef it(x): return x",
        "@functools.lru_cache\ndef it(x): return x\nit(1), it(2)",
    ),
    "flags that were combined": (
        "class F(enum.Flag): A = 1; B = 2\nit = F",
        "class F(enum.Flag): A = 1; B = 2\nit = F; F.A | F.B",
    ),
    "shared or copied": ("x = ['a', len]; it = [x, x]", "it = [['a', len], ['a', len]]"),
    "interned or not": ("it = ['ab', 'ab']", "it = ['ab', ''.join(['a', 'b'])]"),
    "objects in a padded array": (
        "it = np.zeros(2, np.dtype('u1,f8', align=True)); it.view(np.uint8)[1] = 0",
        "it = np.zeros(2, np.dtype('u1,f8', align=True)); it.view(np.uint8)[1] = 7",
    ),
    "__getstate__ leaves out": (
        "class A:\n  def __getstate__(s): return {'a': s.a}\nit = A(); it.a = 1; it.b = iter([1])",
        "class A:\n  def __getstate__(s): return {'a': s.a}\nit = A(); it.a = 1; it.b = None",
    ),
    "__fingerprint__ leaves out": (
        "class A:\n  def __fingerprint__(s): return s.a\nit = A(); it.a = 1; it.b = iter([1])",
        "class A:\n  def __fingerprint__(s): return s.a\nit = A(); it.a = 1; it.b = 2",
    ),
}

DIFFERS = {
    "constant": ("def it(x): return x + 1", "def it(x): return x + 2"),
    "type of a constant": ("def it(x): return x + 1", "def it(x): return x + 1.0"),
    "tuple of constants": ("def it(x): return x in (1, 2)", "def it(x): return x in (1, 3)"),
    "set of constants": ("def it(x): return x in {'a', 'b'}", "def it(x): return x in {'a', 'c'}"),
    "operator": ("def it(x): return x + 1", "def it(x): return x - 1"),
    "comparison": ("def it(x): return x < 1", "def it(x): return x > 1"),
    "jump": ("def it(x, y): return x and y", "def it(x, y): return x or y"),
    "attribute": ("def it(x): return x.a", "def it(x): return x.b"),
    "argument": ("def it(x, y): return x", "def it(x, y): return y"),
    "name of an argument": ("def it(x): return x", "def it(y): return y"),
    "name of an argument that is not used": ("def it(x): return 1", "def it(y): return 1"),
    "argument without a name": ("def it(x): return x", "def it(x, /): return x"),
    "keyword": ("def it(f): return f(a=1)", "def it(f): return f(b=1)"),
    "handler": (
        "def it(f):\n  f()\n  try: f()\n  except ValueError: return 1",
        "def it(f):\n  try: f()\n  except ValueError: return 1\n  f()",
    ),
    "default": ("def it(x=1): return x", "def it(x=2): return x"),
    "keyword's default": ("def it(*, x=1): return x", "def it(*, x=2): return x"),
    "no default": ("def it(x): return x", "def it(x=None): return x"),
    "attribute of a function": ("def it(x): return it.a\nit.a = 1", "def it(x): return it.a\nit.a = 2"),
    "generator": ("def it(x): return x", "def it(x): yield x"),
    "inner function": ("def it(x): return lambda: 1", "def it(x): return lambda: 2"),
    "comprehension": ("def it(x): return [a + 1 for a in x]", "def it(x): return [a + 2 for a in x]"),
    "first constant of a comprehension": (
        "def it(x): return list('a' for a in x)",
        "def it(x): return list('b' for a in x)",
    ),
    "closure": (
        "def f(a): return lambda x: x + a\nit = f(1)",
        "def f(a): return lambda x: x + a\nit = f(2)",
    ),
    "function in a closure": (
        "def f(a): return lambda x: a(x)\nit = f(lambda y: y)",
        "def f(a): return lambda x: a(x)\nit = f(lambda y: -y)",
    ),
    "global": ("a = [1]\ndef it(x): return a", "a = [2]\ndef it(x): return a"),
    "global of an inner function": (
        "a = 1\ndef it(x): return [a for b in x if (lambda: a)()]",
        "a = 2\ndef it(x): return [a for b in x if (lambda: a)()]",
    ),
    "global hides a builtin": ("def it(x): return len(x)", "def len(x): return 1\ndef it(x): return len(x)"),
    "function that is called": (
        "def f(x): return g(x)\ndef g(x): return 1\ndef it(x): return f(x)",
        "def f(x): return g(x)\ndef g(x): return 2\ndef it(x): return f(x)",
    ),
    "functions that call each other": (
        "def f(x): return x and it(0)\ndef it(x): return x and f(1)",
        "def f(x): return x and it(0)\ndef it(x): return x and f(2)",
    ),
    "who is called in turn": (
        "def f(x): return x and it(x)\ndef it(x): return x and f(x)",
        "def f(x): return x and f(x)\ndef it(x): return x and f(x)",
    ),
    "decorated function": (
        "@torch.no_grad()\ndef it(x): return x + 1",
        "@torch.no_grad()\ndef it(x): return x + 2",
    ),
    "cached function": (
        "@functools.lru_cache\ndef it(x): return x + 1",
        "@functools.lru_cache\ndef it(x): return x + 2",
    ),
    "partial": ("it = functools.partial(max, 1)", "it = functools.partial(max, 2)"),
    "keyword of a partial": ("it = functools.partial(max, key=abs)", "it = functools.partial(max, key=len)"),
    "builtin": ("it = len", "it = abs"),
    "function of an extension": ("it = torch.add", "it = torch.sub"),
    "ufunc": ("it = np.add", "it = np.subtract"),
    "installed function": ("it = torch.nn.functional.relu", "it = torch.nn.functional.relu6"),
    "global random functions": ("it = randint", "it = random.randrange"),
    "global random functions of NumPy's": ("it = rand", "it = np.random.randn"),
    "module": ("a = math\ndef it(x): return a.sqrt(x)", "a = np\ndef it(x): return a.sqrt(x)"),
    "import": ("def it(x): import math; return 1", "def it(x): import random; return 1"),
    "bound method's object": ("it = 'ab'.join", "it = 'ac'.join"),
    "bound method": (
        "class A:\n  def f(s): return 1\n  def g(s): return 2\nit = A().f",
        "class A:\n  def f(s): return 1\n  def g(s): return 2\nit = A().g",
    ),
    "method": ("class A:\n  def f(s): return 1\nit = A()", "class A:\n  def f(s): return 2\nit = A()"),
    "static method": (
        "class A:\n  @staticmethod\n  def f(): return 1\nit = A()",
        "class A:\n  @staticmethod\n  def f(): return 2\nit = A()",
    ),
    "kind of method": (
        "class A:\n  @staticmethod\n  def f(s): return 1\nit = A()",
        "class A:\n  @classmethod\n  def f(s): return 1\nit = A()",
    ),
    "property": (
        "class A:\n  @property\n  def f(s): return 1\nit = A()",
        "class A:\n  @property\n  def f(s): return 2\nit = A()",
    ),
    "cached property": (
        "class A:\n  @functools.cached_property\n  def f(s): return 1\nit = A()",
        "class A:\n  @functools.cached_property\n  def f(s): return 2\nit = A()",
    ),
    "inherited method": (
        "class B:\n  def f(s): return 1\nclass A(B): pass\nit = A()",
        "class B:\n  def f(s): return 2\nclass A(B): pass\nit = A()",
    ),
    "class attribute": ("class A: a = 1\nit = A()", "class A: a = 2\nit = A()"),
    "name of a class": ("class A: pass\nit = A()", "class B: pass\nit = B()"),
    "base": ("class it(torch.utils.data.Dataset): pass", "class it(torch.utils.data.IterableDataset): pass"),
    "metaclass": (
        "class M(type):\n  def f(s): return 1\nclass it(metaclass=M): pass",
        "class M(type):\n  def f(s): return 2\nclass it(metaclass=M): pass",
    ),
    "attribute's value": ("class A: pass\nit = A(); it.a = 1", "class A: pass\nit = A(); it.a = 2"),
    "attribute's name": ("class A: pass\nit = A(); it.a = 1", "class A: pass\nit = A(); it.b = 1"),
    "slot": (
        "class A: __slots__ = ('a', 'b')\nit = A(); it.a = 1",
        "class A: __slots__ = ('a', 'b')\nit = A(); it.b = 1",
    ),
    "field": (
        "@dataclasses.dataclass\nclass A: a: list; b: int = 1\nit = A([])",
        "@dataclasses.dataclass\nclass A: a: list; b: int = 1\nit = A([0])",
    ),
    "field's factory": (
        "@dataclasses.dataclass\nclass A: a: list = dataclasses.field(default_factory=lambda: 1)\nit = A",
        "@dataclasses.dataclass\nclass A: a: list = dataclasses.field(default_factory=lambda: 2)\nit = A",
    ),
    "named tuple": (
        "A = collections.namedtuple('A', 'a b'); it = A(1, 2)",
        "A = collections.namedtuple('A', 'a c'); it = A(1, 2)",
    ),
    "member": ("class E(enum.Enum): A = 1; B = 2\nit = E.A", "class E(enum.Enum): A = 1; B = 2\nit = E.B"),
    "member's value": ("class E(enum.Enum): A = 1\nit = E.A", "class E(enum.Enum): A = 2\nit = E.A"),
    "list or tuple": ("it = [1]", "it = (1,)"),
    "list or its subclass": ("it = [1]", "class L(list): pass\nit = L([1])"),
    "elements of a subclass": ("class L(list): pass\nit = L([1])", "class L(list): pass\nit = L([2])"),
    "items of a subclass": ("it = collections.Counter('ab')", "it = collections.Counter('abb')"),
    "length of a deque": ("it = collections.deque([1], 2)", "it = collections.deque([1], 3)"),
    "order of a dict": ("it = {'a': 1, 'b': 2}", "it = {'b': 2, 'a': 1}"),
    "key of a dict": ("it = {'a': len}", "it = {'b': len}"),
    "keys or values": ("it = {len: abs}", "it = {abs: len}"),
    "set or frozenset": ("it = {1}", "it = frozenset({1})"),
    "element of a set": ("it = {len, 1}", "it = {abs, 1}"),
    "strings of a set": ("it = {'a', 'b'}", "it = {'a', 'c'}"),
    "int, bool or float": ("it = 1", "it = True"),
    "int or float": ("it = 1", "it = 1.0"),
    "signed zeros": ("it = 0.0", "it = -0.0"),
    "str or bytes": ("it = 'a'", "it = b'a'"),
    "str or path": ("it = 'a'", "it = Path('a')"),
    "path": ("it = Path('a')", "it = Path('b')"),
    "where one list ends": ("it = [[1, len], [2]]", "it = [[1], [len, 2]]"),
    "depth of a cycle": ("a = [len]; a.append(a); it = a", "a = [len]; b = [len, a]; a.append(b); it = a"),
    "end of a cycle": (
        "a = [len]; b = [abs, a]; a.append(b); it = a",
        "a = [len]; b = [abs]; b.append(b); a.append(b); it = a",
    ),
    "list or tuple of functions": ("it = [len]", "it = (len,)"),
    "attribute of a kind of path": (
        "class Remote(type(Path())): pass\nit = Remote('a')\nit.endpoint = 1",
        "class Remote(type(Path())): pass\nit = Remote('a')\nit.endpoint = 2",
    ),
    "kind of path": ("from pathlib import PurePath; it = PurePath('a')", "it = Path('a')"),
    "dtype": ("it = torch.zeros(4, dtype=torch.int32)", "it = torch.zeros(4, dtype=torch.float32)"),
    "shape": ("it = torch.zeros(4, 1)", "it = torch.zeros(1, 4)"),
    "element": ("it = torch.tensor([1, 2])", "it = torch.tensor([1, 3])"),
    "transposed": ("it = torch.arange(4).view(2, 2)", "it = torch.arange(4).view(2, 2).t()"),
    "bits of bfloat16": ("it = torch.tensor(1.0).bfloat16()", "it = torch.tensor(2.0).bfloat16()"),
    "parameter": ("it = torch.zeros(1)", "it = torch.nn.Parameter(torch.zeros(1))"),
    "attribute of a tensor": ("it = torch.zeros(1); it.a = 1", "it = torch.zeros(1); it.a = 2"),
    "weights": (
        "it = torch.nn.Linear(1, 1); torch.nn.init.zeros_(it.weight); torch.nn.init.zeros_(it.bias)",
        "it = torch.nn.Linear(1, 1); torch.nn.init.zeros_(it.weight); torch.nn.init.ones_(it.bias)",
    ),
    "array": ("it = np.array([1, 2])", "it = np.array([1, 3])"),
    "byte order": ("it = np.zeros(2, '<i4')", "it = np.zeros(2, '>i4')"),
    "array's shape": ("it = np.zeros((2, 3))", "it = np.zeros((3, 2))"),
    "array of objects": ("it = np.array([1, len])", "it = np.array([1, abs])"),
    "array of strings": ("it = np.array(['ab', 'c'])", "it = np.array(['ab', 'd'])"),
    "field of an array": ("it = np.zeros(1, 'i4,f4')", "it = np.zeros(1, 'i4,f4'); it['f1'] = 1"),
    "masked array": ("it = np.ma.array([1, 2], mask=[0, 1])", "it = np.ma.array([1, 2], mask=[1, 0])"),
    "scalar": ("it = np.float32(1)", "it = np.float64(1)"),
    "picture": (
        "from PIL import Image; it = Image.new('L', (1, 1), 3)",
        "from PIL import Image; it = Image.new('L', (1, 1), 4)",
    ),
    "torch's dtypes": ("it = torch.float16", "it = torch.float32"),
    "subset": ("it = torch.utils.data.Subset([1, 2], [0])", "it = torch.utils.data.Subset([1, 2], [1])"),
    "class of __fingerprint__": (
        "class A:\n  def __fingerprint__(s): return 1\n  def f(s): return 1\nit = A()",
        "class A:\n  def __fingerprint__(s): return 1\n  def f(s): return 2\nit = A()",
    ),
    "__fingerprint__": (
        "class A:\n  def __fingerprint__(s): return s.a\nit = A(); it.a = 1",
        "class A:\n  def __fingerprint__(s): return s.a\nit = A(); it.a = 2",
    ),
}


def made(source, module="user"):
    scope = {"__name__": module}
    exec(compile(HEAD + source, "<user>", "exec"), scope)
    return scope["it"]


@pytest.mark.parametrize("name", SAME)
def test_what_makes_the_same_items_is_the_same(name):
    first, second = SAME[name]
    assert fingerprint(made(first)) == fingerprint(made(second, "__main__"))


@pytest.mark.parametrize("name", DIFFERS)
def test_what_makes_other_items_is_another(name):
    first, second = DIFFERS[name]
    assert fingerprint(made(first)) == fingerprint(made(first))
    assert fingerprint(made(first)) != fingerprint(made(second))


ALL = """
import json, sys
sys.path.insert(0, {folder!r})
from test_fingerprint import SAME, DIFFERS, fingerprint, made
sources = [source for table in (SAME, DIFFERS) for pair in table.values() for source in pair]
print(json.dumps([fingerprint(made(source, "__main__")).hex() for source in sources]))
"""


def run(script, seed, *arguments):
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, script, *arguments], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_process_finds_the_same_whatever_its_hash_seed(tmp_path):
    (tmp_path / "all.py").write_text(ALL.format(folder=str(Path(__file__).parent)))
    here = [fingerprint(made(s)).hex() for table in (SAME, DIFFERS) for pair in table.values() for s in pair]
    assert len(here) > 200
    assert run(tmp_path / "all.py", 1 if os.environ.get("PYTHONHASHSEED") != "1" else 2) == here


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


def test_a_main_module_its_workers_and_an_import_of_it_agree(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "helpers.py").write_text("def half(x): return x / 2\n")
    (tmp_path / "other.py").write_text(
        "import json, job\nprint(json.dumps([job.fingerprint(job.Mine()).hex()]))"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "job.py").write_text("\n# Moved.\n" + JOB.replace("A dataset", "Another"))
    (elsewhere / "helpers.py").write_text("def half(x): return x / 2\n")
    found = run(tmp_path / "job.py", 1, "fork", "spawn")
    found += run(tmp_path / "other.py", 2) + run(elsewhere / "job.py", 3)
    assert len(found) == 5 and len(set(found)) == 1

    (elsewhere / "helpers.py").write_text("def half(x): return x / 3\n")
    (other,) = set(run(elsewhere / "job.py", 4))
    assert other not in found


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


def test_an_installed_package_counts_by_its_release(monkeypatch):
    module = sys.modules["seneca.code.modules"]
    source = "def it(x): return torch.nn.functional.relu(x)"
    before = fingerprint(made(source))
    version = module.importlib.metadata.version
    monkeypatch.setattr(
        module.importlib.metadata, "version", lambda name: "0.0" if name == "torch" else version(name)
    )
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


@pytest.mark.parametrize(
    ("source", "way"),
    [
        (
            "def f(lock): return lambda: lock\nit.fn = f(LOCK)",
            ".fn's closure variable `lock` is a _thread.lock",
        ),
        ("it.fn = lambda: LOCK", ".fn's global `LOCK` is a _thread.lock"),
        ("it.fn = lambda x=LOCK: x", ".fn's default 0 is"),
        ("def f(*, x=LOCK): return x\nit.fn = f", ".fn's default `x` is"),
        ("A.a = LOCK", "'s class.a is"),
        ("it.fn = [LOCK].append", ".fn's object[0] is"),
        ("class B(A): a = LOCK\nclass C(B): pass\nit.a = C()", ".a's class's base 1.a is"),
    ],
)
def test_the_way_to_what_cannot_be_seen_reads_as_one_would_write_it(source, way):
    it = made("import threading\nLOCK = threading.Lock()\nclass A: pass\nit = A()\n" + source)
    with pytest.raises(NotFingerprinted) as error:
        fingerprint(it, name="dataset.transform")
    assert str(error.value).startswith("dataset.transform" + way)


def test_what_pillow_makes_of_truncated_pictures_counts(monkeypatch):
    from PIL import ImageFile

    before = fingerprint(len)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert fingerprint(len) != before


def test_nothing_is_made_anew_and_nothing_changes():
    it = made(
        """
class A:
    made = []
    def __new__(cls, *a):
        cls.made.append(a)
        return super().__new__(cls)
    def __getnewargs__(self): return (1,)
    def __setstate__(self, state): self.made.append(state)
    @functools.cached_property
    def seen(self): return 1
it = A()
it.table = {"a": [torch.zeros(2)]}
"""
    )
    before = dict(vars(it))
    first = fingerprint(it)
    assert type(it).made == [()] and vars(it) == before
    assert fingerprint(it) == first
    assert it.seen == 1 and fingerprint(it) != first  # a cached property's value is state


def test_an_iterator_of_ones_own_class_is_an_object_like_any_other():
    source = "class A:\n  def __iter__(s): return s\n  def __next__(s): return s.a\nit = A(); it.a = {}"
    assert fingerprint(made(source.format(1))) != fingerprint(made(source.format(2)))


plain = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(), st.binary()),
        st.text(st.characters(categories=["Cs", "Lu"])),
    ),
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers()), inner),
    ),
    max_leaves=20,
)


@given(plain, plain)
@settings(deadline=None, max_examples=150)
def test_plain_values_are_the_same_when_they_are_written_the_same(first, second):
    # complex numbers are no exception: repr tells signed zeros and what is not a number
    assert (fingerprint(first) == fingerprint(second)) == (repr(first) == repr(second))
    assert fingerprint(first) == fingerprint(pickle.loads(pickle.dumps(first)))


@given(plain, plain)
@settings(deadline=None, max_examples=100)
def test_values_beside_what_is_not_plain_are_walked_to_the_same_end(first, second):
    one, two = fingerprint([first, len]), fingerprint([second, len])
    assert (one == two) == (repr(first) == repr(second))
    assert one == fingerprint(pickle.loads(pickle.dumps([first, len]))) != fingerprint([first, abs])
