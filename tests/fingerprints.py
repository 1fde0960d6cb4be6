"""Objects made of source, whose fingerprints are compared."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

# What every source of the tables begins with. Each makes ``it``, which is fingerprinted.
HEAD = """
import collections, dataclasses, enum, functools, logging, math, random, torch, numpy as np
from numpy.random import rand
from pathlib import Path
from random import randint
log = logging.getLogger(__name__)
"""


def made(source, module="user"):
    scope = {"__name__": module}
    exec(compile(HEAD + source, "<user>", "exec"), scope)
    return scope["it"]


def run(script, seed, *arguments):
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, script, *arguments], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
