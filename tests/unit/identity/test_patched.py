"""What a program has put into installed modules."""

import functools
import json
import types

import pytest

from seneca.identity import fingerprint
from seneca.identity.patched import is_a_stranger, is_code, patched_modules, strangers_in


class Own:
    def __call__(self):
        return 1

    def method(self):
        return 2


def own():
    return 3


OWN = [own, Own(), Own, Own().method, functools.partial(len), functools.lru_cache(own), staticmethod(own)]
THEIRS = [len, json.dumps, json.JSONEncoder, json.JSONEncoder().encode, 5, "text", json, None]


@pytest.mark.parametrize("value", OWN, ids=lambda value: type(value).__name__)
def test_values_of_a_program(value):
    assert is_a_stranger(value)


@pytest.mark.parametrize("value", THEIRS, ids=lambda value: type(value).__name__)
def test_values_of_packages(value):
    assert not is_a_stranger(value)


def test_what_is_code():
    assert all(map(is_code, (len, json, json.dumps, json.JSONEncoder, Own().method)))
    assert not any(map(is_code, (5, "text", {}, [])))


def test_what_was_put_into_a_module_is_found_until_it_is_gone(monkeypatch):
    assert "json" not in patched_modules()
    before = fingerprint(own)
    with monkeypatch.context() as patch:
        patch.setattr(json, "loads", own)
        assert patched_modules()["json"] == {"loads": own}
        assert fingerprint(own) != before
    assert "json" not in patched_modules() and fingerprint(own) == before


def test_a_module_is_looked_at_again_when_one_of_its_values_is_another():
    module = types.ModuleType("a_module_of_this_test")
    module.f = len
    assert strangers_in(module) == {}
    module.f = own
    assert strangers_in(module) == {"f": own}
