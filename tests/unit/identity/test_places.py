"""What cannot be seen is named with its place."""

import pytest
from fingerprints import made

from seneca.errors import NotFingerprinted
from seneca.identity import fingerprint


@pytest.mark.parametrize(
    ("source", "way"),
    [
        (
            "def f(lock): return lambda: lock\nit.fn = f(LOCK)",
            ".fn's closure variable `lock` is a _thread.lock",
        ),
        ("it.fn = lambda: LOCK", ".fn's global `LOCK` is a _thread.lock"),
        ("it.fn = lambda x=LOCK: x", ".fn's default 0 is"),
        ("def f(*, x=LOCK): return x\nit.fn = f", ".fn's default `x` is"),
        ("A.a = LOCK", "'s class.a is"),
        ("it.fn = [LOCK].append", ".fn's object[0] is"),
        ("class B(A): a = LOCK\nclass C(B): pass\nit.a = C()", ".a's class's base 1.a is"),
    ],
)
def test_the_way_to_what_cannot_be_seen_reads_as_one_would_write_it(source, way):
    it = made("import threading\nLOCK = threading.Lock()\nclass A: pass\nit = A()\n" + source)
    with pytest.raises(NotFingerprinted) as error:
        fingerprint(it, name="dataset.transform")
    assert str(error.value).startswith("dataset.transform" + way)
