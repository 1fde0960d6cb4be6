"""The libjpeg-turbo in use names decoded pixels: another build shares none with this one."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seneca._core.codec import jpeg_library

PIPELINE = """
from seneca import transforms as T
from seneca._core.codec import jpeg_library
from seneca.transforms._pipeline import compile_transform
pipeline = compile_transform(T.Compose([T.Resize(256), T.CenterCrop(224), T.RandomHorizontalFlip()]))
print(jpeg_library(), pipeline.head_fingerprint, pipeline.augmented_fingerprint)
"""


@functools.cache
def names(**environment):
    """In a process of its own: the library's digest, and the names of DECODED and AUGMENTED pixels."""
    run = subprocess.run(
        [sys.executable, "-c", PIPELINE],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.split()


@pytest.fixture(scope="module")
def library():
    """The file of the libjpeg-turbo that is loaded here."""
    jpeg_library()
    lines = Path("/proc/self/maps").read_text().splitlines()
    ours = [line.split()[-1] for line in lines if "/libjpeg" in line and "site-packages" not in line]
    return Path(ours[0])


def loaded_from(path):
    """The path, as LD_PRELOAD takes it: the loader then knows the library of this SONAME already."""
    return {"LD_PRELOAD": str(path)}


def test_the_digest_is_that_of_the_library_wherever_it_lies(library, tmp_path):
    copy = tmp_path / library.name
    copy.write_bytes(library.read_bytes())
    assert names(**loaded_from(copy)) == names()
    assert names()[0] == jpeg_library()


def test_another_build_of_the_library_names_other_pixels(library, tmp_path):
    built = library.read_bytes()
    text = b"The libjpeg-turbo Project and many others"  # among its constants
    assert built.count(text) > 0
    other = tmp_path / library.name
    other.write_bytes(built.replace(text, text.upper()))
    for here, there in zip(names(), names(**loaded_from(other)), strict=True):
        assert here != there
