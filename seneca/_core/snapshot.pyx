"""The border to csrc/shm/sn_snapshot.h: a segment seen from outside, for the commands that show and remove segments."""

import os

from libc.stdint cimport int32_t, uint32_t, uint64_t

from seneca._core.codes import segment_error
from seneca._core.segment import KEPT
from seneca._core.codes cimport SN_BUSY, SN_FULL
from seneca._core.segment cimport SN_FORMS, SN_GRANULE, SN_MAX_ROWS, sn_change, sn_geometry
from seneca._core.telemetry cimport SN_MOST_TRAITS, as_dict, sn_dataset, sn_work

__all__ = ["anyone_alive", "datasets", "discard", "left_behind", "shrink", "snapshot"]


cdef extern from "shm/sn_layout.h" nogil:
    enum:
        SN_LIST_WRITING, SN_LIST_WANT, SN_AUGMENTED
        SN_ROW_LIVE, SN_ROW_HOLDER, SN_ROW_MEMBER
        SN_CHANGES, SN_DIGEST_TABLES, SN_MAX_JOBS

    ctypedef struct sn_list_head:
        uint32_t count

    ctypedef struct sn_row:
        uint32_t state, kind, job, eligible, published_at, pace
        uint64_t job_key
        int32_t pid

    ctypedef struct sn_distrust:
        uint32_t reported

    ctypedef struct sn_digest_table:
        uint64_t kind
        uint32_t form
        uint64_t users[2]
        uint32_t compared[64]

    ctypedef struct sn_whole_header "sn_header":
        sn_geometry geometry
        uint64_t segment_bytes
        uint32_t abandoned, limit
        uint32_t granules_of[5]
        uint32_t budget_of[5]
        sn_list_head lists[135]  # SN_LISTS, which Cython does not need to know
        uint32_t n_changes, left_at
        sn_change changes[8]
        uint32_t joins, joined_at
        uint64_t cost_ns
        sn_distrust distrust
        sn_digest_table tables[64]

    int sn_list_of(int form)
    const uint32_t *sn_split(const sn_whole_header *head)
    uint32_t sn_usable_granules(const sn_whole_header *head)


cdef extern from "shm/sn_snapshot.h" nogil:
    ctypedef struct sn_snapshot:
        sn_whole_header head
        sn_row rows[128]
        uint64_t alive[2]
        sn_work work[128]
        uint64_t published[2]
        char dataset[64]
        uint64_t memory_bytes
        int torn

    int sn_snapshot_take(int fd, sn_snapshot *snapshot)
    int sn_snapshot_read_dataset(int fd, const sn_snapshot *snapshot, uint32_t row, sn_dataset *dataset)


cdef extern from "shm/sn_segment.h" nogil:
    int sn_anyone_alive(int fd)


cdef extern from "store/sn_join.h" nogil:
    int sn_discard(int fd, const char *name)
    int sn_left_behind(int fd)


cdef extern from "store/sn_shrink.h" nogil:
    ctypedef struct sn_shrunk:
        uint32_t before, least, left

    int sn_shrink(int fd, const char *name, uint32_t granules, sn_shrunk *found)


def anyone_alive(int fd):
    """Whether a living process uses the segment that is open as ``fd``, whatever its version."""
    return bool(sn_anyone_alive(fd))


def left_behind(int fd):
    """Whether the next process that joins any segment would remove the one that is open as ``fd``."""
    cdef bint left
    with nogil:
        left = sn_left_behind(fd)
    return left


def discard(int fd, str name):
    """Remove the shared memory object ``name``, open as ``fd``, also if it is to be kept. Closes ``fd``.

    Returns:
        Whether it is removed. If not, a living process uses it.

    Raises:
        SegmentError: It is no segment of this version, or another user's.
    """
    cdef bytes name_bytes = os.fsencode(name)
    cdef const char *c_name = name_bytes
    cdef int rc
    with nogil:
        rc = sn_discard(fd, c_name)
    if rc < 0:
        raise segment_error(rc)
    return rc != SN_BUSY


def shrink(int fd, str name, uint32_t granules):
    """Leave so many granules to payloads of the shared memory object ``name``, open as ``fd``. Closes ``fd``.

    Returns:
        ``(before, least, left)``: the granules that payloads had, those that the jobs need, and the payloads behind
        that are in use still. With more needed than ``granules``, nothing is changed.

    Raises:
        BlockingIOError: Its lock was not to be had just now.
        Unlinked: Nobody used it, and it is removed.
        SegmentError: It is no segment of this version, or another user's.
    """
    cdef bytes name_bytes = os.fsencode(name)
    cdef const char *c_name = name_bytes
    cdef sn_shrunk found
    cdef int rc
    with nogil:
        rc = sn_shrink(fd, c_name, granules, &found)
    if rc not in (0, SN_FULL):
        raise segment_error(rc)
    return found.before, found.least, found.left


