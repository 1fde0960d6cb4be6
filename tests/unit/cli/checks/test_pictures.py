"""Traps of the libraries that decode, planted."""

from __future__ import annotations

import re
import sys

import pytest

from seneca._core.codec import libjpeg_turbo
from seneca._runtime import packages
from seneca.cli.checks import pictures
from seneca.cli.checks.host import Host


def load(planted, *libraries):
    planted.write("/proc/self/maps", "".join(f"7f00-7f01 r-xp 0 08:01 9    {name}\n" for name in libraries))


def test_the_library_that_the_core_has_loaded_is_shown(says):
    says(pictures.libjpeg(Host()), "ok", f"compiled with {libjpeg_turbo()}, with vector instructions")
    assert re.fullmatch(r"\d+\.\d+\.\d+", libjpeg_turbo())


def test_a_library_without_vector_instructions_is_a_warning(planted, says):
    name = "/usr/lib/libjpeg.so.62.3.0"
    planted.write(name, "\x7fELF JSIMD_FORCENONE")
    load(planted, "/site/pillow.libs/libjpeg-9c1.so.62", "/usr/lib/libjpegother", name)
    says(pictures.libjpeg(planted.host), "ok", f"{name}, compiled with")
    planted.write(name, "\x7fELF without")
    says(pictures.libjpeg(planted.host), "warning", f"{name}, compiled with", "--reinstall libjpeg62-turbo")


def test_vector_instructions_that_are_switched_off_are_a_warning(says, monkeypatch):
    monkeypatch.setenv("JSIMD_FORCENONE", "1")
    says(pictures.libjpeg(Host()), "warning", "uses no vector instructions", "unset JSIMD_FORCENONE")


def test_a_library_that_the_kernel_does_not_name_is_unknown(planted, says):
    load(planted)
    says(pictures.libjpeg(planted.host), "unknown", "compiled with")


def test_a_core_without_a_format_names_the_package_that_brings_it(planted, says, monkeypatch):
    monkeypatch.setattr("seneca._core.codec.libpng", lambda: "1.6.39")
    monkeypatch.setattr("seneca._core.codec.libwebp", lambda: "1.2.4")
    monkeypatch.setattr("seneca._core.codec.libdeflate", lambda: "1.14")
    monkeypatch.setattr("seneca._core.sound.libsndfile", lambda: "1.2.0")
    all_of_them = "libpng 1.6.39, libwebp 1.2.4, libdeflate 1.14, libsndfile 1.2.0"
    says(pictures.formats(planted.host), "ok", all_of_them)
    monkeypatch.setattr("seneca._core.sound.libsndfile", lambda: None)
    found = pictures.formats(planted.host)
    says(found, "warning", "without libsndfile: Python's soundfile decodes sounds", "install libsndfile1-dev")
    monkeypatch.setattr("seneca._core.sound.libsndfile", lambda: "1.2.0")
    monkeypatch.setattr("seneca._core.codec.libwebp", lambda: None)
    found = pictures.formats(planted.host)
    says(found, "warning", "Pillow decodes WebPs, in one thread", "install libwebp-dev")
    monkeypatch.setattr("seneca._core.codec.libpng", lambda: None)
    found = pictures.formats(planted.host)
    says(found, "warning", "Pillow decodes PNGs and WebPs", "install libpng-dev libwebp-dev")
    monkeypatch.setattr("seneca._core.codec.libdeflate", lambda: None)
    found = pictures.formats(planted.host)
    says(found, "warning", "Pillow decodes PNGs and WebPs, in one thread", "libwebp-dev libdeflate-dev")
    assert "half as long" not in found.found


