"""The border to csrc/shm/sn_telemetry.h: what a process publishes of its work and dataset, for watchers."""

from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memset

from seneca.forms import UNRECODED, Form
from seneca._core.segment cimport Segment, sn_segment

__all__ = ["CAUSES", "MOST_TRAITS", "NAME_BYTES", "publish_dataset", "publish_work"]

CAUSES = {"storage": SN_CAUSE_STORAGE, "decode": SN_CAUSE_DECODE, "augment": SN_CAUSE_AUGMENT, "item": SN_CAUSE_ITEM,
          "batch": SN_CAUSE_BATCH, "cores": SN_CAUSE_CORES, "peers": SN_CAUSE_PEERS, "other": SN_CAUSE_OTHER}
NAME_BYTES = 95
MOST_TRAITS = SN_MOST_TRAITS


cdef extern from "shm/sn_telemetry.h" nogil:
    void sn_telemetry_write(sn_segment *segment, uint32_t row, const sn_work *work)
    void sn_traits_write(sn_segment *segment, uint32_t row, const sn_dataset *dataset)


def publish_work(Segment segment, dict values):
    """Publish what :func:`as_dict` gives, in the row of this process. One thread at a time may do so.

    Raises:
        SegmentError: The segment is closed.
    """
    cdef sn_work work
    cdef bytes name = values["name"].encode(errors="replace")[:NAME_BYTES]
    cdef bytes of = values["dataset"].encode(errors="replace")[:sizeof(work.dataset) - 1]
    memset(&work, 0, sizeof(work))
    work.since_ms, work.published_ms = values["since_ms"], values["published_ms"]
    work.delivered, work.prepared, work.staged = values["delivered"], values["prepared"], values["staged"]
    work.skipped, work.damaged, work.read_bytes = values["skipped"], values["damaged"], values["read_bytes"]
    for form in Form:
        work.served[<int>form] = values["served"][form.name.lower()]
    for i, why in enumerate(UNRECODED):
        work.unrecoded[i] = values["unrecoded"][why]
    for cause, i in CAUSES.items():
        work.stall_ns[i], work.spent_ns[i] = values["stall_ns"][cause], values["spent_ns"][cause]
    work.epoch, work.place, work.places = values["epoch"], values["place"], values["places"]
    work.threads, work.batch_size = values["threads"], values["batch_size"]
    work.rank, work.ranks = values["rank"], values["ranks"]
    memcpy(work.name, <const char *>name, len(name))
    memcpy(work.dataset, <const char *>of, len(of))
    sn_telemetry_write(segment.open(), segment.row, &work)


def publish_dataset(Segment segment, uint64_t like, uint64_t source, uint64_t kind, dict traits, str apart):
    """Publish what the dataset of this process is made of, in its row. One thread at a time may do so.

    Args:
        segment: The segment of its cache.
        like: Names what datasets have in common that should perhaps be one; not 0.
        source: Names its samples in storage.
        kind: Names the payloads that are shared.
        traits: Digests by name, both numbers of 64 bits; the first :data:`MOST_TRAITS` count.
        apart: For people: which jobs do not share with it, and why.

    Raises:
        SegmentError: The segment is closed.
    """
    cdef sn_dataset dataset
    cdef bytes text = apart.encode(errors="replace")[:sizeof(dataset.apart) - 1]
    memset(&dataset, 0, sizeof(dataset))
    dataset.like, dataset.source, dataset.kind = like, source, kind
    dataset.n = min(len(traits), <int>SN_MOST_TRAITS)
    for i, (name, digest) in enumerate(list(traits.items())[:dataset.n]):
        dataset.traits[i].name, dataset.traits[i].digest = name, digest
    memcpy(dataset.apart, <const char *>text, len(text))
    sn_traits_write(segment.open(), segment.row, &dataset)


cdef dict as_dict(const sn_work *work):
    return {
        "name": (<bytes>work.name).decode(errors="replace"),
        "dataset": (<bytes>work.dataset).decode(errors="replace"),
        "since_ms": work.since_ms,
        "published_ms": work.published_ms,
        "delivered": work.delivered,
        "served": {form.name.lower(): work.served[<int>form] for form in Form},
        "unrecoded": {why: work.unrecoded[i] for i, why in enumerate(UNRECODED)},
        "prepared": work.prepared,
        "staged": work.staged,
        "skipped": work.skipped,
        "damaged": work.damaged,
        "read_bytes": work.read_bytes,
        "stall_ns": {cause: work.stall_ns[<int>i] for cause, i in CAUSES.items()},
        "spent_ns": {cause: work.spent_ns[<int>i] for cause, i in CAUSES.items()},
        "epoch": work.epoch,
        "place": work.place,
        "places": work.places,
        "threads": work.threads,
        "batch_size": work.batch_size,
        "rank": work.rank,
        "ranks": work.ranks,
    }
