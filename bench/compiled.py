"""C programs of the benchmarks, compiled together with csrc/ when they are run.

They link the core's own objects and no Python, so what they measure is the core and nothing around
it. Everything is compiled anew each time, in seconds: what is measured is what lies in csrc/ now.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "bench" / "native"
# Those of setup.py that change the code.
CFLAGS = ("-O3", "-std=gnu11", "-ffp-contract=off", "-fvisibility=hidden")
LIBRARIES = ("-ljpeg", "-lpthread", "-ldl", "-lm")


class CompileError(RuntimeError):
    """The compiler refused; the message is its own."""


def compile_program(name: str, folder: Path, *, wrap: Sequence[str] = ()) -> Path:
    """Compile ``bench/native/<name>.c`` and all of csrc/ in ``folder``; the path of the program.

    A call of a function ``f`` that ``wrap`` names goes to ``__wrap_f`` of the program's own.

    SENECA_CFLAGS, SENECA_LDFLAGS and CC count as they do for setup.py.

    Raises:
        CompileError: there is no compiler, or it does not accept the sources.
    """
    core = sorted((ROOT / "csrc").rglob("*.c"))
    sources = [NATIVE / f"{name}.c", *core]
    objects = [folder / f"{source.parent.name}-{source.stem}.o" for source in sources]
    compiler = os.environ.get("CC", "cc").split()
    flags = [*CFLAGS, *os.environ.get("SENECA_CFLAGS", "").split(), f"-I{ROOT / 'csrc'}"]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for _ in pool.map(
            lambda source, made: _run([*compiler, *flags, "-c", source, "-o", made]), sources, objects
        ):
            pass
    program = folder / name
    more = [*(f"-Wl,--wrap={name}" for name in wrap), *os.environ.get("SENECA_LDFLAGS", "").split()]
    _run([*compiler, *flags, *objects, "-o", program, *more, *LIBRARIES])
    return program


def compile_library(name: str, folder: Path) -> Path:
    """Compile ``bench/native/<name>.c`` by itself in ``folder``, to be preloaded; the path of the library.

    Raises:
        CompileError: there is no compiler, or it does not accept the source.
    """
    library = folder / f"{name}.so"
    compiler = os.environ.get("CC", "cc").split()
    _run([*compiler, *CFLAGS, "-fPIC", "-shared", NATIVE / f"{name}.c", "-o", library])
    return library


def _run(command: list[str | Path]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise CompileError(f"no C compiler ({command[0]}); install gcc, or name another in CC") from None
    if done.returncode != 0:
        raise CompileError(done.stderr.strip())
