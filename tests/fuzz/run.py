"""Run the targets of ``make fuzz``, each for some seconds, or keep what they have found.

Each target begins with the inputs that it makes itself, those in ``tests/fuzz/corpus``, and those of earlier
runs in ``build/fuzz/corpus``. A finding does not end the others. It needs no package, and no environment.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "fuzz"
KEPT = ROOT / "tests" / "fuzz" / "corpus"
FOUND = BUILT / "found"

LONGEST = 2048  # bytes of an input
TIMEOUT_S = 20  # after which an input counts as one that hangs
MEMORY_MB = 2048
NOT_HERE = 77  # a target's exit code: a library that it needs is missing

# Memory that is used again at once: fewer pages are met for the first time, and a fifth more inputs are run.
SANITIZERS = {"ASAN_OPTIONS": "quarantine_size_mb=8:allocator_release_to_os_interval_ms=-1"}


def targets() -> list[str]:
    return sorted(path.stem.removeprefix("fuzz_") for path in (ROOT / "tests" / "fuzz").glob("fuzz_*.c"))


def program(target: str) -> Path:
    return BUILT / f"fuzz_{target}"


def fuzzer(target: str, *arguments: object, log: Path) -> int:
    """Run libFuzzer, whose output goes into the log; what it exited with."""
    command = [str(program(target)), *map(str, arguments)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**SANITIZERS, **os.environ}, stdout=out, stderr=subprocess.STDOUT
        )
        code = process.wait()
    for left in Path("/dev/shm").glob(f"test-of-seneca-{os.geteuid()}-{process.pid}-*"):
        left.unlink()  # by a target that has crashed
    return code


def prepare(target: str) -> Path:
    """The folder with all inputs that the target begins with."""
    corpus = BUILT / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    subprocess.run([program(target), "--seeds", corpus], check=False, stderr=subprocess.DEVNULL)
    kept = KEPT / f"{target}.tar.gz"
    if kept.exists():
        with tarfile.open(kept) as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is not None:
                    (corpus / Path(member.name).name).write_bytes(content.read())
    return corpus


def number(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def fuzz(target: str, seconds: int) -> bool:
    """Run one target, and print what came of it. Whether nothing was found."""
    corpus, log = prepare(target), BUILT / f"{target}.log"
    before = set(FOUND.iterdir())
    code = fuzzer(
        target,
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST}",
        f"-timeout={TIMEOUT_S}",
        f"-rss_limit_mb={MEMORY_MB}",
        "-print_final_stats=1",
        f"-artifact_prefix={FOUND}/{target}-",
        corpus,
        log=log,
    )
    said = log.read_text(errors="replace")
    if code == NOT_HERE:
        print(f"{target:>8}: skipped: {said.strip().splitlines()[-1]}", flush=True)
        return True
    executions = number(r"stat::number_of_executed_units: (\d+)", said)
    rate = number(r"stat::average_exec_per_sec: *(\d+)", said)
    edges = number(r"cov: (\d+)", said)
    result = "passed" if code == 0 else "FAILED"
    print(f"{target:>8}: {executions:,} executions, {rate:,}/s, {edges:,} edges: {result}", flush=True)
    if code != 0:
        for path in sorted(set(FOUND.iterdir()) - before):
            shown = path.relative_to(ROOT)
            print(f"          {shown}; again: {program(target).relative_to(ROOT)} {shown}")
        print(f"          what was wrong: {log.relative_to(ROOT)}", flush=True)
    return code == 0


def keep(target: str) -> None:
    """Write the fewest inputs that come to all that the target has come to."""
    corpus = prepare(target)
    with tempfile.TemporaryDirectory() as folder:
        code = fuzzer(
            target,
            "-set_cover_merge=1",
            f"-max_len={LONGEST}",
            folder,
            corpus,
            log=BUILT / f"{target}-merge.log",
        )
        if code != 0:
            sys.exit(f"{target}: an input fails; run make fuzz TARGETS={target} first")
        inputs = sorted(path for path in Path(folder).iterdir())
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path in inputs:
                entry = tarfile.TarInfo(path.name[:10])
                entry.size = path.stat().st_size
                archive.addfile(entry, io.BytesIO(path.read_bytes()))
    kept = KEPT / f"{target}.tar.gz"
    kept.parent.mkdir(exist_ok=True)
    kept.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    print(f"{target:>8}: {len(inputs)} inputs, {kept.stat().st_size:,} bytes", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="that each target runs")
    parser.add_argument("--keep", action="store_true", help="write tests/fuzz/corpus instead")
    parser.add_argument("targets", nargs="*", help="all, by default")
    chosen = parser.parse_args()
    for target in chosen.targets:
        if target not in targets():
            parser.error(f"there is no target {target}: {', '.join(targets())}")
    FOUND.mkdir(parents=True, exist_ok=True)
    names = chosen.targets or targets()
    if chosen.keep:
        for target in names:
            keep(target)
    elif not all([fuzz(target, chosen.seconds) for target in names]):
        sys.exit(1)


if __name__ == "__main__":
    main()
