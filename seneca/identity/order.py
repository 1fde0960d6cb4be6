"""Whether what code makes may depend on the seed of Python's hashes.

The order of a set of texts differs in each process, unless ``PYTHONHASHSEED`` is set. So is
``hash("text")``. Code depends on that order if it iterates a set, or hands it to a function that does. It
does not if it sorts the set, takes its length, or asks whether something is in it.

This module only reads bytecode, and follows a value as far as its next use. What it cannot follow counts as
used in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seneca.identity.bytecode import Steps, caller_of, effect_of, is_attribute, is_call, loads, stored

__all__ = ["calls_hash", "hash_seed", "is_hash_random", "iterates", "iterates_a_set"]

_MAKES_SET = frozenset({"set", "frozenset"})
_KEEPS_SET = frozenset(  # methods and operators whose result is a set
    ("union", "intersection", "difference", "symmetric_difference", "copy", "&", "|", "-", "^")
)
_NO_ORDER = frozenset(  # functions whose result does not depend on the order of their argument
    ("all", "any", "bool", "frozenset", "hasattr", "isinstance", "len", "max", "min", "set", "sorted", "type")
)
_NO_ORDER_OF = frozenset(  # methods of a set, or that take one, likewise
    ("add", "clear", "discard", "isdisjoint", "issubset", "issuperset", "remove", "update", *_KEEPS_SET)
)
_MOST_ALIASES = 3


def hash_seed() -> int:
    """A number that is equal in two processes if their hashes of texts are."""
    return hash("seneca")


def calls_hash(names: Sequence[str] | frozenset[str]) -> bool:
    """Whether code with these names may call ``hash`` of something."""
    return "hash" in names or "__hash__" in names


def iterates_a_set(listings: Sequence[Steps]) -> bool:
    """Whether this code makes a set, and uses it in its order."""
    return any(_is_ordered(steps, i, listings) for steps in listings for i in _sets_made(steps))


def _sets_made(steps: Steps) -> Iterator[int]:
    """The instructions that leave a set on the stack whose order may differ between processes."""
    is_comprehension = any(step.opname == "SET_ADD" for step in steps)
    for i, step in enumerate(steps):
        if step.opname == "BUILD_SET" and is_comprehension and step.arg == 0:
            if (end := _end_of_comprehension(steps, i)) is not None:
                yield end
        elif step.opname in ("BUILD_SET", "SET_UPDATE") or (
            is_call(step) and caller_of(steps, i) in _MAKES_SET
        ):
            yield i
        elif step.opname == "LOAD_CONST" and type(step.argval) is frozenset:
            follows = steps[i + 1].opname if i + 1 < len(steps) else ""
            if follows != "SET_UPDATE" and any(is_hash_random(one) for one in step.argval):
                yield i
        elif step.opname == "LOAD_CONST" and getattr(step.argval, "co_name", "") == "<setcomp>":
            calls = (at for at in range(i, len(steps)) if is_call(steps[at]) and steps[at].arg in (0, 1))
            if (call := next(calls, None)) is not None:
                yield call


def _end_of_comprehension(steps: Steps, i: int) -> int | None:
    """Where a set comprehension ends that is part of the code around it, as from Python 3.12 on.

    None: it is a code object of its own, and the call of that makes the set.
    """
    ends = (at for at in range(i, len(steps)) if steps[at].opname == "END_FOR")
    end = next(ends, None)
    while end is not None and end + 1 < len(steps):
        if steps[end + 1].opname not in ("SWAP", "POP_ITER", "POP_TOP") and not (
            steps[end].opname == "SWAP" and stored(steps[end + 1]) is not None
        ):
            break
        end += 1
    return end


def iterates(listings: Sequence[Steps], name: str, *, inside: bool) -> bool:
    """Whether this code uses the set that an attribute or variable of this name holds in its order.

    Args:
        listings: The instructions of the code objects.
        name: The name.
        inside: Whether the sets are elements of the container of that name.
    """
    for steps in listings:
        for i, step in enumerate(steps):
            is_it = (is_attribute(step) and step.argval == name) or loads(step, name)
            is_it |= step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval == name
            if is_it and _is_ordered(steps, i, listings, inside=inside):
                return True
    return False


def _is_ordered(
    steps: Steps, i: int, listings: Sequence[Steps], *, inside: bool = False, aliases: int = _MOST_ALIASES
) -> bool:
    """Whether the set that instruction ``i`` leaves on the stack is used in its order next."""
    if i + 1 >= len(steps):
        return False
    step = steps[i + 1]
    if step.opname in ("CONTAINS_OP", "COMPARE_OP", "IS_OP", "POP_TOP", "STORE_ATTR", "STORE_SUBSCR"):
        return False
    if step.opname.startswith(("POP_JUMP", "JUMP_IF", "TO_BOOL", "SET_UPDATE", "RETURN")):
        return False
    if step.opname == "GET_ITER":
        return not inside or _first_use_is_ordered(steps, i + 1, listings, aliases)
    if is_attribute(step):
        if inside and step.argval in ("get", "values", "items", "pop"):
            return True
        return step.argval not in _NO_ORDER_OF and step.argval != "__contains__"
    if (name := stored(step)) is not None:
        if aliases == 0:
            return True
        return any(
            _is_ordered(some, k, listings, inside=inside, aliases=aliases - 1)
            for some in listings
            for k, one in enumerate(some)
            if loads(one, name)
        )
    consumer = _consumer(steps, i)
    if consumer is None:
        return True
    used = steps[consumer]
    if used.opname.startswith("BINARY_SUBSCR") or used.argrepr == "[]":
        return inside and _is_ordered(steps, consumer, listings, aliases=aliases)
    if used.opname.startswith("BINARY_") or used.opname.startswith("INPLACE_"):
        return _is_ordered(steps, consumer, listings, inside=inside, aliases=aliases)
    if used.opname in ("CONTAINS_OP", "COMPARE_OP", "IS_OP", "SET_ADD", "SET_UPDATE", "STORE_ATTR"):
        return False
    if is_call(used):
        function = caller_of(steps, consumer)
        return function not in _NO_ORDER and function not in _NO_ORDER_OF
    return True


def _first_use_is_ordered(steps: Steps, i: int, listings: Sequence[Steps], aliases: int) -> bool:
    """Whether the sets that a loop goes over are used in their order. ``i`` begins the loop."""
    names = [name for step in steps[i + 1 : i + 3] if (name := stored(step)) is not None]
    if not names or aliases == 0:
        return True
    return any(
        _is_ordered(some, k, listings, aliases=aliases - 1)
        for some in listings
        for k, one in enumerate(some)
        if loads(one, names[0])
    )


def _consumer(steps: Steps, i: int) -> int | None:
    """The instruction that takes the value of instruction ``i`` from the stack; None: it is not found."""
    above = 0  # values on the stack above it
    for at in range(i + 1, len(steps)):
        step = steps[at]
        if step.opname in ("PRECALL", "KW_NAMES", "NOP", "CACHE", "RESUME"):
            continue
        if step.opname.startswith(("JUMP", "POP_JUMP", "FOR_ITER", "RETURN", "RAISE")):
            return None
        if is_call(step):
            taken = (step.arg or 0) + 2
            if above < taken:
                return at
            above += 1 - taken
            continue
        before = above
        above += effect_of(step)
        pushed = step.opname.startswith(("LOAD_", "PUSH_", "COPY", "BUILD_", "MAKE_")) or is_attribute(step)
        if not pushed and (above < 0 or (above == before - 1 and before <= 1)):
            return at
        if above < 0:
            return at
    return None


def is_hash_random(value: object) -> bool:
    """Whether the place of a value in a set may differ between processes."""
    return type(value) not in (int, float, bool, complex) and not (
        type(value) is tuple and all(not is_hash_random(one) for one in value)
    )
