"""``seneca warm``: fill a cache before jobs start, and have it kept until they come."""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from seneca._runtime.enabled import off_because
from seneca._runtime.printable import printable
from seneca.cache import SampleCache
from seneca.cli.paths import cannot_list, in_a_line
from seneca.cli.planning.profile import BadProfiling, transform_named
from seneca.cli.planning.what_if import show_bytes
from seneca.errors import DecodeError, SenecaError
from seneca.forms import KEPT_FORMS
from seneca.options import parse_keep
from seneca.tuning.host import cores

__all__ = ["BadWarming", "Wanted", "run"]

CHECK_EVERY_S = 0.25
BATCH = 64
MOST_EPOCHS = 4  # what is under way when a form becomes full is kept in another form in the next epoch
TRIED = 1024  # where none of so many samples fits, none is expected to
KEPT = tuple(form.name.lower() for form in KEPT_FORMS)


class BadWarming(ValueError):
    """The cache cannot be filled. The message is one line that says why."""


@dataclass(frozen=True)
class Wanted:
    """A request to fill a cache.

    Args:
        folder: A folder of class folders of pictures or sounds.
        transform: ``module:name`` or ``file.py:name``; None: the usual transform of image classifiers.
        memory: As the loader's ``cache_bytes``.
        split: As the loader's ``split``.
        keep: As the loader's ``keep``.
        cache: As the loader's ``cache``, but for None.
        workers: Threads that prepare; None: one a core.
    """

    folder: Path
    transform: str | None
    memory: str
    split: str
    keep: str
    cache: str
    workers: int | None


@dataclass(frozen=True)
class _Filled:
    """How the filling ended.

    Args:
        interrupted: Whether a Ctrl-C came.
        skipped: The pictures that cannot be read.
    """

    interrupted: bool
    skipped: int


def run(wanted: Wanted, console: Console | None = None) -> int:
    """Fill the cache, and print what it holds then. Returns the status: 130 after a Ctrl-C.

    Jobs that load the folder with a transform of the same beginning find it there. It is filled as a job
    would fill it: in as many epochs as it takes until all samples are kept or there is no room for more.

    Raises:
        BadWarming: An argument is not as described, there is no room, not one sample fits, the transform
            fails, or a picture cannot be read. A cache that was made for this is removed then.
    """
    if (why := off_because()) is not None:
        raise BadWarming(f"there is no cache here: {why}")
    if (why := cannot_list(wanted.folder)) is not None:
        raise BadWarming(why)
    console = console or Console()
    loader = None
    try:
        loader = _loader(wanted)
        filled = _fill(loader, console)
        _report(loader, wanted, filled, console)
    except Exception as error:
        _remove_what_was_made(loader)
        if wanted.transform is None and not isinstance(error, (SenecaError, OSError, ValueError)):
            raise
        # torch's frames hold the iterator, and the error holds them in a ring. Were they left to the garbage
        # collector, the queues would close before torch asks the workers to end: it would wait five seconds.
        traceback.clear_frames(error.__traceback__)
        raise BadWarming(_one_line(error, wanted)) from None
    if filled.interrupted:
        print("interrupted; what is filled stays, and `seneca warm` goes on from there", file=sys.stderr)
    return 130 if filled.interrupted else 0


def _loader(wanted: Wanted) -> Any:
    from seneca import transforms as T
    from seneca.data.archive import open
    from seneca.data.sounds import SoundFolder
    from seneca.loader import DataLoader

    given = None if wanted.transform is None else transform_named(wanted.transform)
    dataset: Any = open(wanted.folder, given)
    of_sounds = isinstance(dataset, SoundFolder)
    if given is None and not of_sounds:
        dataset.transform = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip()])
    loader: Any = DataLoader(
        dataset,
        BATCH,
        collate_fn=_as_items if of_sounds and dataset.pipeline().output_size == (0, 0) else None,
        num_workers=wanted.workers or cores(),
        cache=wanted.cache,
        cache_bytes=wanted.memory,
        split=wanted.split,
        keep=wanted.keep,
    )
    if loader._not_native_because(loader._grade()) is None:
        loader.on_error = "skip"  # of no effect elsewhere, and a warning would say that
    return loader


def _as_items(items: list[Any]) -> list[Any]:
    """Sounds of different lengths, which nobody examines here."""
    return items


def _remove_what_was_made(loader: Any) -> None:
    """Remove the cache if this process has made it: nobody asked for one that cannot be filled."""
    cache = None if loader is None else loader._session.cache
    if cache is not None and cache.created:
        with contextlib.suppress(FileNotFoundError):
            SampleCache.remove(cache.name)


