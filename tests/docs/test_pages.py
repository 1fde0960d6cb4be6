"""What README.md and docs/ show is run; what they link to is there; their sentences are short.

Blocks of Python are run one after the other, a page in one namespace. Blocks of shell commands are run by a
shell, in a folder with made-up pictures in `train/` and a `train.py`: the page's own first Python, or else
the README's. Commands that show their output (`console`) are run with measurements of a moment, and what they
print is compared by its rows. What cannot be run here is in NOT_RUN, each with its reason; of these, and of
commands within sentences, it is checked that they exist, with all their options.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import importlib
import os
import re
import shlex
import subprocess
import sys
import warnings

import pages
import pytest
import torchvision_here  # noqa: F401  # before a page imports it for itself
import typer
from pages import PAGES, ROOT
from typer.testing import CliRunner

import seneca
from seneca.cli.app import app
from seneca.testing import make_pictures
from seneca.tuning import profile as measure

NOT_RUN = {
    "pip install .": "it compiles Seneca a second time, for a minute",
    "pip uninstall --yes pillow": "it changes the environment that runs this",
    "pip install pillow-simd": "it changes the environment that runs this",
    "make wheel": "make test-packages runs it: it compiles Seneca a second time",
    "SENECA_KEEP=10min python train.py": "it leaves a cache for ten minutes; test_sample_cache.py keeps one",
    "seneca report report.html": "it waits for jobs; cli/watch/test_report.py runs it with some",
    "seneca remote serve --memory 64GiB --bind 10.0.0.5": "it serves; cli/caches/test_remote.py starts some",
    "SENECA_REMOTE=redis://node1,node2,node3 python train.py": "no such hosts; tests/faults has real servers",
    "seneca remote serve --memory 64GiB --bind 10.0.0.5 --tls-cert node1.crt --tls-key node1.key": (
        "it serves; cli/caches/test_remote.py starts one"
    ),
    'SENECA_REMOTE="rediss://node1?ssl_ca_certs=/etc/our-ca.crt,node2,node3" python train.py': "as above",
    "make demo": "it takes a minute; tests/unit/cli/test_demo.py runs `seneca demo` at a small size",
    "make test": "it is what runs this",
}
FIRST = [ROOT / "README.md", ROOT / "docs" / "quickstart.md"]
"""Of which the small size runs all that is run at all."""
FRAMEWORKS = {
    "accelerate",
    "lightning",
    "mlflow",
    "monai",
    "optuna",
    "tensorboard",
    "timm",
    "transformers",
    "wandb",
}
"""Blocks that import one of these are run by tests/frameworks/test_frameworks_page.py."""

OTHER_PAGES = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "bench" / "README.md",
    *sorted((ROOT / "docs" / "contributing").glob("*.md")),
]
"""Of which links and commands are checked, and nothing is run."""

ENGINEERS_PAGES = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "csrc" / "README.md",
    *sorted((ROOT / "docs" / "contributing").glob("*.md")),
    *sorted((ROOT / "seneca").rglob("README.md")),
]
LINKED_PAGES = [*PAGES, *OTHER_PAGES, *ENGINEERS_PAGES, ROOT / "CHANGELOG.md"]
MOST_LINES = {"README.md": 110, "ARCHITECTURE.md": 200}
MOST_WORDS_OF_A_SENTENCE = 35
NOT_OURS = {
    "--cpus-per-task",
    "--ipc",
    "--mem",
    "--memory",
    "--overlap",
    "--runtime",
    "--shm-size",
}  # Docker's and Slurm's
TYPED = re.compile(r"^(?:\$|>>>|import|from|make|python|pip|seneca) .*$", re.MULTILINE)
SHELLS_OWN = {"apt-get", "peers/bin/pip", "pip", "torchrun", "wait"}


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def pages_with(language, first):
    return [
        page
        for page in PAGES
        if (page in FIRST) == first and any(block.language == language for block in pages.blocks(page))
    ]


def imports_of(text):
    """The top-level modules that a block of Python imports; ``tensorboard`` for torch's part of it."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module.removeprefix("torch.utils.").split(".")[0])
    return found


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to run things in, with pictures; measurements take a moment and are kept there."""
    make_pictures(tmp_path / "train", count=24, classes=2, sides=(80, 120))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("STORAGE_S", "ALONE_S", "TOGETHER_S", "MEMORY_S", "STEP_S"):
        monkeypatch.setattr(measure, name, 0.05)
    return tmp_path


# --- what is run


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_of_a_kind_that_is_run(page):
    for block in pages.blocks(page):
        where = f"{name_of(page)}:{block.line}"
        assert block.language in ("python", "sh", "console", "text"), f"{where} says no language that is run"
        if block.language == "text":
            typed = TYPED.findall(block.text)
            assert not typed, f"{where} is text, but shows what is typed: {typed[0]}"
    indented = re.findall(r"(?:^|\n\n)    (?! *[*-]| *\d+\.).+", pages.FENCE.sub("\n", page.read_text()))
    assert not indented, f"{name_of(page)}: put code between fences, which say its language: {indented[0]}"


def promised(line):
    """Of `print(...)  # a ... b` the parts that are printed; empty where the comment is one for people."""
    found = re.match(r"print\(.*\)  # (.*\.\.\.)$", line)
    return [part.strip() for part in found[1].split("...") if part.strip()] if found else []


@pytest.mark.parametrize("page", pages_with("python", first=True), ids=name_of)
def test_python_of_the_first_pages(page, place, capsys):
    run_python_of(page, capsys)


@pytest.mark.small(2)
@pytest.mark.parametrize("page", pages_with("python", first=False), ids=name_of)
def test_python_of(page, place, capsys):
    run_python_of(page, capsys)


def run_python_of(page, capsys):
    if any("init_process_group" in block.text for block in pages.blocks(page)):
        assert "torchrun" in page.read_text()  # which runs it, in a shell
        return
    namespace = {"__name__": "__main__"}
    with warnings.catch_warnings():
        for block in pages.blocks(page):
            if block.language != "python":
                continue
            if FRAMEWORKS & imports_of(block.text):
                assert name_of(page) == "docs/frameworks.md"
                continue
            lines = "\n" * block.line + block.text  # errors have the page's own line
            exec(compile(lines, str(page), "exec"), namespace)
            printed = capsys.readouterr().out
            for part in (part for line in block.text.splitlines() for part in promised(line)):
                assert part in printed, f"{name_of(page)}:{block.line} promises {part!r}, but: {printed}"
    namespace.clear()
    gc.collect()  # loaders leave their caches


def shell_blocks(first):
    for page in pages_with("sh", first):
        for block in pages.blocks(page):
            if block.language == "sh":
                yield pytest.param(page, block, id=f"{name_of(page)}:{block.line}")


@pytest.mark.parametrize(("page", "block"), list(shell_blocks(first=True)))
def test_commands_of_the_first_pages(page, block, place):
    run_commands_of(page, block, place)


@pytest.mark.whole_size(shown_by="test_commands_of_the_first_pages")
@pytest.mark.parametrize(("page", "block"), list(shell_blocks(first=False)))
def test_commands_of(page, block, place):
    run_commands_of(page, block, place)


def run_commands_of(page, block, place):
    typed = pages.commands(block)
    if any(command in NOT_RUN for command in typed):
        assert set(typed) <= set(NOT_RUN), "put what can be run into a block of its own"
        return
    scripts = [*pages.blocks(page), *pages.blocks(ROOT / "README.md")]
    (place / "train.py").write_text(next(one.text for one in scripts if one.language == "python"))
    paths = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    run = subprocess.run(
        ["bash", "-ec", block.text.replace("/tmp/", f"{place}/")],
        env={**os.environ, "PATH": paths, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    if jobs := block.text.count("SENECA_AUDIT="):
        assert f"{jobs} jobs, {jobs} whole epochs, 0 incomplete" in run.stdout, run.stdout + run.stderr


def rows_of(printed):
    """What names the rows of a table: words at the beginning of lines."""
    found = [re.match(r" *([A-Za-z][^\d]*?)(?:  |:|,|$)", line) for line in printed.splitlines()]
    return [words[1] for words in found if words]


def console_blocks():
    for page in PAGES:
        for block in pages.blocks(page):
            if block.language == "console":
                yield pytest.param(block, id=f"{name_of(page)}:{block.line}")


@pytest.mark.small(1)
@pytest.mark.parametrize("block", list(console_blocks()))
def test_what_is_printed_has_the_rows_that_are_shown(block, place):
    (typed,) = pages.commands(block)  # a block has one
    program, *arguments = shlex.split(typed)
    assert program == "seneca"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.stderr
    shown = block.text.partition("\n")[2]
    advice = {"now", "instead"}  # which depends on the host
    for row in rows_of(shown):
        assert row in result.stdout or row in advice, f"{row!r} is not in\n{result.stdout}"
    assert len(rows_of(shown)) > 0


# --- what is there


def options_of(command):
    """The options of a command of Seneca's, and of those that it consists of."""
    parts = [command, *getattr(command, "commands", {}).values()]
    return {option for one in parts for given in one.params for option in given.opts if option[:2] == "--"}


