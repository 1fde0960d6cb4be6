"""What code reads from values: tables of sources."""

import pytest

from seneca.identity.bytecode import (
    all_codes,
    attributes_after,
    caller_of,
    chains_of,
    instructions_of,
    is_attribute,
    is_call,
    read_by_name,
    texts_of,
)


def function(body, arguments="self, i, x"):
    """The code of a function."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return compile(f"def f({arguments}):\n{lines}", "a test", "exec").co_consts[0]


def listings(body):
    return [instructions_of(code) for code in all_codes(function(body))]


CHAINS = [
    ("return self.args.size", "self", {("args", "size")}),
    ("a = self.args\nreturn a.size", "self", {("args", "size")}),
    (
        "a = self.args\nb = a.data\nreturn b.size + b.lr",
        "self",
        {("args", "data", "size"), ("args", "data", "lr")},
    ),
    ("return self.cfg['data']['k']", "self", {("cfg", "[data]", "[k]")}),
    ("return self.cfg.get('k', 3)", "self", {("cfg", "[k]")}),
    ("return getattr(self.args, 'lr', 2)", "self", {("args", "lr")}),
    ("return getattr(self.args, x)", "self", {("args",)}),
    ("return helper(self.opt)", "self", {("opt",)}),
    ("return helper(self)", "self", {()}),
    ("return self.a[i]", "self", {("a",)}),
    ("return [self.k for _ in x]", "self", {("k",)}),
    ("return lambda: self.k", "self", {("k",)}),
    ("return lambda: (self.k, x)", "self", {("k",)}),
    ("return lambda: lambda: (x, self.k)", "self", {("k",)}),
    ("self.k = x", "self", {()}),
    ("return x", "self", set()),
]


@pytest.mark.parametrize("body, name, chains", CHAINS, ids=[body for body, *_ in CHAINS])
def test_what_is_read_from_a_variable(body, name, chains):
    assert chains_of(listings(body), name) == chains


CALLERS = [
    ("f(x)", "f"),
    ("f(x, key=i)", "f"),
    ("self.g(x)", "g"),
    ("self.h.g(x, *i)", None),
    ("a.b.c(x)(i)", "c"),
    ("f(g(x))", "g"),
]


@pytest.mark.parametrize("body, name", CALLERS)
def test_the_function_of_the_first_call(body, name):
    steps = instructions_of(function(f"return {body}"))
    calls = [i for i, step in enumerate(steps) if is_call(step)]
    assert (caller_of(steps, calls[0]) if calls else None) == name


def test_names_that_a_call_reads():
    steps = instructions_of(function("return getattr(self, 'k'), getattr(self, x)"))
    at = [i for i, step in enumerate(steps) if step.argval == "getattr"]
    assert [read_by_name(steps, i) for i in at] == ["k", None]


def test_attributes_one_after_the_other():
    steps = instructions_of(function("return module.inner.f(x).other"))
    first = next(i for i, step in enumerate(steps) if step.argval == "module")
    assert attributes_after(steps, first) == ("inner", "f")
    assert [step.argval for step in steps if is_attribute(step)] == ["inner", "f", "other"]


def test_texts_of_a_code_object():
    found = set(texts_of(function("'docs'\nreturn ('a', 'b') if x in {'c', 'd'} else 'e', 5")))
    assert {"a", "b", "c", "d", "e"} <= found
