"""Reads the pages that commands write."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br"}


class Tags(HTMLParser):
    """Checks that every element is closed in its turn, and keeps what could load something."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.loads, self.names, self.text = [], [], set(), []

    def handle_starttag(self, tag, attributes):
        self.names.add(tag)
        self.loads += [
            f"{name}={value}" for name, value in attributes if name in ("src", "href", "xlink:href")
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def tags(text):
    found = Tags()
    found.feed(text)
    found.close()
    assert found.open == []
    return found
