"""Forks a job for each line that it is given, so that a test need not wait until torch is imported.

::

    test --{"run": "train", ...}--> forker --fork--> hang_jobs.train(...), and then the end of the interpreter
         --{"wait": pid, "s": 5}-->        --> exit status, or null: it is still there

A job runs to the end of this script, as a user's does: what an interpreter does at its end is done.
"""

import gc
import json
import os
import signal
import sys
import time

import hang_jobs
import torch

from seneca import DataLoader  # noqa: F401  # which each job would import


def wait(pid, seconds):
    until = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.005)


def serve():
    """Until there is a job to be run, in a child; None: there is none any more."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            print(json.dumps(wait(asked["wait"], asked["s"])), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            return asked
        print(pid, flush=True)
    return None


if __name__ == "__main__":
    gc.freeze()  # at its end each job would examine all objects of torch, and copy the memory they lie in
    job = serve()
    if job is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the test was started by
        os.close(0)
        for stream, path in ((1, job["out"]), (2, job["err"])):
            os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600), stream)
        os.environ.update(job["environment"])
        torch.set_num_threads(1)  # OpenMP's threads are the parent's and did not come along
        getattr(hang_jobs, job["run"])(**job["arguments"])
