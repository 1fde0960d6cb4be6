"""Say which lines and branches of ``csrc/`` the tests in C have run, out of what gcov has of them.

A branch is one way out of a condition. ``SN_CRASH_POINT()`` has some, which are the tests' own: they are not
counted. Needs no package, and no environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What runs only after a death, or decides what a survivor finds.
RECOVERY = ("csrc/store/sn_rebuild.c", "csrc/shm/sn_lock.c", "csrc/slots/")

Lines = dict[int, tuple[int, list[int]]]  # by number: how often it ran, and each of its branches
Share = tuple[int, int]  # so many, of so many


def files_of(notes: list[Path]) -> dict[str, Lines]:
    """What each file of ``csrc/`` has run. A header is compiled with several, whose numbers are added."""
    command = ["gcov", "--json-format", "--stdout", "--branch-probabilities", *map(str, notes)]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files: dict[str, Lines] = {}
    for text in said.splitlines():
        for file in json.loads(text)["files"]:
            if not file["file"].startswith("csrc/"):
                continue
            lines = files.setdefault(file["file"], {})
            for line in file["lines"]:
                branches = [branch["count"] for branch in line["branches"]]
                count, known = lines.get(line["line_number"], (0, []))
                if len(known) == len(branches):
                    branches = [one + other for one, other in zip(known, branches, strict=True)]
                lines[line["line_number"]] = (count + line["count"], max(branches, known, key=len))
    for name, lines in files.items():
        source = (ROOT / name).read_text().splitlines()
        for number, (count, _) in lines.items():
            if "SN_CRASH_POINT(" in source[number - 1]:
                lines[number] = (count, [])
    return files


def shares(files: Iterable[Lines]) -> tuple[Share, Share]:
    """Of lines, and of branches."""
    lines = [line for file in files for line in file.values()]
    branches = [count for _, ways in lines for count in ways]
    return (sum(count > 0 for count, _ in lines), len(lines)), (
        sum(count > 0 for count in branches),
        len(branches),
    )


def shown(name: str, of: tuple[Share, Share]) -> str:
    def per_cent(share: Share) -> str:
        return f"{100 * share[0] / share[1]:6.1f} %" if share[1] else "      - "

    (lines, branches) = of
    counted = (
        f"{lines[0]:6}/{lines[1]:<6}{per_cent(lines)} {branches[0]:6}/{branches[1]:<6}{per_cent(branches)}"
    )
    return f"{name:44}{counted}"


def main() -> None:
    notes = sorted((ROOT / sys.argv[1]).rglob("*.gcda"))
    if not notes:
        sys.exit(f"no test has run in {sys.argv[1]}")
    files = files_of(notes)
    recovery = {name: lines for name, lines in files.items() if name.startswith(RECOVERY)}
    print(f"{'':50}lines{'':18}branches")
    for name in sorted(files):
        print(shown(name, shares([files[name]])))
    print(shown("all of csrc/", shares(files.values())))
    print("\nrecovery:")
    for name in sorted(recovery):
        print(shown(name, shares([recovery[name]])))
        missed = [str(number) for number, (_, ways) in recovery[name].items() if 0 in ways]
        if missed:
            print(f"    lines with a branch that was not taken: {' '.join(missed)}")
    print(shown("all of it", shares(recovery.values())))


if __name__ == "__main__":
    main()
