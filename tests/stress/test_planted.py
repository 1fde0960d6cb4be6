"""Tests that kill processes find bugs that are planted in the core, each by the test that is named for it.

Each bug is one replaced piece of text. The core is compiled with it in a copy, and the test has to fail.
`make planted` runs this.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not os.environ.get("SENECA_TEST_PLANTED"), reason="make planted compiles them, in minutes"
)

ROOT = Path(__file__).parents[2]
LIMIT_S = 100
FLAGS = {"test-c": "-O2", "tsan": "$(TSAN)"}
TRIES = 3  # each with another seed: some bugs need a certain place or moment


@dataclass(frozen=True)
class Bug:
    """``old`` occurs once in ``file`` of csrc/; ``test`` fails where it is ``new``.

    ``flavour`` is a target of the Makefile that says how the test is built.
    """

    name: str
    file: str
    old: str
    new: str
    test: str
    flavour: str = "test-c"


STATE = "atomic_store_explicit(&record->state, SN_SLOT_EMPTY, memory_order_release);\n"
BUGS = [
    Bug(
        "no rebuild on entering",
        "store/sn_store.c",
        "            sn_store_rebuild(segment);\n",
        "",
        "test_kills",
    ),
    Bug(
        "no rebuild on entering, at a point",
        "store/sn_store.c",
        "            sn_store_rebuild(segment);\n",
        "",
        "test_crash_points",
    ),
    Bug(
        "no rebuild after reaping",
        "store/sn_store.c",
        "    if (dead)\n        sn_store_rebuild(segment);\n",
        "",
        "test_crash",
    ),
    Bug(
        "busy is never set",
        "store/sn_store.c",
        "    atomic_store(&head->busy, 1);\n",
        "",
        "test_crash_points",
    ),
    Bug(
        "a fold loses what was committed",
        "store/sn_store.c",
        "            publish(segment, ready[i]);\n",
        ";",
        "test_store",
    ),
    Bug(
        "what the dead were writing is served",
        "store/sn_rebuild.c",
        "        sn_slot_adopt(segment, slot);\n",
        "        if (sn_slot_state(record) == SN_SLOT_WRITING)\n            record->state = SN_SLOT_READY;\n"
        "        sn_slot_adopt(segment, slot);\n",
        "test_kills",
    ),
    Bug(
        "what the dead were writing stays",
        "store/sn_rebuild.c",
        "record->list == SN_LIST_WRITING && record->pins == 0",
        "record->list == SN_LIST_WRITING && record->pins > 9",
        "test_crash_points",
    ),
    Bug(
        "a rebuild adds pins to pins",
        "slots/sn_slots.c",
        "    record->pins = 0;\n    switch",
        "    switch",
        "test_crash_points",
    ),
    Bug(
        "a rebuild keeps old wants",
        "store/sn_rebuild.c",
        "            sn_want_clear(segment, row);\n",
        "",
        "test_crash",
    ),
    Bug(
        "a rebuild keeps the granule map",
        "store/sn_rebuild.c",
        "    sn_space_clear(segment);\n",
        "",
        "test_crash_points",
    ),
    Bug(
        "pins of the living are not found",
        "store/sn_rebuild.c",
        "                segment->slots[slot].pins++;\n",
        "                ;\n",
        "test_crash_points",
    ),
    Bug(
        "the dead keep their rows",
        "store/sn_store.c",
        "        atomic_store_explicit(&segment->rows[row].state, SN_ROW_FREE, memory_order_release);\n",
        "",
        "test_crash_points",
    ),
    Bug(
        "freed under a pin",
        "store/sn_want.c",
        "want == 0 && segment->slots[slot].pins == 0",
        "want == 0",
        "test_store",
    ),
    Bug("let go under a pin", "store/sn_rows.c", "--record->pins > 0", "--record->pins > 9", "test_store"),
    Bug(
        "the ledger is not written",
        "store/sn_rows.c",
        "    sn_ledger(segment, row)[entry] = slot + 1;\n",
        "",
        "test_store",
    ),
    Bug(
        "the ledger is not let go",
        "store/sn_rows.c",
        "    *line = 0;\n    SN_CRASH",
        "    SN_CRASH",
        "test_store",
    ),
    Bug(
        "no pin",
        "store/sn_rows.c",
        "    segment->slots[slot].pins++;\n",
        "",
        "test_store",
    ),
    Bug("no generation", "slots/sn_slots.c", "    record->generation++;\n", "", "test_crash_points"),
    Bug(
        "freed and still READY",
        "slots/sn_slots.c",
        "    " + STATE + "    SN_CRASH_POINT(free_empty);\n",
        "",
        "test_store",
    ),
    Bug(
        "freed and still on its list",
        "slots/sn_slots.c",
        "    list_remove(segment, slot);\n    SN_CRASH_POINT(free_on",
        "    SN_CRASH_POINT(free_on",
        "test_store",
    ),
    Bug(
        "freed and still in its chain",
        "slots/sn_slots.c",
        "    chain_remove(segment, slot);\n",
        "",
        "test_store",
    ),
    Bug(
        "the hole in the writing list is not filled",
        "slots/sn_slots.c",
        "    segment->writing[place] = last;\n",
        "",
        "test_store",
    ),
    Bug(
        "alone in company",
        "slots/sn_slots.c",
        "        segment->slots[first].alone = 0;",
        "        ;",
        "test_store",
    ),
    Bug(
        "granules are given back and counted",
        "slots/sn_space.c",
        "    head->granules_of[form] -= count;\n",
        "",
        "test_store",
    ),
    Bug(
        "granules are not given back",
        "slots/sn_space.c",
        "    sn_bits_fill(segment->granules, start, count, 0);\n",
        "",
        "test_store",
    ),
    Bug(
        "the limit moves and the space does not",
        "store/sn_backing.c",
        "    sn_space_resize(segment, before);\n",
        "",
        "test_store",
    ),
    Bug(
        "a use is not noted",
        "store/sn_want.c",
        "    segment->slots[slot].uses |= (uint64_t)1 << job % SN_MAX_JOBS;\n",
        "",
        "test_store",
    ),
    Bug(
        "a want does not fall",
        "store/sn_want.c",
        "segment->wants[slot] - 1u",
        "segment->wants[slot]",
        "test_store",
    ),
    Bug(
        "evicted and eligible",
        "store/sn_want.c",
        "        sn_counted_clear(sn_eligible(segment, row), slot);\n",
        "        ;\n",
        "test_store",
    ),
    Bug(
        "who leaves still wants",
        "store/sn_rows.c",
        "    sn_want_leave(segment, row);\n    SN_CRASH_POINT(leave_wants",
        "    SN_CRASH_POINT(leave_wants",
        "test_store",
    ),
    Bug(
        "who leaves has a budget",
        "store/sn_rows.c",
        "    sn_rows_derive_budgets(segment);\n    SN_CRASH_POINT(leave_budgets",
        "    SN_CRASH_POINT(leave_budgets",
        "test_store",
    ),
    Bug(
        "a lock that is had by two",
        "shm/sn_lock.c",
        "errno == EWOULDBLOCK ? SN_BUSY",
        "errno == EWOULDBLOCK ? 0",
        "test_kills",
    ),
    Bug(
        "a ledger line is trusted",
        "store/sn_rows.c",
        "SN_RARELY(slot >= segment->n_slots)",
        "*line == 0",
        "test_flipped_words",
    ),
    Bug(
        "a head of a list is trusted",
        "slots/sn_slots.c",
        "slot >= segment->n_slots || segment->head",
        "slot == SN_NONE || segment->head",
        "test_flipped_words",
    ),
    Bug(
        "a descriptor that is left where mapping fails",
        "shm/sn_segment.c",
        "    close(fd);\n    if (rc != 0)\n        return rc;\n    madvise(",
        "    if (rc != 0)\n        return rc;\n    close(fd);\n    madvise(",
        "test_failing_calls",
    ),
    Bug(
        "a handle that is left where joining fails",
        "store/sn_join.c",
        "out:\n    sn_segment_close(segment);\n",
        "out:\n",
        "test_failing_calls",
    ),
    Bug(
        "memory that is not asked after",
        "pool/sn_batch.c",
        "!batch->places || !batch->copies",
        "!batch->copies",
        "test_failing_calls",
    ),
    Bug(
        "memory of offers that is lost",
        "pool/sn_batch.c",
        "    free(offers->copies);\n",
        "",
        "test_failing_calls",
    ),
    Bug(
        "row areas that have no memory",
        "shm/sn_segment.c",
        "    int rc = reserve(segment->fd, at, bytes, NULL, NULL);\n",
        "    int rc = 0;\n",
        "test_small_shm",
    ),
    Bug(
        "granules that have no memory",
        "shm/sn_segment.c",
        "return reserve(segment->fd, granule_at(segment, from), (uint64_t)(to - from)",
        "if (to >= from)\n        return 0;\n    return reserve(segment->fd, 0, (uint64_t)(to - from)",
        "test_small_shm",
    ),
    Bug(
        "a child that keeps its parent's rows",
        "shm/sn_segment.c",
        "        if (segment->fd >= 0)\n            close(segment->fd);\n",
        "",
        "test_liveness",
    ),
    Bug(
        "life by the numbers of processes",
        "shm/sn_lock.c",
        "    return sn_row_is_own(segment, row) || is_locked(segment->fd, 1 + row, 1);\n",
        "    extern int kill(int, int);\n    return !kill(segment->rows[row].pid, 0);\n",
        "test_liveness",
    ),
    Bug(
        "a table of mappings that does not grow",
        "shm/sn_guard.c",
        "        if (!(next = next_of(in)))\n            return -ENOMEM;\n",
        "        if (!(next = NULL))\n            return 0;\n",
        "test_guard",
    ),
    Bug(
        "READY without an order",
        "slots/sn_slots.h",
        ".state, SN_SLOT_READY, memory_order_release)",
        ".state, SN_SLOT_READY, memory_order_relaxed)",
        "test_threads",
        "tsan",
    ),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    for name in ("csrc", "tests/c"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("Makefile", "setup.py", "pyproject.toml"):
        shutil.copy2(ROOT / name, folder / name)
    for flavour in FLAGS:
        if (ROOT / "build" / flavour).is_dir():
            shutil.copytree(ROOT / "build" / flavour, folder / "build" / flavour)
    for test, flavour in sorted({(bug.test, bug.flavour) for bug in BUGS}):
        build(folder, test, flavour)
    return folder


def build(folder: Path, test: str, flavour: str) -> None:
    command = [
        "make",
        "--no-print-directory",
        f"FLAVOUR={flavour}",
        f"C_FLAGS={FLAGS[flavour]}",
        "C_WARNINGS=",
        f"build/{flavour}/{test}",
    ]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def fails(program: Path) -> bool:
    sizes = {"KILLS": "1500", "FLIPS": "300", "TSAN_OPTIONS": "halt_on_error=1"}
    return any(end_of(program, seed, sizes) != 0 for seed in range(1, TRIES + 1))


def end_of(program: Path, seed: int, sizes: dict[str, str]) -> int:
    """The status with which a test ends; what it leaves is taken away, however it ends."""
    test = subprocess.Popen(
        [program, str(seed)],
        env={**os.environ, **sizes},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return test.wait(LIMIT_S)
        return -signal.SIGKILL
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(test.pid, signal.SIGKILL)
        test.wait()
        for left in Path("/dev/shm").glob(f"test-of-seneca-*-{test.pid}-*"):
            left.unlink()


def test_what_a_test_has_begun_ends_with_it(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    script = tmp_path / "test"
    script.write_text(f"#!/bin/sh\nsh -c 'kill -STOP $$' &\necho $! > {begun}\nexit 3\n")
    script.chmod(0o700)
    assert end_of(script, 1, {}) == 3
    ended = Path(f"/proc/{int(begun.read_text())}/stat")
    for _ in range(1000):
        if not ended.exists() or ended.read_text().rpartition(")")[2].split()[0] in "ZX":
            return
        time.sleep(0.01)
    pytest.fail("a process that was stopped is left")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(copy: Path, bug: Bug) -> None:
    path = copy / "csrc" / bug.file
    sound = path.read_text()
    assert sound.count(bug.old) == 1
    path.write_text(sound.replace(bug.old, bug.new))
    try:
        build(copy, bug.test, bug.flavour)
        assert fails(copy / "build" / bug.flavour / bug.test), f"{bug.test} passes"
    finally:
        path.write_text(sound)