COMMANDS = typer.main.get_command(app).commands


def wrong_with(command):
    """What is not there of a command; empty: nothing."""
    words = shlex.split(command.rstrip("&"))
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if not words or words[0] in SHELLS_OWN:
        extra = re.search(r"seneca-loader\[(\w+)\]", command)
        known = not extra or f"\n{extra[1]} = [" in (ROOT / "pyproject.toml").read_text()
        return "" if known else f"no extra {extra[1]}"
    program, *rest = words
    given = {word.partition("=")[0] for word in rest if word.startswith("--")}
    if program == "seneca":
        if rest and rest[0].startswith("--"):
            return " ".join(sorted(given - options_of(typer.main.get_command(app))))
        if rest[:1] == ["analyze"] and len(rest) > 1 and not rest[1].startswith("--"):
            return wrong_with(shlex.join(rest[1:]))
        if not rest or rest[0] not in COMMANDS:
            return f"no command {rest[:1]}"
        return " ".join(sorted(given - options_of(COMMANDS[rest[0]])))
    if program == "make":
        makefile = (ROOT / "Makefile").read_text()
        targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
        return " ".join(sorted({word for word in rest if "=" not in word} - targets))
    if program == "python" or program.endswith("/python"):
        if rest[:2] == ["-m", "venv"] or rest == ["train.py"]:
            return ""
        file = ROOT / (rest[1].replace(".", "/") + ".py" if rest[0] == "-m" else rest[0])
        if file == ROOT / "bench.py":
            file = ROOT / "bench" / "bench_jobs.py"
        if rest[0] == "-m" and (file.with_suffix("") / "__main__.py").is_file():
            file = file.with_suffix("") / "__main__.py"
        if not file.is_file():
            return f"no file {file.name}"
        if rest[0] == "-m" and rest[1] != "bench" and "sys.path" not in file.read_text():
            return f"{file.name} is no module: it finds its neighbours only as a file"
        return " ".join(sorted(option for option in given if f'"{option}"' not in file.read_text()))
    return f"nobody knows {program}"


