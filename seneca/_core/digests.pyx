"""The border to csrc/store/sn_digests.h: what jobs compare of what they make. Owns the hold, translates errors."""

from libc.stdint cimport uint32_t, uint64_t

from seneca._core.codes import segment_error
from seneca._core.segment cimport Segment, sn_segment

__all__ = ["CHANGED", "DIFFERS", "EQUAL", "NEW", "OWN", "Digests", "compared", "mark_words"]


cdef extern from "<stdatomic.h>" nogil:
    ctypedef uint64_t atomic_word "_Atomic uint64_t"


cdef extern from "store/sn_digests.h" nogil:
    ctypedef struct sn_digests:
        sn_segment *segment
        uint32_t table, row
        atomic_word *marks

    enum:
        SN_DIGEST_NEW, SN_DIGEST_OWN, SN_DIGEST_EQUAL, SN_DIGEST_CHANGED, SN_DIGEST_DIFFERS

    int sn_digests_open(sn_digests *digests, uint64_t kind, int form, const char *shape)
    int sn_digests_meet(const sn_digests *digests, uint32_t sample, uint64_t digest, int is_fixed, int draws)
    int sn_digests_vouch(const sn_digests *digests, uint32_t sample, uint64_t digest)
    int sn_digests_is_marked(const sn_digests *digests, uint32_t sample)
    int sn_digests_have_company(const sn_digests *digests)
    uint32_t sn_digests_compared(const sn_digests *digests)
    uint32_t sn_digests_compared_of(const sn_segment *segment, uint32_t row, uint64_t kind)
    uint64_t sn_digests_maker(const sn_digests *digests, uint32_t sample)


NEW, OWN, EQUAL = SN_DIGEST_NEW, SN_DIGEST_OWN, SN_DIGEST_EQUAL
CHANGED, DIFFERS = SN_DIGEST_CHANGED, SN_DIGEST_DIFFERS


def mark_words(uint64_t n_samples):
    """How many uint64 hold a mark for each of so many samples."""
    return (n_samples + 63) // 64


cdef class Digests:
    """This process's hold on the digests of one kind of payload. Any thread may use it.

    Args:
        segment: The segment of the dataset's cache.
        kind: Names what the payloads hold; not 0.
        form: Their form.
        shape: Types and sizes of a sample, for people.
        marks: uint64, of :func:`mark_words`, all 0 at first: memory that the processes of the job share.

    Raises:
        BlockingIOError: The segment's lock was not to be had in 100 ms.
        Unlinked: The segment was given up.
        SegmentError: There is no memory for the digests, or jobs compare too many kinds at once.
    """
    cdef sn_digests handle
    cdef Segment segment
    cdef uint64_t[::1] marks
    cdef readonly int form
    cdef readonly uint64_t kind

    def __init__(self, Segment segment not None, uint64_t kind, int form, str shape, marks):
        cdef bytes text = shape.encode(errors="replace")
        cdef const char *c_shape = text
        cdef int rc
        self.marks = marks
        self.segment = segment
        self.form = form
        self.kind = kind
        self.handle.segment = segment.open()
        self.handle.row = segment.row
        if <uint64_t>len(marks) < mark_words(self.handle.segment.n_samples):
            raise ValueError(f"{len(marks)} words of marks are too few for {self.handle.segment.n_samples} samples")
        self.handle.marks = <atomic_word *>&self.marks[0]
        with nogil:
            rc = sn_digests_open(&self.handle, kind, form, c_shape)
        if rc != 0:
            raise segment_error(rc)

    cdef int check_sample(self, uint32_t sample) except -1:
        self.segment.open()
        if sample >= self.handle.segment.n_samples:
            raise IndexError(f"sample {sample} of {self.handle.segment.n_samples}")
        return 0

    def meet(self, uint32_t sample, uint64_t digest, bint fixed, bint draws=False):
        """This process has made a sample. Compare it with what it came to before, or be the first.

        Args:
            sample: The sample.
            digest: 64 bits of its bytes.
            fixed: Whether the random generators were in the states that the sample names.
            draws: Whether the sample has drawn random numbers.

        Returns:
            ``NEW``: no job had made it. ``OWN``, ``EQUAL``: this job, or another, had, and it was the same.
            ``CHANGED``, ``DIFFERS``: likewise, and it differed.
        """
        self.check_sample(sample)
        return sn_digests_meet(&self.handle, sample, digest, fixed, draws)

    def vouch(self, uint32_t sample, uint64_t digest):
        """Whether this job has made the sample itself, it agreed, and it has this digest."""
        self.check_sample(sample)
        return sn_digests_vouch(&self.handle, sample, digest) != 0

    def is_marked(self, uint32_t sample):
        """Whether this job has made the sample itself, and it agreed."""
        self.check_sample(sample)
        return sn_digests_is_marked(&self.handle, sample) != 0

    def maker(self, uint32_t sample):
        """The key of the job that made the sample first, if it is here still; else 0."""
        self.check_sample(sample)
        return sn_digests_maker(&self.handle, sample)

    @property
    def have_company(self):
        """Whether processes of more than one job have compared here."""
        self.segment.open()
        return sn_digests_have_company(&self.handle) != 0

    @property
    def compared(self):
        """How many samples this job and another have made, which were equal."""
        self.segment.open()
        return sn_digests_compared(&self.handle)

    @property
    def shape(self):
        """Types and sizes of the sample that was made first, for people."""
        cdef bytes text = self.segment.open().head.tables[self.handle.table].shape
        return text.decode(errors="replace")


def compared(Segment segment not None, uint64_t kind):
    """How many samples of this kind the job and another have made, which were equal; 0: none, or it is not compared."""
    return sn_digests_compared_of(segment.open(), segment.row, kind)
