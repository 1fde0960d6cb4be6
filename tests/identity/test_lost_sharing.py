"""Jobs that differ in what no item depends on share. Each has a twin in which it matters, which learns why.

These are the habits of research code: arguments that are handed around as a whole, classes as configurations,
datasets that know the run's folder.
"""

import pytest
from rows import Row, compare_jobs, dataset

NAMESPACE = "self.args = argparse.Namespace(lr=LR, out=f'o{LR}', seed=LR, size=SIZE)"
GLOBAL = "args = argparse.Namespace(lr=LR, size=SIZE)"
CONFIG = """
    class CFG:
        lr = LR
        size = SIZE
        class data:
            lr = LR
            size = SIZE
"""
DATACLASS = """
    @dataclasses.dataclass
    class Config:
        lr: float
        size: int
"""
DEFAULTS = """
    @dataclasses.dataclass
    class Defaults:
        lr: float = LR
        size: int = SIZE
"""
DICTS = """
    from collections import OrderedDict, defaultdict, namedtuple
    Pair = namedtuple('Pair', 'lr size')
    class Own(dict):
        def __init__(self, **items):
            super().__init__(**items)
            self.__dict__ = self
"""
NESTED = """
    self.c = types.SimpleNamespace(lr=LR, data=types.SimpleNamespace(size=SIZE, root=LR))
"""
DICT = "self.c = {'lr': LR, 'data': {'size': SIZE, 'x': LR}}"
TRANSFORM = """
    class T:
        def __init__(self, args): self.args = args
        def __call__(self, x): return x * self.args.size
"""
CLOSURE = """
    def make(args):
        return lambda x: x * args.size
"""
OWNER = """
    self.log_dir, self.run_id, self.seed, self.device = f'/tmp/x{LR}', LR, LR, f'cuda:{LR}'
    self.created = time.time()
    self.owner = type('O', (), {})()
    self.owner.lock, self.owner.lr = threading.Lock(), LR
    self.size = SIZE
"""
DISPATCH = """
    @functools.singledispatch
    def f(x): return x
    @f.register
    def _(x: int): return x * SIZE
"""

MODEL = """
    import pydantic
    class Model(pydantic.BaseModel):
        lr: float = LR
        size: int = SIZE
        @pydantic.field_validator('size')
        @classmethod
        def kept(cls, v): return v
"""

# name, source, how people learn that the size differs
TWINS = [
    (
        "a pydantic model",
        dataset(
            "return i * self.c.size",
            "self.c = Model(lr=LR, size=SIZE)",
            before=MODEL.replace("= LR", "= 1.0").replace("= SIZE", "= 1"),
        ),
        "c.size",
    ),
    ("an attribute", dataset("return i * self.args.size", NAMESPACE), "args.size"),
    ("getattr", dataset("return i * getattr(self.args, 'size', 2)", NAMESPACE), "args.size"),
    ("a local name", dataset("a = self.args\nreturn i * a.size", NAMESPACE), "args.size"),
    ("a global", dataset("return i * args.size", before=GLOBAL), "args.size"),
    ("a class", dataset("return i * CFG.size", before=CONFIG), "CFG.size"),
    ("a class in a class", dataset("return i * CFG.data.size", before=CONFIG), "CFG.data.size"),
    ("a class in an attribute", dataset("return i * self.c.size", "self.c = CFG", before=CONFIG), "c.size"),
    (
        "a dataclass",
        dataset("return i * self.c.size", "self.c = Config(LR, SIZE)", before=DATACLASS),
        "c.size",
    ),
    (
        "an object of a class of constants",
        dataset("return i * self.c.size", "self.c = CFG()", before=CONFIG),
        "size",
    ),
    (
        "a dataclass with defaults",
        dataset("return i * self.c.size", "self.c = Defaults()", before=DEFAULTS),
        "size",
    ),
    (
        "an ordered dict",
        dataset("return i * self.c['size']", "self.c = OrderedDict(lr=LR, size=SIZE)", before=DICTS),
        "size",
    ),
    (
        "a dict of defaults",
        dataset("return i * self.c['size']", "self.c = defaultdict(int, lr=LR, size=SIZE)", before=DICTS),
        "size",
    ),
    ("a named tuple", dataset("return i * self.c.size", "self.c = Pair(LR, SIZE)", before=DICTS), "c.size"),
    (
        "a dict that is its attributes",
        dataset("return i * self.c.size", "self.c = Own(lr=LR, size=SIZE)", before=DICTS),
        "size",
    ),
    (
        "a module of the user's",
        dataset(
            "return i * self.c.size", "self.c = types.ModuleType('c')\nself.c.lr, self.c.size = LR, SIZE"
        ),
        "size",
    ),
    (
        "an argument that may be missing",
        dataset("return i * self.args.size + getattr(self.args, 'flip', 0)", NAMESPACE),
        "args.size",
    ),
    (
        "an argument that is asked for",
        dataset("return i * self.args.size + hasattr(self.args, 'flip')", NAMESPACE),
        "args.size",
    ),
    (
        "arguments that may be None",
        dataset("return i * self.args.size if self.args is not None else i", NAMESPACE),
        "args.size",
    ),
    ("nested namespaces", dataset("return i * self.c.data.size", NESTED), "c.data.size"),
    ("a dict", dataset("return i * self.c['data']['size']", DICT), "size"),
    (
        "a closure",
        dataset("return self.f(i)", f"{NAMESPACE}\nself.f = make(self.args)", before=CLOSURE),
        "size",
    ),
    (
        "a transform with arguments",
        dataset("return self.transform(i)", f"{NAMESPACE}\nself.transform = T(self.args)", before=TRANSFORM),
        "args.size",
    ),
    ("an owner, a lock, the time", dataset("return i * self.size", OWNER), "size"),
    (
        "another method",
        dataset("return i * self.size", OWNER, "def log(self): print(self.log_dir, self.seed)"),
        "size",
    ),
    ("a property", dataset("return i * self.s", OWNER, "@property\ndef s(self): return self.size"), "size"),
    ("a single dispatch", dataset("return f(i)", before=DISPATCH), "SIZE"),
    (
        "an inner dataset",
        dataset(
            "return self.inner[i]",
            "self.inner = Inner(argparse.Namespace(lr=LR, size=SIZE))",
            before="""
            class Inner:
                def __init__(self, args): self.args = args
                def __getitem__(self, i): return i * self.args.size
            """,
        ),
        "inner.args.size",
    ),
    (
        "a dict with attributes",
        dataset(
            "return i * self.c.size",
            "self.c = AttributeDict(lr=LR, size=SIZE)",
            before="class AttributeDict(dict):\n    def __getattr__(self, name): return self[name]",
        ),
        "c",
    ),
    (
        "a class of settings",
        dataset(
            "return i * self.c.size",
            "self.c = Settings()",
            before="class Settings:\n    def __init__(self): self.lr, self.size = LR, SIZE",
        ),
        "c.size",
    ),
    ("a global dict", dataset("return i * C['size']", before="C = {'lr': LR, 'size': SIZE}"), "C[size]"),
    (
        "a base class",
        dataset("return self.sized(i)", NAMESPACE).replace(
            "class D(torch.utils.data.Dataset):",
            "class Base(torch.utils.data.Dataset):\n    def sized(self, i): return i * self.args.size\n"
            "class D(Base):",
        ),
        "args.size",
    ),
]


