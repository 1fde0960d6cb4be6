"""Segments, jobs and what they publish, made by hand: as ``seneca.segments`` finds them."""

from pathlib import Path

from seneca.segments import JobSeen, Segment, State, View, Work

BEGAN_MS = 1_000_000
CAUSES = ("storage", "decode", "augment", "item", "batch", "cores", "peers", "other")
FORMS = ("storage", "encoded", "recoded", "decoded", "augmented")
UNRECODED = ("kind", "damaged", "large")


def work(published_ms=BEGAN_MS, delivered=0, *, served=None, stall_ns=None, spent_ns=None, **changes):
    """What a process publishes; ``served`` and ``stall_ns`` name what is not zero."""
    values = {
        "pid": 100, "name": "train.py", "dataset": "photos", "since_ms": BEGAN_MS, "prepared": 0,
        "staged": 0, "skipped": 0, "damaged": 0, "read_bytes": 0, "epoch": 0, "place": 0, "places": 1000,
        "threads": 1, "batch_size": 10, "rank": 0, "ranks": 1,
    }  # fmt: skip
    return Work(
        published_ms=published_ms,
        delivered=delivered,
        served=dict.fromkeys(FORMS, 0) | ({"storage": delivered} if served is None else served),
        unrecoded=dict.fromkeys(UNRECODED, 0),
        stall_ns=dict.fromkeys(CAUSES, 0) | (stall_ns or {}),
        spent_ns=dict.fromkeys(CAUSES, 0) | (spent_ns or {}),
        **(values | changes),
    )


def job(*works, key="00000000000000aa", pids=None, datasets=(), compared=None):
    """A job whose processes publish this."""
    pids = tuple(sorted({one.pid for one in works})) if pids is None else pids
    return JobSeen(
        key=key,
        pids=pids,
        iterators=len(works),
        pace=None,
        work=works,
        datasets=datasets,
        compared=compared or {},
    )


def segment(*jobs, name="demo", **changes):
    """A segment that these jobs use."""
    mib = 1 << 20
    view = {
        "fingerprint": "00", "dataset": "photos", "samples": 1000, "keep_s": 0, "left_at": None,
        "payload_bytes": 64 * mib, "free_bytes": 16 * mib, "reserved_bytes": 64 * mib,
        "bytes": {"encoded": 16 * mib, "recoded": 0, "decoded": 16 * mib, "augmented": 16 * mib},
        "budget_bytes": {"encoded": 16 * mib, "recoded": 0, "decoded": 32 * mib, "augmented": 16 * mib},
        "payloads": {"encoded": 10, "recoded": 0, "decoded": 20, "augmented": 30}, "split": "25-50-25",
        "split_changes": [], "joins": 2.0, "joined_at": 1_000, "cost_s": 0.001, "jobs": list(jobs),
        "torn": False,
    }  # fmt: skip
    whole = {
        "path": Path(f"/dev/shm/seneca-0-{name}"), "owner": "root", "state": State.IN_USE,
        "memory_bytes": 70 * mib, "why": None, "view": View(**view),
    }  # fmt: skip
    return Segment(name=name, **(whole | changes))


def unreadable(name="theirs", why="another user's", state=State.UNKNOWN, owner="ann"):
    return segment(name=name, why=why, state=state, owner=owner, view=None)
