"""A process that begins with closed standard streams: what a library prints goes into no file of ours."""

import json
import os
import subprocess
import sys

import pytest
import ready
from redis_servers import PROGRAM, RedisServer

from seneca.testing import make_pictures

# What C code prints goes to descriptors 1 and 2, whatever is open there. Python itself sees closed streams.
JOB = """
import json, os, pathlib, sys, time, traceback
import torch
import seneca
from seneca import transforms as T

how, pictures, name, report, remote = sys.argv[1:]

def printed():
    for stream in 1, 2:
        try:
            os.write(stream, b"a library says something " * 400)
        except OSError:
            pass

class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        printed()
        return torch.full((4,), float(index))

def low():
    found = {}
    for number in range(3):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            pass
    return found

def stays_low():
    # A file that was opened this moment is moved to a higher number at once.
    found, deadline = low(), time.monotonic() + 5
    while found and time.monotonic() < deadline:
        time.sleep(0.01)
        found = dict(found.items() & low().items())
    return found

def train():
    assert sys.stdin is None and sys.stdout is None and sys.stderr is None
    if how == "folder":
        dataset = seneca.ImageFolder(pictures, T.RandomResizedCrop(32))
    elif how == "archive":
        dataset = seneca.open(pictures + ".tar", T.Compose([T.RandomResizedCrop(32), T.ToTensor()]))
    else:
        dataset = Items()
    loader = seneca.DataLoader(
        dataset, 4, shuffle=True, num_workers=0 if how == "items" else 2,
        cache=name, cache_bytes="4MiB", remote=remote or False,
    )
    opened, count = {}, 0
    for _ in range(2):
        for batch in loader:
            count += len(batch[0] if how != "items" else batch)
            printed()
            opened |= stays_low()
    kept = sum(samples for form, samples in loader.stats()["served"].items() if form != "storage")
    return {"opened": opened, "count": count, "kept": kept}

try:
    found = train()
except BaseException:
    found = {"failed": traceback.format_exc()}
pathlib.Path(report).write_text(json.dumps(found))
"""


# In a fork of ready.py, as Python finds itself where a shell has closed them.
CLOSE = """
import os, sys
sys.stdin = sys.stdout = sys.stderr = None
for number in range(3):
    os.close(number)
"""


def ran(tmp_path, name, how, remote="", *, by_shell=True):
    """What a job reports that begins with its standard streams closed."""
    pictures = make_pictures(tmp_path / "pictures", count=24, classes=2)
    if how == "archive":
        subprocess.run(["tar", "-cf", f"{pictures}.tar", "-C", pictures, "."], check=True)
    (tmp_path / "job.py").write_text(JOB if by_shell else CLOSE + JOB)
    report = tmp_path / "report"
    command = [tmp_path / "job.py", how, pictures, name, report, remote]
    environment = {**os.environ, "SENECA_AUDIT": str(tmp_path / "audit"), "XDG_CACHE_HOME": str(tmp_path)}
    if by_shell:
        shell = ["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", sys.executable, *map(str, command)]
        subprocess.run(shell, env=environment, timeout=300)
    else:
        ready.run(*command, env=environment)
    found = json.loads(report.read_text())
    assert "failed" not in found, found["failed"]
    return found


@pytest.mark.small(1)
@pytest.mark.parametrize("how", ["folder", "archive", "items"])
def test_what_a_library_prints_goes_into_no_file_of_ours(tmp_path, name, how):
    found = ran(tmp_path, name, how, by_shell=how != "archive")
    assert found["opened"] == {}
    assert found["count"] == 48 and (how == "items" or found["kept"] > 0)


@pytest.mark.whole_size(shown_by="test_what_a_library_prints_goes_into_no_file_of_ours")
@pytest.mark.skipif(PROGRAM is None, reason="no server; apt-get install redis-server")
def test_what_a_library_prints_goes_to_no_server(tmp_path, name):
    with RedisServer(tmp_path / "redis") as server:
        found = ran(tmp_path, name, "folder", server.url)
    assert found["opened"] == {} and found["count"] == 48
