"""What the benchmarks of single stages share: the C program, and the way to put it to pytest-benchmark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2]))  # for seneca.testing, where it is not installed

from compiled import compile_program
from stages import CLOCK, Stages


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--picture", type=Path, help="the JPEG to decode; made up if not given")
    parser.addoption("--rounds", type=int, default=30, help="measurements of each stage")
    parser.addoption("--round-ms", type=float, default=20.0, help="length of each, in calls of the stage")


@pytest.fixture(scope="session")
def stages(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    """The C program, compiled and running."""
    folder = tmp_path_factory.mktemp("stages")
    picture = pytestconfig.getoption("--picture")
    if picture is None:
        from seneca.testing import make_pictures

        (picture,) = make_pictures(folder / "pictures", count=1, sides=(450, 500)).glob("*/*.jpg")
    with Stages(compile_program("stage_loop", folder), picture) as running:
        yield running


@pytest.fixture
def measure(stages: Stages, pytestconfig: pytest.Config, benchmark) -> Callable[[str], None]:
    """``measure(stage)``: rounds of as many calls as fill one, each noted as the time of a call."""

    def measure(stage: str) -> None:
        if not stages.there[stage]:
            pytest.skip(f"the core has no stage {stage}")
        calls = stages.calls_in(stage, pytestconfig.getoption("--round-ms") / 1000)
        benchmark.extra_info.update(stage=stage, calls_a_round=calls)

        def a_round() -> None:
            CLOCK.seconds += stages.seconds_of(stage, calls) / calls

        benchmark.pedantic(a_round, rounds=pytestconfig.getoption("--rounds"))

    return measure
