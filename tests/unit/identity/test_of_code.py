"""Equal code makes equal fingerprints in every process; other code, state or globals have other ones."""

import os
from pathlib import Path

import pytest
from fingerprints import made, run

from seneca.identity import fingerprint

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
from fingerprints import made
from test_of_code import DIFFERS, SAME, fingerprint
sources = [source for table in (SAME, DIFFERS) for pair in table.values() for source in pair]
print(json.dumps([fingerprint(made(source, "__main__")).hex() for source in sources]))
"""


def test_every_process_finds_the_same_whatever_its_hash_seed(tmp_path):
    (tmp_path / "all.py").write_text(ALL.format(folder=str(Path(__file__).parent)))
    here = [fingerprint(made(s)).hex() for table in (SAME, DIFFERS) for pair in table.values() for s in pair]
    assert len(here) > 200
    assert run(tmp_path / "all.py", 1 if os.environ.get("PYTHONHASHSEED") != "1" else 2) == here
