"""The command line: what it refuses, and in which words."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from seneca import __version__
from seneca.cli import demo
from seneca.cli.app import app

# --- the command line


@pytest.mark.small(1)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "/nowhere"], "--data: there is no folder /nowhere; give another"),
        (
            ["--data", "/etc/passwd"],
            "--data: /etc/passwd is no folder; give the folder in which your files lie",
        ),
        (
            ["--json", "/nowhere/summary.json"],
            "--json: there is no folder /nowhere; make it, or give another file",
        ),
    ],
)
def test_a_bad_option_is_one_line_and_status_2(arguments, message):
    result = CliRunner().invoke(app, ["demo", *arguments])
    assert (result.exit_code, result.stderr, result.stdout) == (2, f"seneca demo: {message}\n", "")


@pytest.mark.small(4)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "seneca: No such command 'nosuch'; see `seneca --help`"),
        (["--nosuch"], "seneca: No such option: --nosuch; see `seneca --help`"),
        (["shrink"], "seneca shrink: Missing argument 'name'; see `seneca shrink --help`"),
        (["plan", "--jobs", "two"], "seneca plan: Invalid value for '--jobs': "),
        (["demo", "--jobs", "0"], "seneca demo: Invalid value for '--jobs': "),
        (["demo", "--jobs", "65"], "seneca demo: Invalid value for '--jobs': "),
        (["demo", "--epochs", "0"], "seneca demo: Invalid value for '--epochs': "),
        (["demo", "--batch", "-3"], "seneca demo: Invalid value for '--batch': "),
        (["demo", "--workers", "-1"], "seneca demo: Invalid value for '--workers': "),
        (["check", "/tmp", "--workers", "0"], "seneca check: Invalid value for '--workers': "),
    ],
)
def test_a_misused_command_is_one_line_and_status_2(arguments, message):
    result = CliRunner().invoke(app, arguments, prog_name="seneca")
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.casefold().startswith(message.casefold())


def test_without_a_command_the_help_is_shown():
    result = CliRunner().invoke(app, [])
    assert result.output.startswith("Usage: ") and "demo" in result.output


def test_the_help_of_all_commands_fits_80_columns():
    lines = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output.splitlines()
    listed = lines[lines.index("Commands:") + 1 :]
    assert len(listed) > 15 and all(line.endswith(".") and not line.endswith("...") for line in listed), (
        listed
    )


def test_a_folder_without_pictures_is_one_line_and_status_2(tmp_path, capfd):
    assert demo.run(demo.Options(data=tmp_path)) == 2
    assert capfd.readouterr().err.startswith("seneca demo: no pictures to train on: ")


def test_where_seneca_is_off_the_demo_says_so(monkeypatch):
    monkeypatch.setenv("SENECA_DISABLE", "1")
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 2
    assert result.stderr == "seneca demo: nothing is shared here: SENECA_DISABLE is set\n"


def test_the_version():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"seneca {__version__}\n"


# --- completion


def seneca(**environment):
    """What the command prints to a shell that completes what is typed."""
    command = [sys.executable, "-c", "from seneca.cli import main; main()"]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)


@pytest.mark.small(1)
@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o default -F _seneca_completion seneca"),
        ("zsh", "compdef _seneca_completion seneca"),
        ("fish", "complete --command seneca"),
    ],
)
def test_each_shell_has_its_script(shell, line):
    run = seneca(_SENECA_COMPLETE=f"source_{shell}")
    assert line in run.stdout and run.returncode == 0


@pytest.mark.whole_size(shown_by="test_each_shell_has_its_script")
def test_the_script_of_the_shell_at_hand_is_shown():
    code = f"{sys.executable} -m seneca.cli --show-completion; exit $?"
    run = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
    assert (run.stdout, run.returncode) == (seneca(_SENECA_COMPLETE="source_bash").stdout.strip() + "\n", 0)


def test_a_shell_completes_commands_and_options():
    asked = {"_SENECA_COMPLETE": "complete_bash", "COMP_WORDS": "seneca ver", "COMP_CWORD": "1"}
    assert seneca(**asked).stdout == "verify\n"
    assert "--what-if" in seneca(**asked | {"COMP_WORDS": "seneca plan --wh", "COMP_CWORD": "2"}).stdout


def test_what_the_terminal_cannot_show_is_replaced():
    """The names of jobs and files may hold any letter, and the encoding of a log file few."""
    code = """if True:
        import sys
        from seneca import cli
        from seneca.cli import app
        app.app = lambda prog_name: print("caché", file=sys.stdout)
        cli.main()
    """
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("cach?\n", "", 0)
