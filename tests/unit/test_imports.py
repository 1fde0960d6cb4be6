"""What importing Seneca loads, and what it says where the native core is not compiled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import ready
import typer
from pages import ROOT

import seneca
from seneca.cli.app import app

HEAVY = ("torch", "numpy", "PIL", "scipy", "multiprocessing", "simplejpeg")
HELP = """
import sys
from seneca.cli import main
try:
    main()
except SystemExit as ended:
    print(*sys.modules, file=sys.stderr)
    raise
"""


def python(*arguments, checkout=Path(seneca.__file__).parents[1], **environment):
    """Run Python in a checkout, whose package is then the one that is imported."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=checkout,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


# --- what is loaded


def test_importing_seneca_loads_nothing_heavy():
    loaded = python("-c", "import seneca, sys; print(*sys.modules)").stdout.split()
    assert "seneca.errors" in loaded
    assert [name for name in HEAVY if name in loaded] == []


@pytest.mark.small(2)
@pytest.mark.parametrize("command", [[], *([name] for name in typer.main.get_command(app).commands)])
def test_help_loads_nothing_heavy(command):
    run = python("-c", HELP, *command, "--help")
    assert run.stdout.startswith("Usage: seneca") and run.returncode == 0
    loaded = run.stderr.split()
    assert "seneca.cli.app" in loaded
    assert [name for name in ("torch", "numpy", "PIL", "scipy") if name in loaded] == []


def test_every_public_name_is_there_and_listed():
    listed = python("-c", "import seneca; print(*dir(seneca))").stdout.split()
    assert set(seneca.__all__) <= set(listed)
    for name in seneca.__all__:
        assert getattr(seneca, name) is not None
    with pytest.raises(AttributeError, match="module 'seneca' has no attribute 'Dataloader'"):
        _ = seneca.Dataloader


@pytest.mark.small(1)
@pytest.mark.parametrize("name", ["transforms", "Split", "ImageFolder"])
def test_what_is_loaded_later_is_there_after_importing_seneca_alone(name):
    assert python("-c", f"import seneca; seneca.{name}").returncode == 0


# --- where it is found


def test_a_script_beside_the_checkout_finds_the_editable_install(tmp_path):
    """The checkout is named like the package and holds no module: Python takes it for a namespace package."""
    checkout, site = tmp_path / "seneca", tmp_path / "site"
    (checkout / "seneca").mkdir(parents=True)
    (checkout / "seneca" / "__init__.py").write_text("__version__ = '1.0'\n")
    for path in (ROOT / "pyproject.toml", ROOT / "README.md", *ROOT.glob("LICENSE*")):
        shutil.copy(path, checkout)
    install = f"from setuptools import build_meta; print(build_meta.build_editable({str(tmp_path)!r}))"
    wheel = tmp_path / python("-c", install, checkout=checkout).stdout.split()[-1]
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    (tmp_path / "train.py").write_text(
        f"import site; site.addsitedir({str(site)!r}); import seneca; print(seneca.__version__)"
    )
    run = python("-S", "-E", "train.py", checkout=tmp_path)  # the Seneca of this environment is not found
    assert run.stdout == "1.0\n", run.stderr


# --- without the native core


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the package in which nothing is compiled."""
    folder = tmp_path_factory.mktemp("checkout")
    compiled = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(Path(seneca.__file__).parent, folder / "seneca", ignore=compiled)
    return folder


@pytest.mark.small(2)
@pytest.mark.parametrize(
    "use", ["seneca.DataLoader", "seneca.SampleCache", "from seneca.native.iterator import NativeIterator"]
)
def test_the_first_use_of_a_core_that_is_not_compiled_says_what_to_do(checkout, use):
    run = ready.run("-c", f"import seneca; print('imported'); {use}", cwd=checkout, fresh=True)
    assert (run.stdout, run.returncode) == ("imported\n", 1)
    said = run.stderr.splitlines()[-1]
    assert said.startswith("seneca.errors.NotBuiltError: the native core is not built for Python 3.")
    assert f"Run `make build` in {checkout}; or run `pip install .` there" in said


def test_not_built_is_an_import_error(checkout):
    code = """if True:
        try:
            import seneca._core.codec
        except ImportError as error:
            print(error.name)
    """
    assert python("-c", code, checkout=checkout).stdout == "seneca._core\n"


def test_a_command_that_needs_the_core_says_so_in_one_line(checkout, tmp_path):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "a.jpg").touch()
    run = python("-m", "seneca.cli", "profile", str(tmp_path), checkout=checkout)
    assert run.returncode == 2
    assert run.stderr.startswith("seneca: the native core is not built") and run.stderr.count("\n") == 1


@pytest.mark.whole_size(shown_by="test_the_first_use_of_a_core_that_is_not_compiled_says_what_to_do")
def test_where_seneca_is_off_no_core_is_needed_but_for_its_transforms(checkout, tmp_path):
    code = """if True:
        import sys, torch, seneca
        from seneca import transforms as T
        from seneca.testing import make_pictures

        folder = make_pictures(sys.argv[1], count=4, classes=2, sides=(32, 64))
        sizes = seneca.ImageFolder(folder, lambda picture: torch.tensor(picture.size))
        print(*(batch.shape for batch, _ in seneca.DataLoader(sizes, batch_size=4)))
        print(*(batch.shape for batch, _ in seneca.DataLoader(seneca.ImageFolder(folder, T.Resize((8, 8))))))
    """
    run = ready.run("-c", code, tmp_path, cwd=checkout, env={**os.environ, "SENECA_DISABLE": "1"}, fresh=True)
    assert run.stdout == "torch.Size([4, 2])\n", run.stderr
    assert "PlanError: seneca.transforms run in the native core, which is not built here" in run.stderr
