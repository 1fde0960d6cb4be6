"""One job of the accuracy experiment with torch's loader, as a script: ``accuracy_job.py FOLDER BATCH``.

``seneca analyze --deep`` runs it, and ends it once it has seen enough.
"""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import bench_accuracy
from jobs import Voice

EPOCHS = 1000


def main() -> None:
    """Train for ever; nobody hears what the job says."""
    ours, theirs = multiprocessing.Pipe()
    ours.send(None)  # go
    setup = bench_accuracy.Setup(
        Path(sys.argv[1]), "torch", 0.0, 0, EPOCHS, int(sys.argv[2]), "", copies=1, every=1
    )
    bench_accuracy.train(Voice(theirs), 0, setup)


if __name__ == "__main__":
    main()
