#include "sn_compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_status.h"
#include "../slots/sn_slots.h"
#include "../store/sn_distrust.h"
#include "sn_decoded.h"
#include "sn_read.h"

static int is_payload(const sn_slot *slot, const sn_segment *segment, const uint8_t *bytes, size_t length)
{
    return sn_slot_length(segment, slot) == length && memcmp(sn_slot_payload(segment, slot), bytes, length) == 0;
}

enum comparison { SAME, DIFFERENT, NOT_COMPARED };

static enum comparison found(int is_same)
{
    return is_same ? SAME : DIFFERENT;
}

/* A file has one RECODED payload, whoever makes it. */
static enum comparison compare_recoded(sn_scratch *scratch, const sn_slot *slot, const sn_segment *segment,
                                       const uint8_t *bytes, size_t length)
{
    sn_recoded_payload payload = {malloc(slot->length), slot->length, 0, -ENOMEM};
    enum comparison outcome;

    if (payload.bytes)
        sn_codec_recode(scratch->codec, bytes, length, &payload);
    outcome = payload.rc == -ENOMEM
                  ? NOT_COMPARED
                  : found(payload.rc == 0 && is_payload(slot, segment, payload.bytes, payload.length));
    free(payload.bytes);
    return outcome;
}

/* Compare the payload that a place is served from with what its file comes to now. That is not possible if the file cannot
 * be read, or is Pillow's to decode. An external one was fetched for that. */
static enum comparison compare(sn_scratch *scratch, const sn_context *context, const sn_batch_item *place)
{
    const sn_slot *slot = &context->segment->slots[place->item.source_slot];
    const sn_file *file = context->is_external ? &place->file : &scratch->file;
    sn_view decoded;

    if (!context->is_external)
        sn_read_file(context, place->item.sample, scratch->is_interruptible, 0, &scratch->file);
    else if (!place->is_read)
        return NOT_COMPARED;
    if (file->rc != 0)
        return NOT_COMPARED;
    if (place->item.source == SN_ENCODED)
        return found(is_payload(slot, context->segment, file->bytes, file->length));
    if (place->item.source == SN_RECODED)
        return compare_recoded(scratch, slot, context->segment, file->bytes, file->length);
    if (sn_codec_decode(scratch->codec, context->plan, file->bytes, file->length, &decoded) != 0)
        return NOT_COMPARED;
    return found(sn_decoded_is(context, slot, &decoded));
}

/* The file has changed: the cache has payloads of its old content, and no job disagrees. The segment is
 * given up, and the next epoch begins another. */
static void note_suspect(const sn_context *context, const sn_batch_item *place, enum comparison outcome)
{
    uint32_t sample = place->item.sample;

    if (outcome == SAME)
        atomic_store_explicit(&context->changes[sample], SN_COMPARED, memory_order_relaxed);
    else if (outcome == DIFFERENT)
        sn_distrust_report(context->segment, context->job_key, sample, SN_STORAGE);
}

void sn_compare_source(sn_scratch *scratch, const sn_context *context, sn_batch_item *place)
{
    if (place->item.source == SN_STORAGE)
        return;
    enum comparison outcome = place->check ? compare(scratch, context, place) : NOT_COMPARED;
    if (place->is_suspect) {
        note_suspect(context, place, outcome);
    } else if (outcome == DIFFERENT) {
        sn_distrust_report(context->segment, context->job_key, place->item.sample, (enum sn_form)place->item.source);
        place->different = 1;
    }
    if ((place->is_suspect && outcome != SAME) || sn_is_distrusted(context->segment))
        place->item.source = SN_STORAGE;
}

void sn_compare_decoded(const sn_context *context, const sn_batch_item *place, const sn_view *decoded)
{
    const sn_slot *slot = place->is_suspect ? &context->segment->slots[place->item.source_slot] : NULL;

    if (slot && place->item.source == SN_STORAGE && slot->form == SN_DECODED)
        note_suspect(context, place, found(sn_decoded_is(context, slot, decoded)));
}
