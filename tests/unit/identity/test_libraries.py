"""What the walk knows of libraries. Those that are not installed: tests/frameworks/test_lost_sharing.py."""

import pickle

import numpy as np
import pytest

from seneca.identity.libraries import PLACES, compiled_from, settings_of_libraries, texts_in


def test_only_numba_compiles():
    assert compiled_from(len) is None and compiled_from(object()) is None


@pytest.mark.parametrize("dtype", ["U", "S"])
def test_texts_of_an_array(dtype):
    array = np.array([f"/data/{i:05}.jpg" for i in range(5000)], dtype)
    found = texts_in(array)
    assert len(found) == PLACES and found[0] == "/data/00000.jpg" and found[-1] == "/data/04999.jpg"
    assert texts_in(array[:0]) == []


def test_paths_in_packed_records():
    records = b"".join(pickle.dumps({"file": f"/data/{i:05}.jpg", "boxes": [i] * 9}) for i in range(500))
    found = texts_in(np.frombuffer(records, np.uint8))
    assert "/data/00000.jpg" in found and any(one.startswith("/data/004") for one in found)


def test_pixels_are_no_paths():
    assert texts_in(np.zeros((64, 64, 3), np.uint8)) == []
    assert texts_in(np.zeros(100, np.float32)) == []


def test_libraries_that_are_not_loaded_have_no_settings():
    assert settings_of_libraries({"gin"}, {"HydraConfig"}) == {}
