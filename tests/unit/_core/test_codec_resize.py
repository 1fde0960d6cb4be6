"""Resizing: Pillow's picture, whichever code computes it and however little of it."""

import os

import numpy as np
import pytest
import ready
from PIL import Image
from PIL import __version__ as pillow_version

from seneca._core.codec import Codec
from seneca._core.plan import Plan

PILLOW_SIMD = "post" in pillow_version


def plan(*ops, n_head=None):
    return Plan(list(ops), len(ops) if n_head is None else n_head, "uint8", True, (0, 0, 0), (1, 1, 1))


def resize(pixels, height, width):
    return Codec().head(plan(("resize", {"size": (height, width)})), pixels)


def by_pillow(pixels, height, width):
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR))


def assert_close(ours, theirs):
    """Pillow-SIMD computes as we do; csrc/codec/kernels/taps.h says where other Pillows round elsewhere."""
    apart = np.abs(ours.astype(int) - theirs)
    assert apart.max() <= (0 if PILLOW_SIMD else 2)
    assert apart.mean() <= 0.3


def cases(n, seed):
    rng = np.random.default_rng(seed)
    for k in range(n):
        h, w, oh, ow = (int(side) for side in rng.integers(1, 300, 4))
        if k % 10 == 0:
            h = int(rng.integers(1000, 3000))
        yield rng.integers(0, 256, (h, w, 3), np.uint8), oh, ow


def test_any_size_to_any_size_is_pillows_resize():
    for pixels, height, width in cases(200, seed=1):
        assert_close(resize(pixels, height, width), by_pillow(pixels, height, width))


def test_extreme_ratios_are_pillows_resize():
    rng = np.random.default_rng(2)
    for (h, w), (oh, ow) in [
        ((1, 1), (9, 300)),
        ((5000, 2), (1, 1)),
        ((2, 5000), (3, 7)),
        ((1, 2), (600, 1)),
    ]:
        pixels = rng.integers(0, 256, (h, w, 3), np.uint8)
        assert_close(resize(pixels, oh, ow), by_pillow(pixels, oh, ow))


def test_a_flat_picture_stays_flat():
    for value in (0, 1, 128, 254, 255):
        pixels = np.full((91, 57, 3), value, np.uint8)
        assert (resize(pixels, 224, 31) == value).all()


def test_a_window_of_a_resize_is_cut_from_the_whole_resize():
    for pixels, height, width in cases(60, seed=3):
        h, w = max(1, height // 2), max(1, width // 3)
        whole = resize(pixels, height, width)
        ops = ("resize", {"size": (height, width)}), ("center_crop", {"size": (h, w)})
        window = Codec().head(plan(*ops), pixels)
        top, left = round((height - h) / 2), round((width - w) / 2)
        np.testing.assert_array_equal(window, whole[top : top + h, left : left + w])


@pytest.mark.parametrize("times", [2, 3, 5])
def test_a_window_that_begins_on_a_sample_is_cut_from_the_whole_too(times):
    """A cubic's weight is 0 one sample away: the window's second row needs one that its first does not."""
    pixels = np.random.default_rng(9).integers(0, 256, (12, 20, 3), np.uint8)
    enlarge = ("resize", {"size": (12 * times, 20), "interpolation": "bicubic"})
    whole = Codec().head(plan(enlarge), pixels)
    for height in range(2, 12 * times + 1, 2):
        window = Codec().head(plan(enlarge, ("center_crop", {"size": (height, 20)})), pixels)
        top = 6 * times - height // 2
        np.testing.assert_array_equal(window, whole[top : top + height])


def test_rows_may_lie_apart_and_the_array_may_be_read_only():
    wide = np.random.default_rng(4).integers(0, 256, (50, 80, 3), np.uint8)
    wide.flags.writeable = False
    np.testing.assert_array_equal(
        resize(wide[3:41, 7:60], 20, 30), resize(np.ascontiguousarray(wide[3:41, 7:60]), 20, 30)
    )


def test_arrays_that_are_no_rows_of_rgb_are_refused():
    pixels = np.zeros((9, 9, 4), np.uint8)
    for bad in (pixels, pixels[:, ::2, :3], pixels[::-1, :, :3], pixels[:0, :, :3], np.zeros((9, 9, 3))):
        with pytest.raises(ValueError):
            resize(bad, 4, 4)


DIGEST = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import test_codec_resize as t
from seneca._core.batch import batch_write
from seneca._core.plan import Plan
import numpy as np
d = hashlib.sha256()
for pixels, height, width in t.cases(80, seed=5):
    resized = t.resize(pixels, height, width)
    d.update(resized.tobytes())
    for dtype in ("float32", "uint8"):
        for last in (False, True):
            out = np.empty((height, width, 3) if last else (3, height, width), dtype)
            batch_write(Plan([], 0, dtype, last, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), resized, out)
            d.update(out.tobytes())
print(d.hexdigest())
"""


def test_vector_code_and_plain_code_give_the_same_bits():
    digests = set()
    for simd in ("", "none"):
        environment = {**os.environ, "SENECA_SIMD": simd}
        done = ready.run("-c", DIGEST, os.path.dirname(__file__), env=environment, fresh=True)
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1


GUARDED = """
import ctypes, mmap, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import test_codec_resize as t
from seneca._core.codec import Codec
page = mmap.PAGESIZE
memory = mmap.mmap(-1, 65 * page)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + 64 * page), page, 0) == 0
for height, width in [(1, 1), (1, 5), (2, 2), (3, 7), (40, 9), (91, 113), (200, 300)]:
    size = height * width * 3
    picture = np.frombuffer(memory, np.uint8, size, 64 * page - size).reshape(height, width, 3)
    for to in [(1, 1), (7, 224), (224, 7), (height, width + 1), (30, 30)]:
        t.resize(picture, *to)
        Codec().head(t.plan(("center_crop", {"size": to})), picture)
print("intact")
"""


@pytest.mark.small(1)
@pytest.mark.parametrize("simd", ["", "none"])
def test_nothing_is_read_past_the_end_of_a_picture(simd):
    """The page after the picture cannot be read: who tries is killed."""
    done = ready.run(
        "-c", GUARDED, os.path.dirname(__file__), env={**os.environ, "SENECA_SIMD": simd}, fresh=True
    )
    assert (done.returncode, done.stdout) == (0, "intact\n"), done.stderr
