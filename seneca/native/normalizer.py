"""The last stage of a native batch as a module of torch's: uint8 pictures become what the transform makes.

The native core has the same stage (``csrc/codec/kernels/batch_kernels.h``). Both divide, subtract and divide
in float32, rounded after each step, and then round once to the batch's type. On a device whose division is
that of IEEE 754, both give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

__all__ = ["Normalizer"]


class Normalizer(torch.nn.Module):
    """Makes ``(images / divisor - mean) / std`` of uint8 images, in the type that the transform makes.

    The result has the images' shape and device. The module has no parameters, and nothing in
    ``state_dict()``. Its constants follow ``to(device)``, and stay float32 if a model around it becomes half.
    It pickles. A compiler that joins the steps may round the last bit otherwise.

    Args:
        mean: Subtracted from each channel.
        std: Divides each channel after that.
        divisor: Divides pixels before that: 255, or 1 for a transform that does not scale.
        dtype: The type of the result. ``torch.uint8``: images stay unchanged.
        memory_format: Of the result: ``torch.contiguous_format`` or ``torch.channels_last``.

    Example:
        >>> normalizer = Normalizer(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
        >>> images = torch.full((2, 3, 4, 4), 255, dtype=torch.uint8)
        >>> normalizer(images).unique(), normalizer(images).shape
        (tensor([2.]), torch.Size([2, 3, 4, 4]))
    """

    divisor: torch.Tensor
    mean: torch.Tensor
    std: torch.Tensor

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        *,
        divisor: float = 255.0,
        dtype: torch.dtype = torch.float32,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.memory_format = memory_format
        self._divides, self._mean, self._std = float(divisor), tuple(mean), tuple(std)
        self._make_constants(torch.device("cpu"))

    def _make_constants(self, device: torch.device) -> None:
        # As tensors: on a GPU torch multiplies by the reciprocal of a divisor that is a number.
        numbers = {"divisor": (self._divides,), "mean": self._mean, "std": self._std}
        for name, of_channels in numbers.items():
            constant = torch.tensor(of_channels, dtype=torch.float32, device=device).reshape(-1, 1, 1)
            self.register_buffer(name, constant, persistent=False)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Normalizer:
        super()._apply(fn, recurse)
        self._make_constants(self.mean.device)  # fn may also have changed their type, or left them undefined
        return self

    def extra_repr(self) -> str:
        return (
            f"mean={self._mean}, std={self._std}, divisor={self._divides}, dtype={self.dtype}, "
            f"memory_format={self.memory_format}"
        )

    def forward(self, images: torch.Tensor, erasures: torch.Tensor | None = None) -> torch.Tensor:
        """Normalise images.

        Args:
            images: uint8, ``(B, 3, height, width)``, or one without ``B``.
            erasures: What is erased after that, int32 ``(B, n, 7)`` on the device of the images: top, left,
                height and width of a rectangle, and the bits of a float for each channel. None: nothing.

        Returns:
            The result. Images that are not to be changed are returned themselves.

        Raises:
            TypeError: The images are not uint8.
        """
        if images.dtype is not torch.uint8:
            raise TypeError(
                f"the images are {images.dtype}, but uint8 images are normalised: give those of a loader "
                "with uint8_batches=True, and normalise them once"
            )
        if self.dtype is torch.uint8:
            return images
        values = self._laid_out(images)
        divisor, mean, std = (one.to(values.device) for one in (self.divisor, self.mean, self.std))
        if self._divides != 1:
            values.div_(divisor)
        if any(self._mean):
            values.sub_(mean)
        if any(number != 1 for number in self._std):
            values.div_(std)
        values = values.to(self.dtype)
        return values if erasures is None else _erased(values, erasures)

    def _laid_out(self, images: torch.Tensor) -> torch.Tensor:
        """The pixels as float32, in new memory."""
        if images.dim() == 4:
            return images.to(torch.float32, memory_format=self.memory_format)
        return self._laid_out(images.unsqueeze(0)).squeeze(0)


def _erased(images: torch.Tensor, erasures: torch.Tensor) -> torch.Tensor:
    """The images, overwritten in these rectangles, one after the other."""
    height, width = images.shape[-2:]
    rows = torch.arange(height, dtype=torch.int32, device=images.device)
    columns = torch.arange(width, dtype=torch.int32, device=images.device)
    for erasure in erasures.unbind(1):
        top, left, of_rows, of_columns = erasure[:, :4, None].unbind(1)
        in_rows = (rows >= top) & (rows < top + of_rows)
        in_columns = (columns >= left) & (columns < left + of_columns)
        values = erasure[:, 4:].contiguous().view(torch.float32).to(images.dtype)
        inside = in_rows[:, None, :, None] & in_columns[:, None, None, :]
        torch.where(inside, values[:, :, None, None], images, out=images)
    return images
