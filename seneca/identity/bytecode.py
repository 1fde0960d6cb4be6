"""Instructions of code objects: which value an instruction takes, and what is read from it.

This module only reads bytecode. Nothing is run, imported or looked up.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator, Sequence

__all__ = [
    "ADDED_TO",
    "IS_NONE",
    "Chain",
    "Steps",
    "all_codes",
    "attributes_after",
    "caller_of",
    "chains_from",
    "chains_of",
    "effect_of",
    "instructions_of",
    "is_attribute",
    "is_call",
    "loads",
    "read_by_name",
    "stored",
    "takes_parameter",
    "text_of",
    "texts_of",
]

Chain = tuple[str, ...]
"""The names that code reads from a value, one after the other: attributes, and constant keys as ``[key]``.
Empty: the value itself is used."""

IS_NONE = "is None"
"""The last step of a chain of which only is asked whether it ends at None."""

ADDED_TO = "+= number"
"""The last step of a chain that only adds a constant number to the value, and puts the sum in its place."""

Steps = Sequence[dis.Instruction]

_LOADS_LOCAL = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_NAME", "LOAD_FROM_DICT_OR_DEREF")
_LOADS_CELL = ("LOAD_FAST", "LOAD_FAST_BORROW")
_LOADS_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_STORES_LOCAL = ("STORE_FAST", "STORE_DEREF", "STORE_NAME")
_LOADS_SIMPLY = (*_LOADS_LOCAL, "LOAD_GLOBAL")
_SUBSCRIPTS = ("BINARY_SUBSCR", "BINARY_OP")  # the second with the argument [] from Python 3.14 on
_COPIES_ABOVE = ("COPY", "DUP_TOP")  # the object whose attribute is read and then set
_BY_NAME = frozenset({"getattr", "hasattr"})
# Calls, and how many values they take besides the arguments: the function, and what stands beside it.
_BESIDE_ARGUMENTS = {"CALL": 2, "CALL_KW": 3, "CALL_METHOD": 2, "CALL_FUNCTION": 1, "CALL_FUNCTION_KW": 2}
MOST_ALIASES = 3  # a local variable that stands for another, and so on


def instructions_of(code: types.CodeType) -> list[dis.Instruction]:
    """The instructions of a code object, each with its whole argument.

    From Python 3.13 on the cell of a variable is loaded for an inner function as a plain local variable is.
    Here it has its earlier name: nothing is read from the variable then.
    """
    cells = {*code.co_cellvars, *code.co_freevars}
    return [
        step._replace(opname="LOAD_CLOSURE") if step.opname in _LOADS_CELL and step.argval in cells else step
        for step in dis.get_instructions(code)
        if step.opname != "EXTENDED_ARG"
    ]


def all_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object, and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from all_codes(constant)


def texts_of(code: types.CodeType) -> Iterator[str]:
    """The texts that are constants of a code object, alone or in a tuple or set."""
    for constant in code.co_consts:
        for one in constant if isinstance(constant, (tuple, frozenset)) else (constant,):
            if isinstance(one, str):
                yield one


def is_attribute(step: dis.Instruction) -> bool:
    """Whether an instruction reads an attribute."""
    return step.opname in _LOADS_ATTRIBUTE


def text_of(step: dis.Instruction) -> str | None:
    """The text that an instruction loads; None: it loads something else."""
    return step.argval if step.opname == "LOAD_CONST" and type(step.argval) is str else None


def attributes_after(steps: Steps, i: int) -> Chain:
    """The attributes that are read from the value that instruction ``i`` has loaded."""
    end = i + 1
    while end < len(steps) and is_attribute(steps[end]):
        end += 1
    return tuple(step.argval for step in steps[i + 1 : end])


def stored(step: dis.Instruction) -> str | None:
    """The local variable to which an instruction stores first."""
    if step.opname in _STORES_LOCAL:
        return step.argval
    return step.argval[0] if step.opname.startswith("STORE_FAST_") else None  # two instructions combined


def loads(step: dis.Instruction, name: str) -> bool:
    """Whether an instruction loads this variable last."""
    if not step.opname.startswith(_LOADS_LOCAL) and step.opname != "STORE_FAST_LOAD_FAST":
        return False
    return step.argval[-1] == name if isinstance(step.argval, tuple) else step.argval == name


def _loads_first_of_two(step: dis.Instruction, name: str) -> bool:
    return step.opname.startswith("LOAD_FAST_") and isinstance(step.argval, tuple) and step.argval[0] == name


def chains_from(steps: Steps, i: int, listings: Sequence[Steps], aliases: int = MOST_ALIASES) -> set[Chain]:
    """Chains that are read from the value of instruction ``i``, here and where it is known by a name.

    Attributes and constant keys count, ``getattr(value, "name")``, ``value.get("key")`` and ``"key" in
    value`` like these. If the value is stored in a local variable, what is read from that variable counts.

    Args:
        steps: The instructions of the code object.
        i: The place of the instruction.
        listings: The instructions of this code object and of those that may use its variables.
        aliases: How often a variable may stand for another.
    """
    chain: list[str] = []
    at, end = i + 1, len(steps)
    while at < end:
        if is_attribute(steps[at]):
            chain.append(steps[at].argval)
            at += 1
        elif at + 1 < end and (key := text_of(steps[at])) is not None and _is_subscript(steps[at + 1]):
            chain.append(f"[{key}]")
            at += 2
        else:
            break
    after = steps[at] if at < end else None
    if len(chain) == 0 and is_attribute(steps[i]) and _only_adds_to(steps, i):
        return {(ADDED_TO,)}
    if after is not None and _asks_for_none(steps, at):
        return {(*chain, IS_NONE)}
    if after is not None and after.opname == "CONTAINS_OP" and (key := _key_looked_for(steps, i)) is not None:
        return {(*chain, f"[{key}]")}
    if after is not None and (key := text_of(after)) is not None:
        if chain and chain[-1] == "get":
            return {(*chain[:-1], f"[{key}]")}
        if _is_by_name(steps, i):
            return {(*chain, key)} if _is_whole_text(steps, at) else {tuple(chain)}
    name = None if after is None else stored(after)
    if name is None or aliases == 0:
        return {tuple(chain)}
    return {(*chain, *more) for more in chains_of(listings, name, aliases - 1)} or {tuple(chain)}


def chains_of(listings: Sequence[Steps], name: str, aliases: int = MOST_ALIASES) -> set[Chain]:
    """Chains that are read from a local variable, here and in inner functions."""
    found: set[Chain] = set()
    for steps in listings:
        for i, step in enumerate(steps):
            if loads(step, name):
                found |= chains_from(steps, i, listings, aliases)
            if _loads_first_of_two(step, name):
                found.add(())
    return found


def _asks_for_none(steps: Steps, at: int) -> bool:
    """Whether the value before instruction ``at`` is compared with None, and not used otherwise."""
    if "IF_NONE" in steps[at].opname or "IF_NOT_NONE" in steps[at].opname:
        return True
    is_none = steps[at].opname == "LOAD_CONST" and steps[at].argval is None
    return is_none and at + 1 < len(steps) and steps[at + 1].opname == "IS_OP"


def _only_adds_to(steps: Steps, i: int) -> bool:
    """Whether the attribute that instruction ``i`` reads is read for ``value.name += 1`` alone."""
    before, after = steps[i - 1 : i], steps[i + 1 : i + 5]
    if not before or len(after) < 4 or before[0].opname not in _COPIES_ABOVE:
        return False
    number, add, _, store = after
    return (
        number.opname in ("LOAD_CONST", "LOAD_SMALL_INT")
        and type(number.argval) in (int, float)
        and (add.argrepr in ("+=", "-=") or add.opname in ("INPLACE_ADD", "INPLACE_SUBTRACT"))
        and store.opname == "STORE_ATTR"
        and store.argval == steps[i].argval
    )


def _is_subscript(step: dis.Instruction) -> bool:
    return step.opname in _SUBSCRIPTS and (step.opname == "BINARY_SUBSCR" or step.argrepr == "[]")


def _before(steps: Steps, i: int) -> Steps:
    """The two instructions before the variable from which the value of instruction ``i`` is read."""
    first = i
    while first > 0 and is_attribute(steps[first]):
        first -= 1
    return steps[max(0, first - 2) : first] if steps[first].opname.startswith(_LOADS_SIMPLY) else ()


def _is_by_name(steps: Steps, i: int) -> bool:
    """Whether the value of instruction ``i`` is the first argument of ``getattr`` or ``hasattr``."""
    before = [step for step in _before(steps, i) if step.opname != "PUSH_NULL"]  # from Python 3.13 on
    return bool(before) and before[-1].opname == "LOAD_GLOBAL" and before[-1].argval in _BY_NAME


def _key_looked_for(steps: Steps, i: int) -> str | None:
    """The key of ``"key" in value``, of which instruction ``i`` loads the value; None: it is no constant."""
    before = _before(steps, i)
    return text_of(before[-1]) if before else None


def is_call(step: dis.Instruction) -> bool:
    """Whether an instruction calls a function with a number of arguments that is known."""
    return step.opname in _BESIDE_ARGUMENTS


def read_by_name(steps: Steps, i: int) -> str | None:
    """The attribute that a call of ``getattr`` or ``hasattr`` reads, whose function instruction ``i`` loads.

    None: it is not a constant, or not read from a variable.
    """
    at = i + 1
    if at < len(steps) and steps[at].opname == "PUSH_NULL":
        at += 1
    if at >= len(steps) or not steps[at].opname.startswith(_LOADS_SIMPLY):
        return None
    at += 1
    while at < len(steps) and is_attribute(steps[at]):
        at += 1
    return text_of(steps[at]) if at < len(steps) and _is_whole_text(steps, at) else None


def _is_whole_text(steps: Steps, at: int) -> bool:
    """Whether the text that instruction ``at`` loads is an argument, and not a part of another text."""
    for step in steps[at + 1 :]:
        if step.opname == "PRECALL" or is_call(step):
            return True
        if step.opname.startswith(("BINARY_OP", "BINARY_ADD", "BINARY_MODULO", "FORMAT_", "BUILD_STRING")):
            return False
    return True


def takes_parameter(steps: Steps, i: int) -> bool:
    """Whether the function that instruction ``i`` loads is called with a variable as it is, such as ``self``.

    If it is called with an attribute or an element, all of that counts already.
    """
    at = i + 1
    while at < len(steps) and steps[at].opname == "PUSH_NULL":
        at += 1
    if at >= len(steps) or not steps[at].opname.startswith(_LOADS_SIMPLY):
        return False
    is_element = at + 2 < len(steps) and _is_subscript(steps[at + 2])
    return not is_element and not (at + 1 < len(steps) and is_attribute(steps[at + 1]))


def caller_of(steps: Steps, i: int) -> str | None:
    """The name of the function that call ``i`` calls; None: it is not a global or an attribute."""
    left = (steps[i].arg or 0) + _BESIDE_ARGUMENTS[steps[i].opname]
    at = i
    while at > 0 and left > 0:
        at -= 1
        if steps[at].opname not in ("PRECALL", "KW_NAMES") or at < i - 2:
            left -= effect_of(steps[at])
    if left > 0:
        return None
    end = at
    while end + 1 < i and is_attribute(steps[end + 1]):
        end += 1
    step = steps[end]
    return step.argval if step.opname == "LOAD_GLOBAL" or is_attribute(step) else None


def effect_of(step: dis.Instruction) -> int:
    """How many values more there are on the stack after an instruction."""
    return dis.stack_effect(step.opcode, step.arg if step.opcode >= dis.HAVE_ARGUMENT else None, jump=False)
