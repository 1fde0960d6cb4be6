"""Who may import whom, as the tables of floors in ARCHITECTURE.md say.

Under the heading ``## Floors`` there are tables with the columns ``floor``, ``rooms`` and ``may also
import``. A room is a file or folder: ``errors`` and ``epochs`` are under seneca/, ``csrc/codec`` is not;
``__init__`` is seneca/__init__.py. A room may import itself and all rooms on lower floors of its half, but
none on its own floor. What it imports for type checkers only counts too. A room may import torch at the top
of a file only if its row says ``torch``, and headers of ``csrc`` only if its row says ``csrc``.
"""

import ast
import functools
import graphlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADING = "## Floors"
MOST_ROWS = 10
MOST_POSITIONAL = 5

parsed = functools.cache(ast.parse)


def read_floors(text):
    """Room to (its floor, what else it may import). Floors of csrc lie under those of Python."""
    assert HEADING in text, f'ARCHITECTURE.md has no heading "{HEADING}"'
    section = text.split(HEADING, 1)[1].split("\n## ", 1)[0]
    floors = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 3 and cells[0].isdecimal():
            for room in re.findall(r"[\w/]+", cells[1]):
                assert room not in floors, f"{room} is on two floors"
                floors[room] = int(cells[0]), set(re.findall(r"\w+", cells[2]))
    assert floors, "the columns of a table are: floor | rooms | may also import"
    return floors


def rows_of(text):
    """How many floors the Python half has."""
    return len({floor for room, (floor, _) in read_floors(text).items() if not room.startswith("csrc/")})


def room_of(place, floors):
    """The room that contains ``place``, a path without suffix; None: there is none."""
    parts = place.split("/")
    room = "/".join(parts[:2]) if parts[0] == "csrc" else parts[0]
    return room if room in floors else None


def place_of(path, root):
    """Where a file is, as a table names it."""
    place = path.relative_to(root).with_suffix("").as_posix().removeprefix("seneca/")
    return place.removesuffix("/__init__")


def python_imports(path, root):
    """(what is imported, whether at the top of the file); not at the top: what is for type checkers."""
    return imports_in(path.read_text(), path, root)


@functools.cache
def imports_in(text, path, root):
    package = [*path.relative_to(root).with_suffix("").parts]

    def named(module, names):
        # `from seneca import errors` means a file if there is one of that name, else the package's own.
        for name in names:
            inner = root.joinpath(*module.split("."), name)
            yield f"{module}.{name}" if inner.is_dir() or list(inner.parent.glob(f"{name}.py*")) else module

    def visit(nodes, top):
        for node in nodes:
            if isinstance(node, ast.expr):
                continue  # it imports nothing
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                yield from visit(node.body, False)
                yield from visit(node.orelse, top)
            elif isinstance(node, ast.Import):
                yield from ((alias.name, top) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = package[: -node.level] if node.level else []
                module = ".".join([*above, *([node.module] if node.module else [])])
                yield from ((name, top) for name in named(module, [alias.name for alias in node.names]))
            else:
                inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                yield from visit(ast.iter_child_nodes(node), top and not inside)

    found = []
    for name, top in visit(parsed(text).body, True):
        if name.split(".")[0] == "seneca":
            found.append(("/".join(name.split(".")[1:]) or "__init__", top))
        elif name.split(".")[0] == "torch":
            found.append(("torch", top))
    return found


def cython_imports(path, root):
    """What a .pyx or .pxd takes from Seneca, from torch and from the headers."""
    for line in path.read_text().splitlines():
        if found := re.match(r"\s*from\s+seneca\s+c?import\s+(.+)", line):
            yield from ((name, True) for name in re.findall(r"\w+", found[1]))
        elif found := re.match(r"\s*(?:from|c?import)\s+(seneca|torch)\b([\w.]*)", line):
            yield (
                found[2].strip(".").replace(".", "/") or "__init__" if found[1] == "seneca" else "torch",
                True,
            )
        elif found := re.match(r'\s*cdef extern from "([^"<]+)"', line):
            yield f"csrc/{Path(found[1]).with_suffix('').as_posix()}", True


def c_includes(path, root):
    """The headers of ours that a C file includes, beside itself or under csrc/."""
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE):
        beside = (path.parent / name).resolve()
        header = beside if beside.exists() else (root / "csrc" / name).resolve()
        yield header.with_suffix("").relative_to(root.resolve()).as_posix(), True


