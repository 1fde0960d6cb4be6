"""The command line: what it refuses, and in which words."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import seneca
from seneca.cli import demo, main
from seneca.cli.app import app

# --- the command line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "/nowhere"], "no such folder: /nowhere"),
        (["--jobs", "0"], "--jobs must be at least 1, not 0"),
        (["--epochs", "0"], "--epochs must be at least 1, not 0"),
        (["--batch", "-3"], "--batch must be at least 1, not -3"),
        (["--workers", "-1"], "--workers must be at least 0, not -1"),
        (["--json", "/nowhere/summary.json"], "--json cannot be written there: /nowhere/summary.json"),
    ],
)
def test_a_bad_option_is_one_line_and_status_2(arguments, message):
    result = CliRunner().invoke(app, ["demo", *arguments])
    assert (result.exit_code, result.stderr, result.stdout) == (2, f"seneca demo: {message}\n", "")


def test_a_folder_without_pictures_is_one_line_and_status_2(tmp_path, capfd):
    assert demo.run(demo.Options(data=tmp_path)) == 2
    assert capfd.readouterr().err.startswith("seneca demo: no pictures to train on: ")


def test_where_seneca_is_off_the_demo_says_so(monkeypatch):
    monkeypatch.setenv("SENECA_DISABLE", "1")
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 2
    assert result.stderr == "seneca demo: nothing is shared here: SENECA_DISABLE is set\n"


def test_the_version():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"seneca {seneca.__version__}\n"


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_without_the_extra_it_says_what_to_install(name, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"seneca: this command needs {name}; pip install 'seneca-loader[cli]'\n"


def test_the_command_line_starts_without_torch():
    code = "import sys, seneca.cli.app, seneca.cli.demo; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
