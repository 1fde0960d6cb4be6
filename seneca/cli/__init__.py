"""The command ``seneca``."""

from __future__ import annotations

import io
import sys

from seneca.errors import NotBuiltError

__all__ = ["main"]


def main() -> None:
    """Run the command line, and exit with its status. The status is 2 if the native core is not built."""
    from seneca.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a job's name may hold what a terminal's encoding lacks
            stream.reconfigure(errors="replace")
    try:
        app(prog_name="seneca")
    except NotBuiltError as error:
        print(f"seneca: {error}", file=sys.stderr)
        sys.exit(2)
