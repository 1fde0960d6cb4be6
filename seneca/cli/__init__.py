"""The command ``seneca``. It needs typer and rich, which the extra ``cli`` installs."""

from __future__ import annotations

import importlib.util
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, and exit with its status. The status is 1 if the extra is not installed."""
    for name in ("typer", "rich"):
        if importlib.util.find_spec(name) is None:
            print(f"seneca: this command needs {name}; pip install 'seneca-loader[cli]'", file=sys.stderr)
            sys.exit(1)
    from seneca.cli.app import app

    app(prog_name="seneca")
