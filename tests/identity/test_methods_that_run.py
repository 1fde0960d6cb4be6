"""Methods that no code names, and that run all the same: what they read counts. Others' does not."""

import pytest
from rows import Row, compare_jobs, dataset

INIT = "self.size = SIZE"
BOX = """
    class Box:
        def __init__(self, i): self.v = i * SIZE
"""
POST = """
    @dataclasses.dataclass
    class Box:
        v: int
        def __post_init__(self): self.v = self.v * SIZE
"""
OF_SELF = """
    class Box:
        def __init__(self, d, i): self.v = i * d.size
"""
ERROR = """
    class E(Exception):
        def __init__(self, i): self.v = i * SIZE
"""
CALL = """
    class T:
        def __init__(self): self.size = SIZE
        def apply(self, x): return x * self.size
        __call__ = apply
"""
SPLIT = """
    class Split:
        def __init__(self): self.year = SIZE
        def __str__(self): return f'voc{self.year}'
        def __repr__(self): return f'voc{self.year}'
"""
ZONE = """
    class Zone(datetime.tzinfo):
        def utcoffset(self, dt): return datetime.timedelta(hours=SIZE)
        def dst(self, dt): return datetime.timedelta(0)
"""
VISITOR = """
    import ast
    class V(ast.NodeVisitor):
        def visit_Constant(self, n): self.n = SIZE
"""
SLOTS = """
    @dataclasses.dataclass(slots=True)
    class Config:
        lr: float
        size: int
"""
STATE = """
    class C:
        __match_args__ = ('size',)
        def __init__(self): self.size = SIZE
"""

BY = "def by(self): return self.size"
MADE = """
    @dataclasses.dataclass
    class D(torch.utils.data.Dataset):
        lr: float = LR
        size: int = 3
        def __len__(self): return 96
        def __getitem__(self, i): return i * self.size
"""
COMPARED = """
    def __eq__(self, other): return self.lr == other.lr
    def __lt__(self, other): return self.lr < other.lr
    def __hash__(self): return hash(self.lr)
"""

ROWS = [
    ("an object made in the item", dataset("return Box(i).v", before=BOX)),
    ("a dataclass made in the item", dataset("return Box(i).v", before=POST)),
    ("an object made of the dataset", dataset("return Box(self, i).v", INIT, before=OF_SELF)),
    (
        "an error that is caught",
        dataset("try: raise E(i)\nexcept E as error: return error.v", before=ERROR),
    ),
    (
        "a method held under another name",
        dataset("return self.f(i)", f"{INIT}\nself.f = self._f", "def _f(self, i): return i * self.size"),
    ),
    (
        "methods in a list",
        dataset(
            "return self.fs[0](i)", f"{INIT}\nself.fs = [self._f]", "def _f(self, i): return i * self.size"
        ),
    ),
    (
        "a method in a partial",
        dataset(
            "return self.f(i)",
            f"{INIT}\nself.f = functools.partial(self._f)",
            "def _f(self, i): return i * self.size",
        ),
    ),
    (
        "a property of a method",
        dataset("return i * self.x", INIT, "def _x(self): return self.size\nx = property(_x)"),
    ),
    (
        "a table of methods in the class",
        dataset("return self.H['a'](self, i)", INIT, "def _a(self, i): return i * self.size\nH = {'a': _a}"),
    ),
    ("a method called by another name", dataset("return self.t(i)", "self.t = T()", before=CALL)),
    (
        "a name that is computed",
        dataset("return getattr(self, 'load_' + 'a')(i)", INIT, "def load_a(self, i): return i * self.size"),
    ),
    (
        "a format string as a name",
        dataset(
            "k = 'a'\nreturn getattr(self, f'load_{k}')(i)", INIT, "def load_a(self, i): return i * self.size"
        ),
    ),
    ("a format", dataset("return f'{self.s}/{i}'", "self.s = Split()", before=SPLIT)),
    ("an old format", dataset("return '%r_%d' % (self.s, i)", "self.s = Split()", before=SPLIT)),
    (
        "a time zone",
        dataset("return str(datetime.datetime.fromtimestamp(i * 3600, Zone()))", before=ZONE),
    ),
    ("a visitor", dataset("import ast\nv = V()\nv.visit(ast.parse('1'))\nreturn v.n * i", before=VISITOR)),
    (
        "a property that is set",
        dataset(
            "self.x = i\nreturn self._x",
            INIT,
            "@property\ndef x(self): return self._x\n@x.setter\ndef x(self, v): self._x = v * self.size",
        ),
    ),
    ("slots", dataset("return i * self.c.size", "self.c = Config(1, SIZE)", before=SLOTS)),
    (
        "a getter that is held",
        dataset("return i * GET(self)", INIT, before="import operator\nGET = operator.attrgetter('size')"),
    ),
    (
        "a caller that is held",
        dataset(
            "return i * self.get(self)",
            f"{INIT}\nself.get = operator.methodcaller('by')",
            "def by(self): return self.size",
            before="import operator",
        ),
    ),
    ("a field of a format", dataset("return '{self.size}/{i}'.format(self=self, i=i)", INIT)),
    (
        "a field of a format in an attribute",
        dataset("return self.text.format(self, i)", f"{INIT}\nself.text = '{{0.size}}/{{1}}'"),
    ),
    ("one behind a decorator", dataset("return i * self.by()", INIT, f"@torch.no_grad()\n{BY}")),
    ("a property behind one", dataset("return i * self.by", INIT, f"@property\n@torch.no_grad()\n{BY}")),
    (
        "the hash of the dataset",
        dataset("return i * hash(self)", INIT, "def __hash__(self): return self.size"),
    ),
    (
        "a pattern by place",
        dataset("match self.c:\n    case C(s): return i * s", "self.c = C()", before=STATE),
    ),
]
IDS = [name.replace(" ", "-") for name, _ in ROWS]


