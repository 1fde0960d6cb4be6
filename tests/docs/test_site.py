"""The pages as a site: every page has its place, and Sphinx builds it without a warning.

`make docs` makes the environment with Sphinx. Where there is none, only the order of the pages is examined.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pages
import pytest
from pages import ROOT

import seneca

DOCS = ROOT / "docs"
PICTURES = sorted((DOCS / "pictures").glob("*.svg"))


def in_order() -> list[str]:
    """What the tables of contents of docs/index.md list, relative to docs/."""
    trees = re.findall(
        r"^:::\{toctree\}\n(.*?)^:::$", (DOCS / "index.md").read_text(), re.MULTILINE | re.DOTALL
    )
    lines = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    return [re.sub(r".*<(.+)>$", r"\1", line) for line in lines]


def test_the_site_orders_the_pages_as_the_list_does():
    listed = [target for target in pages.links(DOCS / "README.md") if re.fullmatch(r"[a-z-]+\.md", target)]
    listed.remove("index.md")
    assert [f"{name}.md" for name in in_order() if re.fullmatch(r"[a-z-]+", name)] == listed


def test_every_entry_is_a_page():
    entries = in_order()
    assert [name for name in entries if not (DOCS / f"{name}.md").is_file()] == []
    assert len(set(entries)) == len(entries)


def test_the_list_for_coding_assistants_leads_to_pages_and_names_what_there_is():
    text = (DOCS / "site" / "llms.txt").read_text()
    linked = re.findall(r"\]\(docs/([\w-]+)\.html\)", text)
    assert linked and [name for name in linked if name not in in_order()] == []
    assert text.count("](") == len(linked)
    of_seneca = re.findall(r"\bseneca\.(\w+)", text)
    assert of_seneca and [name for name in of_seneca if not hasattr(seneca, name)] == []
    of_loaders = re.findall(r"\bloader\.(\w+)\(", text)
    assert of_loaders and [name for name in of_loaders if not hasattr(seneca.DataLoader, name)] == []


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_shown_and_says_what_it_shows(picture):
    shown = [page for page in DOCS.glob("*.md") if f"pictures/{picture.name}" in pages.links(page)]
    assert shown
    text = picture.read_text()
    assert 'role="img" aria-label="' in text
    assert "prefers-color-scheme" not in text  # a page's own switch of colours would not reach it


def sphinx() -> list[str] | None:
    """How Sphinx is run here; None: it is not here."""
    if find_spec("sphinx") and find_spec("myst_parser") and find_spec("furo"):
        return [sys.executable, "-m", "sphinx"]
    of_docs = ROOT / ".venv-docs"
    return [str(of_docs / "bin" / "python"), "-m", "sphinx"] if (of_docs / ".built").exists() else None


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    run = sphinx()
    if run is None:
        pytest.skip("Sphinx is not here; `make docs` installs it")
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [*run, "-W", "--keep-going", "-E", "-q", "-b", "html", "-c", "docs", ".", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return out


@pytest.mark.whole_size(shown_by="test_every_entry_is_a_page")
def test_the_site_is_built_without_warnings(site):
    for name in in_order():
        assert (site / "docs" / f"{name}.html").is_file()
    front = (site / "index.html").read_text()
    assert "docs/index.html" in front


@pytest.mark.whole_size(shown_by="test_every_entry_is_a_page")
def test_the_api_has_every_public_name(site):
    text = (site / "docs" / "api.html").read_text()
    others = {"SenecaError", "__version__", "errors", "transforms"}  # a base class, a text, two modules
    names = [f"seneca.{name}" for name in seneca.__all__ if name not in others]
    names += [f"seneca.errors.{name}" for name in seneca.errors.__all__]
    names += [f"seneca.transforms.{name}" for name in seneca.transforms.__all__ if not name.isupper()]
    assert [name for name in names if f'id="{name}"' not in text] == []


@pytest.mark.whole_size(shown_by="test_every_entry_is_a_page")
def test_links_out_of_the_folder_lead_to_pages_of_the_site(site):
    text = (site / "docs" / "limits.html").read_text()
    assert 'href="../csrc/README.html"' in text
    assert 'href="sharing.html#how-a-dataset-is-shared"' in text
