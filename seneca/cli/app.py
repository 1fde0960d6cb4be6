"""What can be typed after ``seneca``. Each command reads its options here and works elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import seneca

__all__ = ["app"]

app = typer.Typer(
    name="seneca",
    help="Training jobs of one host that share one cache of prepared samples.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"seneca {seneca.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    # A callback keeps `seneca demo` a command of several, however many there are.
    pass


@app.command()
def demo(
    data: Annotated[
        Path | None, typer.Option(help="Folder of class folders of pictures; made up where not given.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Training jobs to start, at least 1.")] = 2,
    epochs: Annotated[int, typer.Option(help="Epochs that each job trains, at least 1.")] = 3,
    batch: Annotated[int, typer.Option(help="Pictures a batch, at least 1.")] = 64,
    workers: Annotated[int, typer.Option(help="Threads that prepare pictures in each job.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the orders, the crops and the networks.")] = 0,
    json: Annotated[Path | None, typer.Option(help="Also write the summary to this file.")] = None,
) -> None:
    """Train a small network in several jobs at once and see how they share one cache.

    The status is 0 when every job was given every picture exactly once an epoch, 1 when not or
    when a job failed, 2 when an option cannot be used.
    """
    from seneca.cli.demo import BadOption, Options, run

    try:
        options = Options(data, jobs, epochs, batch, workers, seed, json)
    except BadOption as error:
        typer.echo(f"seneca demo: {error}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(run(options))


@app.command()
def verify(
    logs: Annotated[Path, typer.Argument(help="Folder that SENECA_AUDIT named when the jobs ran.")],
    json: Annotated[Path | None, typer.Option(help="Also write what was found to this file.")] = None,
) -> None:
    """Check that jobs delivered each sample exactly once an epoch, at random, and no copy twice.

    The status is 0 when all invariants hold, 1 when one does not, 2 when there are no logs or they
    cannot be read.
    """
    from seneca.audit import BadLog
    from seneca.cli.verify import run

    try:
        status = run(logs, json)
    except (BadLog, OSError) as error:
        typer.echo(f"seneca verify: {error}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(status)
