"""The benchmarks' C programs, compiled in a third of the time: how fast they are is not what is tested."""

import os
from collections.abc import Iterator

import pytest

# They all have csrc/ in them. An object is compiled once, and copied for the next program.
KEEPS = """#!/bin/bash
for last; do :; done
if [[ " $* " != *" -c "* ]]; then exec {compiler} "$@"; fi
kept={folder}/$(echo "$PWD ${{@:1:$#-1}}" | md5sum | cut -c1-32)
[[ -e $kept ]] || {{ {compiler} "${{@:1:$#-1}}" "$kept.$$" && mv "$kept.$$" "$kept"; }} && cp "$kept" "$last"
"""


@pytest.fixture(scope="session", autouse=True)
def quickly_compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    compiler = tmp_path_factory.mktemp("objects") / "keeping-cc"
    compiler.write_text(KEEPS.format(folder=compiler.parent, compiler=os.environ.get("CC", "cc")))
    compiler.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SENECA_CFLAGS", os.environ.get("SENECA_CFLAGS", "") + " -O0")
        patch.setenv("CC", str(compiler))
        yield
