"""Who may import whom, as the table in ARCHITECTURE.md says.

Under the heading ``## Who may import whom`` there is a table with the columns ``room`` and ``may
import``. A room is a file or folder: ``errors``, ``_pipeline/plan`` and ``sources`` are under seneca/,
``csrc/codec`` is not; ``__init__`` is seneca/__init__.py. A file belongs to the longest room that its
path begins with. The second column names rooms (with all that is in them) and, where a room may
import torch at the top of a file, ``torch``. Either column takes several names, set apart by
commas, in backticks or not; other words (``nothing``, a dash) name nothing.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADING = "## Who may import whom"


def read_table(text):
    """Room to the set of what it may import."""
    assert HEADING in text, f'ARCHITECTURE.md has no heading "{HEADING}"'
    section = text.split(HEADING, 1)[1].split("\n## ", 1)[0]
    rows = [
        [re.findall(r"[\w/]+", cell) for cell in line.strip().strip("|").split("|")]
        for line in section.splitlines()
        if line.lstrip().startswith("|") and not re.fullmatch(r"[|\s:-]+", line)
    ]
    assert rows and rows[0] == [["room"], ["may", "import"]], "the table's columns are: room | may import"
    table = {}
    for rooms, allowed in rows[1:]:
        table.update({room: set(allowed) for room in rooms})
    return table


def room_of(place, table):
    """The longest room that contains ``place``, a path without suffix; None where there is none."""
    parts = place.split("/")
    return next((room for n in range(len(parts), 0, -1) if (room := "/".join(parts[:n])) in table), None)


def place_of(path, root):
    """Where a file is, as the table names it."""
    place = path.relative_to(root).with_suffix("").as_posix().removeprefix("seneca/")
    return place.removesuffix("/__init__")


def python_imports(path, root):
    """(what is imported, whether at the top of the file); not what is for type checkers only."""
    package = [*path.relative_to(root).with_suffix("").parts]

    def named(module, names):
        # `from seneca import errors` means a file if there is one of that name, else the package's own.
        for name in names:
            inner = root.joinpath(*module.split("."), name)
            yield f"{module}.{name}" if inner.is_dir() or list(inner.parent.glob(f"{name}.py*")) else module

    def visit(nodes, top):
        for node in nodes:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
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

    for name, top in visit(ast.parse(path.read_text()).body, True):
        if name.split(".")[0] == "seneca":
            yield "/".join(name.split(".")[1:]) or "__init__", top
        elif name.split(".")[0] == "torch":
            yield "torch", top


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


def violations(root, table):
    """One line for everything that the table does not allow."""
    kinds = [
        ("seneca", ".py", python_imports),
        ("seneca", ".pyx", cython_imports),
        ("seneca", ".pxd", cython_imports),
    ]
    kinds += [("csrc", ".c", c_includes), ("csrc", ".h", c_includes)]
    for folder, suffix, imports in kinds:
        for path in sorted((root / folder).rglob(f"*{suffix}")):
            if suffix == ".c" and path.with_suffix(".pyx").exists():
                continue  # Cython's output
            place = place_of(path, root) if path != root / "seneca" / "__init__.py" else "__init__"
            room = room_of(place, table)
            if room is None:
                yield f"{path.relative_to(root)} is in no room of the table; add a row for it"
                continue
            for target, top in imports(path, root):
                if target == "torch":
                    if top and "torch" not in table[room]:
                        yield f"{path.relative_to(root)} imports torch at the top, which {room} may not"
                elif (other := room_of(target, table)) is None:
                    yield f"{path.relative_to(root)} imports {target}, which is in no room of the table"
                elif other != room and not any(
                    other == allowed or other.startswith(f"{allowed}/") for allowed in table[room]
                ):
                    yield f"{path.relative_to(root)} imports {target}, but {room} may not import {other}"


def cycle(table):
    """Rooms that import each other in a ring, or an empty list."""
    done = set()

    def walk(room, path):
        if room in path:
            return [*path[path.index(room) :], room]
        if room in done:
            return []
        ring = next(
            (found for other in sorted(table[room] & set(table)) if (found := walk(other, [*path, room]))), []
        )
        done.add(room)
        return ring

    return next((ring for room in sorted(table) if (ring := walk(room, []))), [])


@pytest.fixture(scope="module")
def table():
    path = ROOT / "ARCHITECTURE.md"
    assert path.exists(), f'write {path.name} with a table under "{HEADING}"'
    return read_table(path.read_text())


def test_every_import_is_in_the_table(table):
    found = list(violations(ROOT, table))
    assert not found, "\n".join(found)


def test_every_name_in_the_table_is_a_room_that_exists(table):
    missing = [
        room
        for room in table
        if not list((ROOT if room.startswith("csrc/") else ROOT / "seneca").glob(f"{room}*"))
    ]
    assert not missing, f"rooms without a file: {missing}"


def test_arrows_point_down(table):
    ring = cycle(table)
    assert not ring, f"these import each other: {' -> '.join(ring)}"


TABLE = """
## Who may import whom