def files_of(root):
    """Each source file: its path, its place as a table names it, and what reads its imports."""
    kinds = [
        ("seneca", ".py", python_imports),
        ("seneca", ".pyx", cython_imports),
        ("seneca", ".pxd", cython_imports),
        ("csrc", ".c", c_includes),
        ("csrc", ".h", c_includes),
    ]
    for folder, suffix, imports in kinds:
        for path in sorted((root / folder).rglob(f"*{suffix}")):
            if suffix == ".c" and path.with_suffix(".pyx").exists():
                continue  # Cython's output
            yield (
                path,
                place_of(path, root) if path != root / "seneca" / "__init__.py" else "__init__",
                imports,
            )


def violations(root, floors):
    """One line for everything that the tables do not allow."""
    for path, place, imports in files_of(root):
        name, room = path.relative_to(root), room_of(place, floors)
        if room is None:
            yield f"{name} is in no room of a table; add it to a floor"
            continue
        floor, besides = floors[room]
        for target, top in imports(path, root):
            if target == "torch":
                if top and "torch" not in besides:
                    yield f"{name} imports torch at the top, which {room} may not"
                continue
            other = room_of(target, floors)
            if other is None:
                yield f"{name} imports {target}, which is in no room of a table"
            elif other.startswith("csrc/") and not room.startswith("csrc/"):
                if "csrc" not in besides:
                    yield f"{name} imports {target}, but {room} may not import csrc"
            elif other != room and floors[other][0] >= floor:
                yield f"{name} imports {target}, but {room} may not import {other}: it is not below"


def circle(root):
    """Files that import each other in a loop; None: there are none. A C source and its header are one."""
    graph = {}
    for path, place, imports in files_of(root):
        others = {target for target, _ in imports(path, root)} - {place, "torch"}
        graph.setdefault(place, set()).update(others)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


@pytest.fixture(scope="module")
def text():
    return (ROOT / "ARCHITECTURE.md").read_text()


def test_every_import_goes_down(text):
    found = list(violations(ROOT, read_floors(text)))
    assert not found, "\n".join(found)


def test_no_files_import_each_other_in_a_loop(tmp_path):
    """Also within a room, and for type checkers."""
    assert circle(ROOT) is None
    for name, content in {
        "csrc/base/a.h": "",
        "csrc/base/a.c": '#include "a.h"\n#include "b.h"\n',
        "csrc/base/b.h": "",
        "csrc/base/b.c": '#include "a.h"\n',
        "seneca/one.py": "if TYPE_CHECKING:\n    from seneca.two import x\n",
        "seneca/two.py": "def f():\n    import seneca.one\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    found = circle(tmp_path)
    assert set(found) in ({"csrc/base/a", "csrc/base/b"}, {"one", "two"})
    (tmp_path / "seneca" / "two.py").write_text("")
    assert set(circle(tmp_path)) == {"csrc/base/a", "csrc/base/b"}
    (tmp_path / "csrc" / "base" / "b.c").write_text("")
    assert circle(tmp_path) is None


def test_every_room_exists_and_the_floors_are_few(text):
    floors = read_floors(text)
    missing = [
        room
        for room in floors
        if not list((ROOT if room.startswith("csrc/") else ROOT / "seneca").glob(f"{room}*"))
    ]
    assert not missing, f"rooms without a file: {missing}"
    assert rows_of(text) <= MOST_ROWS


def test_the_map_names_every_module(text):
    """So that a newcomer finds it there."""
    section = text.split("## The rooms", 1)[1].split("\n## ", 1)[0]
    named = set(re.findall(r"\w+", section))
    modules = [path for path in (ROOT / "seneca").rglob("*.py*") if path.suffix in (".py", ".pyx")]
    missing = sorted({path.stem for path in modules} - named - {"__init__", "__main__"})
    assert not missing, f"modules that the map does not name: {missing}"


def long_signatures(root):
    """One line for each function with more than five arguments that may be given by position.

    Three kinds of functions have more: the constructors of loaders have torch's signature; the arguments of
    commands are what is typed; and those of ``_portable`` operations are the operations' own.
    """

    def visit(node, of_class=""):
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.expr):
                continue  # it defines nothing
            if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                decorators = set(map(ast.unparse, inner.decorator_list))
                names = [one.arg for one in [*inner.args.posonlyargs, *inner.args.args]]
                names = names[1:] if of_class and "staticmethod" not in decorators else names
                is_torchs = (of_class, inner.name) == ("DataLoader", "__init__")
                is_typed = any(".command(" in decorator for decorator in decorators)
                if len(names) > MOST_POSITIONAL and not is_torchs and not is_typed:
                    yield inner.lineno, inner.name, len(names)
                yield from visit(inner)
            else:
                yield from visit(inner, inner.name if isinstance(inner, ast.ClassDef) else of_class)

    for path in sorted((root / "seneca").rglob("*.py")):
        if not path.name.startswith("_portable"):
            for line, name, count in visit(parsed(path.read_text())):
                yield f"{path.relative_to(root)}:{line}: {name} takes {count} arguments by position"


