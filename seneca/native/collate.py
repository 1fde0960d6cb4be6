"""Batches as the user wants them: items of pictures and targets, put together by a function of the user's.

Threads have prepared a batch of pictures, which are stored one after the other. An item's picture is a view
of its place there. The loader's process then does what torch's workers would do next: it calls
``target_transform`` and ``collate_fn``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map_only
from torch.utils.data import default_collate

from seneca.data.stages import number_of
from seneca.data.support import Support
from seneca.data.tv_boxes import Targets
from seneca.epochs.generators import fixed_generators
from seneca.native.mixing import mixing_of

__all__ = ["Collation", "PictureView", "collates_plainly", "mixes", "who_collates"]


class PictureView(torch.Tensor):
    """The picture of one sample: a view of its place in the batch.

    It is a tensor like any other, and what is computed of it is a plain one. But ``torch.stack`` of all views
    of a batch, in their order, is the batch itself: nothing is copied. ``default_collate`` calls
    ``torch.stack``.
    """

    whole: torch.Tensor
    place: int

    @classmethod
    def of(cls, whole: torch.Tensor) -> list[PictureView]:
        """A view of each picture of a batch."""
        views = []
        for place, picture in enumerate(whole.unbind()):
            view = picture.as_subclass(cls)
            view.whole, view.place = whole, place
            views.append(view)
        return views

    def plain(self) -> torch.Tensor:
        """The same view, as a plain tensor."""
        return self.whole[self.place]

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.stack and (whole := _whole_of(*args, **(kwargs or {}))) is not None:
            return whole
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.plain().clone().__reduce_ex__(protocol)  # without the rest of the batch

    def __deepcopy__(self, memo: Any) -> torch.Tensor:
        return self.plain().clone()


def _whole_of(tensors: Any = (), dim: int = 0, *, out: Any = None) -> torch.Tensor | None:
    """The batch whose views these are, all and in order; None: they are not."""
    if dim != 0 or out is not None or not len(tensors) or type(tensors[0]) is not PictureView:
        return None
    whole = tensors[0].whole
    if len(tensors) != len(whole):
        return None
    are_all = all(
        type(one) is PictureView and one.whole is whole and one.place == place
        for place, one in enumerate(tensors)
    )
    return whole if are_all else None


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def collates_plainly(loader: Any, support: Support) -> bool:
    """Whether a batch is a tensor of pictures and one of whole labels or of masks, as ``default_collate``
    makes them."""
    assert support.files is not None
    return (
        loader.collate_fn is default_collate
        and support.targets is None
        and (support.files.are_pairs or support.files.has_whole_labels())
        and _target_transform(support) is None
    )


def who_collates(loader: Any, support: Support) -> str:
    """Describe who runs the user's functions."""
    if not mixes(loader, support):
        return "collate_fn and target_transform are called in this process"
    return "collate_fn is MixUp or CutMix, which is computed in the batch's own memory"


def mixes(loader: Any, support: Support) -> bool:
    """Whether ``collate_fn`` is MixUp or CutMix, which is computed in the batch's own memory."""
    return _mixing_of(loader, support) is not None


def _mixing_of(loader: Any, support: Support) -> Callable[[torch.Tensor, Any], Any] | None:
    """:func:`~seneca.native.mixing.mixing_of`, where a batch is of pictures and labels."""
    assert support.files is not None
    of_sounds = support.pipeline is not None and support.pipeline.sound
    are_labelled = support.targets is None and not support.files.are_pairs and not of_sounds
    return mixing_of(loader.collate_fn) if are_labelled and loader.batch_sampler is not None else None


def _target_transform(support: Support) -> Callable[[Any], Any] | None:
    """The transform of labels; None for pairs, whose masks ``transforms`` change."""
    assert support.files is not None
    return None if support.files.are_pairs else getattr(support.base, "target_transform", None)


class Collation:
    """Makes batches with the functions of the user's.

    torch calls these functions in worker processes, which have random generators of their own, and in which
    torch uses one core. It is the same here with ``num_workers``. The global generators of Python, NumPy and
    torch are set for each batch, and put back after it. Their numbers depend on the epoch's seed and the
    batch's place alone. A resumed epoch has the same.

    Args:
        loader: The loader, for ``collate_fn``, ``num_workers``, and whether it makes batches at all.
        support: The support of the dataset.
        seed: The seed of the epoch.
        number: The number of the epoch.
    """

    def __init__(self, loader: Any, support: Support, seed: int, number: int) -> None:
        assert support.files is not None
        self._samples = support.files.samples
        self._collate = loader.collate_fn
        self._mix = _mixing_of(loader, support)
        self._target_transform = _target_transform(support)
        self._boxes = support.targets
        self._is_channels_last = loader.memory_format is torch.channels_last
        self._is_as_in_workers = loader.num_workers > 0
        self._is_single = loader.batch_sampler is None
        self._of_epoch = seed, number

    def __call__(
        self,
        pictures: torch.Tensor,
        samples: np.ndarray,
        place: int,
        masks: torch.Tensor | None = None,
        moves: np.ndarray | None = None,
    ) -> Any:
        """Make a batch.

        Args:
            pictures: The pictures.
            samples: Which samples they are of.
            place: How many samples, or batches, of the epoch came before.
            masks: The masks of pairs, which are the targets.
            moves: How the pictures were moved, if boxes are to be moved likewise.
        """
        targets: list[Any]
        with self._as_in_a_worker(place):
            if self._boxes is not None:
                assert moves is not None
                return self._with_boxes(self._boxes, pictures, samples, moves)
            if masks is None:
                targets = [self._samples[sample][1] for sample in samples.tolist()]
            else:
                targets = list(PictureView.of(masks))
            if self._target_transform is not None:
                targets = list(map(self._target_transform, targets))
            if self._is_single:
                first = targets[0] if masks is None else masks[0]
                return self._collate((pictures[0], first))
            if masks is None and self._collate is default_collate:  # the same, without a view of each picture
                return [pictures, default_collate(tuple(targets))]
            if self._mix is not None:
                return self._mix(pictures, default_collate(targets))
            items = list(zip(PictureView.of(pictures), targets, strict=True))
            return tree_map_only(PictureView, PictureView.plain, self._collate(items))

    def _with_boxes(
        self, boxes: Targets, pictures: torch.Tensor, samples: np.ndarray, moves: np.ndarray
    ) -> Any:
        views = [boxes.picture(view) for view in PictureView.of(pictures)]
        targets = map(boxes.target, samples.tolist(), moves)
        items = list(zip(views, targets, strict=True))
        made = self._collate(items[0] if self._is_single else items)
        made = tree_map_only(PictureView, PictureView.plain, made)
        if self._is_channels_last:  # torch.stack of tv_tensors.Image makes a contiguous batch
            made = tree_map_only(torch.Tensor, _channels_last, made)
        return made

    @contextlib.contextmanager
    def _as_in_a_worker(self, place: int) -> Iterator[None]:
        if not self._is_as_in_workers:
            yield
            return
        named = (part.to_bytes(8, "little") for part in (*self._of_epoch, place))
        with fixed_generators(number_of(b"collate", *named) >> 1):
            before = torch.get_num_threads()
            torch.set_num_threads(1)  # the other cores prepare the next batches
            try:
                yield
            finally:
                torch.set_num_threads(before)
