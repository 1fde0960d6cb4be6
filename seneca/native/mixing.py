"""MixUp and CutMix of a batch, in the batch's own memory.

torchvision's recipe is a ``collate_fn`` that returns ``mixup(*default_collate(batch))``. There MixUp makes
three new tensors of the size of the batch, and CutMix two. Nobody else holds the batch that
``default_collate`` returns in it. Therefore the result can be written over the batch.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import default_collate

from seneca._core.batch import mix_up
from seneca.transforms._genuine import is_genuine

__all__ = ["mixing_of"]

# Instructions of a function that may catch an exception, or keep something for later.
_CATCHES = frozenset({"SETUP_FINALLY", "SETUP_WITH", "PUSH_EXC_INFO"})
_KEEPS = frozenset({"STORE_GLOBAL", "STORE_ATTR", "STORE_DEREF"})


def mixing_of(collate_fn: Any) -> Callable[[torch.Tensor, Any], Any] | None:
    """The mixing that a ``collate_fn`` applies to pictures and labels, if it is torchvision's recipe.

    The recipe is ``mix(*default_collate(batch))``, or the same in several lines. ``mix`` is torchvision's
    ``MixUp``, its ``CutMix``, or its ``RandomChoice`` of these.

    Returns:
        A function of the pictures ``(B, C, H, W)`` and the labels of a batch, as ``default_collate`` makes
        them. It returns what the ``collate_fn`` would return: the same random numbers, the same values. It
        writes over the pictures. None: the ``collate_fn`` is not this recipe.
    """
    called = collate_fn
    if not isinstance(called, (types.FunctionType, types.MethodType)):
        called = getattr(called, "__call__", None)  # noqa: B004 - an object's method, as a function
    selves = (called.__self__,) if isinstance(called, types.MethodType) else ()
    function = getattr(called, "__func__", called)
    if not isinstance(function, types.FunctionType):
        return None
    if any(step.opname in _CATCHES | _KEEPS for step in dis.get_instructions(function.__code__)):
        return None
    mix = _Trial().mix_of(function, selves)
    return None if mix is None else functools.partial(_mixed, mix)


class _Unknown:
    """Something that a function can only pass on. Any other use of it raises."""

    __slots__ = ()
    __bool__ = __eq__ = __hash__ = None  # type: ignore[assignment]


class _Trial:
    """Calls a function once, with a stand-in for all that it names.

    A function reaches nothing but its arguments and what it names. Suppose that the call ends without an
    exception, and that the function gave the batch to ``default_collate``, gave what that returned to one
    ``mix``, and returned the result. Then it does just this with every batch: no value that it could decide
    by was within its reach.
    """

    def __init__(self) -> None:
        self._batch, self._images, self._labels = _Unknown(), _Unknown(), _Unknown()
        self._mixed = (_Unknown(), _Unknown())
        self._used: list[Any] = []

    def mix_of(self, function: types.FunctionType, selves: tuple[Any, ...]) -> Any:
        """The transform that a function mixes its batch with; None: it does something else."""
        made: Any = None
        # Whatever is raised: the function did something else than pass its stand-ins on.
        with contextlib.suppress(Exception):
            stand_in = self._with_stand_ins(function)
            made = stand_in(*(_Names(one, self) for one in selves), self._batch)
        is_recipe = (
            type(made) is tuple
            and len(made) == 2
            and made[0] is self._mixed[0]
            and made[1] is self._mixed[1]
            and len(self._used) == 1
        )
        return self._used[0] if is_recipe else None

    def _with_stand_ins(self, function: types.FunctionType) -> types.FunctionType:
        names = function.__globals__
        known = {name: self.instead_of(names[name]) for name in function.__code__.co_names if name in names}
        cells = tuple(
            types.CellType(self.instead_of(cell.cell_contents)) for cell in function.__closure__ or ()
        )
        defaults = tuple(map(self.instead_of, function.__defaults__ or ()))
        return types.FunctionType(function.__code__, {**known, "__builtins__": {}}, None, defaults, cells)

    def instead_of(self, value: Any) -> Any:
        """The stand-in for a value that the function names."""
        if value is default_collate:
            return self._collate
        if _mixes(value):
            return functools.partial(self._mix, value)
        return _Names(value, self) if isinstance(value, types.ModuleType) else _Unknown()

    def _collate(self, batch: Any) -> Any:
        if batch is not self._batch:
            raise ValueError("another batch")
        return [self._images, self._labels]

    def _mix(self, mix: Any, images: Any, labels: Any) -> Any:
        if images is not self._images or labels is not self._labels:
            raise ValueError("other pictures or labels")
        self._used.append(mix)
        return self._mixed


class _Names:
    """The stand-in for a module, or for the object that the function is a method of."""

    def __init__(self, holder: Any, trial: _Trial) -> None:
        self.__holder, self.__trial = holder, trial

    def __getattr__(self, name: str) -> Any:
        return self.__trial.instead_of(getattr(self.__holder, name))


def _mixes(value: Any) -> bool:
    """Whether this is torchvision's MixUp or CutMix, or its choice of them."""
    v2: Any = sys.modules.get("torchvision.transforms.v2")
    if v2 is None or not hasattr(v2.Transform, "transform"):  # a release that names its methods otherwise
        return False
    if type(value) is v2.RandomChoice:
        return is_genuine(value) and all(map(_mixes, value.transforms))
    return type(value) in (v2.MixUp, v2.CutMix) and is_genuine(value)


def _mixed(mix: Any, pictures: torch.Tensor, labels: Any) -> Any:
    return _in_place(mix, pictures)(pictures, labels)


def _in_place(mix: Any, pictures: torch.Tensor) -> Any:
    """The same transform, which writes its result over these pictures. All else is torchvision's code."""
    ours = copy.copy(mix)
    if hasattr(mix, "transforms"):
        ours.transforms = [_in_place(each, pictures) for each in mix.transforms]
        return ours

    def transform(given: Any, drawn: dict[str, Any]) -> Any:
        if given is not pictures or given.dim() != 4 or len(given) != drawn["batch_size"]:
            return mix.transform(given, drawn)
        if "lam" in drawn:
            _mix_up(pictures, drawn["lam"])
        else:
            left, upper, right, lower = drawn["box"]
            for box, other in _with_the_one_before(pictures[..., upper:lower, left:right]):
                box.copy_(other)
        return pictures

    ours.transform = transform
    return ours


def _mix_up(pictures: torch.Tensor, share: float) -> None:
    """The operations of torchvision's, in their order: each value is the same to the last bit."""
    if pictures.dtype is torch.float32:
        rows = pictures if pictures.is_contiguous() else pictures.permute(0, 2, 3, 1)
        mix_up(rows.view(len(rows), -1).numpy(), share)
        return
    for picture, other in _with_the_one_before(pictures):
        part = other * (1.0 - share)
        picture.mul_(share).add_(part)


def _with_the_one_before(pictures: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Each picture, and the one before it, which nobody has changed yet: the last picture comes first."""
    each = pictures.unbind()
    last = each[-1].clone()
    for i in range(len(each) - 1, 0, -1):
        yield each[i], each[i - 1]
    yield each[0], last
