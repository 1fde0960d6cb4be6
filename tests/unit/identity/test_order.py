"""Whether code uses the order of a set: tables of sources. Interpreters with other seeds, end to end."""

import functools
import json
import os
import subprocess
import sys

import pytest

from seneca.identity.bytecode import all_codes, instructions_of
from seneca.identity.order import calls_hash, is_hash_random, iterates, iterates_a_set

MADE = {
    "for c in set(x): f(c)": True,
    "for c in {'a', 'b'}: f(c)": True,
    "s = set(x)\nfor c in s: f(c)": True,
    "y = ','.join(set(x))": True,
    "y = {a for a in x}\nreturn [b for b in y]": True,
    "y = set(x) | set(z)\nreturn tuple(y)": True,
    "a, b = set(x)": True,
    "y = next(iter(set(x)))": True,
    "y = set(x).pop()": True,
    "y = sum(f(a) for a in set(x))": True,
    "y = np.array(list(set(x)))": True,
    "y = enumerate(set(x))": True,
    "y = f(*set(x))": True,
    "y = random.choice(list(set(x)))": True,
    "y = f(set(x))": True,
    "y = sorted(set(x))": False,
    "y = sorted(set(x), key=len)": False,
    "y = len(set(x))": False,
    "y = max(set(x))": False,
    "y = q in set(x)": False,
    "y = q in {'a', 'b'}": False,
    "s = set(x)\ny = q in s": False,
    "s = set(x)\ns.add(3)\ny = len(s)": False,
    "y = {a for a in x}\nreturn sorted(y)": False,
    "y = set(x) & set(z)\nreturn len(y)": False,
    "y = set(x) - set(z)\nreturn sorted(y)": False,
    "y = sorted(set(x).union(z))": False,
    "if set(x): return 1": False,
    "y = {a: i for i, a in enumerate(sorted(set(x)))}": False,
    "assert set(x) == {1, 2}": False,
    "y = set(map(str, x))\nreturn min(y)": False,
    "for c in [1, 2]: f(c)": False,
    "for c in {1, 2}: f(c)": False,
}
ATTRIBUTES = {
    "for c in self.s: f(c)": True,
    "y = list(self.s)": True,
    "s = self.s\nreturn [a for a in s]": True,
    "y = q in self.s": False,
    "y = sorted(self.s)": False,
    "s = self.s\nreturn q in s": False,
    "y = len(self.s)": False,
}
INSIDE = {
    "for c in self.s[q]: f(c)": True,
    "for d in self.s:\n    for e in d: f(e)": True,
    "y = x in self.s[q]": False,
    "for d in self.s: y = q in d": False,
    "y = sorted(self.s[q])": False,
}


def listings(body):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    code = compile(f"def f(self, x, z, q):\n{lines}", "a test", "exec").co_consts[0]
    return [instructions_of(one) for one in all_codes(code)]


@pytest.mark.parametrize("body", MADE)
def test_a_set_that_code_makes(body):
    assert iterates_a_set(listings(body)) is MADE[body]


@pytest.mark.parametrize("body", ATTRIBUTES)
def test_a_set_in_an_attribute(body):
    assert iterates(listings(body), "s", inside=False) is ATTRIBUTES[body]


@pytest.mark.parametrize("body", INSIDE)
def test_sets_in_what_an_attribute_holds(body):
    assert iterates(listings(body), "s", inside=True) is INSIDE[body]


def test_whose_hashes_are_random():
    assert calls_hash(["hash", "x"]) and not calls_hash(["x"])
    assert [is_hash_random(one) for one in ("a", b"a", 1, (1, 2.0), (1, "a"), None)] == [
        *(True, True, False, False, True, True)
    ]


PROGRAM = """
import json, sys, torch
from seneca.data.support import inspect_dataset

CLASS = '''
class D(torch.utils.data.Dataset):
    names = sorted(["cat", "dog", "emu"])
    def __init__(self): {init}
    def __len__(self): return 3
    def __getitem__(self, i): {item}
'''
found = {}
for name, (init, item) in json.loads(sys.argv[1]).items():
    scope = {"__name__": "__main__", "torch": torch}
    exec(CLASS.format(init=init, item=item), scope)
    support = inspect_dataset(scope["D"]())
    found[name] = support.stages.augmented, "PYTHONHASHSEED" in support.describe_fingerprint()
print(json.dumps(found))
"""
DEPENDS = {
    "label noise": ("self.k = 1", "return i, hash(self.names[i]) % 25 == 0"),
    "a set in an attribute": ("self.s = set(self.names)", "return list(self.s)[i]"),
    "a set of tuples": ("self.s = {(n, 1) for n in self.names}", "return [n for n, _ in self.s]"),
}
DOES_NOT = {
    "is it there": ("self.s = set(self.names)", "return self.names[i] in self.s"),
    "in a fixed order": ("self.s = set(self.names)", "return sorted(self.s)[i]"),
    "numbers": ("self.s = {3, 1, 2}", "return list(self.s)[i]"),
    "a dict": ("self.s = dict.fromkeys(self.names)", "return list(self.s)[i]"),
}


NUMBERED = "numbered in the order of a set"
KINDS = {
    **DEPENDS,
    **DOES_NOT,
    NUMBERED: ("self.k = {n: i for i, n in enumerate(set(self.names))}", "return self.k"),
}


def identities_here(capsys, monkeypatch):
    """The same in this process, whatever its seed is."""
    monkeypatch.setattr(sys, "argv", ["-c", json.dumps(KINDS)])
    exec(PROGRAM, {"__name__": "__main__"})
    return json.loads(capsys.readouterr().out)


@functools.cache
def identities(seed, again=False):
    """What each kind comes to in an interpreter with this seed of hashes, and whether it says so."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    arguments = [sys.executable, "-c", PROGRAM, json.dumps(KINDS)]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.whole_size(shown_by="test_other_code_shares_whatever_the_seed")
@pytest.mark.parametrize("name", DEPENDS)
def test_code_that_depends_on_the_seed_of_hashes_shares_under_one_seed(name):
    first, again, other = (one[name] for one in (identities(1), identities(1, again=True), identities(2)))
    assert first[1] and again == first and other[0] != first[0]


@pytest.mark.parametrize("name", DOES_NOT)
def test_other_code_shares_whatever_the_seed(name, capsys, monkeypatch):
    other = 1 if os.environ.get("PYTHONHASHSEED") != "1" else 2
    assert identities_here(capsys, monkeypatch)[name] == identities(other)[name]


@pytest.mark.whole_size(shown_by="test_other_code_shares_whatever_the_seed")
def test_what_was_made_in_the_order_of_a_set_counts_as_it_is():
    names = {identities(seed)[NUMBERED][0] for seed in range(4)}
    assert len(names) > 1 and identities(1)[NUMBERED] == identities(1, again=True)[NUMBERED]
