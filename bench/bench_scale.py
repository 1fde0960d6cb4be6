"""What does a draw cost where the dataset has 14 million samples and eight jobs share?

Question. How long does one draw of 256 places take, of its own and waiting for the lock that all draws of a
host share; how long the beginning of an epoch; and how much memory do the records need?

Method. ``--jobs`` processes with a member each share one segment, with a stage of a hundredth of the dataset.
Nothing is decoded: what a draw reserves is committed two batches later. They first go through ``--from`` of
an epoch in turns. Then draws are timed in C, in three settings: *paced*, where each job draws about every
``--period`` ms (that varies by half of it) as jobs do that train, and two cores have time for all;
*in turn*, one draw after another, so nobody waits and caches are warm; *saturated*, where eight processes
do nothing but draw, which no job does. Then the jobs go on to ``--late`` of the epoch, where few samples are
left and most places of a member's permutation are taken, and draw in turn again, to the end.

A draw's time has its wait for the lock in it; what it waited is given besides. Who lets go of the lock has it
again before a waiter wakes, so of saturated draws most wait for nobody and few for time slices. Handed over
in turn it would make every draw wait for seven others, and wake a process for each; jobs that train meet too
seldom to gain by it.

An epoch's beginning is all of sn_member_open(), the permutation's key, the member's bits and its row. Making
the segment is given besides, since memory for the first eight members is made with it. Records are what the
segment takes but the payloads.

    python bench/bench_scale.py --json scale.json
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import report
from scale_loop import ScaleJobs, bytes_of, compile_loop, percentiles

GRANULE = 4096
SAMPLES = 14_000_000  # ImageNet-22K


def measure(options: argparse.Namespace, program: Path) -> dict[str, Any]:
    """All of it, seconds and bytes."""
    copies = max(4096, options.samples // 100)
    with ScaleJobs(program, options.samples, options.jobs, copies, options.batch) as jobs:
        attached = jobs.attached
        first = jobs.open(0)
        jobs.warm(int(options.samples * options.part / options.batch))
        draws: dict[str, Any] = {}
        for setting, timed in (
            ("paced", lambda: jobs.draw(options.draws, options.period / 1000)),
            ("in turn", lambda: jobs.draw_in_turn(options.draws)),
            ("saturated", lambda: jobs.draw(options.draws, 0)),
        ):
            took = timed()
            draws[setting] = {"draw": percentiles(took[:, 0]), "waited": percentiles(took[:, 1])}
        left = jobs.left() - int(options.samples * (1 - options.late))
        if left > 0:
            jobs.warm(left // options.batch)
            took = jobs.draw_in_turn(max(1, jobs.left() // options.batch))
            draws["late, in turn"] = {"draw": percentiles(took[:, 0]), "waited": percentiles(took[:, 1])}
        ends = jobs.close()
        begins = [seconds for epoch in range(1, 4) for seconds in (jobs.open(epoch), jobs.close())[0]]
        records = jobs.reserved_bytes - copies * GRANULE
    slots = 2 * copies
    return {
        "samples": options.samples,
        "jobs": options.jobs,
        "batch": options.batch,
        "copies": copies,
        "draws": draws,
        "attach": {"made": attached[0], "joined": percentiles(attached[1:] or attached)},
        "epoch": {"first": percentiles(first), "begin": percentiles(begins), "end": percentiles(ends)},
        "records": records,
        "allowed": sum(bytes_of(options.samples, options.jobs, slots).values()),
    }


def show(result: dict[str, Any]) -> None:
    """Print what :func:`measure` gave."""
    lines = []
    for setting, times in result["draws"].items():
        for what in ("draw", "waited"):
            row = (
                f"{setting}: a draw of {result['batch']}"
                if what == "draw"
                else "   of it waiting for the lock"
            )
            lines.append((row, *(f"{times[what][name] * 1e6:,.0f} µs" for name in ("median", "p99", "max"))))
    for what, name in (
        ("first", "an epoch begins, in a new row"),
        ("begin", "an epoch begins"),
        ("end", "an epoch ends"),
    ):
        times = result["epoch"][what]
        lines.append((name, *(f"{times[part] * 1000:,.2f} ms" for part in ("median", "p99", "max"))))
    made, joined = result["attach"]["made"], result["attach"]["joined"]["median"]
    title = f"{result['samples']:,} samples, {result['jobs']} jobs, a stage of {result['copies']:,} copies"
    report.print_table(title, ["", "median", "p99", "max"], lines)
    payload = result["copies"] * GRANULE / 2**20
    print(
        f"the segment, {payload:,.0f} MiB besides records, is made in {made * 1000:,.0f} ms,"
        f" and joined in {joined * 1000:.2f} ms"
    )
    records, allowed = result["records"] / 2**20, result["allowed"] / 2**20
    print(
        f"records: {records:,.1f} MiB, {result['records'] / result['samples']:.2f} bytes a sample;"
        f" 64 bytes a slot, 8 a sample and 1 bit a member and sample are {allowed:,.1f} MiB"
    )


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line, checked; a mistake in it ends the process with status 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--draws", type=int, default=500, help="draws of each job in each setting")
    parser.add_argument(
        "--period", type=float, default=50.0, help="ms from one paced draw of a job to the next"
    )
    parser.add_argument("--from", dest="part", type=float, default=0.1, help="part of an epoch drawn before")
    parser.add_argument("--late", type=float, default=0.99, help="part of an epoch where draws are late")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    options = parser.parse_args(arguments)
    if min(options.samples, options.jobs, options.batch, options.draws) < 1 or options.jobs > 64:
        parser.error("--samples, --batch and --draws must be at least 1, --jobs from 1 to 64")
    if not 0 <= options.part <= options.late < 1 or options.period <= 0 or options.batch > 4096:
        parser.error(
            "--from and --late are from 0 up to 1, the first no more; --period above 0, --batch at most 4096"
        )
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    options = parse(arguments)
    print(report.machine(["seneca-loader"]))
    with tempfile.TemporaryDirectory(prefix="seneca-bench-") as folder:
        result = measure(options, compile_loop(Path(folder)))
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
