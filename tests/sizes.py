"""How much is run: `make test` runs every test at a small size, `make test-all` at its whole size.

At the small size a test that is parametrized several times over runs with as few of its parameter sets as
show every value of each; one that is marked ``small(n)`` with n sets, taken from all over; and numbers of
rounds, pairs and examples are the first of ``size(small, whole)``. A test that takes long may be marked
``whole_size(shown_by="test_other")``: the small size leaves it out, because the other one of its file shows
the same kind of thing. What is named with ``::`` runs as named.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import pytest

__all__ = ["pytest_collection_modifyitems", "pytest_configure", "pytest_report_header", "size"]

WHOLE = bool(os.environ.get("SENECA_TEST_ALL"))
SEED_OF_ORDER = os.environ.get("SENECA_TEST_ORDER")

T = TypeVar("T")


def size(small: T, whole: T) -> T:
    """A number of rounds, of pairs or of examples."""
    return whole if WHOLE else small


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "small(n): `make test` runs n of this test's parameter sets")
    config.addinivalue_line(
        "markers", "whole_size(shown_by): `make test` leaves it out, that test of its file shows its kind"
    )


def pytest_report_header() -> str:
    order = "" if SEED_OF_ORDER is None else f", in the order of SENECA_TEST_ORDER={SEED_OF_ORDER}"
    return ("whole size" if WHOLE else "small size; make test-all for the whole") + order


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not WHOLE and not any("::" in argument for argument in config.args):
        kept = set(map(id, of_small_size(items)))
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
        items[:] = [item for item in items if id(item) in kept]
    if SEED_OF_ORDER is not None:
        random.Random(SEED_OF_ORDER).shuffle(items)


def of_small_size(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Those of the items that the small size runs."""
    functions = defaultdict(list)
    for item in items:
        functions[item.nodeid.split("[")[0]].append(item)
    kept = []
    for sets in functions.values():
        if marker := sets[0].get_closest_marker("whole_size"):
            _check_is_run(marker.kwargs["shown_by"], sets[0])
        elif marker := sets[0].get_closest_marker("small"):
            kept += sorted(sets, key=_anywhere)[: marker.args[0]]
        elif len(sets) > 1 and all(hasattr(item, "callspec") for item in sets):
            kept += covering({item: _values(item) for item in sets})
        else:
            kept += sets
    return kept


def _check_is_run(name: str, left_out: pytest.Item) -> None:
    """Whether the small size has this test of the same file, which stands for the one that is left out."""
    function = getattr(left_out.module, name, None)
    if function is None or any(mark.name == "whole_size" for mark in getattr(function, "pytestmark", [])):
        raise pytest.UsageError(f"{left_out.nodeid} is shown by {name}, which the small size does not run")


def _anywhere(item: pytest.Item) -> bytes:
    """Its place among the others: always the same, and nothing to do with its parameters."""
    return hashlib.blake2b(item.nodeid.split("[", 1)[-1].encode()).digest()


def _values(item: pytest.Item) -> dict[str, object]:
    """What each parameter is: plain values by themselves, any other as the object that it is."""
    plain = (bool, int, float, str, bytes, type(None))
    return {
        name: (type(value), value) if isinstance(value, plain) else id(value)
        for name, value in item.callspec.params.items()
    }


def covering(sets: dict[T, dict[str, object]]) -> list[T]:
    """As few of the sets (name of a parameter to value) as have each value, or nearly so few."""
    values = {one: {*parameters.items()} for one, parameters in sets.items()}
    missing = set().union(*values.values())
    chosen = []
    while missing:
        best = max(values, key=lambda one: len(values[one] & missing))  # the first of the best
        missing -= values.pop(best)
        chosen.append(best)
    return chosen
