"""Paths and modules that comments and pages name exist."""

import functools
import re
import subprocess

import pytest
from pages import ROOT

# The change log speaks of the past. Some tests make up paths.
READ = re.compile(
    r"(?<!CHANGELOG)\.(?:py|pyx|pxd|pyi|c|h|def|md|toml|yaml)$|(?:^|/)(?:Makefile|run|\.gitignore)$"
)
MADE_UP = {
    "tests/docs/test_pages.py",
    "tests/docs/test_paths.py",
    "tests/unit/test_architecture.py",
    "tests/unit/test_mirror.py",
}
PATH = re.compile(r"(?<![\w./*{$-])((?:\w+/)+\w+\.(?:pyx|pxd|py|c|h|def|md))\b")
DOTTED = re.compile(r"(?<![\w.])(seneca(?:\.(?!__)[a-z_]\w*)+)")


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.split()


@functools.cache
def parts_of(files):
    """Folders by their last names, modules, and packages."""
    folders = {part for file in files for part in file.split("/")[:-1]}
    modules = {file.rsplit(".", 1)[0].replace("/", ".") for file in files if file.startswith("seneca/")}
    return folders, modules, {module.rsplit(".", 1)[0] for module in modules}


@functools.cache
def is_end_of_one(path, files):
    return any(file == path or file.endswith("/" + path) for file in files)


def missing_paths(text, files):
    """The paths of a text with which no file's path ends.

    A path counts if its first folder is one of the repository. What examples make up lies in others.
    """
    folders, _, _ = parts_of(files)
    for path in PATH.findall(text):
        if path.split("/")[0] in folders and not is_end_of_one(path, files):
            yield path


def missing_modules(text, files):
    """The dotted names ``seneca.package...`` of a text whose package has no such module.

    What follows the module's name is left to the tests of links and of snippets.
    """
    _, modules, packages = parts_of(files)
    for name in DOTTED.findall(text):
        parts = name.split(".")
        known = [
            ".".join(parts[:k]) for k in range(1, len(parts) + 1) if ".".join(parts[:k]) in packages | modules
        ]
        rest = parts[len(known[-1].split(".")) :] if known else []
        if known and known[-1] in packages and known[-1] != "seneca" and rest:
            here = ROOT / known[-1].replace(".", "/") / "__init__.py"
            if not here.exists() or not re.search(rf"\b{rest[0]}\b", here.read_text()):
                yield name


@pytest.fixture(scope="module")
def files():
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    return tuple(tracked())


def test_every_path_that_is_named_is_there(files):
    gone = {}
    for file in set(filter(READ.search, files)) - MADE_UP:
        text = (ROOT / file).read_text(errors="replace")
        if found := {*missing_paths(text, files), *missing_modules(text, files)}:
            gone[file] = sorted(found)
    assert not gone, "\n".join(f"{file}: {names}" for file, names in gone.items())


def test_a_path_that_is_gone_is_found():
    files = "csrc/codec/jpeg.c", "seneca/epochs/plan.py", "seneca/epochs/__init__.py", "docs/inspect.md"
    text = "`csrc/codec/jpeg.c`, codec/jpeg.c, csrc/codec/gone.c, epochs/gone.py, x/cat.py"
    assert list(missing_paths(text, files)) == ["csrc/codec/gone.c", "epochs/gone.py"]
    assert list(missing_modules("seneca.epochs.gone.f()", files)) == ["seneca.epochs.gone.f"]