def snapshot(int fd):
    """The content and the users of the segment that is open as ``fd``: see :class:`seneca.segments.View`.

    Raises:
        SegmentError: It is no segment, one of another version, or damaged.
    """
    cdef sn_snapshot seen
    cdef int rc
    with nogil:
        rc = sn_snapshot_take(fd, &seen)
    if rc != 0:
        raise segment_error(rc)
    payload_bytes = <uint64_t>seen.head.limit * SN_GRANULE
    bytes_of = {name: <uint64_t>seen.head.granules_of[form] * SN_GRANULE for name, form in KEPT.items()}
    return {
        "fingerprint": b"".join(
            (<object>half).to_bytes(8, "little") for half in seen.head.geometry.fingerprint[:2]
        ).hex(),
        "dataset": (<bytes>seen.dataset).decode(errors="replace"),
        "samples": seen.head.geometry.n_samples,
        "keep": seen.head.geometry.keep,
        "left_at": seen.head.left_at,
        "joins": seen.head.joins / 1000.0,
        "joined_at": seen.head.joined_at,
        "cost_s": seen.head.cost_ns * 1e-9,
        "adapts": bool(seen.head.geometry.adapts),
        "memory_bytes": seen.memory_bytes,
        "segment_bytes": seen.head.segment_bytes,
        "payload_bytes": payload_bytes,
        "reserved_bytes": <uint64_t>sn_usable_granules(&seen.head) * SN_GRANULE,
        "free_bytes": max(0, payload_bytes - sum(bytes_of.values())),
        "bytes": bytes_of,
        "budget_bytes": {
            name: <uint64_t>seen.head.budget_of[form] * SN_GRANULE for name, form in KEPT.items()
        },
        "payloads": payloads(&seen.head),
        "writing": seen.head.lists[SN_LIST_WRITING].count,
        "split": tuple(<object>share for share in sn_split(&seen.head)[:SN_FORMS]),
        "changes": changes(&seen.head),
        "given_up": seen.head.abandoned != 0 or seen.head.distrust.reported != 0,
        "rows": rows(fd, &seen),
        "compared": compared(&seen),
        "torn": bool(seen.torn),
    }


cdef dict payloads(const sn_whole_header *head):
    cdef uint32_t want, staged = 0
    for want in range(SN_MAX_ROWS + 1):
        staged += head.lists[SN_LIST_WANT + want].count
    return {
        name: staged if form == SN_AUGMENTED else head.lists[sn_list_of(form)].count for name, form in KEPT.items()
    }


cdef list changes(const sn_whole_header *head):
    cdef uint32_t last = head.n_changes, i
    cdef const sn_change *change
    found = []
    for i in range(last - min(last, SN_CHANGES), last):
        change = &head.changes[i % SN_CHANGES]
        found.append((change.when, tuple(<object>share for share in change.split[:SN_FORMS]),
                      change.why[:sizeof(change.why)].partition(b"\0")[0].decode(errors="replace")))
    return found


cdef dict compared(const sn_snapshot *seen):
    """How many samples of each form a job has compared with others', by job. Of several kinds of a form: of the fewest."""
    cdef uint32_t i, row
    cdef const sn_digest_table *table
    names = {int(form): name for name, form in KEPT.items()}
    found = {}
    for i in range(SN_DIGEST_TABLES):
        table = &seen.head.tables[i]
        if table.kind == 0 or table.form not in names:
            continue
        for row in range(SN_MAX_ROWS):
            if table.users[row // 64] >> (row % 64) & seen.alive[row // 64] >> (row % 64) & 1:
                of_job = found.setdefault(seen.rows[row].job_key, {})
                count = table.compared[seen.rows[row].job % SN_MAX_JOBS]
                name = names[table.form]
                of_job[name] = min(count, of_job.get(name, count))
    return found


cdef list rows(int fd, const sn_snapshot *seen):
    """Of each row in use: job, process, whether it draws, whether its owner lives, pace (0: not published), what it
    publishes of its work, and of its dataset."""
    cdef uint32_t i
    cdef const sn_row *row
    found = []
    for i in range(SN_MAX_ROWS):
        row = &seen.rows[i]
        if row.state == SN_ROW_LIVE and row.kind in (SN_ROW_HOLDER, SN_ROW_MEMBER):
            found.append((row.job_key, row.pid, row.kind == SN_ROW_MEMBER, bool(seen.alive[i // 64] >> (i % 64) & 1),
                          row.pace if row.published_at and row.kind == SN_ROW_HOLDER else 0,
                          as_dict(&seen.work[i]) if seen.published[i // 64] >> (i % 64) & 1 else None,
                          dataset(fd, seen, i) if row.kind == SN_ROW_HOLDER else None))
    return found


cdef dict dataset(int fd, const sn_snapshot *seen, uint32_t row):
    """What a row publishes of its dataset, as :func:`publish_dataset` has it; None: nothing."""
    cdef sn_dataset found
    cdef uint32_t k
    if sn_snapshot_read_dataset(fd, seen, row, &found) != 0 or found.like == 0:
        return None
    return {
        "like": found.like,
        "source": found.source,
        "kind": found.kind,
        "traits": {found.traits[k].name: found.traits[k].digest for k in range(<uint32_t>min(found.n, SN_MOST_TRAITS))},
        "apart": (<bytes>found.apart).decode(errors="replace"),
    }
