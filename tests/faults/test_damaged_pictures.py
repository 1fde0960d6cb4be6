"""Pictures that are damaged by chance: each is read or refused as Pillow does, by every way.

``SENECA_FUZZ=20000 pytest tests/faults/test_damaged_pictures.py`` damages so many, at some 25 a second.
"""

import os
import random
from collections import Counter

import picture_fuzz
import pytest
from sizes import size

pytestmark = pytest.mark.filterwarnings("ignore")  # Pillow has much to say of damage

COUNT = int(os.environ.get("SENECA_FUZZ", size(40, 400)))


def test_fuzz():
    seed = random.randrange(2**20)
    print(f"seed {seed}")
    counts = Counter()
    for differences, counted in picture_fuzz.run(COUNT, seed):
        assert not differences, "\n".join(map(str, differences))
        counts += counted
    assert counts.total() == 2 * COUNT
    assert min(counts.values()) > COUNT // 10, "some damage is to what Pillow does not need"


def test_the_same_number_makes_the_same_file():
    sound = picture_fuzz.sources()
    assert {"JPEG", "PNG", "BMP", "GIF", "TIFF"} <= set(sound)
    files = [picture_fuzz.file_of(7, number, sound) for number in range(50)]
    assert files == [picture_fuzz.file_of(7, number, sound) for number in range(50)]
    assert len(set(files)) > 45


@pytest.mark.parametrize("fault", ["pixels", "refusal", "place"])
def test_what_differs_is_seen(fault, tmp_path, monkeypatch):
    """The comparison itself."""
    paths = [str(tmp_path / f"{number}.png") for number in range(3)]
    for number, path in enumerate(paths):
        picture_fuzz.picture(seed=number).save(path)
    assert picture_fuzz.compare(paths)[0] == []
    read = picture_fuzz.read_by_pillow

    def faulty(path):
        if fault == "refusal":
            raise OSError("refused")
        other = paths[1] if fault == "place" and path == paths[0] else path
        image = read(other)
        return image.point(lambda value: value ^ 1) if fault == "pixels" else image

    monkeypatch.setattr(picture_fuzz, "read_by_pillow", faulty)
    differences, _ = picture_fuzz.compare(paths)
    ways = {difference.way for difference in differences}
    assert {"native, crop of 12", "native, crop of 96", "staged"} <= ways
    assert ("skip" in ways) == (fault == "refusal")