| room | may import |
| --- | --- |
| `errors`, `forms` | nothing |
| `_pipeline/plan` | errors, csrc/codec |
| `_pipeline` | `errors`, `_pipeline/plan`, `torch` |
| `loader` | `_pipeline` |
| `__init__` | `loader` |
| csrc/base | - |
| csrc/codec | csrc/base |

## The next heading

| room | may import |
| `errors` | `loader` |
"""


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"seneca/loader.py": "from seneca._pipeline.plan import x\nfrom seneca._pipeline import batch"},
            None,
        ),
        ({"seneca/__init__.py": "from seneca import loader"}, None),
        ({"seneca/_pipeline/batch.py": "import torch\nfrom .plan import x\nfrom ..errors import y"}, None),
        ({"seneca/_pipeline/plan.py": "def f():\n    import torch\n"}, None),
        ({"seneca/errors.py": "if TYPE_CHECKING:\n    import torch, seneca.loader\n"}, None),
        ({"seneca/_pipeline/plan.pyx": 'cdef extern from "codec/sn_plan.h":\n'}, None),
        ({"csrc/codec/a.c": '#include "a.h"\n#include <errno.h>\n#include "../base/b.h"\n'}, None),
        ({"seneca/cache.py": ""}, "seneca/cache.py is in no room"),
        ({"csrc/draw/a.c": ""}, "csrc/draw/a.c is in no room"),
        ({"seneca/errors.py": "import seneca.loader"}, "errors may not import loader"),
        ({"seneca/errors.py": "def f():\n    from seneca import loader\n"}, "errors may not import loader"),
        (
            {"seneca/errors.py": "try:\n    import seneca\nexcept E:\n    pass"},
            "errors may not import __init__",
        ),
        ({"seneca/errors.py": "class A:\n    import torch.nn\n"}, "imports torch at the top"),
        ({"seneca/_pipeline/plan.py": "from ..loader import x"}, "_pipeline/plan may not import loader"),
        ({"seneca/_pipeline/plan.py": "from .batch import x"}, "_pipeline/plan may not import _pipeline"),
        ({"seneca/errors.pyx": "from seneca.loader cimport x\n"}, "errors may not import loader"),
        ({"seneca/errors.pyx": "from seneca import errors, loader\n"}, "errors may not import loader"),
        ({"seneca/errors.pyx": "import torch\n"}, "imports torch at the top"),
        ({"seneca/errors.pxd": 'cdef extern from "codec/a.h":\n'}, "errors may not import csrc/codec"),
        ({"csrc/base/b.c": '#include "../codec/a.h"\n'}, "csrc/base may not import csrc/codec"),
        ({"csrc/base/b.c": '#include "codec/a.h"\n'}, "csrc/base may not import csrc/codec"),
        ({"seneca/loader.py": "import seneca.gone"}, "imports gone, which is in no room"),
    ],
)
def test_the_checker_sees(tmp_path, files, message):
    known = ["seneca/_pipeline/plan.py", "seneca/_pipeline/batch.py", "seneca/errors.py", "seneca/loader.py"]
    for name, text in {**dict.fromkeys([*known, "csrc/codec/a.h", "csrc/base/b.h"], ""), **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = list(violations(tmp_path, read_table(TABLE)))
    assert found == [] if message is None else len(found) == 1 and message in found[0], found


def test_the_checker_sees_rings():
    assert cycle(read_table(TABLE)) == []
    assert cycle({"a": {"b"}, "b": {"c", "torch"}, "c": {"a"}, "d": set()}) == ["a", "b", "c", "a"]