def commands_of(page):
    """In blocks, and within sentences and tables."""
    for block in pages.blocks(page):
        if block.language in ("sh", "console"):
            yield from pages.commands(block)
    for code in pages.code_in_text(page):
        if re.match(r"(seneca|make|python3?|torchrun|pip) \S", code):
            yield code.replace("FILE", "file").replace("DIR", "folder")


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=name_of)
def test_every_command_exists_with_its_options(page):
    for command in commands_of(page):
        assert not (wrong := wrong_with(command)), f"{name_of(page)}: {command}: {wrong}"


@pytest.mark.parametrize(
    "command",
    [
        "seneca plane x",
        "seneca --instal-completion",
        "seneca plan x --cores 4",
        "make demonstration",
        "python bench/bench_none.py",
        "python -m bench.bench_decode --dat x",
        "python -m bench.bench_jobs --data x",
        "pip install 'seneca-loader[plots]'",
        "sencea verify x",
    ],
)
def test_a_command_that_does_not_exist_is_seen(command):
    assert wrong_with(command)


def test_what_is_not_run_is_still_shown():
    shown = {command for page in PAGES for block in pages.blocks(page) for command in pages.commands(block)}
    assert set(NOT_RUN) <= shown


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_options_within_sentences_exist(page):
    known = NOT_OURS.union(*map(options_of, COMMANDS.values()))
    for code in pages.code_in_text(page):
        if code.startswith("--"):
            assert re.split(r"[ =]", code)[0] in known, f"{name_of(page)}: {code}"


