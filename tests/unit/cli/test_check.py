"""seneca check: what it lists, what it refuses, and how it goes on after a Ctrl-C."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from jpeg_surgery import picture, saved
from rights import ordinary_rights
from typer.testing import CliRunner

from seneca.cli import check
from seneca.cli.app import app
from seneca.data.broken import Found
from seneca.data.file_verdicts import FileVerdict

HUNG_S = 30  # what takes this long does not answer a Ctrl-C

# Checks the folder, prints each file that is counted, and sets numbers of the module.
SCRIPT = """
import sys
from pathlib import Path
from seneca.cli import check
vars(check).update({name: float(value) for name, value in (one.split("=") for one in sys.argv[2:])})
add = check.Tally.add
check.Tally.add = lambda tally, found: (add(tally, found), print(found.path, flush=True))
sys.exit(check.run(Path(sys.argv[1]), workers=2, max_pixels=10**6, fresh=False, to=None))
"""

# Of a picture that is cut: in its codes, or in its header.
REASONS = {"image file is truncated", "Truncated File Read"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Where verdicts are kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def spoilt(picture_folder):
    """48 pictures, of which three are broken. The path of one has a line feed."""
    for name in ("class_2/03.jpg", "class_0/11.jpg", "class_0/00.jpg"):
        path = picture_folder / name
        path.write_bytes(path.read_bytes()[:300])
    (picture_folder / "class_2/03.jpg").rename(picture_folder / "class_2/03\n.jpg")
    return picture_folder


def run(*arguments):
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


def reported(folder, *arguments):
    """What ``--json`` writes, and the status."""
    to = folder.parent / "report.json"
    result = run(folder, "--json", to, *arguments)
    return json.loads(to.read_text()), result.exit_code


# --- what it lists


def test_a_folder_of_good_pictures(picture_folder):
    result = run(picture_folder)
    assert (result.exit_code, result.stderr) == (0, "")
    first, read_now, formats, progressive = result.stdout.splitlines()
    assert first == "48 files, 0 broken"
    assert read_now.startswith("  read now     48 with ") and "files/s" in read_now
    assert formats.startswith("  formats      JPEG 48; ")
    assert progressive == "  progressive  4 JPEGs, several times slower to decode"


def test_broken_pictures_are_listed_by_path_each_on_a_line(spoilt):
    result = run(spoilt, "--workers", 3)
    assert (result.exit_code, result.stderr) == (1, "")
    names = f"{spoilt}/class_0/00.jpg", f"{spoilt}/class_0/11.jpg", ascii(f"{spoilt}/class_2/03\n.jpg")
    *broken, last = result.stdout.splitlines()[:4]
    for line, name in zip(broken, names, strict=True):
        path, _, reason = line.rpartition(": ")
        assert path == name and reason in REASONS
    assert last == "48 files, 3 broken"


def test_the_report_for_programs(spoilt):
    (spoilt / "large.png").write_bytes(saved(picture(1001, 1000), "PNG"))
    report, status = reported(spoilt)
    assert status == 1
    assert (report["files"], report["checked"], report["known"]) == (49, 49, 0)
    assert (report["formats"], report["progressive"]) == ({"JPEG": 45, "PNG": 1}, 3)
    assert (report["large"], report["large_mean_pixels"]) == (1, 1_001_000)
    assert report["checked_bytes"] == sum(path.stat().st_size for path in spoilt.rglob("*.*"))
    assert report["files_per_s"] == report["checked"] / report["took_s"]
    assert report["bytes_per_s"] == report["checked_bytes"] / report["took_s"]
    names = ["class_0/00.jpg", "class_0/11.jpg", "class_2/03\n.jpg"]
    assert {one.pop("reason") for one in report["broken"]} <= REASONS
    assert report["broken"] == [{"path": f"{spoilt}/{name}", "size": 300} for name in names]


def test_the_mean_is_over_good_pictures(picture_folder):
    report, _ = reported(picture_folder)
    (picture_folder / "class_0" / "bad.jpg").write_bytes(b"")
    assert reported(picture_folder)[0]["mean_pixels"] == report["mean_pixels"] > 0


def test_more_pixels_than_allowed_are_listed(picture_folder):
    assert reported(picture_folder, "--max-pixels", 10)[0]["broken"][47]["reason"].endswith("or allow more")
    assert reported(picture_folder)[1] == 0  # the limit belongs to the verdict


def test_a_large_picture_is_named_in_the_summary():
    tally = check.Tally()
    tally.add(Found("a.jpg", 9, FileVerdict(None, "JPEG", False, 3_000_000)))
    tally.add(Found("b.jpg", 9, FileVerdict(None, "JPEG", False, 1_000_000)))
    large = (
        "  large        1 picture above a million pixels, 3 million on average; smaller ones decode faster"
    )
    assert large in check.lines(tally)


# --- what it keeps


def test_only_what_has_changed_is_read_again_and_the_report_is_of_all(spoilt):
    first, _ = reported(spoilt)
    (spoilt / "class_1" / "new.jpg").write_bytes(saved(picture()))
    (spoilt / "class_0" / "00.jpg").write_bytes(saved(picture()))
    again, status = reported(spoilt)
    assert (again["checked"], again["known"], status) == (2, 47, 1)
    assert again["broken"] == first["broken"][1:]
    assert again["formats"] == {"JPEG": 47} and again["progressive"] == first["progressive"]
    known = run(spoilt).stdout
    assert "  not read     49, unchanged since they were read; --fresh reads all" in known.splitlines()
    assert reported(spoilt, "--fresh")[0]["checked"] == 49


def test_a_folder_has_one_memory_under_all_its_names(picture_folder, tmp_path, monkeypatch):
    reported(picture_folder)
    (tmp_path / "link").symlink_to(picture_folder)
    assert reported(tmp_path / "link")[0]["known"] == 48
    monkeypatch.chdir(picture_folder)
    assert reported(Path())[0]["known"] == 48


def test_where_nothing_can_be_kept_it_says_so_and_checks(spoilt, cache):
    cache.write_text("no folder")
    result = run(spoilt)
    assert result.exit_code == 1 and "48 files, 3 broken" in result.stdout
    assert result.stderr.startswith("seneca check: the next check begins anew: ")
    assert result.stderr.count("\n") == 1


# --- how it ends early


@pytest.fixture
def hanging(picture_folder):
    """A picture that cannot be opened while the kernel waits for this process to give its lease back."""
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    held = os.open(picture_folder / "class_1" / "05.jpg", os.O_RDWR)
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    yield held
    os.close(held)
    signal.signal(signal.SIGIO, before)


@pytest.mark.small(1)
@pytest.mark.parametrize(
    ("number", "save_every_s", "read_again"), [(signal.SIGINT, 1e9, 1), (signal.SIGKILL, 0, 2)]
)
def test_after_an_end_before_its_time_the_next_check_goes_on(
    picture_folder, hanging, number, save_every_s, read_again
):
    arguments = [sys.executable, "-c", SCRIPT, picture_folder, f"SAVE_EVERY_S={save_every_s}"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(47):
            assert process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=HUNG_S)
    if number == signal.SIGINT:
        assert errors == (
            "seneca check: interrupted after 47 files, 0 broken; the same command goes on from there\n"
        )
        assert process.returncode == 130
    fcntl.fcntl(hanging, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    report, status = reported(picture_folder, "--max-pixels", 10**6)
    assert (report["files"], status) == (48, 0)
    assert 1 <= report["checked"] <= read_again


def test_a_ctrl_c_where_nothing_is_kept_says_so():
    text = check._interrupted(check.Tally(files=3), "disk full")
    assert text == "seneca check: interrupted after 3 files, 0 broken; nothing is kept: disk full"


# --- what it refuses


@pytest.mark.small(3)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere"], "there is no folder /nowhere; give another"),
        (["FILE"], "FILE is no folder; give the folder in which your files lie"),
        (["EMPTY"], "no pictures or sounds below EMPTY: no file has the name of one, as .jpg or .flac"),
        (["CLOSED"], "CLOSED cannot be listed: Permission denied; give another, or get the right to read it"),
        (
            ["PICTURES", "--json", "/nowhere/report.json"],
            "--json: there is no folder /nowhere; make it, or give another file",
        ),
        (["PICTURES", "--json", "EMPTY"], "--json: EMPTY is a folder; give a file in it"),
        (
            ["PICTURES", "--json", "/proc/report.json"],
            "/proc/report.json: No such file or directory; give another, or get the right to it",
        ),
    ],
)
def test_bad_use_is_one_line_and_status_2(picture_folder, tmp_path, arguments, message):
    places = {name: tmp_path / name.lower() for name in ("FILE", "EMPTY", "CLOSED")}
    places["PICTURES"] = picture_folder
    places["FILE"].write_text("a.jpg")
    places["EMPTY"].mkdir()
    (places["EMPTY"] / "notes.txt").touch()
    places["CLOSED"].mkdir(mode=0)
    for name, place in places.items():
        arguments = [one.replace(name, str(place)) for one in arguments]
        message = message.replace(name, str(place))
    with ordinary_rights():
        result = run(*arguments)
    places["CLOSED"].chmod(0o700)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"seneca check: {message}\n")


def test_a_lack_of_memory_is_one_line_and_status_2(picture_folder, monkeypatch):
    def fails(*_):
        raise MemoryError

    monkeypatch.setattr("seneca.data.broken.judge", fails)
    result = run(picture_folder)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == ("seneca check: there is no memory to decode a picture; try fewer --workers\n")


def test_where_seneca_is_off_there_is_nothing_to_check_with(picture_folder, monkeypatch):
    monkeypatch.setenv("SENECA_DISABLE", "1")
    result = run(picture_folder)
    assert result.exit_code == 2
    assert result.stderr == "seneca check: there is nothing to check with here: SENECA_DISABLE is set\n"


# --- what it shows meanwhile, and what it imports


def test_progress_is_shown_on_a_terminal_alone(picture_folder):
    arguments = [sys.executable, "-c", SCRIPT, picture_folder, "SHOW_EVERY_S=-1"]
    ours, theirs = pty.openpty()
    terminal = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=theirs, env=terminal) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # EIO: the process has closed it
            pass
    os.close(ours)
    assert process.returncode == 0
    assert b"0 broken; " in shown and b" files/s, " in shown
    piped = subprocess.run(arguments, capture_output=True, env={**os.environ, "FORCE_COLOR": "1"})
    assert (piped.returncode, piped.stderr) == (0, b"")


def test_a_folder_of_jpegs_is_checked_without_torch(picture_folder):
    code = (
        "import sys; from seneca.cli.app import app\n"
        "try: app(['check', sys.argv[1]])\n"
        "except SystemExit as end: sys.exit(end.code or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, picture_folder], check=False).returncode == 0
