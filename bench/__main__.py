"""``python -m bench``: the benchmark of jobs, on made-up pictures where no ``--data`` is given."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bench_jobs import main

if __name__ == "__main__":
    sys.exit(main())
