"""What asks for memory ahead is not left out by the compiler (csrc/base/sn_prefetch.h)."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

# As the functions that ask are: a loop that does nothing else, and too large to be put in its place.
PROGRAM = """
#include "base/sn_prefetch.h"

static __attribute__((noinline)) void ask(const int *records, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sn_prefetch(&records[16 * i]);
}

int draw(const int *records, unsigned n)
{
    ask(records, n);
    return 0;
}
"""


@pytest.mark.small(1)
@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3"])
def test_a_function_that_only_foresees_is_called(level):
    compiler = os.environ.get("CC", "cc").split()
    assembly = subprocess.run(
        [*compiler, "-std=gnu11", level, f"-I{ROOT / 'csrc'}", "-S", "-x", "c", "-o", "-", "-"],
        input=PROGRAM,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    of_draw = assembly.partition("\ndraw:")[2]
    assert "ask" in of_draw or "prefetch" in of_draw or "prfm" in of_draw, of_draw
