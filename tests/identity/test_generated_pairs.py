"""Generated pairs of jobs: where they would share a form, what they make of it is equal.

A program is made of parts. Each part has a number in another place: a constant, an attribute, a global of
another module, a file, a package. The two jobs of a pair have the same program. Some numbers differ, and so
does what should not matter: where the program lies, comments, the order of definitions. SENECA_TEST_PAIRS is
the number of pairs.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
import textwrap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from engine import Process
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from pairs import Side
from sizes import size

from seneca.data.support import inspect_dataset
from seneca.identity import fingerprint

PAIRS = int(os.environ.get("SENECA_TEST_PAIRS") or size(9, 80))
SAMPLES = 3


@dataclass(frozen=True)
class Part:
    """A place for a number.

    Attributes:
        term: The expression that has it, in a method of the dataset.
        module: What stands in the dataset's module, with the number as ``{n}``.
        init: What stands in ``__init__``.
        body: What stands in the class.
        helper: What stands in the module ``helper``.
        before: Statements in front of the term.
        run: Statements of the main program, before the dataset is made.
    """

    term: str
    module: str = ""
    init: str = ""
    body: str = ""
    helper: str = ""
    before: str = ""
    run: str = ""


PARTS = {
    "constant": Part("{n}"),
    "constant in a tuple": Part("({n}, 7)[0]"),
    "attribute": Part("self.a", init="self.a = {n}"),
    "nested attribute": Part(
        "self.b.k", module="class Inner:\n    def __init__(self, k): self.k = k", init="self.b = Inner({n})"
    ),
    "slot": Part(
        "self.c.k",
        module="class Slotted:\n    __slots__ = ('k',)",
        init="self.c = Slotted(); self.c.k = {n}",
    ),
    "list": Part("self.d[1][0]", init="self.d = [0, [{n}]]"),
    "dict": Part("self.e['k']", init="self.e = {{'k': {n}, 'x': len}}"),
    "set": Part("sum(self.f)", init="self.f = {{{n}, 0}}"),
    "array": Part("int(self.g[1])", init="self.g = np.array([0, {n}])"),
    "tensor": Part("int(self.h[1])", init="self.h = torch.tensor([0, {n}])"),
    "large list": Part("self.large[1500]", init="self.large = [0] * 1500 + [{n}]"),
    "global": Part("G1", module="G1 = {n}"),
    "global list": Part("G2[0]", module="G2 = [{n}]"),
    "global of a method": Part("self.of_global()", module="G3 = {n}", body="def of_global(self): return G3"),
    "function": Part("f1()", module="def f1(): return {n}"),
    "default": Part("f2()", module="def f2(k={n}): return k"),
    "keyword's default": Part("f3()", module="def f3(*, k={n}): return k"),
    "closure": Part("f4()", module="def make4(k):\n    return lambda: k\nf4 = make4({n})"),
    "partial": Part("f5()", module="f5 = functools.partial(int, '{n}')"),
    "lambda": Part("self.i()", init="self.i = lambda: {n}"),
    "class attribute": Part("self.J", body="J = {n}"),
    "property": Part("self.k", body="@property\ndef k(self): return {n}"),
    "static method": Part("self.l()", body="@staticmethod\ndef l(): return {n}"),
    "decorated": Part("self.m()", body="@torch.no_grad()\ndef m(self): return {n}"),
    "cached": Part("f6()", module="@functools.lru_cache\ndef f6(): return {n}"),
    "base": Part("self.n()", module="class Base1:\n    def n(self): return {n}"),
    "enum": Part("E1.A.value", module="class E1(enum.Enum): A = {n}"),
    "state of an enum": Part(
        "E2.A.k",
        module="class E2(enum.Enum):\n    A = ('a', {n})\n    def __new__(cls, v, k):\n"
        "        one = object.__new__(cls); one._value_ = v; one.k = k; return one",
    ),
    "data class": Part(
        "self.o.k", module="@dataclasses.dataclass\nclass D1: k: int", init="self.o = D1({n})"
    ),
    "named tuple": Part(
        "self.p.k", module="N1 = collections.namedtuple('N1', 'k x')", init="self.p = N1({n}, len)"
    ),
    "annotations": Part(
        "list(Row.__annotations__).index('a')",
        module="class Row:\n    locals()['__annotations__'] = "
        "dict.fromkeys((['a', 'b', 'c', 'a2'] * 2)[{n}:{n} + 4], 'int')",
    ),
    "attribute of another module": Part("helper.H1", module="import helper", helper="H1 = {n}"),
    "function of another module": Part("helper.h2()", module="import helper", helper="def h2(): return {n}"),
    "import from": Part("h3()", module="from helper import h3", helper="def h3(): return {n}"),
    "import inside": Part("helper.h4()", before="import helper", helper="def h4(): return {n}"),
    "import from inside": Part("H5", before="from helper import H5", helper="H5 = {n}"),
    "import as inside": Part("other.h6()", before="import helper as other", helper="def h6(): return {n}"),
    "set at run time": Part(
        "helper.H7", before="import helper", helper="H7 = 0", run="import helper; helper.H7 = {n}"
    ),
    "module as a value": Part(
        "self.cfg.H8",
        module="import helper",
        init="self.cfg = helper",
        helper="H8 = 0",
        run="import helper; helper.H8 = {n}",
    ),
    "getattr of a module": Part("getattr(helper, 'H9')", module="import helper", helper="H9 = {n}"),
    "not loaded": Part("late.l1()", before="import late"),
    "installed": Part("package.p1()", module="import package"),
    "put into what is installed": Part(
        "package.p2()", module="import package", run="import package; package.p2 = lambda: {n}"
    ),
    "environment": Part("int(os.environ['SENECA_PAIR'])", run="os.environ['SENECA_PAIR'] = '{n}'"),
    "getenv": Part(
        "int(os.getenv(self.variable))",
        init="self.variable = 'SENECA_PAIR2'",
        run="os.environ['SENECA_PAIR2'] = '{n}'",
    ),
    "relative file": Part("int(open(self.q).read())", init="self.q = 'number.txt'"),
    "file in code": Part("int(open('data/number.txt').read())"),
    "folder": Part("int(open(os.path.join(self.r, 'number.txt')).read())", init="self.r = 'data'"),
    "path": Part("int(self.s.read_text())", init="self.s = pathlib.Path('data/number.txt')"),
    "absolute file": Part("int(open(self.t).read())", init="self.t = BOTH + '/number{n}.txt'"),
    "default dtype": Part(
        "torch.zeros(1).element_size()",
        run="torch.set_default_dtype([torch.float16, torch.float32, torch.float64][{n} % 3])",
    ),
    "transform": Part(
        "self.transform.k",
        module="class Tr:\n    def __init__(self, k): self.k = k",
        init="self.transform = Tr({n})",
    ),
    "mapped file": Part("int(self.u[1])", init="self.u = np.load('data/array.npy', mmap_mode='r')"),
}

# Of those whose number lies in a file: what is written, besides the modules.
FILES = {"relative file", "file in code", "folder", "path", "mapped file"}

STAGES = ("read", "decode", "augment")


@dataclass(frozen=True)
class Program:
    """A pair of programs.

    Attributes:
        uses: Part and stage of each term.
        numbers: Of the first job, in the order of the terms.
        others: Of the second.
        staged: Whether the dataset has stages; else all is in ``__getitem__``.
        moved: Whether the second has another order and comments, and another setting that nobody names.
    """

    uses: tuple[tuple[str, str], ...]
    numbers: tuple[int, ...]
    others: tuple[int, ...]
    staged: bool
    moved: bool


@st.composite
def programs(draw, equal):
    names = draw(st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=5, unique=True))
    uses = tuple((name, draw(st.sampled_from(STAGES))) for name in names)
    numbers = tuple(draw(st.integers(0, 2)) for _ in uses)
    if equal:
        others = numbers
    else:
        changed = draw(st.sets(st.integers(0, len(uses) - 1), min_size=1))
        others = tuple(
            (n + draw(st.integers(1, 2))) % 3 if i in changed else n for i, n in enumerate(numbers)
        )
    return Program(uses, numbers, others, draw(st.booleans()), draw(st.booleans()))


def source_of(program: Program, numbers, moved: bool) -> dict[str, str]:
    """The modules of one of the two, by name."""
    chosen = [(PARTS[name], stage, n) for (name, stage), n in zip(program.uses, numbers, strict=True)]
    terms: dict[str, list[str]] = {stage: [] for stage in STAGES}
    before: dict[str, list[str]] = {stage: [] for stage in STAGES}
    for i, (part, stage, n) in enumerate(chosen):
        terms[stage].append(f"{10**i} * ({part.term.format(n=n)})")
        before[stage] += part.before.format(n=n).splitlines()
    bodies = []
    for stage, arguments in (("read", "index"), ("decode", "data"), ("augment", "array, rng")):
        lines = [*before[stage], f"number = {' + '.join(terms[stage]) or 0}"]
        lines.append(
            {
                "read": "return index.to_bytes(4, 'little') + int(number).to_bytes(4, 'little')",
                "decode": "return np.frombuffer(data, np.int32).astype(np.int64) + [0, number]",
                "augment": "return torch.from_numpy(np.array(array) + [0, number])",
            }[stage]
        )
        if moved:
            lines.insert(0, '"""What it does."""')
        bodies.append(f"def {stage}(self, {arguments}):\n" + textwrap.indent("\n".join(lines), "    "))
    if not program.staged:
        bodies = [body.replace("def ", "def _", 1) for body in bodies]
        bodies.append(
            "def __getitem__(self, index): return self._augment(self._decode(self._read(index)), None)"
        )
    bodies += [part.body.format(n=n) for part, _, n in chosen if part.body]
    inits = ["self.mode = 'train'", *(part.init.format(n=n) for part, _, n in chosen if part.init)]
    definitions = [part.module.format(n=n) for part, _, n in chosen if part.module]
    if moved:
        bodies, definitions = bodies[::-1], [f"# {i}\n\n{one}" for i, one in enumerate(definitions)][::-1]
        definitions.append("UNUSED = 5")
    base = "Base1" if any(name == "base" for name, _ in program.uses) else "object"
    methods = [
        "def __init__(self):\n" + textwrap.indent("\n".join(inits), "    "),
        f"def __len__(self): return {SAMPLES}",
        *bodies,
    ]
    dataset = f"class Data({base}):\n" + textwrap.indent("\n\n".join(methods), "    ")
    head = "import collections, dataclasses, enum, functools, os, pathlib\nimport numpy as np\nimport torch\n"
    return {
        "data": "\n\n".join([head, *definitions, dataset]),
        "helper": "\n".join(part.helper.format(n=n) for part, _, n in chosen if part.helper),
        "main": "\n".join(part.run.format(n=n) for part, _, n in chosen if part.run),
    }


def made(pipe, program: Program, side: Side) -> None:
    """One job: names of its forms, and what it makes of them."""
    numbers = side.pick(program.numbers, program.others)
    by_name = {name: n for (name, _), n in zip(program.uses, numbers, strict=True)}
    os.chdir(side.folder)
    if side.name == "B" and program.moved:
        os.environ["SENECA_PAIR_UNUSED"] = "1"
    with_files = {name for name in by_name if name in FILES}
    if with_files:
        import numpy as np

        Path("data").mkdir()
        Path("number.txt").write_text(str(by_name.get("relative file", 0)))
        for name in with_files - {"relative file", "mapped file"}:
            Path("data/number.txt").write_text(str(by_name[name]))
        np.save("data/array.npy", np.array([0, by_name.get("mapped file", 0)]))
    sources = source_of(program, numbers, side.name == "B" and program.moved)
    side.installed("package", "1.0", f"def p1(): return {by_name.get('installed', 0)}\ndef p2(): return 0")
    side.module("late", f"def l1(): return {by_name.get('not loaded', 0)}")
    for name in ("helper", "data"):
        side.module(name, sources[name].replace("BOTH", repr(str(side.both))))
    exec(sources["main"], {"os": os, "torch": torch})
    dataset = importlib.import_module("data").Data()
    grade = inspect_dataset(dataset)
    stages = grade.stages
    if stages is None:
        pipe.send(grade.why)
        return
    forms = {"items": (stages.augmented, [stages.make([i])[0].tolist() for i in range(SAMPLES)])}
    if program.staged:
        forms["read"] = stages.source, [stages.read(i) for i in range(SAMPLES)]
        decoded = [bytes(stages.decode(i, stages.read(i)).data) for i in range(SAMPLES)]
        forms["decode"] = (stages.source, stages.decoded), decoded
    pipe.send(forms)


def run(program: Program, folder: Path):
    (folder / "both").mkdir()
    for n in range(3):
        (folder / "both" / f"number{n}.txt").write_text(str(n))
        os.utime(folder / "both" / f"number{n}.txt", (1, 1))
    found = []
    for name in "AB":
        (folder / name).mkdir()
        with Process(made, program, Side(name, folder / name, folder / "both")) as process:
            found.append(process.receive())
            assert process.join() == 0
    return found


def means_the_same(program: Program) -> bool:
    """Whether the two jobs have equal numbers, and nothing of theirs lies in a folder of their own."""
    own = FILES | {"mapped file"}
    return program.numbers == program.others and not any(name in own for name, _ in program.uses)


def test_generated_pairs_share_only_what_is_equal():
    fingerprint(torch.relu)  # what all processes would find out again
    counts: Counter[str] = Counter()

    a_half = settings(
        max_examples=-(-PAIRS // 2),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )

    def hold(program):
        folder = Path(tempfile.mkdtemp())
        try:
            first, second = run(program, folder)
        finally:
            shutil.rmtree(folder)
        note(source_of(program, program.numbers, False)["data"])
        counts["pairs"] += 1
        assert isinstance(first, dict) and isinstance(second, dict), (first, second)
        for form, (name, outcome) in first.items():
            other_name, other_outcome = second[form]
            if name == other_name:
                assert outcome == other_outcome, f"{form} would be shared, and is not equal"
                counts["shared forms"] += 1
            counts["other forms"] += outcome != other_outcome
        if means_the_same(program):
            counts["same"] += 1
            counts["same and shared"] += all(name == second[form][0] for form, (name, _) in first.items())

    for equal in (True, False):
        a_half(given(programs(equal))(hold))()
    print(dict(counts))
    assert counts["pairs"] >= PAIRS and counts["other forms"] > counts["pairs"] / 10
    assert counts["same"] > PAIRS / 10 and counts["same and shared"] >= 0.95 * counts["same"]


@pytest.mark.small(5)
@pytest.mark.parametrize("name", PARTS)
def test_each_part_alone_differs_by_its_number(name, tmp_path):
    """Otherwise the generator would show nothing: each number counts."""
    first, second = run(Program(((name, "augment"),), (1,), (2,), True, False), tmp_path)
    assert first["items"][1] != second["items"][1], "another number is another item"
    assert first["items"][0] != second["items"][0]
