"""What is written from the record of Seneca's options: parts of seneca/faces.py, and a table of README.md.

``make generated`` writes them. A test compares.
"""

import json
import re
import textwrap
from dataclasses import fields
from pathlib import Path

from seneca.options import Options

ROOT = Path(__file__).parents[1]
FACES, README = ROOT / "seneca" / "faces.py", ROOT / "README.md"
ARGUMENTS = "        # Seneca's options\n"
ATTRIBUTES = "        # Seneca's options, as attributes\n"
TABLE = "| argument | default | meaning |\n| --- | --- | --- |\n"
LIKE_THE_LOADERS = "As in :class:`seneca.DataLoader`, but ``cache`` is a name or None."


def default(option):
    """A default as code: ``4096``, ``"auto"``, ``torch.contiguous_format``."""
    value = option.default
    if not isinstance(value, str):
        return repr(value)
    return value if value.startswith("torch.") else json.dumps(value)


def parameters(options, *, of_dataset):
    for one in options:
        own = one.metadata["of_dataset"]
        kind = own if of_dataset and isinstance(own, str) else one.type
        yield f"        {one.name}: {kind} = {default(one)},"


def entry(names, text):
    """An entry of a docstring's list of arguments."""
    indents = {"initial_indent": " " * 12, "subsequent_indent": " " * 16}
    return textwrap.fill(f"{names}: {text}", 110, **indents, break_long_words=False, break_on_hyphens=False)


def replaced(text, begin, lines, end):
    """The text with these lines between ``begin`` and the next ``end``."""
    head, mark, rest = text.partition(begin)
    assert mark, f"there is no {begin!r}"
    return head + mark + "".join(f"{line}\n" for line in lines) + rest[rest.index(end) :]


def with_constructor(source, options, *, of_dataset):
    """The source of a class with these options in its constructor."""
    names = [one.name for one in options]
    if of_dataset:
        entries = [entry(", ".join(names), LIKE_THE_LOADERS)]
    else:
        entries = [entry(one.name, one.metadata["doc"]) for one in options]
    source = replaced(source, ARGUMENTS, parameters(options, of_dataset=of_dataset), "    ) -> None:")
    source = replaced(source, "        Keyword Args:\n", entries, "\n        Raises:")
    return replaced(
        source, ATTRIBUTES, [f"        self.{name} = {name}" for name in names], "\n        self._"
    )


def faces(record=Options):
    """seneca/faces.py with the options of this record."""
    head, loader, dataset = re.split(r"^(?=class )", FACES.read_text(), flags=re.MULTILINE)
    theirs = [one for one in fields(record) if one.metadata["of_dataset"]]
    loader = with_constructor(loader, fields(record), of_dataset=False)
    return head + loader + with_constructor(dataset, theirs, of_dataset=True)


def readme(record=Options):
    """README.md with a table of the options of this record."""
    rows = [f"| `{one.name}` | `{default(one)}` | {one.metadata['row']} |" for one in fields(record)]
    return replaced(README.read_text(), TABLE, rows, "\n## ")


if __name__ == "__main__":
    FACES.write_text(faces())
    README.write_text(readme())