@pytest.mark.small(5)
@pytest.mark.parametrize("name, source", ROWS, ids=IDS)
def test_what_they_read_counts(name, source, tmp_path):
    shared, differ, _ = compare_jobs(Row(name, source, "LR = 1; SIZE = 3", "LR = 1; SIZE = 4"), tmp_path)
    assert not shared and differ


UNREAD = [
    ("the constructor", dataset("return i * 3", "self.lr = LR")),
    ("a default of the constructor", dataset("return i * 3", more="def __init__(self, lr=LR): self.x = 3")),
    ("a method that nobody calls", dataset("return i * 3", more="def log(self): return LR")),
    (
        "how the dataset is shown",
        dataset("return i * 3", "self.lr = LR", "def __repr__(self): return f'{self.lr}'"),
    ),
    ("a dataclass", MADE),
    ("how datasets are compared", dataset("return i * 3", "self.lr = LR", COMPARED)),
    (
        "one behind a decorator that nobody calls",
        dataset("return i * 3", "self.lr = LR", "@torch.no_grad()\ndef log(self): return self.lr"),
    ),
    ("an attribute of the class", dataset("return i * 3", more="LOG = f'/runs/{LR}'")),
    (
        "another key than is searched for",
        dataset("return i * self.c['size'] + ('flip' in self.c)", "self.c = {'lr': LR, 'size': 3}"),
    ),
    (
        "a name that an installed class reads of errors",
        dataset(
            "return self.t(i) * self.args.size",
            "self.args, self.t = argparse.Namespace(lr=LR, size=3), T()",
            before="class T(torch.nn.Module):\n    def forward(self, x): return x",
        ),
    ),
    (
        "one that is set",
        dataset("self.n = i\nreturn self.n * 3", more="def log(self): return LR", init="self.n = 0"),
    ),
]


@pytest.mark.small(4)
@pytest.mark.parametrize("name, source", UNREAD, ids=[name.replace(" ", "-") for name, _ in UNREAD])
def test_what_no_item_needs_does_not(name, source, tmp_path):
    shared, differ, _ = compare_jobs(Row(name, source, "LR = 1; SIZE = 3", "LR = 2; SIZE = 3"), tmp_path)
    assert shared, differ


COPIED = [
    (
        "the dataset as JSON",
        dataset("return json.dumps(self, default=vars)", "self.lr = LR", before="import json"),
    ),
    (
        "in a variable",
        dataset(
            "d = self\nreturn json.dumps(d, default=f)",
            "self.lr = LR",
            before="import json\ndef f(x): return x.__class__.__name__",
        ),
    ),
]


@pytest.mark.small(1)
@pytest.mark.parametrize("name, source", COPIED, ids=[name.replace(" ", "-") for name, _ in COPIED])
def test_what_is_written_as_a_whole_counts(name, source, tmp_path):
    shared, differ, _ = compare_jobs(Row(name, source, "LR = 1; SIZE = 3", "LR = 2; SIZE = 3"), tmp_path)
    assert not shared and differ


def test_what_is_written_of_an_attribute_does_not_make_the_others_count(tmp_path):
    source = dataset("return json.dumps(self.x[i % 2])", "self.lr, self.x = LR, [1, 2]", before="import json")
    shared, differ, _ = compare_jobs(Row("a part", source, "LR = 1; SIZE = 3", "LR = 2; SIZE = 3"), tmp_path)
    assert shared, differ


@pytest.mark.small(2)
@pytest.mark.parametrize(
    "item, hashes",
    [("return i * self.c.size", False), ("return {self.c: i}[self.c]", False), ("return hash(self.c)", True)],
)
def test_a_hash_counts_where_code_calls_it(item, hashes, tmp_path):
    """That of a frozen dataclass is made of the hashes of its fields."""
    made = "@dataclasses.dataclass(frozen=True)\nclass C:\n    text: str\n    size: int"
    source = dataset(item, "self.c = C('x', 3)", before=made)
    shared, _, text = compare_jobs(Row("a hash", source), tmp_path)
    assert shared and ("hashes" in text) == hashes
