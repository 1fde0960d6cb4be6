"""Which code takes the CPU of batches: entries of a Compose, functions of the dataset, ``collate_fn``.

In some batches the functions that make samples are replaced by ones that are timed, and put back when the
batch is made. As the hooks, this imports the standard library alone.

::

    fetcher ── _sites() ──> where functions are kept: lists, attributes ── Timed ──> seconds by name
"""

import functools
import os
import re
import threading
import time

EVERY_S = 0.25  # a batch is timed
RARER = 0.01  # of the time since the first: a long run writes no long trace
DEEPEST = 4  # datasets within datasets
FUNCTIONS = re.compile("transform|augment|preprocess|^loader$")  # attributes that make samples
INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]|[/\\]lib[/\\]python3|^<frozen")
DECODES = ("torchvision.datasets.folder", "torchvision.io")  # modules of functions that decode pictures
CONTAINERS = (
    "__getitem__",
    "__iter__",
    "__len__",
)  # Python asks a type for these: such a thing is left alone


class Timed:
    """Takes the place of a function, and does what it does. Timed functions within count for themselves."""

    __slots__ = ("_function", "_name", "_parts")

    def __init__(self, function, name, parts):
        object.__setattr__(self, "_function", function)
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_parts", parts)

    def __call__(self, *args, **kwargs):
        parts = self._parts
        if threading.get_ident() != parts.thread:
            return self._function(*args, **kwargs)
        before, began = parts.within, time.thread_time()
        parts.within = 0.0
        try:
            return self._function(*args, **kwargs)
        finally:
            whole = time.thread_time() - began
            parts.seconds[self._name] = parts.seconds.get(self._name, 0.0) + whole - parts.within
            parts.within = before + whole

    def __getattr__(self, name):
        return getattr(self._function, name)

    def __setattr__(self, name, value):
        setattr(self._function, name, value)

    def __reduce_ex__(self, protocol):
        return _itself, (self._function,)

    @property  # type: ignore[misc]
    def __class__(self):  # isinstance() sees the function
        return type(self._function)


def _itself(function):
    return function


class Parts:
    """Times the parts of some batches of this process, and writes their sums into the trace."""

    def __init__(self, trace):
        self._trace = trace
        self.renew()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self):
        """Begin anew: a forked child has nothing of its parent."""
        self._turn = threading.Lock()
        self._first = self._next = 0.0
        self._sums = {}  # by iterator: all CPU, and that of each name
        self._rest = ""
        self.thread, self.seconds, self.within = None, {}, 0.0

    def due(self, now):
        """Whether the batch that begins now is to be timed. The caller then makes it by :meth:`fetch`."""
        if now < self._next or not self._turn.acquire(blocking=False):
            return False  # another thread of this process times one, or this one a batch around it
        self._first = self._first or now
        self._next = now + max(EVERY_S, RARER * (now - self._first))
        return True

    def fetch(self, inner, fetcher, indices):
        """Make a batch with timed functions."""
        self.thread, self.seconds, self.within = threading.get_ident(), {}, 0.0
        put_back = []
        try:
            for place, key, function, name in list(_sites(fetcher)):
                timed = place[key] = Timed(function, name, self)
                put_back.append((place, key, function, timed))
            began = time.thread_time()
            batch = inner(fetcher, indices)
            whole = time.thread_time() - began
        except BaseException:
            self.seconds = {}  # what came of the batch is not known
            raise
        else:
            kind = type(getattr(fetcher, "dataset", None))
            self._rest = (
                f"other code of {_named(kind, vars(kind).get('__getitem__') or vars(kind).get('__iter__'))}"
            )
            self.seconds[self._rest] = whole - self.within
            return batch
        finally:
            self.thread = None
            for place, key, function, timed in put_back:
                if _is_there(place, key, timed):  # the dataset may have set another meanwhile
                    place[key] = function

    def write(self, iterator):
        """Write what the batch took, beside all before it. Another may be timed then."""
        sums = self._sums.setdefault(iterator, {})
        for name, seconds in self.seconds.items():
            sums[name] = sums.get(name, 0.0) + max(0.0, seconds)
        try:
            if self.seconds:
                self._trace.event("parts", iterator=iterator, parts=sums)
        finally:
            self._turn.release()


def _is_there(place, key, timed):
    there = place.get(key) if isinstance(place, dict) else place[key] if key < len(place) else None
    return there is timed


def _sites(fetcher):
    """Where the functions are that make a fetcher's samples: ``(list or dict, key, function, name)``."""
    own = getattr(fetcher, "__dict__", {})
    if _is_senecas(fetcher) or _is_senecas(own.get("dataset")):
        return  # Seneca examines whether its datasets change
    if callable(own.get("collate_fn")):
        yield own, "collate_fn", own["collate_fn"], f"collate_fn {name_of(own['collate_fn'])}"
    yield from _sites_of(own.get("dataset"), DEEPEST, set())


def _is_senecas(thing):
    return type(thing).__module__.partition(".")[0] == "seneca"


def _sites_of(dataset, depth, met):
    own = getattr(dataset, "__dict__", None)
    if not isinstance(own, dict) or id(dataset) in met or _is_senecas(dataset):
        return
    met.add(id(dataset))
    for key, value in list(own.items()):
        if FUNCTIONS.search(key):
            yield from _sites_in(own, key, value, met)
        elif depth > 1:
            for inner in value if isinstance(value, (list, tuple)) and len(value) < 100 else [value]:
                if hasattr(type(inner), "__getitem__") and type(inner).__module__ != "builtins":
                    yield from _sites_of(inner, depth - 1, met)


def _sites_in(place, key, function, met):
    """A function; or, of a Compose, the functions that it calls."""
    kind = type(function)
    if not callable(function) or isinstance(function, type) or kind is Timed:
        return
    inner = getattr(function, "__dict__", {}).get("transforms")
    if kind.__name__ == "Compose" and isinstance(inner, list):
        if id(function) in met:
            return  # two datasets have it
        met.add(id(function))
        for number, one in enumerate(inner):
            yield from _sites_in(inner, number, one, met)
    elif kind.__name__ == "StandardTransform":  # of torchvision, with transforms for the two of a pair
        own = vars(function)
        for name in ("transform", "target_transform"):
            yield from _sites_in(own, name, own.get(name), met)
    elif not any(hasattr(kind, name) for name in CONTAINERS):
        yield place, key, function, name_of(function)


def name_of(function):
    """What people call a function or a transform: its name, and where it is if the script has it."""
    while isinstance(function, functools.partial):
        function = function.func
    if str(getattr(function, "__module__", "")).startswith(DECODES):
        return "decoding"
    written = getattr(function, "__dict__", {}).get("lambd")  # of torchvision's Lambda
    if written is not None:
        return _named(type(function), written)
    if hasattr(function, "__code__") or hasattr(function, "__func__"):
        return _named(function, function)
    kind = type(function)
    if kind.__module__ == "builtins":
        return getattr(function, "__qualname__", kind.__qualname__)
    return _named(
        kind, vars(kind).get("forward") or vars(kind).get("__call__") or vars(kind).get("transform")
    )


def _named(named, code_of):
    code = getattr(getattr(code_of, "__func__", code_of), "__code__", None)
    name = named.__qualname__.rpartition("<locals>.")[2].replace("<lambda>", "lambda")
    if code is None or INSTALLED.search(code.co_filename):
        return name
    return f"{name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"
