"""The sdist and the wheel, installed as users install them: into empty environments, with pip.

`make test-packages` makes both and runs this. torch alone is borrowed from the environment that runs the
tests, because it is large. pip resolves and installs all the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pages
import pytest
from packaging.requirements import Requirement

MADE = os.environ.get("SENECA_TEST_PACKAGES")
pytestmark = pytest.mark.skipif(not MADE, reason="make test-packages makes and tests them, in minutes")

NOTHING_IS_COMPILED = {"CC": "false", "PIP_ONLY_BINARY": ":all:"}
QUICKLY = {"SENECA_CFLAGS": "-O0"}
PICTURES = "from seneca.testing import make_pictures; make_pictures('train', 24, 2, sides=(80, 120))"
LIBJPEG = """
from seneca._core import codec
print(*{line.split()[-1] for line in open('/proc/self/maps') if '/libjpeg' in line})
"""


def made(pattern: str) -> Path:
    (found,) = Path(MADE or "").glob(pattern)
    return found


def closure(name: str, found: set[str]) -> set[str]:
    """The distributions that one needs, as they are installed here, and itself."""
    if name not in found:
        found.add(name)
        for text in distribution(name).requires or []:
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                closure(need.name, found)
    return found


class Environment:
    """An empty environment with torch, in which one package of Seneca's is installed.

    Args:
        folder: Where it is made.
        package: The sdist or the wheel.
        while_installing: What is added to the environment's variables while pip runs.
    """

    def __init__(self, folder: Path, package: Path, while_installing: dict[str, str]) -> None:
        self.folder = folder
        venv.create(folder / "venv")
        self.programs = folder / "venv" / "bin"
        (self.site,) = (folder / "venv" / "lib").glob("python*/site-packages")
        for name in closure("torch", set()):
            for file in distribution(name).files or []:
                top = file.parts[0]
                if top not in ("..", "__pycache__") and not (self.site / top).exists():
                    (self.site / top).symlink_to(distribution(name).locate_file(top))
        pip = [sys.executable, "-m", "pip", "--python", str(self.programs / "python"), "install", "--quiet"]
        self.run(*pip, str(package), **while_installing)

    def run(self, *command: str, **environment: str) -> str:
        """What a command prints. It finds no Seneca but the one that is installed here."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def python(self, code: str) -> str:
        return self.run(str(self.programs / "python"), "-c", code)


@pytest.fixture(scope="module")
def from_wheel(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("wheel"), made("*.whl"), NOTHING_IS_COMPILED)


@pytest.fixture(scope="module")
def from_sdist(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("sdist"), made("*.tar.gz"), QUICKLY)


@pytest.fixture(params=["wheel", "sdist"])
def installed(request):
    return request.getfixturevalue(f"from_{request.param}")


def test_the_first_example_of_the_readme_runs(installed):
    installed.python(PICTURES)
    (example, *_) = (block for block in pages.blocks(pages.ROOT / "README.md") if block.language == "python")
    (installed.folder / "train.py").write_text(example.text)
    printed = installed.run(str(installed.programs / "python"), "train.py")
    assert "\ndelivered             24\n" in printed
    assert installed.python("import seneca; print(seneca.__file__)").startswith(str(installed.site))


def test_the_command_runs(installed):
    version = installed.python("import seneca; print(seneca.__version__)").strip()
    assert installed.run(str(installed.programs / "seneca"), "--version") == f"seneca {version}\n"
    assert version in made("*.whl").name and version in made("*.tar.gz").name


def test_a_wheel_brings_its_own_libjpeg(from_wheel):
    (loaded,) = from_wheel.python(LIBJPEG).split()
    assert Path(loaded).parent == from_wheel.site / "seneca_loader.libs"


def test_a_wheel_has_no_sources_and_says_whose_code_it_contains(from_wheel):
    names = zipfile.ZipFile(made("*.whl")).namelist()
    assert [name for name in names if name.endswith((".pyx", ".c"))] == []
    for library in ("libjpeg-turbo", "libpng", "libwebp", "libdeflate", "libsndfile"):
        assert any(name.endswith(f"/LICENSE.{library}") for name in names)


def test_jobs_of_different_libjpegs_share_no_pixels(from_wheel, from_sdist):
    of_each = "from seneca._core.codec import jpeg_library; print(jpeg_library())"
    assert from_wheel.python(of_each) != from_sdist.python(of_each)


def test_files_that_a_command_prints_are_installed(installed):
    line = ("remote", "serve", "--memory", "1GiB", "--print", "slurm")
    assert installed.run(str(installed.programs / "seneca"), *line).startswith("#!/bin/bash\n")
