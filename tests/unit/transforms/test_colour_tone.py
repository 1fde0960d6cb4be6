"""Transforms of tones, sharpness and blur take what torchvision's take."""

import numpy as np
import pytest
from oracle import pictures as portable

from seneca import transforms as T


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: T.RandomInvert(1.5), ValueError, "p is a probability"),
        (lambda: T.RandomPosterize(9), ValueError, "bits: between 0 and 8"),
        (lambda: T.RandomPosterize(2.5), TypeError, "bits: an int"),
        (lambda: T.RandomSolarize("128"), TypeError, "threshold: a number"),
        (lambda: T.RandomSolarize(float("nan")), ValueError, "threshold: a finite number"),
        (lambda: T.RandomAdjustSharpness(-1), ValueError, "sharpness_factor: from 0"),
        (lambda: T.RandomAutocontrast(-0.1), ValueError, "p is a probability"),
        (lambda: T.RandomEqualize(2), ValueError, "p is a probability"),
        (lambda: T.GaussianBlur(4), ValueError, "kernel_size: odd numbers"),
        (lambda: T.GaussianBlur(257), ValueError, "kernel_size: from 1 to 255"),
        (lambda: T.GaussianBlur("3"), TypeError, "kernel_size: an int"),
        (lambda: T.GaussianBlur((3, 3, 3)), ValueError, "kernel_size: one int or"),
        (lambda: T.GaussianBlur(3, 0), ValueError, "sigma: least and greatest are positive"),
        (lambda: T.GaussianBlur(3, (2, 1)), ValueError, "sigma: least and greatest"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_arguments_come_in_one_form():
    assert T.GaussianBlur([5], 2) == T.GaussianBlur((5, 5), (2.0, 2.0))
    assert T.RandomPosterize(np.int64(3)).steps() == T.RandomPosterize(3, 0.5).steps()
    assert T.RandomSolarize(128) == T.RandomSolarize(128.0, p=0.5)


@pytest.mark.parametrize("engine", ["native", "portable"])
def test_a_kernel_is_wide_first_and_high_second(engine, monkeypatch):
    if engine == "portable":
        portable.run_here(monkeypatch)
    dot = np.zeros((7, 9, 3), np.uint8)
    dot[3, 4] = 255
    out = T.Compose([T.CenterCrop((7, 9)), T.GaussianBlur((5, 1), 2), T.PILToTensor()])(dot)[0].numpy()
    assert (out > 0).sum(1).tolist() == [0, 0, 0, 5, 0, 0, 0]