@pytest.mark.small(5)
@pytest.mark.parametrize("name, source, named", TWINS, ids=[name for name, *_ in TWINS])
def test_what_no_item_depends_on_parts_no_jobs(name, source, named, tmp_path):
    row = Row(name, source, "LR = 1; SIZE = 3", "LR = 2; SIZE = 3")
    shared, differ, _ = compare_jobs(row, tmp_path)
    assert shared, differ


@pytest.mark.small(5)
@pytest.mark.parametrize("name, source, named", TWINS, ids=[name for name, *_ in TWINS])
def test_its_twin_parts_them_and_says_why(name, source, named, tmp_path):
    row = Row(name, source, "LR = 1; SIZE = 3", "LR = 1; SIZE = 4")
    shared, differ, _ = compare_jobs(row, tmp_path)
    assert not shared
    assert all(named in part for part in differ) and differ, differ


# Where it is not known what of a namespace is read, all of it counts.
WHOLE = [
    Row("vars", dataset("return i * vars(self.args)['size']", NAMESPACE), named="args.lr"),
    Row(
        "a variable's name", dataset("return i * getattr(self.args, self.n)", f"{NAMESPACE}\nself.n = 'size'")
    ),
    Row("passed on", dataset("return h(self.args, i)", NAMESPACE, before="def h(a, i): return i * a.size")),
    Row(
        "in a tuple", dataset("return i * self.c[0].size", "self.c = (argparse.Namespace(lr=LR, size=SIZE),)")
    ),
    Row("its values", dataset("return list(self.c.values())", "self.c = {'lr': LR, 'size': SIZE}")),
    Row(
        "all attributes", dataset("return i * sum(v for v in vars(self).values())", "self.z = LR"), named="z"
    ),
    Row("what a method reads", dataset("return i * self.s()", OWNER, "def s(self): return self.seed")),
    Row(
        "what a property reads",
        dataset("return i * self.s", OWNER, "@property\ndef s(self): return self.seed"),
    ),
    Row(
        "what Python calls",
        dataset("return i * int(self)", OWNER, "def __int__(self): return self.seed"),
        named="seed",
    ),
    Row(
        "what __getattr__ reads",
        dataset("return i * self.anything", OWNER, "def __getattr__(self, name): return self.seed"),
        named="seed",
    ),
]


@pytest.mark.small(4)
@pytest.mark.parametrize("row", WHOLE, ids=str)
def test_what_may_be_read_parts_jobs(row, tmp_path):
    both = Row(row.name, row.source, "LR = 1; SIZE = 3", "LR = 2; SIZE = 3")
    shared, differ, _ = compare_jobs(both, tmp_path)
    assert not shared
    assert any((row.named or "") in part for part in differ), differ
