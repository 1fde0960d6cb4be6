"""``seneca analyze``: a script runs as it would alone, and then it is said why it waited."""

import fcntl
import html
import json
import os
import signal
import subprocess
import sys
import termios
import textwrap

import pytest
from sizes import size

from seneca.partition import Profile

SCRIPT = """
    import os, signal, sys, time
    from torch.utils.data import DataLoader, Dataset

    class Sleeps(Dataset):
        def __len__(self):
            return 12
        def __getitem__(self, index):
            time.sleep(0.02)
            return index

    if __name__ == "__main__":
        for batch in DataLoader(Sleeps(), 2, num_workers=int(sys.argv[1])):
            pass
        print("argument", sys.argv[2])
"""
NO_LOADER = "seneca analyze: the script did not import torch.utils.data: there is no loader to analyze\n"


@pytest.fixture(autouse=True)
def temporary_files(scratch_folder, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(scratch_folder))


def start(tmp_path, script, *arguments, command=(), before=(), **options):
    (tmp_path / "train.py").write_text(textwrap.dedent(script))
    line = [*before, sys.executable, "-m", "seneca.cli", "analyze", *options.pop("flags", ())]
    return subprocess.Popen(
        [*line, *(command or (sys.executable, "train.py", *arguments))],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run(*arguments, **options):
    process = start(*arguments, **options)
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.mark.small(1)
@pytest.mark.parametrize(("workers", "status"), [(0, 7), (1, 0)])
def test_it_says_for_what_the_step_waits_and_passes_on_the_status(tmp_path, workers, status, scratch_folder):
    flags = ["--json", "found.json", "--html", "found.html"]
    script = SCRIPT + f"        sys.exit({status})\n"
    ended, out, err = run(tmp_path, script, str(workers), "--json", flags=flags)
    assert (ended, out) == (status, "argument --json\n")
    assert "of the time the training step waits" in err and "Sleeps of 12" in err
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["bottleneck"] == "fetch"
    assert found["shares"]["fetch"] > 0.5
    assert found["sentence"] in html.unescape((tmp_path / "found.html").read_text())
    assert not list(scratch_folder.iterdir())  # the trace is gone


@pytest.mark.whole_size(shown_by="test_ctrl_c_is_the_scripts_and_what_there_was_is_said")
def test_a_script_that_is_killed_gives_the_shells_status_and_what_there_was(tmp_path):
    script = SCRIPT.replace(
        "            pass\n        print", "            pass\n        os.kill(os.getpid(), 9)\n        print"
    )
    status, _, err = run(tmp_path, script, "0", "x")
    assert status == 128 + signal.SIGKILL
    assert "the training step waits" in err


@pytest.mark.whole_size(shown_by="test_ctrl_c_is_the_scripts_and_what_there_was_is_said")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_are_passed_on(tmp_path, number):
    script = """
        import signal, sys, time
        signal.signal(getattr(signal, sys.argv[1]), lambda *_: sys.exit(5))
        print("ready", flush=True)
        time.sleep(100)
    """
    process = start(tmp_path, script, number.name)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, err = process.communicate()
    assert (process.returncode, err) == (5, NO_LOADER)


@pytest.mark.whole_size(shown_by="test_ctrl_c_is_the_scripts_and_what_there_was_is_said")
@pytest.mark.small(1)
@pytest.mark.parametrize("way", ["terminal", "timeout", "another group"])
def test_the_script_gets_one_interrupt_however_it_comes(tmp_path, way):
    script = """
        import signal, sys, time
        seen = []
        signal.signal(signal.SIGINT, lambda *_: seen.append(1))
        print("ready", flush=True)
        while not seen:
            time.sleep(0.01)
        time.sleep(0.5)
        sys.exit(10 + len(seen))
    """
    master, terminal = os.openpty()
    options = {"start_new_session": True}
    if way == "terminal":
        options |= {"stdin": terminal, "preexec_fn": lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)}
    before = ["timeout", "--preserve-status", "-s", "INT", "4"] if way == "timeout" else []
    process = start(tmp_path, script, before=before, **options)
    assert process.stdout.readline() == "ready\n"
    if way == "terminal":
        os.write(master, b"\x03")
    elif way == "another group":
        process.send_signal(signal.SIGINT)
    process.communicate()
    os.close(master)
    os.close(terminal)
    assert process.returncode == 11


def test_ctrl_c_is_the_scripts_and_what_there_was_is_said(tmp_path):
    script = SCRIPT.replace(
        "            pass\n", '            print("step", flush=True)\n            time.sleep(0.05)\n'
    )
    process = start(tmp_path, script.replace("return 12", "return 12000"), "0", "x", start_new_session=True)
    for _ in range(5):
        assert process.stdout.readline() == "step\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate()
    assert process.returncode in (1, 128 + signal.SIGINT)
    assert "KeyboardInterrupt" in err and "the training step waits" in err


