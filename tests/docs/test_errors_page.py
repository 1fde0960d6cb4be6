"""docs/errors.md has every public error, and quotes messages as the sources have them."""

from __future__ import annotations

import ast
import builtins
import functools
import re

import pages
import pytest
from pages import ROOT

from seneca import errors

PAGE = ROOT / "docs" / "errors.md"
QUOTES = re.compile(r"^(`[^`]+`(?:, )?)+$")


def headings():
    return set(re.findall(r"^#+ (.+)$", PAGE.read_text(), re.MULTILINE))


@functools.cache
def literals():
    """The text of all sources of Seneca's, with literals that are continued on the next line made one."""
    files = [*(ROOT / "seneca").rglob("*.py"), *(ROOT / "seneca").rglob("*.pyx")]
    files += (ROOT / "csrc").rglob("*.c")
    text = "\n".join(path.read_text() for path in files)
    return re.sub(r'["\']\s*\n\s*f?["\']', "", text).replace("\\'", "'")


@functools.cache
def quoted():
    """The messages that the page quotes: symptoms, and the first cells of tables of messages."""
    return [*quotes()]


def quotes():
    text = PAGE.read_text()
    for line in text.splitlines():
        if line.startswith("* **Symptom**: "):
            yield from re.findall(r"`([^`]+)`", line)
    for table in re.findall(r"^\| message \|.*\n\|[- |]+\n((?:\|.*\n)+)", text, re.MULTILINE):
        for row in table.splitlines():
            cell = row.strip("|").split(" | ")[0].strip()
            assert QUOTES.match(cell), f"{cell} is not the code of a message"
            yield from re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("name", sorted({*errors.__all__} - {"SenecaError"}))
def test_the_page_has_a_heading_for(name):
    assert name in headings()


@pytest.mark.parametrize("name", sorted({*errors.__all__} - {"SenecaError"}))
def test_the_table_of_classes_says_when_and_what_to_do(name):
    row = rf"^\| \[`{name}`\]\(#{name.lower()}\) \| .{{10,}} \| .{{10,}} \|$"
    assert len(re.findall(row, PAGE.read_text(), re.MULTILINE)) == 1


def test_the_page_names_no_error_that_does_not_exist():
    named = {code for code in pages.code_in_text(PAGE) if re.fullmatch(r"[A-Z]\w+Error", code)}
    assert {name for name in named if not hasattr(builtins, name)} <= {*errors.__all__}


def test_each_error_has_symptom_cause_and_remedy():
    for section in re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        name, _, text = section.partition("\n")
        if name in errors.__all__ and "| message |" not in text:
            for part in ("Symptom", "Cause", "Remedy"):
                assert f"* **{part}**: " in text, f"{name} has no {part.lower()}"


@pytest.mark.parametrize("message", quoted())
def test_a_message_is_one_of_the_sources(message):
    sources = literals()
    for part in filter(None, (part.strip() for part in message.split("..."))):
        assert part in sources, f"no source says {part!r}"


def text_of(node):
    """The text of a literal; what is filled in is left out."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def said():
    """Where Seneca raises one of its errors or warns, with a text of its own."""
    for path in sorted((ROOT / "seneca").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            call = node.exc if isinstance(node, ast.Raise) else node
            if not isinstance(call, ast.Call):
                continue
            name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
            wanted = errors.__all__ if isinstance(node, ast.Raise) else ("warn", "_warn")
            text = "".join(map(text_of, call.args))
            if name in wanted and len(re.findall("[a-z]{2,}", text)) > 1:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def test_the_page_has_what_seneca_says():
    parts = [*filter(None, (part.strip() for message in quoted() for part in message.split("...")))]
    found = [*said()]
    assert len(found) > 40
    missing = {where: text for where, text in found if not any(part in text for part in parts)}
    assert not missing, "the page does not quote these"


def test_messages_are_found_and_missed():
    assert len(quoted()) > 60
    assert "no source says this, with letters: \u00e6" not in literals()
