"""A script of ready.py runs as in a Python of its own."""

import json
import os
import signal

import pytest
import ready

SAYS = """
import atexit, json, os, sys
import numpy, torch
import beside

atexit.register(print, "the end")
print(json.dumps([
    sys.argv[1:], __name__, __file__, os.getcwd(), dict(os.environ), sys.stdin.read(), beside.PLACE,
    sys.modules["__main__"].SAYS, torch.arange(4).sum().item(), numpy.random.random(),
])) if (SAYS := True) else None
last = beside.Last()
sys.exit("its last words")
"""


BESIDE = """
import os

class Last:
    def __del__(self):
        print("gone while modules were whole:", os is not None)

PLACE = "beside the script"
"""


@pytest.fixture
def script(tmp_path):
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "beside.py").write_text(BESIDE)
    (folder / "says.py").write_text(SAYS)
    return folder / "says.py"


def test_a_script_has_what_it_was_given_and_ends_as_an_interpreter_does(script, tmp_path):
    environment = {"PATH": os.environ["PATH"], "GIVEN": "yes"}
    first, second = (ready.Script(script, "a", "b c", env=environment, cwd=tmp_path) for _ in range(2))
    drawn = []
    for one in (first, second):
        out, err = one.communicate("given")
        assert (one.returncode, err) == (1, "its last words\n")
        line, *end = out.splitlines()
        *same, number = json.loads(line)
        assert same == [
            *(
                ["a", "b c"],
                "__main__",
                str(script),
                str(tmp_path),
                environment,
                "given",
                "beside the script",
            ),
            *(True, 6),
        ]
        assert end == ["the end", "gone while modules were whole: True"]
        drawn.append(number)
    assert drawn[0] != drawn[1]


def test_an_error_is_its_traceback_and_status_1():
    ran = ready.run("-c", "import sys\nraise ValueError(sys.argv)", "x")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.endswith("ValueError: ['-c', 'x']\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_its_group_is_its_status(number):
    script = ready.Script("-c", "print('here', flush=True)\nwhile True: pass", start_new_session=True)
    assert script.stdout.readline() == "here\n" and script.poll() is None
    os.killpg(script.pid, number)
    script.communicate()
    assert script.returncode == script.poll() == -number
