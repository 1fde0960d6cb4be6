"""Do the cores get what they can do, whatever storage does?

Question. Storage that takes 20 ms to answer, as a network does, leaves a thread idle that reads for itself.
How much of the rate of local files does a job reach?

Method. One job trains on photographs, without a step: the loader is the limit. Nothing is kept, therefore
each sample is read. Rows differ in the loader, and columns in the storage: the page cache, or the same files
with answers that are held back (``slow_reads.py``). All have as many workers as there are cores. Rounds go
over all of them in turn, and medians are shown. Read the ratio to the same loader's local files in the same
run.

    python bench/bench_cores.py --data train/
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import report
import slow_reads
from links import linked

JOB = Path(__file__).parent / "what_if_job.py"
START_S, WARM_S = 6.0, 3.0  # until a job has imported torch; what it takes until it is at its pace
ANY_RATE = 10**12  # bytes/s: answers are late, and as many at a time as are asked for
LOADERS = {"seneca": ["--seneca", json.dumps({"cache": None})], "torch": []}


def rate(folder: Path, loader: str, seconds: float, environment: dict[str, str]) -> float:
    """Samples/s that a job gets."""
    begin = time.monotonic() + START_S + WARM_S
    line = [
        *(sys.executable, str(JOB), "--dataset=pictures", f"--folder={folder}", f"--loader={loader}"),
        *(f"--workers={os.cpu_count()}", "--batch=32", f"--begin={begin}", f"--end={begin + seconds}"),
        *LOADERS[loader],
    ]
    told = subprocess.run(line, capture_output=True, text=True, env={**os.environ, **environment})
    if told.returncode:
        raise RuntimeError(f"{' '.join(line)}: status {told.returncode}\n{told.stderr}")
    return float(told.stdout)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="class folders of pictures")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--answer-ms", type=float, default=20.0, help="what storage takes to answer")
    parser.add_argument("--links", type=int, default=20_000, help="samples of an epoch")
    parser.add_argument("--json", type=Path, help="also write what was found to this file")
    options = parser.parse_args()
    print(report.machine(("torch",)))
    found: dict[str, dict[str, list[float]]] = {name: {"local": [], "late": []} for name in LOADERS}
    with linked(options.data, options.links) as (folder, _), tempfile.TemporaryDirectory() as place:
        late = slow_reads.environment(
            Path(place), options.data, ANY_RATE, answer_us=round(1e3 * options.answer_ms)
        )
        for _ in range(options.rounds):
            for name in LOADERS:
                for storage, environment in (("local", {}), ("late", late)):
                    found[name][storage].append(rate(folder, name, options.seconds, environment))
    lines = []
    for name, of_storage in found.items():
        local, held = (statistics.median(rates) for rates in of_storage.values())
        lines.append([name, f"{local:,.0f}", f"{held:,.0f}", f"{held / local:.2f}"])
    head = ["loader", "local files", f"answers after {options.answer_ms:g} ms", "ratio"]
    report.print_table("samples/s of one job", head, lines)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
