"""The commands of ``seneca``. This module reads their options; other modules do the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

__all__ = ["app"]

UsageError: Any = typer.BadParameter.__base__  # of click, or of the copy of it that newer typers bring


@contextmanager
def _usage_in_a_line() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "seneca"
        what = " ".join(error.format_message().split()).rstrip(".")
        typer.echo(f"{command}: {what}; see `{command} --help`", err=True)
        raise typer.Exit(2) from None


class _Commands(TyperGroup):
    """Commands that say in one line how they were misused."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **options: Any) -> Any:
        if not args:
            return super().make_context(info_name, args, *more, **options)  # which shows the help
        with _usage_in_a_line():
            return super().make_context(info_name, args, *more, **options)

    def invoke(self, ctx: Any) -> Any:
        with _usage_in_a_line():
            return super().invoke(ctx)


app = typer.Typer(
    name="seneca",
    cls=_Commands,
    help="Training jobs of one host that share one cache of prepared samples.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"seneca {version('seneca-loader')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    # With a callback, `seneca demo` stays a subcommand even if it is the only one.
    pass


@app.command()
def demo(
    data: Annotated[
        Path | None, typer.Option(help="Folder of class folders of pictures; made up where not given.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Training jobs to start.", min=1, max=64)] = 2,
    epochs: Annotated[int, typer.Option(help="Epochs that each job trains.", min=1)] = 3,
    batch: Annotated[int, typer.Option(help="Pictures a batch.", min=1)] = 64,
    workers: Annotated[int, typer.Option(help="Threads that prepare pictures in each job.", min=0)] = 1,
    seed: Annotated[int, typer.Option(help="Of the orders, the crops and the networks.", min=0)] = 0,
    json: Annotated[Path | None, typer.Option(help="Also write the summary to this file.")] = None,
) -> None:
    """Train a small network in several jobs that share one cache.

    `seneca top` shows them, and `seneca verify` checks them. The status is 0 if all invariants hold. It is 1
    if not, or if a job failed. It is 2 if an option cannot be used, or no job got a sample: there may be no
    room for the cache.
    """
    from seneca.cli.demo import Options, run

    raise typer.Exit(run(Options(data, jobs, epochs, batch, workers, seed, json)))


@app.command()
def verify(
    logs: Annotated[Path, typer.Argument(help="Folder that SENECA_AUDIT named when the jobs ran.")],
    json: Annotated[Path | None, typer.Option(help="Also write what was found to this file.")] = None,
) -> None:
    """Check logs: each sample once an epoch, and no copy twice.

    It also checks that the orders are random. The status is 0 if all invariants hold, and 1 if one does not.
    It is 2 if there are no logs or they cannot be read.
    """
    from seneca.audit.log import BadLog
    from seneca.cli.paths import in_a_line
    from seneca.cli.verify import run

    try:
        status = run(logs, json)
    except (BadLog, OSError) as error:
        typer.echo(f"seneca verify: {in_a_line(error)}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(status)


@app.command()
def check(
    folder: Annotated[Path, typer.Argument(help="Folder of class folders of pictures, or any tree of them.")],
    workers: Annotated[int | None, typer.Option(help="Threads that decode; else one a core.", min=1)] = None,
    max_pixels: Annotated[
        int | None,
        typer.Option(help="A picture with more is broken; else those that Pillow refuses.", min=1),
    ] = None,
    fresh: Annotated[bool, typer.Option(help="Read every file, also those that are unchanged.")] = False,
    json: Annotated[Path | None, typer.Option(help="Also write what was found to this file.")] = None,
) -> None:
    """Decode every picture below a folder, and list the broken ones.

    Each is listed with its path and the reason. Ctrl-C stops the check. The next one goes on from there, and
    leaves out files that have not changed. The status is 0 if no picture is broken, and 1 if one is. It is 2
    if the folder cannot be used.
    """
    from seneca.cli.check import BadCheck, run
    from seneca.cli.paths import in_a_line

    try:
        status = run(folder, workers=workers, max_pixels=max_pixels, fresh=fresh, to=json)
    except (BadCheck, OSError) as error:
        typer.echo(f"seneca check: {in_a_line(error)}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(status)


_FRESH = typer.Option(help="Measure, even where this host and folder have been measured before.")
_TRANSFORM = typer.Option(
    help="module:name or file.py:name; else the usual one of image classifiers. All of the file runs, "
    'but for what stands under if __name__ == "__main__":.'
)
_STEP = typer.Option(help="Samples/s of the training step, or a script that defines step(images, labels).")
_BATCH = typer.Option(help="Samples of a batch.", min=1)
_BYTES = "A number alone is bytes."
_MEMORY = typer.Option(help=f'For payloads, as the loader\'s cache_bytes: "8GiB", or "auto". {_BYTES}')


@app.command()
def profile(
    folder: Annotated[Path, typer.Argument(help="Folder of class folders of pictures.")],
    transform: Annotated[str | None, _TRANSFORM] = None,
    step: Annotated[str | None, _STEP] = None,
    batch: Annotated[int, _BATCH] = 256,
    memory: Annotated[str, _MEMORY] = "auto",
    fresh: Annotated[bool, _FRESH] = False,
    json: Annotated[Path | None, typer.Option(help="Also write the profile to this file.")] = None,
) -> None:
    """Measure this host with your files and transform, in 15 s.

    It measures storage, CPU and memory. The status is 2 if something cannot be used or read.
    """
    from rich.console import Console

    from seneca.cli.paths import in_a_line
    from seneca.cli.planning.profile import BadProfiling, measured, profile_table

    console = Console()
    try:
        found = measured(
            folder, console, transform=transform, step=step, batch=batch, memory=memory, fresh=fresh
        )
        if json is not None:
            found.save(json)
    except (BadProfiling, OSError) as error:
        typer.echo(f"seneca profile: {in_a_line(error)}", err=True)
        raise typer.Exit(2) from None
    profile_table(found, console)


@app.command()
def plan(
    folder: Annotated[Path | None, typer.Argument(help="Folder of class folders of pictures.")] = None,
    profile: Annotated[Path | None, typer.Option(help="A profile in a file, instead of a folder.")] = None,
    jobs: Annotated[int, typer.Option(help="Training jobs that run at once.")] = 1,
    step: Annotated[str | None, _STEP] = None,
    threads: Annotated[
        int | None, typer.Option(help="That prepare in each job (num_workers); else one a core.", min=0)
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Samples of a batch; else the profiled script's, or 256.", min=1)
    ] = None,
    memory: Annotated[str, _MEMORY] = "auto",
    transform: Annotated[str | None, _TRANSFORM] = None,
    what_if: Annotated[
        str | None,
        typer.Option(
            help='Another host, other jobs: "memory=64GiB cores=16 storage=2x gpu=2x jobs=1..8 loader=torch".'
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="bottleneck; paper: the equations as published; torch: torch's own loader. "
            "Else the one of the loader that the profile is of."
        ),
    ] = None,
    fresh: Annotated[bool, _FRESH] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Find the split of the cache, what it gives, and what limits.

    It also says what more memory or cores would give. The status is 2 if something cannot be used or read.
    """
    from seneca.cli.planning.command import BadPlan, Wanted, run

    try:
        run(
            Wanted(folder, profile, jobs, step, threads, batch, memory, transform, what_if, model, fresh),
            json=json,
        )
    except BadPlan as error:
        typer.echo(f"seneca plan: {error}", err=True)
        raise typer.Exit(2) from None


_JSON = typer.Option("--json", help="Print JSON instead of text.")


def _of_segments(command: str, run: Callable[[], int]) -> None:
    from seneca._runtime.printable import printable
    from seneca.cli.caches.segments import BadUse

    try:
        status = run()
    except BadUse as error:
        typer.echo(f"seneca {command}: {printable(str(error))}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(status)


@app.command()
def ls(json: Annotated[bool, _JSON] = False) -> None:
    """List the caches of this host, their users and memory.

    It also lists the lists of samples that are kept on disk. Nobody notices: nothing is attached, locked or
    changed. Other users' caches are listed with their owner. They are those in /dev/shm, or in the folder
    that SENECA_DIR names. The status is 2 if it can hold none.
    """
    from seneca.cli.caches.segments import ls

    _of_segments("ls", lambda: ls(as_text=json))


@app.command()
def stat(
    name: Annotated[
        str | None, typer.Argument(help="A name that `seneca ls` lists; left out: the only cache.")
    ] = None,
    json: Annotated[bool, _JSON] = False,
) -> None:
    """Show what a cache holds, its split, and the jobs that use it.

    The status is 2 if there is no such cache, or it cannot be read.
    """
    from seneca.cli.caches.segments import stat

    _of_segments("stat", lambda: stat(name, as_text=json))


@app.command()
def rm(
    names: Annotated[list[str], typer.Argument(help="Names that `seneca ls` lists.")],
    force: Annotated[bool, typer.Option("--force", help="Also what is in use, or cannot be read.")] = False,
) -> None:
    """Remove caches that nobody uses, also those to be kept.

    The status is 2 if there is no such cache, or it is in use.
    """
    from seneca.cli.caches.segments import rm

    _of_segments("rm", lambda: rm(names, force=force))


@app.command()
def prune(
    kept: Annotated[
        bool, typer.Option("--kept", help="Also caches to be kept that nobody uses now.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(
            help=f"Leave caches to be kept that nobody uses so much memory: 8GiB. The best stay. {_BYTES}"
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing, say what would be.")] = False,
) -> None:
    """Free the memory of caches whose jobs were all killed. Remove lists of samples that nobody needs.

    The status is 1 if one of them could not be removed.
    """
    from seneca.cli.caches.segments import prune

    _of_segments("prune", lambda: prune(kept=kept, to=to, dry_run=dry_run))


@app.command()
def warm(
    folder: Annotated[Path, typer.Argument(help="Folder of class folders of pictures.")],
    keep: Annotated[str, typer.Option(help="How long it stays after its last user: 10min, 2h.")] = "1h",
    memory: Annotated[str, _MEMORY] = "auto",
    split: Annotated[str, typer.Option(help="As the loader's split: 58-42-0, 20-38-42-0, or auto.")] = "auto",
    transform: Annotated[str | None, _TRANSFORM] = None,
    cache: Annotated[str, typer.Option(help="As the loader's cache: a name, or auto.")] = "auto",
    workers: Annotated[int | None, typer.Option(help="Threads that prepare; else one a core.", min=1)] = None,
) -> None:
    """Fill a cache before jobs start. They find it warm if they load the same folder.

    What is decoded serves the jobs whose transform begins like --transform does: with the same Resize, or
    with none. Ctrl-C stops it, and what is filled stays. The status is 2 if the cache cannot be filled.
    """
    from seneca.cli.caches.warm import BadWarming, Wanted, run

    try:
        status = run(Wanted(folder, transform, memory, split, keep, cache, workers))
    except BadWarming as error:
        typer.echo(f"seneca warm: {error}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(status)


@app.command()
def top(
    name: Annotated[str | None, typer.Argument(help="One cache that `seneca ls` lists; else all.")] = None,
    every: Annotated[float, typer.Option(help="Seconds between two readings.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print once, after that time, and end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, an object a line.")] = False,
) -> None:
    """Show what each job gets and waits for, until Ctrl-C.

    Nobody notices: nothing is attached, locked or changed. The status is 2 if there is no such cache, or it
    cannot be read.
    """
    from seneca.cli.watch.top import run

    _of_segments("top", lambda: run(name, every_s=every, once=once, as_text=json))


@app.command()
def metrics(
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen at; 0: any that is free.")] = 9469,
    once: Annotated[bool, typer.Option("--once", help="Print the metrics, and end.")] = False,
) -> None:
    """Serve metrics of this user's jobs to Prometheus, at /metrics.

    The status is 2 if it cannot listen there.
    """
    from seneca.cli.watch.metrics import run

    _of_segments("metrics", lambda: run(host, port, once=once))


@app.command()
def report(
    file: Annotated[Path, typer.Argument(help="The page to write, as report.html.")],
    cache: Annotated[str | None, typer.Option(help="One cache that `seneca ls` lists; else all.")] = None,
    duration: Annotated[str | None, typer.Option("--for", help='At most so long, as "10min".')] = None,
) -> None:
    """Watch the jobs until all have ended, and write a report page.

    Ctrl-C ends it too. Where no job runs yet, it says so and waits for one. The page has throughput, forms,
    stalls and memory over time, and needs no network. The status is 1 if no job got a sample meanwhile. It is
    2 if the file cannot be written, or the cache cannot be read.
    """
    from seneca.cli.watch.report import run

    _of_segments("report", lambda: run(file, cache, duration=duration))


@app.command()
def shrink(
    name: Annotated[str, typer.Argument(help="A name that `seneca ls` lists.")],
    size: Annotated[str, typer.Argument(help=f'What is left to payloads: "2GiB". {_BYTES}')],
) -> None:
    """Let a cache give memory back, for good, while its jobs go on.

    The status is 1 if some of that memory is in use still. It is 2 if there is no such cache, or its jobs
    need more.
    """
    from seneca.cli.caches.segments import shrink

    _of_segments("shrink", lambda: shrink(name, size))


remote = typer.Typer(
    help="The memory of several hosts, on Redis or Valkey servers.", no_args_is_help=True, cls=_Commands
)
app.add_typer(remote, name="remote")


@remote.callback()
def _remote() -> None:
    # With a callback, `seneca remote serve` stays a subcommand of its own.
    pass


@remote.command()
def serve(
    memory: Annotated[str, typer.Option(help=f"For the files of samples: 64GiB. {_BYTES}")],
    bind: Annotated[
        list[str] | None,
        typer.Option(help="Address of this host to listen on; again for more. Else this host alone gets in."),
    ] = None,
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 6379,
    folder: Annotated[
        Path | None, typer.Option(help="For configuration, password and socket; else in the user's cache.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Ask no password, whoever reaches the address.")
    ] = False,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Speak TLS, with this certificate in PEM. Clients write rediss://.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of that certificate, in PEM.")] = None,
    print_: Annotated[
        str | None,
        typer.Option(
            "--print", help="Print it instead: systemd (a unit), k8s (manifests), slurm (a script)."
        ),
    ] = None,
) -> None:
    """Start valkey-server or redis-server, configured for files of samples, in the place of this command.

    Loaders use it if SENECA_REMOTE or remote= names it. Its clients can read and write keys of Seneca's, and
    nothing else. If other hosts can reach it, it asks for a password: the one in SENECA_REMOTE_PASSWORD, or
    one that it makes. Nothing is written to disk. The status is 2 if an option cannot be used, or no server
    is installed.
    """
    from seneca.cli.caches.remote import CannotServe, run
    from seneca.cli.paths import in_a_line

    try:
        run(
            memory,
            bind or ["127.0.0.1"],
            port,
            folder,
            insecure=insecure,
            to_print=print_,
            tls_cert=tls_cert,
            tls_key=tls_key,
        )
    except (CannotServe, OSError) as error:
        typer.echo(f"seneca remote serve: {in_a_line(error)}", err=True)
        raise typer.Exit(2) from None


@app.command()
def doctor(
    data: Annotated[Path | None, typer.Option(help="Also check the file system of this folder.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Check this host for what makes jobs slow or ends them.

    It also says what keeps jobs from sharing, and what mends each finding. Nothing is changed. The status is
    0 if nothing is wrong, and 1 if there is a warning or a problem. It is 2 if the folder is not there.
    """
    from seneca.cli.doctor import CannotExamine, run

    try:
        status = run(data, as_json_text=json)
    except CannotExamine as error:
        typer.echo(f"seneca doctor: {error}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(status)


@app.command(context_settings={"allow_interspersed_args": False})
def analyze(
    command: Annotated[list[str], typer.Argument(help="The script as it is typed: python train.py ...")],
    json: Annotated[Path | None, typer.Option(help="Also write what was found to this file.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write a page with a timeline of the steps to this file.")
    ] = None,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Measure step and loader apart after 65 steps, and end the run. Predict what Seneca gives.",
        ),
    ] = False,
) -> None:
    """Run a training script, and say why its step waits.

    It also says what would change that. The script is not changed, and may use any loader of torch. Its
    output, signals and status pass through. What was found goes to stderr. The status is 2 if the script
    cannot be started, or has no loader.
    """
    from seneca.cli.analyze.command import CannotAnalyze, run

    try:
        status = run(command, json, html, deep=deep)
    except (CannotAnalyze, OSError) as error:
        typer.echo(f"seneca analyze: {error}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(status)
