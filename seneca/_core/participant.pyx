"""The common part of members and workers: the slots that they hold, the places of a batch, and offers."""

import numpy as np

cimport cython
from libc.stdlib cimport calloc, free

from seneca._core.segment cimport (
    SN_NONE, SN_SLOT_READY, SN_SLOT_WRITING, sn_segment, sn_slot_abort, sn_slot_commit, sn_slot_length, sn_slot_payload,
    sn_slot_state
)

__all__ = ["ITEM", "Participant"]

ITEM = np.dtype([
    ("sample", np.uint32), ("source", np.uint8), ("keep", np.uint8), ("awaited", np.uint8), ("peer", np.uint8),
    ("role", np.uint32),
    ("source_slot", np.uint32), ("source_entry", np.uint32),
    ("target_slot", np.uint32), ("target_entry", np.uint32),
])
"""One place of a batch, as ``sn_item``: slots are :data:`NONE` where there is none."""
assert ITEM.itemsize == sizeof(sn_item)


@cython.no_gc
cdef class Participant:
    """A holder of slots: it reads pinned ones, and writes reserved ones."""

    def commit(self, uint32_t slot):
        """Commit a reserved slot, whose bytes are written: others may read it."""
        self.slot(slot)
        sn_slot_commit(self.segment.handle, slot)

    def abort(self, uint32_t slot):
        """Give up a reserved slot, which will not be written."""
        sn_slot_abort(self.slot(slot))

    def payload(self, uint32_t slot):
        """The bytes of a slot that is held, writable in place. None of them, if its record was overwritten."""
        cdef sn_slot *record = self.slot(slot)
        cdef sn_segment *segment = self.segment.handle
        cdef uint32_t length = sn_slot_length(segment, record)
        if length == 0:
            return memoryview(bytearray())
        return memoryview(<uint8_t[:length]>sn_slot_payload(segment, record))

    def is_written(self, uint32_t slot):
        """Whether a held slot, which another process writes, is written. None: it will not be."""
        cdef uint32_t state = sn_slot_state(self.slot(slot))
        return True if state == SN_SLOT_READY else False if state == SN_SLOT_WRITING else None

    def picture_size(self, uint32_t slot):
        """``(height, width)`` of the pixels in a slot that is held; 0 for what says itself what it is."""
        cdef sn_slot *record = self.slot(slot)
        return record.height, record.width

    def files_name(self, uint32_t slot):
        """The name of the files as the writer of an AUGMENTED copy had seen them, in a slot that is held."""
        return self.slot(slot).files_name

    def generation(self, uint32_t slot):
        """The number of the occupant of a held slot."""
        return self.slot(slot).generation

    cdef sn_slot *slot(self, uint32_t slot) except NULL:
        if self.segment is None or slot >= self.segment.open().n_slots:
            raise IndexError(slot)
        return &self.segment.handle.slots[slot]


cdef class Answers:
    """Offers on their way to a critical section, and what it answered."""

    def __cinit__(self, offers):
        cdef uint32_t i
        self.count = len(offers)
        self.array = <sn_offer *>calloc(self.count + 1, sizeof(sn_offer))
        if self.array == NULL:
            raise MemoryError()
        for i in range(self.count):
            (self.array[i].sample, self.array[i].form, self.array[i].length, self.array[i].height,
             self.array[i].width) = offers[i]

    def slots(self):
        return [None if self.array[i].slot == SN_NONE else (self.array[i].slot, self.array[i].entry)
                for i in range(self.count)]

    def __dealloc__(self):
        free(self.array)


cdef sn_item *items_of(items) except NULL:
    """The records of an array of :data:`ITEM` that is not empty."""
    cdef uint8_t[::1] flat = items.view(np.uint8)
    return <sn_item *>&flat[0]
