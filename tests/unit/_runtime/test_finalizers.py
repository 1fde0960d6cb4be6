"""What is done when an object is collected or its process ends, once and in order."""

import subprocess
import sys
import textwrap

from seneca._runtime.finalizers import FIRST, LAST, finalize


class Thing:
    pass


def test_it_is_called_once_when_the_thing_is_gone():
    called = []
    thing = Thing()
    finalizer = finalize(thing, called.append, 1, order=FIRST)
    del thing
    assert called == [1]
    finalizer()
    assert called == [1]


def test_it_can_be_called_at_once():
    called = []
    thing = Thing()
    finalize(thing, called.append, 1, order=LAST)()
    del thing
    assert called == [1]


ENDS = """
import multiprocessing, sys
from seneca._runtime.finalizers import FIRST, LAST, finalize

class Thing:
    pass

def end():
    for order, name in ((LAST, "cache"), (FIRST, "reader"), (FIRST, "second reader")):
        kept.append(Thing())
        finalize(kept[-1], lambda name: print(name, flush=True), name, order=order)

kept = []
if sys.argv[1] == "worker":
    process = multiprocessing.get_context("fork").Process(target=end)
    process.start()
    process.join()
else:
    end()
"""


def test_at_the_end_of_any_process_readers_end_before_the_cache(tmp_path):
    (tmp_path / "ends.py").write_text(textwrap.dedent(ENDS))
    for which in ("worker", "main"):
        run = subprocess.run([sys.executable, tmp_path / "ends.py", which], capture_output=True, text=True)
        assert run.stdout.split("\n") == ["second reader", "reader", "cache", ""], (which, run.stderr)
