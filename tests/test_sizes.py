"""The small size shows each value of each parameter, the whole size everything."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sizes import covering

TESTS = """
import pytest
from sizes import size

@pytest.mark.parametrize("a", [1, 2, 3])
@pytest.mark.parametrize("b", [True, 1.0, 1])
def test_of_two(a, b):
    pass

@pytest.mark.small(2)
@pytest.mark.parametrize("a", range(7))
def test_marked(a):
    pass

@pytest.mark.whole_size(shown_by="test_rounds")
@pytest.mark.parametrize("a", range(4))
def test_that_takes_long(a):
    pass

def test_rounds():
    print("rounds:", size(3, 8))
"""


def test_each_value_of_each_parameter_is_covered_by_few_sets():
    grid = {
        values: dict(zip("abc", values, strict=True)) for values in itertools.product(range(4), "xy", [0, 1])
    }
    chosen = covering(grid)
    assert len(chosen) == 4
    for place in range(3):
        assert {values[place] for values in chosen} == {values[place] for values in grid}
    assert covering({1: {"a": 1}}) == [1]


@pytest.mark.small(2)
@pytest.mark.parametrize(
    ("whole", "named", "passed"),
    [("", "", "6 passed, 15 deselected"), ("1", "", "21 passed"), ("", "::test_marked", "7 passed")],
)
def test_a_run_has_its_size(tmp_path, whole, named, passed):
    out = run(tmp_path, TESTS, whole, named)
    assert passed in out, out
    assert named or ("rounds: 8" if whole else "rounds: 3") in out


@pytest.mark.small(1)
@pytest.mark.parametrize("other", ["test_nothing", "test_that_takes_long"])
def test_what_is_left_out_names_a_test_that_is_run(tmp_path, other):
    out = run(tmp_path, TESTS.replace('shown_by="test_rounds"', f'shown_by="{other}"'))
    assert (
        f"test_it.py::test_that_takes_long[0] is shown by {other}, which the small size does not run" in out
    )


def run(tmp_path, tests, whole="", named=""):
    """What pytest prints of these tests, at this size."""
    (tmp_path / "test_it.py").write_text(tests)
    (tmp_path / "conftest.py").write_text("from sizes import *\n")
    command = [sys.executable, "-m", "pytest", "-rP", "-p", "no:cacheprovider", "--rootdir", tmp_path]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "SENECA_TEST_ALL": whole}
    return subprocess.run(
        [*command, f"{tmp_path / 'test_it.py'}{named}"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ).stdout
