"""Made-up pictures are what a loader meets in real ones, and a class can be learned from them."""

import hashlib

import numpy as np
import pytest
import simplejpeg
from PIL import Image
from sizes import size

from seneca import testing
from seneca.testing import make_pictures


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*/*.jpg")}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_pictures(tmp_path_factory.mktemp("made"), count=size(60, 150), classes=10)


def test_pictures_are_dealt_out_to_the_classes_evenly(made):
    assert [len(list(folder.iterdir())) for folder in sorted(made.iterdir())] == [size(6, 15)] * 10


def test_sizes_are_those_of_photographs(made):
    headers = [simplejpeg.decode_jpeg_header(path.read_bytes()) for path in made.glob("*/*.jpg")]
    sides = [side for height, width, *_ in headers for side in (height, width)]
    assert 300 <= min(sides) < 330 and 570 < max(sides) <= 600
    assert 60_000 < np.mean([path.stat().st_size for path in made.glob("*/*.jpg")]) < 110_000


def test_several_subsamplings_and_some_grey_are_among_them(made):
    kinds = {simplejpeg.decode_jpeg_header(path.read_bytes())[2:] for path in made.glob("*/*.jpg")}
    assert len({subsampling for _, subsampling in kinds}) >= 4
    assert any("gray" in str(colour).lower() for colour, _ in kinds)


def test_the_same_seed_makes_the_same_bytes_and_another_does_not(tmp_path):
    small = {"count": 12, "classes": 3, "sides": (32, 48)}
    first, same = (digests(make_pictures(tmp_path / name, seed=5, **small)) for name in ("a", "b"))
    other = digests(make_pictures(tmp_path / "c", seed=6, **small))
    assert len(first) == 12 and first == same
    assert not set(first.values()) & set(other.values())
    sizes = [[Image.open(path).size for path in sorted((tmp_path / name).glob("*/*"))] for name in ("a", "c")]
    assert sizes[0] != sizes[1]  # not the grain alone


def test_pillow_writes_pictures_of_the_same_kinds_where_simplejpeg_is_missing(tmp_path, monkeypatch):
    arguments = {"count": 40, "classes": 2, "sides": (40, 60)}
    usual = make_pictures(tmp_path / "a", **arguments)
    monkeypatch.setattr(testing, "simplejpeg", None)
    made = make_pictures(tmp_path / "b", **arguments)
    kinds = set()
    for path in sorted(usual.glob("*/*")):
        same = (made / path.relative_to(usual)).read_bytes()
        (height, width, colour, sampling), theirs = map(
            simplejpeg.decode_jpeg_header, (path.read_bytes(), same)
        )
        assert theirs == (height, width, colour, {"440": "422"}.get(sampling, sampling))
        kinds.add((colour, sampling))
    assert len(kinds) >= 4
    assert digests(made) == digests(make_pictures(tmp_path / "c", **arguments))


@pytest.mark.whole_size(shown_by="test_the_same_seed_makes_the_same_bytes_and_another_does_not")
def test_a_smaller_set_is_the_beginning_of_a_larger_one(tmp_path):
    small = digests(make_pictures(tmp_path / "a", count=6, classes=3, sides=(32, 48)))
    large = digests(make_pictures(tmp_path / "b", count=9, classes=3, sides=(32, 48)))
    assert small.items() <= large.items()


def test_pictures_larger_than_the_sheet_of_grain_are_covered(tmp_path):
    folder = make_pictures(tmp_path, count=1, classes=1, sides=(1100, 1100))
    pixels = np.asarray(Image.open(folder / "class_00" / "picture_00000.jpg"), np.float32)
    assert pixels.shape == (1100, 1100, 3)
    assert np.abs(np.diff(pixels[-50:, -50:], axis=1)).mean() > 1


def test_the_class_can_be_found_from_the_pixels(tmp_path):
    """The nearest mean histogram of hue finds the class far more often than chance."""

    def features(path):
        hue, saturation, _ = np.moveaxis(np.asarray(Image.open(path).convert("HSV").resize((32, 32))), 2, 0)
        # Squared, the strong colour of the large shape outweighs the dull ones behind it.
        strength = np.square(saturation.astype(float))
        return np.histogram(hue, 32, (0, 256), weights=strength)[0] / max(1, strength.sum())

    count = size(160, 400)
    folder = make_pictures(tmp_path, count=count, classes=4, sides=(64, 96))
    table = {path.name: (int(path.parent.name[-2:]), features(path)) for path in folder.glob("*/*.jpg")}
    rows = [table[name] for name in sorted(table)]
    means = [np.mean([f for label, f in rows[: count // 2] if label == c], axis=0) for c in range(4)]
    right = [
        label == np.argmin([np.abs(f - mean).sum() for mean in means]) for label, f in rows[count // 2 :]
    ]
    assert np.mean(right) > 0.7


@pytest.mark.parametrize("arguments", [{"count": 0}, {"classes": 0}, {"sides": (8, 9)}, {"sides": (64, 32)}])
def test_impossible_wishes_are_refused(tmp_path, arguments):
    with pytest.raises(ValueError, match=r"at least|sides"):
        make_pictures(tmp_path, **arguments)
