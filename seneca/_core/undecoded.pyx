"""The border to csrc/pool for pictures that are left to Pillow: their bytes out, and their pixels in. Decides nothing.

A batch is complete when all its places are, but for these. They are decoded elsewhere, and each is then finished or
abandoned.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t

from seneca._core.codec cimport sn_view
from seneca._core.codes cimport SN_E_CLOSED, SN_E_FOR_PILLOW
from seneca._core.pool cimport (
    Batch,
    sn_abandon,
    sn_finish,
    sn_batch_item,
    sn_batch_item_from_storage,
    sn_batch_item_was_fetched,
    sn_pool_scratch,
)
from seneca._core.segment cimport SN_ENCODED, sn_segment, sn_slot, sn_slot_length, sn_slot_payload

__all__ = ["abandon", "distrust", "encoded", "finish", "finish_sound", "undecoded"]


cdef sn_batch_item *place_of(Batch batch, uint32_t position) except NULL:
    if position >= batch.handle.n_places:
        raise IndexError(position)
    return &batch.handle.places[position]


def undecoded(Batch batch not None):
    """Positions whose picture is left to Pillow: decode what :func:`encoded` has, or the file, and call :func:`finish`."""
    cdef uint32_t i
    return [i for i in range(batch.handle.n_places) if batch.handle.places[i].status == SN_E_FOR_PILLOW]


def encoded(Batch batch not None, uint32_t position):
    """The bytes of a file that :func:`undecoded` named; None: they are not at hand any more."""
    cdef sn_batch_item *place = place_of(batch, position)
    cdef sn_segment *segment
    cdef sn_slot *source
    if place.status != SN_E_FOR_PILLOW:
        raise ValueError(f"position {position} is finished")
    if place.kept != NULL:
        return PyBytes_FromStringAndSize(<char *>place.kept, place.offer.length)
    if sn_batch_item_was_fetched(batch.handle.context, place) and place.file.length:
        return PyBytes_FromStringAndSize(<char *>place.file.bytes, place.file.length)
    if place.item.source != SN_ENCODED:
        return None
    with batch.stream.lock:
        batch.stream.open()
        segment = batch.handle.context.segment
        source = &segment.slots[place.item.source_slot]  # held until the place is settled
        return PyBytes_FromStringAndSize(
            <char *>sn_slot_payload(segment, source), sn_slot_length(segment, source)
        )


def distrust(Batch batch not None, uint32_t position):
    """Reject undecodable bytes of :func:`encoded`. True: they came from a cache, and the file may be good."""
    cdef sn_batch_item *place = place_of(batch, position)
    if not place.is_remote and (place.kept != NULL or place.item.source != SN_ENCODED):
        return False
    sn_batch_item_from_storage(place)
    return True


def finish(Batch batch not None, uint32_t position, decoded):
    """The rest of the way for a picture that was decoded elsewhere: uint8 (height, width, 3).

    Of a pair ``(picture, mask)``, whose mask is uint8 (height, width).
    """
    cdef sn_view view
    cdef const uint8_t[:, ::1] mask
    cdef const uint8_t[:, :, ::1] picture
    is_pair = isinstance(decoded, tuple)
    if batch.handle.context.plan.is_sound or is_pair != bool(batch.handle.context.plan.is_pair):
        raise TypeError("a pair is (picture, mask), and nothing else is; finish_sound takes sounds")
    picture = decoded[0] if is_pair else decoded
    view.pixels = &picture[0, 0, 0]
    view.height = <uint32_t>picture.shape[0]
    view.width = <uint32_t>picture.shape[1]
    view.stride = <size_t>picture.shape[1] * 3
    view.mask = NULL
    view.rate = 0
    if is_pair:
        mask = decoded[1]
        if mask.shape[0] != picture.shape[0] or mask.shape[1] != picture.shape[1]:
            raise ValueError(f"the mask has shape {decoded[1].shape}, and its picture {decoded[0].shape}")
        view.mask = &mask[0, 0]
    finish_view(batch, position, &view)


def finish_sound(Batch batch not None, uint32_t position, const float[:, ::1] frames, uint32_t rate):
    """The same for a sound: float32 ``(channels, frames)``, ``rate`` frames a second."""
    cdef sn_view view
    if not batch.handle.context.plan.is_sound:
        raise TypeError("this is a batch of pictures")
    if frames.shape[0] == 0 or frames.shape[1] >= 1 << 32:
        raise ValueError(f"expected float32 (channels, frames), but the shape is {frames.shape[0], frames.shape[1]}")
    view.pixels = <const uint8_t *>&frames[0, 0] if frames.shape[1] else NULL
    view.height = <uint32_t>frames.shape[0]
    view.width = <uint32_t>frames.shape[1]
    view.stride = <size_t>frames.shape[1] * sizeof(float)
    view.mask = NULL
    view.rate = rate
    finish_view(batch, position, &view)


cdef int finish_view(Batch batch, uint32_t position, const sn_view *view) except -1:
    cdef sn_batch_item *place = place_of(batch, position)
    with batch.stream.lock:
        batch.stream.open()
        with nogil:
            sn_finish(sn_pool_scratch(batch.stream.pool), batch.handle.context, place, view,
                      batch.handle.out + position * batch.handle.context.item_bytes)
    return 0


def abandon(Batch batch not None, uint32_t position):
    """Give up a position that :func:`undecoded` named."""
    with batch.stream.lock:
        batch.stream.open()
        sn_abandon(batch.handle.context, place_of(batch, position), SN_E_CLOSED, NULL)