def test_a_core_without_libdeflate_says_that_pngs_take_longer(planted, says, monkeypatch):
    monkeypatch.setattr("seneca._core.codec.libpng", lambda: "1.6.39")
    monkeypatch.setattr("seneca._core.codec.libwebp", lambda: "1.2.4")
    monkeypatch.setattr("seneca._core.codec.libdeflate", lambda: None)
    monkeypatch.setattr("seneca._core.sound.libsndfile", lambda: "1.2.0")
    found = pictures.formats(planted.host)
    says(found, "warning", "without libdeflate: PNGs take half as long again", "install libdeflate-dev")
    monkeypatch.setattr("seneca._core.codec.libwebp", lambda: None)
    found = pictures.formats(planted.host)
    words = "Pillow decodes WebPs, in one thread; PNGs take half as long again"
    says(found, "warning", f"without libwebp and libdeflate: {words}", "install libwebp-dev libdeflate-dev")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of packages that is searched first."""
    monkeypatch.syspath_prepend(tmp_path / "site")

    def install(name, version):
        info = tmp_path / "site" / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "top_level.txt").write_text("PIL\n")
        packages.distribution_of.cache_clear()

    yield install
    packages.distribution_of.cache_clear()


def test_one_pillow_is_fine(planted, says):
    says(pictures.pillow(planted.host), "ok", "pillow")


def test_a_pillow_that_no_package_brought_is_fine(planted, says, monkeypatch):
    monkeypatch.setattr(pictures, "distribution_of", lambda top: ())
    says(pictures.pillow(planted.host), "ok", "PIL.Image, installed by no package")


def test_two_pillows_over_each_other_are_a_warning(planted, says, site):
    site("pillow", "11.0.0")
    site("pillow-simd", "9.5.0.post2")
    says(
        pictures.pillow(planted.host),
        "warning",
        "pillow 11.0.0 and pillow-simd 9.5.0",
        "pip uninstall -y pillow",
    )


def test_a_pillow_that_cannot_be_imported_is_a_problem(planted, says, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    says(pictures.pillow(planted.host), "problem", "cannot be imported", "--force-reinstall pillow")


def test_no_pillow_is_a_problem(planted, says, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    monkeypatch.setattr(pictures, "distribution_of", lambda top: ())
    says(pictures.pillow(planted.host), "problem", "no Pillow", "pip install pillow")


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """``wheels(torch, torchvision)``: packages with this code, which Python finds first."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "wheels"))
    monkeypatch.setattr(pictures.importlib.metadata, "version", lambda name: "0.29.1")

    def plant(torch, torchvision):
        folder = tmp_path / "wheels"
        folder.mkdir()
        (folder / "torch.py").write_text(torch)
        (folder / "torchvision.py").write_text(torchvision)

    return plant


def test_a_torchvision_that_loads_is_fine(planted, says, wheels):
    wheels("__version__ = '2.14.1+cpu'", "__version__ = '0.29.1+cpu'")
    says(pictures.torchvision(planted.host), "ok", "torchvision 0.29.1+cpu loads beside torch 2.14.1+cpu")


@pytest.mark.parametrize(
    ("version", "index"),
    [
        ("2.14.1+cpu", " --index-url https://download.pytorch.org/whl/cpu  #"),
        ("2.14.1", "  #"),
    ],
)
def test_a_torchvision_of_another_build_is_a_problem(planted, says, wheels, version, index):
    wheels(f"__version__ = {version!r}", "raise RuntimeError('operator torchvision::nms does not exist')")
    found = (
        f"torchvision 0.29.1 does not load beside torch {version}: RuntimeError: operator torchvision::nms"
    )
    says(
        pictures.torchvision(planted.host),
        "problem",
        found,
        f"install --force-reinstall torch torchvision{index}",
    )


def test_a_torchvision_that_ends_the_process_is_a_problem(planted, says, wheels):
    wheels("__version__ = '2.14.1+cpu'", "import os; os.kill(os.getpid(), 11)")
    says(pictures.torchvision(planted.host), "problem", "the process ended with -11", "--force-reinstall")


def test_a_torch_that_does_not_load_is_named(planted, says, wheels):
    wheels("raise OSError('libcudart.so: cannot open')", "")
    says(
        pictures.torchvision(planted.host), "problem", "torch cannot be imported: OSError: libcudart", "torch"
    )


def test_no_torchvision_is_fine(planted, says, monkeypatch):
    monkeypatch.setattr(pictures.importlib.util, "find_spec", lambda name: None)
    says(pictures.torchvision(planted.host), "ok", "not installed")