def _one_line(error: Exception, wanted: Wanted) -> str:
    """What went wrong. Of an error in a worker process only the last part of its traceback is shown."""
    _, remote, rest = str(error).rpartition("Traceback (most recent call last):")
    of_worker = " ".join(line for line in rest.splitlines() if not line.startswith(" "))
    text = printable(" ".join(of_worker.split())) if remote else in_a_line(error)
    if isinstance(error, DecodeError):
        return f"{text}; `seneca check` lists all that cannot be decoded"
    if wanted.transform is None or isinstance(error, (BadWarming, BadProfiling, SenecaError, OSError)):
        return text
    if not remote:
        text = f"{type(error).__name__}: {text}"
    return (
        f"--transform {wanted.transform}: {text}; a transform takes a picture of Pillow's, and returns a "
        "tensor, of one shape for all pictures"
    )


def _fill(loader: Any, console: Console) -> _Filled:
    """Iterate until all samples are kept, the cache is full, or another epoch adds nothing."""
    columns = TextColumn("{task.fields[rate]}"), BarColumn(), TimeRemainingColumn()
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task("", total=len(loader.dataset), rate="")
    kept = skipped = 0
    try:
        with progress:
            for epoch in range(MOST_EPOCHS):
                began, next_check, done = time.monotonic(), 0.0, 0
                for *_, labels in loader:
                    done += len(labels)
                    if (now := time.monotonic()) < next_check:
                        continue
                    next_check = now + CHECK_EVERY_S
                    progress.update(task, completed=done, rate=f"{done / (now - began):,.0f} samples/s")
                    holds = loader.stats()["cache"]
                    if _is_full(holds) or (done >= TRIED and _kept(holds) == 0 and epoch == 0):
                        return _Filled(False, loader.stats()["skipped"] if epoch == 0 else skipped)
                before, kept = kept, _kept(loader.stats()["cache"])
                if epoch == 0:
                    skipped = loader.stats()["skipped"]
                if kept <= before or kept + skipped >= len(loader.dataset):
                    break
    except KeyboardInterrupt:
        return _Filled(True, loader.stats()["skipped"])
    return _Filled(False, skipped)


def _kept(holds: dict[str, Any] | None) -> int:
    """How many samples are kept. None is kept in two forms."""
    return 0 if holds is None else sum(holds["payloads"][form] for form in KEPT)


def _is_full(holds: dict[str, Any] | None) -> bool:
    """Whether no form has room for two more payloads of the mean size.

    Not while nothing is kept. Not while payloads are being written either: ``bytes`` has them already, and
    they would be lost with the iterator.
    """
    if holds is None or holds["writing"] or _kept(holds) == 0:
        return False
    mean = sum(holds["bytes"][form] for form in KEPT) / _kept(holds)
    return all(holds["budget_bytes"][form] - holds["bytes"][form] < 2 * mean for form in KEPT)


def _report(loader: Any, wanted: Wanted, filled: _Filled, console: Console) -> None:
    stats = loader.stats()
    holds, samples = stats["cache"], len(loader.dataset)
    if holds is None:
        raise BadWarming(f"nothing was kept: {loader.explain().splitlines()[0]}")
    cache, room = loader._session.cache, show_bytes(holds["payload_bytes"])
    files = show_bytes(loader.dataset.total_bytes())
    take = f"all {samples:,} take {files} encoded, and decoded some five times as much"
    if _kept(holds) == 0 and stats["delivered"] > 0 and not filled.interrupted:
        remove = "" if cache.created else f"`seneca rm {cache.name}`, and "
        raise BadWarming(
            f"not one of {stats['delivered']:,} samples fits in {room} with the split {holds['split']}: "
            f"{take}; {remove}give more --memory or another --split"
        )

    def say(text: str) -> None:
        console.print(printable(text), highlight=False, soft_wrap=True)

    if not cache.created:
        say(f"the cache {cache.name} was there already: its size ({room}) and its split stay as they were")
    kept = ", ".join(
        f"{holds['payloads'][form]:,} {form} ({show_bytes(holds['bytes'][form])})" for form in KEPT
    )
    say(f"the cache {cache.name} holds {kept} of {samples:,} samples")
    if filled.skipped:
        say(f"{filled.skipped:,} pictures cannot be read; `seneca check` lists them")
    left = samples - _kept(holds) - filled.skipped
    if left > 0 and not filled.interrupted:
        say(
            f"{left:,} samples are not kept: there is no room for them in {room} with the split "
            f"{holds['split']}; {take}. To keep more, `seneca rm {cache.name}`, and give more --memory or "
            "another --split"
        )
    if parse_keep(wanted.keep) > 0:
        say(f"it stays {wanted.keep} after its last user; `seneca rm {cache.name}` removes it")
    else:
        say(f"--keep {wanted.keep} does not keep it: it goes with its last user, which this command may be")
