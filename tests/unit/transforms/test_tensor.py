"""What makes a tensor takes what torchvision's take."""

import numpy as np
import pytest
import torch
from oracle import pictures as portable

from seneca import transforms as T
from seneca._core.batch import batch_write
from seneca.transforms._pipeline import compile_transform


@pytest.mark.parametrize("dtype", [torch.float16, torch.half, "float16", "torch.float16"])
def test_a_type_is_torchs_or_its_name(dtype):
    assert T.ToDtype(dtype, scale=True) == T.ToDtype("float16", True)
    assert T.ConvertImageDtype(dtype).steps() == T.ToDtype(dtype, scale=True).steps()


@pytest.mark.parametrize(
    ("value", "read"), [(3, (3, 3, 3)), ([0.5], (0.5,) * 3), ((1, 2, 3), (1, 2, 3)), ("random", "random")]
)
def test_what_is_erased_with_is_a_number_three_or_noise(value, read):
    assert T.RandomErasing(value=value).value == read


def test_noise_of_one_colour_is_a_word_and_other_words_are_none():
    assert T.RandomErasing(value="random colour").value == "random colour"
    with pytest.raises(ValueError, match='the only words are "random" and "random colour"'):
        T.RandomErasing(value="noise")


@pytest.mark.parametrize(("count", "read"), [(1, (1, 1)), (3, (3, 3)), ([1, 4], (1, 4))])
def test_how_many_parts_are_erased_is_one_number_or_two(count, read):
    assert T.RandomErasing(count=count).count == read
    assert T.RandomErasing().steps() == T.RandomErasing(count=(1, 1)).steps()


@pytest.mark.parametrize("count", [0, 1001, (2, 1)])
def test_a_wrong_number_of_parts_is_refused(count):
    with pytest.raises(ValueError, match="count: "):
        T.RandomErasing(count=count)


@pytest.mark.parametrize("engine", ["native", "portable"])
@pytest.mark.parametrize("value", [1.0, "random", "random colour"])
def test_parts_share_the_area_and_a_colour_is_one_for_each(engine, value):
    erasing = T.RandomErasing(1, (0.2, 0.2), (1, 1), value, count=4)
    pipeline = compile_transform(T.Compose([T.CenterCrop(40), T.Normalize((0.5,) * 3, (0.5,) * 3), erasing]))
    black, shares = np.zeros((40, 40, 3), np.uint8), []
    for seed in range(200):
        if engine == "native":
            out = np.empty((3, 40, 40), np.float32)
            batch_write(pipeline.plan, black, out, seed)
        else:
            out = portable.finish(pipeline, black, np.random.default_rng(seed))
        gone = out[0] != -1
        shares.append(gone.mean())
        levels = len(np.unique(out[0][gone]))
        assert levels == 1 if value == 1.0 else levels <= 4 if value == "random colour" else levels > 100
    # Four squares of 9 by 9, which may lie over each other.
    assert max(shares) == pytest.approx(4 * 81 / 1600) and 0.12 < np.mean(shares) < 0.2025
