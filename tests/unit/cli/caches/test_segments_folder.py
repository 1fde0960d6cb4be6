"""The commands of segments in the folder that SENECA_DIR names."""

import json
import os

import pytest
from engine import Place, Process
from typer.testing import CliRunner

from seneca._core.segment import KEEP_FOREVER
from seneca.cli.app import app

RUN = CliRunner()
COMMANDS = [
    ["ls"], ["stat", "mine"], ["rm", "mine"], ["prune"], ["shrink", "mine", "1MiB"], ["top", "--once"],
    ["top", "mine", "--once"], ["metrics", "--once"], ["report", "{tmp}/page.html"], ["demo"],
]  # fmt: skip


@pytest.mark.small(4)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("folder", ["caches", "/{tmp}/missing"])
def test_an_unfit_folder_is_one_line_and_status_2(tmp_path, monkeypatch, command, folder):
    monkeypatch.setenv("SENECA_DIR", folder.format(tmp=tmp_path))
    result = RUN.invoke(app, [word.format(tmp=tmp_path) for word in command])
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"seneca {command[0]}: SENECA_DIR=") and "unset SENECA_DIR" in line


def test_what_was_killed_there_is_listed_and_pruned(segment_folder):
    def work(pipe):
        place.attach(2)
        pipe.send("here")
        pipe.receive(patience_s=None)

    place = Place(100, folder=segment_folder)
    kept = Place(100, folder=segment_folder, keep=KEEP_FOREVER)
    kept.close(kept.attach())
    with Process(work) as only:
        only.receive()
        only.kill()
    name, kept_name = (one.name.removeprefix(f"/seneca-{os.geteuid()}-") for one in (place, kept))
    found = {one["name"]: one["state"] for one in json.loads(RUN.invoke(app, ["ls", "--json"]).stdout)}
    assert found == {name: "dead", kept_name: "kept"}
    assert f"removed {name}" in RUN.invoke(app, ["prune"]).stdout and not place.exists
    assert RUN.invoke(app, ["stat", kept_name]).exit_code == 0
    assert RUN.invoke(app, ["shrink", kept_name, "64KiB"]).exit_code == 0
    assert RUN.invoke(app, ["rm", kept_name]).exit_code == 0 and not kept.exists