@pytest.mark.whole_size(shown_by="test_it_says_for_what_the_step_waits_and_passes_on_the_status")
def test_what_workers_without_hooks_do_is_not_made_up(tmp_path):
    """They are Pythons of their own, which find no hooks."""
    script = SCRIPT.replace("num_workers=", "multiprocessing_context='spawn', num_workers=")
    script = script.replace('"__main__":\n', '"__main__":\n        del os.environ["PYTHONPATH"]\n')
    status, _, err = run(tmp_path, script, "1", "x", flags=["--json", "found.json"])
    assert status == 0
    assert "waits; for what was not seen." in err
    assert "Not seen: the workers of Sleeps of 12" in err
    assert json.loads((tmp_path / "found.json").read_text())["bottleneck"] is None


@pytest.mark.whole_size(shown_by="test_ctrl_c_is_the_scripts_and_what_there_was_is_said")
def test_a_terminals_quit_is_the_scripts_and_what_there_was_is_said(tmp_path, scratch_folder):
    script = SCRIPT.replace(
        "            pass\n", '            print("step", flush=True)\n            time.sleep(0.05)\n'
    )
    script = "    import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n" + script
    process = start(tmp_path, script.replace("return 12", "return 12000"), "0", "x", start_new_session=True)
    for _ in range(5):
        assert process.stdout.readline() == "step\n"
    os.killpg(process.pid, signal.SIGQUIT)  # as a terminal does
    _, err = process.communicate()
    assert process.returncode == 128 + signal.SIGQUIT
    assert "the training step waits" in err
    assert not list(scratch_folder.iterdir())


@pytest.mark.small(1)
@pytest.mark.parametrize(
    ("command", "text"),
    [
        (
            ["no-such-script.py"],
            "cannot start 'no-such-script.py': No such file or directory; give the whole command",
        ),
        ([sys.executable, "-S", "-c", ""], "no Python of the script was seen: python -S"),
        ([sys.executable, "-c", ""], "the script did not import torch.utils.data"),
        *size(
            [],
            [
                (
                    [sys.executable, "-c", "import torch.utils.data"],
                    "the script iterated over no torch.utils.data",
                )
            ],
        ),
    ],
)
def test_a_script_without_a_loader_is_one_line_and_status_2(tmp_path, command, text):
    status, out, err = run(tmp_path, "", command=command)
    assert (status, out) == (2, "")
    assert err.startswith(f"seneca analyze: {text}") and err.count("\n") == 1


@pytest.mark.whole_size(shown_by="test_a_script_without_a_loader_is_one_line_and_status_2")
@pytest.mark.parametrize("option", ["--json", "--html"])
def test_a_file_that_cannot_be_written_is_reported_before_the_script_starts(tmp_path, option):
    status, out, err = run(tmp_path, SCRIPT, "0", "x", flags=[option, "missing/found"])
    assert (status, out) == (2, "")
    assert err.startswith("seneca analyze: there is no folder") and err.count("\n") == 1


FILES = f"""
    import sys, time
    from torch.utils.data import DataLoader, Dataset

    phases = sys.modules["seneca_analyze_deep"]
    phases.SAMPLE_S, phases.ALONE_S = {size((0.2, 0.3), (4.0, 4.0))}

    class Files(Dataset):
        def __len__(self):
            return 400
        def __getitem__(self, index):
            return len(open(__file__).read())

    if __name__ == "__main__":
        for batch in DataLoader(Files(), 4, num_workers=1):
            time.sleep(0.01)
            print("step")
"""


@pytest.mark.whole_size(shown_by="test_it_says_for_what_the_step_waits_and_passes_on_the_status")
def test_deep_ends_with_what_each_loader_would_give(tmp_path):
    status, out, err = run(tmp_path, FILES, flags=["--deep", "--json", "found.json"])
    assert (status, out) == (0, "step\n" * 65)
    assert "Predicted for 1 job: " in err and " with Seneca." in err
    profile = Profile.load(tmp_path / "found.json")
    assert profile.dataset == "Files of 400"
    assert profile.encoded.mean_bytes == (tmp_path / "train.py").stat().st_size
    assert 50 < profile.step_per_s < 400


@pytest.mark.whole_size(shown_by="test_it_says_for_what_the_step_waits_and_passes_on_the_status")
def test_deep_says_that_the_script_was_too_short(tmp_path):
    status, _, err = run(tmp_path, SCRIPT, "0", "x", flags=["--deep"])
    assert status == 0
    assert "Not seen: --deep measured nothing: no loader gave the 65 batches that it needs" in err