def test_the_page_of_plans_has_every_option():
    named = {code.split(" ")[0] for code in pages.code_in_text(ROOT / "docs" / "split.md")}
    assert options_of(COMMANDS["profile"]) | options_of(COMMANDS["plan"]) <= named


@functools.cache
def sources_of(*kinds):
    return "".join(path.read_text() for kind in kinds for path in ROOT.glob(kind))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_name_of_seneca_s_exists(page):
    sources = sources_of("seneca/**/*.py")
    for code in pages.code_in_text(page):
        for path in re.findall(r"\bseneca((?:\.[A-Za-z_]+)+)", code):
            if f'getLogger("seneca{path}")' in sources:
                continue
            thing = seneca
            for name in path[1:].split("."):
                if not hasattr(thing, name):
                    with contextlib.suppress(ImportError):
                        importlib.import_module(f"{thing.__name__}.{name}")
                assert hasattr(thing, name), f"{name_of(page)}: seneca{path}"
                thing = getattr(thing, name)


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=name_of)
def test_every_variable_of_the_environment_is_read_somewhere(page):
    sources = sources_of("seneca/**/*.py", "csrc/**/*.c", "tests/**/*.py", "setup.py")
    names = set(re.findall(r"\bSENECA_[A-Z_]+", page.read_text()))
    assert {name for name in names if f'"{name}"' not in sources} == set()


def test_the_page_of_transforms_has_every_transform():
    named = pages.code_in_text(ROOT / "docs" / "transforms.md")
    kinds = [name for name in seneca.transforms.__all__ if not name.isupper() and name != "Static"]
    assert [name for name in kinds if name not in named] == []


# --- links


def broken(page):
    for target in pages.links(page):
        if re.match(r"[a-z]+:", target):
            continue  # the web
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"{name_of(page)} links to {target}, which is not there"
        elif anchor and anchor not in pages.anchors(file):
            yield f"{name_of(page)} links to {target}, but {name_of(file)} has no such heading"


@pytest.mark.parametrize("page", LINKED_PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    assert list(broken(page)) == []


def test_the_index_has_every_page():
    listed = {target.partition("#")[0] for target in pages.links(ROOT / "docs" / "README.md")}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - listed == {"README.md"}


# --- length


@pytest.mark.parametrize("page", MOST_LINES)
def test_a_page_for_newcomers_is_short(page):
    assert len((ROOT / page).read_text().splitlines()) <= MOST_LINES[page]


@pytest.mark.parametrize("page", [*PAGES, *ENGINEERS_PAGES], ids=name_of)
def test_sentences_are_short(page):
    long = [one for one in pages.sentences(page) if len(one.split()) > MOST_WORDS_OF_A_SENTENCE]
    assert long == []


def test_sentences_are_separated(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading\n\nOne, by Desai et al. in `a b c`.\nTwo\nruns on! Three.\n\n| a | b |\n\n"
        "* Four\n  runs on\n* [Five](there.md).\n\n```sh\nno sentence\n```\n1. Six\n"
    )
    expected = ["One, by Desai et al. in code.", "Two runs on!", "Three.", "Four runs on", "Five.", "Six"]
    assert list(pages.sentences(page)) == expected
