"""What makes a tensor takes what torchvision's take."""

import pytest
import torch

from seneca import transforms as T


@pytest.mark.parametrize("dtype", [torch.float16, torch.half, "float16", "torch.float16"])
def test_a_type_is_torchs_or_its_name(dtype):
    assert T.ToDtype(dtype, scale=True) == T.ToDtype("float16", True)
    assert T.ConvertImageDtype(dtype).steps() == T.ToDtype(dtype, scale=True).steps()


@pytest.mark.parametrize(
    ("value", "read"), [(3, (3, 3, 3)), ([0.5], (0.5,) * 3), ((1, 2, 3), (1, 2, 3)), ("random", "random")]
)
def test_what_is_erased_with_is_a_number_three_or_noise(value, read):
    assert T.RandomErasing(value=value).value == read
