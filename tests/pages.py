"""What a page of Markdown has: blocks of code, code in the text, sentences, headings, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["PAGES", "ROOT", "Block", "anchors", "blocks", "code_in_text", "commands", "links", "sentences"]

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
"""The user's pages, whose snippets are run."""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[(?P<text>[^][]*)\]\((?P<target>[^()\s]+)\)")
ABBREVIATIONS = ("al.", "e.g.", "i.e.")  # end no sentence


class Block(NamedTuple):
    """A fenced block of code."""

    language: str
    text: str
    line: int  # of the page, where it begins
    heading: str  # that it stands under


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text()
    found = []
    for match in FENCE.finditer(text):
        before = FENCE.sub("", text[: match.start()])
        headings = re.findall(r"^#+ (.+)$", before, re.MULTILINE)
        line = text[: match.start()].count("\n") + 1
        found.append(Block(match[1], match[2], line, headings[-1] if headings else ""))
    return found


def commands(block: Block) -> list[str]:
    """What is typed at a shell, a line each, without comments."""
    lines = block.text.splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line.partition("  #")[0].strip() for line in lines]


def _text_of(page: Path) -> str:
    """All but the blocks."""
    return FENCE.sub("\n\n", page.read_text())


def code_in_text(page: Path) -> list[str]:
    """Code that stands in sentences and tables."""
    return CODE.findall(_text_of(page))


def sentences(page: Path) -> Iterator[str]:
    """The sentences of paragraphs and lists; tables, headings and code left out."""
    text = re.sub(r"^(#+ .*|\|.*)$", "", _text_of(page), flags=re.MULTILINE)
    text = LINK.sub(r"\g<text>", CODE.sub("code", text))
    for paragraph in re.split(r"\n\s*(?:[*-]|\d+\.) |\n\s*\n", "\n" + text):
        begun: list[str] = []
        for word in paragraph.split():
            begun.append(word)
            bare = word.rstrip("\"')*_")
            if bare.endswith((".", "?", "!")) and bare not in ABBREVIATIONS:
                yield " ".join(begun)
                begun = []
        if begun:
            yield " ".join(begun)


def anchors(page: Path) -> set[str]:
    """The names under which headings can be linked to, as GitHub makes them."""
    made: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", _text_of(page), re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", LINK.sub(r"\g<text>", heading).lower()).replace(" ", "-")
        number = 0
        while (unique := f"{name}-{number}" if number else name) in made:
            number += 1
        made.add(unique)
    return made


def links(page: Path) -> list[str]:
    """Where its links lead."""
    return [match["target"] for match in LINK.finditer(CODE.sub("code", _text_of(page)))]