def test_functions_take_few_arguments_by_position(tmp_path):
    found = list(long_signatures(ROOT))
    assert not found, "\n".join(found)
    (tmp_path / "seneca").mkdir()
    (tmp_path / "seneca" / "one.py").write_text(
        "def few(a, b, c, d, e, *, f): ...\n"
        "class A:\n"
        "    def few(self, a, b, c, d, e): ...\n"
        "    def many(self, a, b, c, d, e, f): ...\n"
        "    @staticmethod\n"
        "    def static(a, b, c, d, e, f): ...\n"
        "class DataLoader:\n"
        "    def __init__(self, a, b, c, d, e, f): ...\n"
        "    def load(self):\n"
        "        def inner(a, b, c, d, e, f): ...\n"
    )
    names = [line.split(": ")[1].split()[0] for line in long_signatures(tmp_path)]
    assert names == ["many", "static", "inner"]


TABLE = """
## Floors

| floor | rooms | may also import |
| --- | --- | --- |
| 1 | `errors`, `forms` | |
| 2 | `epochs`, `native` | `torch` |
| 2 | `_core` | `csrc` |
| 3 | `loader` | |
| 4 | `__init__` | |

| floor | rooms | may also import |
| --- | --- | --- |
| 1 | csrc/base | |
| 2 | csrc/codec | |

## The next heading

| 1 | `loader` | |
"""


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"seneca/loader.py": "from seneca.epochs.plan import x\nfrom seneca.native import buffers"}, None),
        ({"seneca/__init__.py": "from seneca import loader"}, None),
        ({"seneca/native/buffers.py": "import torch\nfrom .plan import x\nfrom ..errors import y"}, None),
        ({"seneca/loader.py": "def f():\n    import torch\n"}, None),
        ({"seneca/loader.py": "if TYPE_CHECKING:\n    import torch, seneca.native\n"}, None),
        ({"seneca/_core/plan.pyx": 'cdef extern from "codec/sn_plan.h":\n'}, None),
        ({"csrc/codec/a.c": '#include "a.h"\n#include <errno.h>\n#include "../base/b.h"\n'}, None),
        ({"seneca/cache.py": ""}, "seneca/cache.py is in no room"),
        ({"csrc/draw/a.c": ""}, "csrc/draw/a.c is in no room"),
        ({"seneca/errors.py": "import seneca.loader"}, "errors may not import loader"),
        ({"seneca/errors.py": "def f():\n    from seneca import loader\n"}, "errors may not import loader"),
        ({"seneca/errors.py": "if TYPE_CHECKING:\n    import seneca.loader"}, "errors may not import loader"),
        (
            {"seneca/errors.py": "try:\n    import seneca\nexcept E:\n    pass"},
            "errors may not import __init__",
        ),
        ({"seneca/errors.py": "class A:\n    import torch.nn\n"}, "imports torch at the top"),
        ({"seneca/epochs/plan.py": "from ..loader import x"}, "epochs may not import loader"),
        ({"seneca/epochs/plan.py": "from ..native.buffers import x"}, "epochs may not import native"),
        ({"seneca/errors.pyx": "from seneca.loader cimport x\n"}, "errors may not import loader"),
        ({"seneca/errors.pyx": "from seneca import errors, loader\n"}, "errors may not import loader"),
        ({"seneca/errors.pyx": "import torch\n"}, "imports torch at the top"),
        ({"seneca/errors.pxd": 'cdef extern from "codec/a.h":\n'}, "errors may not import csrc"),
        ({"csrc/base/b.c": '#include "../codec/a.h"\n'}, "csrc/base may not import csrc/codec"),
        ({"csrc/base/b.c": '#include "codec/a.h"\n'}, "csrc/base may not import csrc/codec"),
        ({"seneca/loader.py": "import seneca.gone"}, "imports gone, which is in no room"),
    ],
)
def test_the_checker_sees(tmp_path, files, message):
    known = ["seneca/epochs/plan.py", "seneca/native/buffers.py", "seneca/errors.py", "seneca/loader.py"]
    for name, content in {**dict.fromkeys([*known, "csrc/codec/a.h", "csrc/base/b.h"], ""), **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    found = list(violations(tmp_path, read_floors(TABLE)))
    assert found == [] if message is None else len(found) == 1 and message in found[0], found
