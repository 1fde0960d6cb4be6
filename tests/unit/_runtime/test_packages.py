"""Where a module comes from: installed in a release, or the user's own."""

import importlib.metadata
import sys

import numpy
import pytest

import seneca
from seneca._runtime import packages


def test_installed_modules_are_named_by_their_release():
    assert packages.release_of("torch.nn.functional") == f"torch=={importlib.metadata.version('torch')}"
    assert packages.release_of("numpy") == f"numpy=={numpy.__version__}"
    assert packages.release_of("json.decoder") == packages.release_of("builtins") == "python"
    assert packages.release_of("seneca.loader") == f"seneca=={seneca.__version__}"
    assert "pillow" in packages.release_of("PIL.Image").lower()  # of whichever name


@pytest.mark.parametrize("module", ["__main__", "__mp_main__", "", __name__])
def test_the_main_module_and_ones_own_have_none(module):
    assert packages.release_of(module) is None


def test_a_module_is_found_without_importing_it(tmp_path, monkeypatch):
    (tmp_path / "seneca_test_package").mkdir()
    (tmp_path / "seneca_test_package" / "__init__.py").write_text("raise ImportError")
    (tmp_path / "seneca_test_package" / "part.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "seneca_test_package"
    assert packages.file_to_import("seneca_test_package.part") == str(package / "part.py")
    assert packages.file_of("seneca_test_package.gone") == str(package / "__init__.py")
    assert packages.file_to_import("seneca_test_package.gone") is None is packages.file_of("seneca_gone")
    assert not any(name.startswith("seneca_test_package") for name in sys.modules)


def test_a_module_in_packages_without_an_init_file_is_found_and_nothing_imported(tmp_path, monkeypatch):
    (tmp_path / "outer_space" / "inner").mkdir(parents=True)
    path = tmp_path / "outer_space" / "inner" / "m.py"
    path.write_text("x = 1")
    monkeypatch.syspath_prepend(tmp_path)
    assert packages.file_of("outer_space.inner.m") == str(path)
    assert "outer_space" not in sys.modules


METADATA = """Metadata-Version: 2.4
Name: seneca-test
Version: 1.0
Requires-Dist: torch >=2
Requires-Dist: numpy; extra == "all"

Version: 2.0 has more.
Requires-Dist: nothing
"""


KINDS = ["seneca_test-1.0.dist-info/METADATA", "seneca_test.egg-info/PKG-INFO", "seneca_test-1.0.egg-info"]


@pytest.mark.parametrize("kind", KINDS)
def test_fields_are_those_of_the_head_and_as_the_standard_library_reads_them(tmp_path, monkeypatch, kind):
    (tmp_path / kind).parent.mkdir(exist_ok=True)
    (tmp_path / kind).write_text(METADATA)
    monkeypatch.syspath_prepend(tmp_path)
    installed = importlib.metadata.distribution("seneca-test")
    for field in ("Name", "Version", "Requires-Dist", "Author"):
        assert packages.fields_of(installed, field) == (installed.metadata.get_all(field) or [])
    packages.version_of.cache_clear()
    assert packages.version_of("seneca-test") == "1.0"
    assert packages.version_of("seneca-gone") is None


def test_versions_of_all_that_is_installed_are_those_that_the_standard_library_reads():
    for one in importlib.metadata.distributions():
        assert packages.fields_of(one, "Version") == [one.version], one
        assert packages.fields_of(one, "Name") == [one.name], one
        if one.read_text("METADATA") is not None:  # an egg's requirements are in a file of their own
            assert packages.fields_of(one, "Requires-Dist") == (one.requires or []), one
