#include "sn_prepare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_clock.h"
#include "../base/sn_status.h"
#include "../slots/sn_slots.h"
#include "sn_compare.h"
#include "sn_decoded.h"
#include "sn_read.h"

int sn_batch_item_needs_file(const sn_batch_item *place)
{
    return place->item.source == SN_STORAGE || place->check;
}

static void settle(sn_batch_item *place)
{
    atomic_store_explicit(&place->settled, 1, memory_order_release);
}

int sn_batch_item_was_fetched(const sn_context *context, const sn_batch_item *place)
{
    return context->is_external || place->is_remote;
}

static void keep_nothing(sn_batch_item *place)
{
    free(place->kept);
    place->kept = NULL;
}

void sn_batch_item_from_storage(sn_batch_item *place)
{
    if (place->is_remote) { /* the file of a place that is checked came for itself, and is good */
        place->file.length = 0;
        place->is_remote = 0;
    }
    keep_nothing(place);
    place->damaged = 1;
    place->item.source = SN_STORAGE;
    memset(&place->spent, 0, sizeof place->spent);
}

void sn_abandon(const sn_context *context, sn_batch_item *place, int status, const char *message)
{
    place->status = status;
    if (message && !place->message)
        place->message = strdup(message);
    keep_nothing(place); /* nothing of it is offered */
    if (place->item.target_slot != SN_NONE && !atomic_load(&context->segment->forked))
        sn_slot_abort(&context->segment->slots[place->item.target_slot]);
    settle(place);
}

void sn_abandon_unfinished(sn_batch *batch)
{
    for (uint32_t i = 0; i < batch->n_places; i++)
        if (batch->places[i].status == SN_E_FOR_PILLOW)
            sn_abandon(batch->context, &batch->places[i], SN_E_CLOSED, NULL);
}

/* Of the place alone: the seed of the epoch, or one for this draw of a sample that is drawn more than once. */
static uint64_t seed_of(const sn_context *context, const sn_batch_item *place)
{
    return place->turn ? context->seed ^ sn_mix64(place->turn) : context->seed;
}

static void start_rng(sn_rng *rng, const sn_context *context, const sn_batch_item *place)
{
    int staged = place->item.target_slot != SN_NONE;
    sn_rng_start(rng, seed_of(context, place), staged ? context->nonce : 0, context->epoch, place->item.sample,
                 SN_STREAM_AUGMENT);
}

/* Where the AUGMENTED picture is made: in the slot that was reserved for it, or in scratch memory. */
static uint8_t *pixels_for(sn_scratch *scratch, const sn_context *context, const sn_batch_item *place)
{
    if (place->item.target_slot != SN_NONE)
        return sn_slot_room(context->segment, &context->segment->slots[place->item.target_slot],
                            sn_context_copy_bytes(context));
    return sn_grow(&scratch->pixels, &scratch->pixels_capacity, sn_context_copy_bytes(context)) == 0 ? scratch->pixels
                                                                                                     : NULL;
}

/* Commit first: others may be waiting for it, and a held slot stays readable. Other hosts wait as well. */
static void deliver(const sn_context *context, sn_batch_item *place, const uint8_t *pixels, uint8_t *out)
{
    sn_rng rng;

    if (place->item.target_slot != SN_NONE)
        sn_slot_commit(context->segment, place->item.target_slot);
    if (place->item.role == SN_LEAVES_COPY)
        sn_hosts_put(context->hosts, context->copies, place->item.sample, pixels, sn_context_copy_bytes(context));
    sn_rng_start(&rng, seed_of(context, place), 0, context->epoch, place->item.sample, SN_STREAM_ERASE);
    sn_batch_write(context->plan, pixels, context->height, context->width, &rng, out);
    if (sn_plan_erasures(context->plan)) {
        size_t first = (size_t)(place - place->batch->places) * sn_plan_erasures(context->plan);

        sn_batch_draw_erasures(context->plan, context->height, context->width, &rng, place->batch->erasures + first);
    }
    if (context->beside_bytes) {
        const uint8_t *behind = pixels + (size_t)3 * context->height * context->width;
        uint8_t *beside = place->batch->beside + (size_t)(place - place->batch->places) * context->beside_bytes;

        if (context->plan->has_moves)
            memcpy(beside, behind, sizeof(sn_moves));
        else
            sn_batch_write_mask(context->plan, behind, context->height, context->width, beside);
    }
    place->status = 0;
    settle(place);
}

/* The boxes of the sample whose picture is augmented next. */
static void give_boxes(const sn_scratch *scratch, const sn_context *context, uint32_t sample)
{
    if (context->boxes) {
        const uint64_t *at = &context->box_at[sample];

        sn_codec_set_boxes(scratch->codec,
                           (sn_boxes){context->boxes + at[0], (uint32_t)(at[1] - at[0]), context->boxes_are_shares});
    }
}

/* Behind the pixels that the codec has just made: how it moved them. */
static void append_moves(const sn_scratch *scratch, const sn_context *context, uint8_t *pixels)
{
    if (context->plan->has_moves)
        memcpy(pixels + (size_t)3 * context->height * context->width, sn_codec_moves(scratch->codec), sizeof(sn_moves));
}

/* Keep a tight private copy of a DECODED picture, to be offered in the next draw. */
static void keep_decoded(const sn_context *context, sn_batch_item *place, const sn_view *picture)
{
    size_t length = sn_decoded_bytes(context, picture);
    uint32_t width = context->plan->is_sound ? 0 : picture->width;
    if (length == 0 || length > UINT32_MAX || picture->height > UINT16_MAX || width > UINT16_MAX)
        return;
    uint8_t *payload = malloc(length);
    if (!payload)
        return; /* not kept; the sample itself goes on */
    sn_decoded_copy(context, payload, picture);
    place->kept = payload;
    place->offer = (sn_offer){.sample = place->item.sample,
                              .length = (uint32_t)length,
                              .height = (uint16_t)picture->height,
                              .width = (uint16_t)width,
                              .form = SN_DECODED};
}

static void keep_encoded(sn_batch_item *place, const uint8_t *bytes, size_t length)
{
    _Static_assert(SN_MAX_FILE_BYTES <= UINT32_MAX, "an offer's length has 32 bits");
    uint8_t *payload = length ? malloc(length) : NULL;
    if (!payload)
        return;
    memcpy(payload, bytes, length);
    place->kept = payload;
    place->offer = (sn_offer){.sample = place->item.sample, .length = (uint32_t)length, .form = SN_ENCODED};
}

/* Whether the payload may be the cause. Of SN_E_FOR_PILLOW Pillow decides that: sn_batch_item_from_storage(). */
static int is_damage(int rc)
{
    return rc == SN_E_DECODE || rc == SN_E_TOO_LARGE || rc == SN_E_PLAN;
}

/* Prepare a sample, and keep the RECODED payload of its file, or note why it has none. */
static int augment_and_recode(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, sn_rng *rng,
                              const uint8_t *bytes, size_t length, uint8_t *pixels)
{
    uint64_t began = sn_clock_ns(CLOCK_THREAD_CPUTIME_ID), spent;
    sn_recoded_payload payload = {.room = sn_codec_most_recoded(length)};
    int rc;

    payload.bytes = payload.room <= UINT32_MAX ? malloc(payload.room) : NULL;
    if (!payload.bytes)
        return sn_codec_augment_encoded(scratch->codec, context->plan, rng, bytes, length, pixels);
    rc = sn_codec_augment_and_recode(scratch->codec, context->plan, rng, bytes, length, &payload, pixels);
    spent = sn_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
    if (rc == 0 && payload.rc == 0) {
        place->kept = payload.bytes;
        place->offer = (sn_offer){.sample = place->item.sample, .length = (uint32_t)payload.length, .form = SN_RECODED};
        place->spent.recode = spent;
        return 0;
    }
    free(payload.bytes);
    place->unrecoded = 1 + (payload.rc == SN_FULL   ? SN_UNRECODED_LARGE
                            : is_damage(payload.rc) ? SN_UNRECODED_DAMAGED
                                                    : SN_UNRECODED_KIND);
    return rc;
}

static int augment_recoded(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, sn_rng *rng,
                           const uint8_t *payload, size_t bytes, uint8_t *pixels)
{
    uint64_t began = sn_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    int rc = sn_codec_augment_recoded(scratch->codec, context->plan, rng, payload, bytes, pixels);

    place->spent.redraw = sn_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
    return rc;
}

static int augment_encoded(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, sn_rng *rng,
                           const uint8_t *bytes, size_t length, uint8_t *pixels)
{
    uint64_t began = sn_clock_ns(CLOCK_THREAD_CPUTIME_ID), between;
    sn_view decoded;
    int rc;

    if (place->item.keep == SN_DECODED) {
        rc = sn_codec_decode(scratch->codec, context->plan, bytes, length, &decoded);
        if (rc == 0)
            keep_decoded(context, place, &decoded);
        else if (rc != SN_E_TOO_LARGE || !context->plan->is_sound) /* of which a crop may not be too long */
            return rc;
    }
    if (place->item.keep == SN_RECODED)
        return augment_and_recode(scratch, context, place, rng, bytes, length, pixels);
    if (!place->kept) {
        rc = sn_codec_augment_encoded(scratch->codec, context->plan, rng, bytes, length, pixels);
        if (rc == 0) /* how fast another decoder's pictures are refused says nothing about preparing */
            place->spent.prepare = sn_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
        return rc;
    }
    /* The codec's own view ends with the next call. */
    decoded = sn_decoded_view(context, place->kept, decoded.height, decoded.width);
    between = sn_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    rc = sn_codec_augment_decoded(scratch->codec, context->plan, rng, &decoded, pixels);
    place->spent.decode = between - began;
    place->spent.augment = sn_clock_ns(CLOCK_THREAD_CPUTIME_ID) - between;
    return rc;
}

static int augment_decoded(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, const sn_slot *source,
                           sn_rng *rng, uint8_t *pixels, const char **why)
{
    sn_view decoded = sn_decoded_of_slot(context, source);

    if (sn_decoded_bytes(context, &decoded) != sn_slot_length(context->segment, source)) {
        *why = "its decoded payload is not the size that its record says";
        return SN_E_DECODE;
    }
    uint64_t began = sn_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    int rc = sn_codec_augment_decoded(scratch->codec, context->plan, rng, &decoded, pixels);
    place->spent.augment = sn_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
    return rc;
}

/* From the payload in a slot that the place is served from. 0, SN_E_FOR_PILLOW, or why not. */
static int prepare_from_slot(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, uint8_t *pixels,
                             const char **why)
{
    const sn_slot *source = &context->segment->slots[place->item.source_slot];
    sn_rng rng;

    start_rng(&rng, context, place);
    if (place->item.source == SN_DECODED)
        return augment_decoded(scratch, context, place, source, &rng, pixels, why);
    if (place->item.source == SN_RECODED)
        return augment_recoded(scratch, context, place, &rng, sn_slot_payload(context->segment, source),
                               sn_slot_length(context->segment, source), pixels);
    return augment_encoded(scratch, context, place, &rng, sn_slot_payload(context->segment, source),
                           sn_slot_length(context->segment, source), pixels);
}

static void exchange(sn_file *one, sn_file *other)
{
    sn_file file = *one;
    *one = *other;
    *other = file;
}

/* Have the file of a place in scratch memory. What was read ahead takes the place of what that held. */
static void load(sn_scratch *scratch, const sn_context *context, sn_batch_item *place)
{
    if (place->is_read) {
        exchange(&scratch->file, &place->file);
        place->is_read = 0;
        return;
    }
    place->spent.blocked += sn_fetch_item_file(context, place, scratch->is_interruptible, 0, &scratch->file);
}

/* From the file in scratch memory. */
static int prepare_loaded(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, uint8_t *pixels)
{
    const sn_file *file = &scratch->file;
    sn_rng rng;

    if (file->rc != 0)
        return file->rc;
    start_rng(&rng, context, place);
    return augment_encoded(scratch, context, place, &rng, file->bytes, file->length, pixels);
}

/* From the file. 0, SN_E_FOR_PILLOW, SN_MISS, or why not. */
static int prepare_from_file(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, uint8_t *pixels,
                             const char **why)
{
    const sn_file *file = &scratch->file;

    if (context->is_external && !place->is_read)
        return SN_MISS;
    load(scratch, context, place);
    int rc = prepare_loaded(scratch, context, place, pixels);
    if (file->is_remote && is_damage(rc)) { /* storage may have failed the host that left it there */
        keep_nothing(place);
        if (context->is_external) {
            place->skips_remote = 1;
            memset(&place->spent, 0, sizeof place->spent);
            return SN_MISS;
        }
        sn_read_file(context, place->item.sample, scratch->is_interruptible, 0, &scratch->file);
        rc = prepare_loaded(scratch, context, place, pixels);
    }
    place->is_remote = file->is_remote != 0;
    place->read_bytes = file->is_remote ? 0 : (uint32_t)file->length;
    if (file->rc != 0) {
        *why = file->why ? file->why : strerror(-file->rc);
        place->is_of_mask = file->is_of_mask != 0;
    }
    if ((rc == 0 || rc == SN_E_FOR_PILLOW) && !place->kept &&
        (place->item.keep == SN_ENCODED || place->item.keep == SN_RECODED))
        keep_encoded(place, file->bytes, file->length);
    if (rc == SN_E_FOR_PILLOW && sn_batch_item_was_fetched(context, place))
        exchange(&scratch->file, &place->file);
    return rc;
}

/* From the copy that another host has left. */
static void use_copy(const sn_context *context, sn_batch_item *place, uint8_t *out)
{
    const uint8_t *pixels = place->file.bytes;

    if (place->item.target_slot != SN_NONE) {
        uint8_t *staged = sn_slot_room(context->segment, &context->segment->slots[place->item.target_slot],
                                       sn_context_copy_bytes(context));
        memcpy(staged, pixels, sn_context_copy_bytes(context));
        pixels = staged;
    }
    place->is_read = 0;
    place->is_copy = 1;
    if (context->notes)
        context->notes[place->item.sample].form = SN_FROM_HOST;
    deliver(context, place, pixels, out);
}

/* A copy was made here, since `began`. */
static void note_made(const sn_context *context, const sn_batch_item *place, uint64_t began)
{
    if (place->item.role != SN_ALONE)
        sn_hosts_made(context->hosts, sn_now_ns() - began);
}

static int prepare(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, uint8_t *out)
{
    uint64_t began = sn_now_ns();
    const char *why = NULL; /* NULL: the codec has the reason */
    int rc = SN_E_DECODE;

    if (place->is_read && place->file.is_copy) {
        use_copy(context, place, out);
        return 0;
    }
    sn_compare_source(scratch, context, place);
    if (place->item.source == SN_AUGMENTED) {
        const sn_slot *copy = &context->segment->slots[place->item.source_slot];
        if (sn_slot_length(context->segment, copy) >= sn_context_copy_bytes(context)) {
            deliver(context, place, sn_slot_payload(context->segment, copy), out);
            return 0;
        }
        sn_batch_item_from_storage(place); /* its record was overwritten */
    }
    uint8_t *pixels = pixels_for(scratch, context, place);
    if (!pixels) {
        sn_abandon(context, place, -ENOMEM, NULL);
        return 0;
    }
    give_boxes(scratch, context, place->item.sample);
    if (place->item.source != SN_STORAGE) {
        rc = prepare_from_slot(scratch, context, place, pixels, &why);
        if (is_damage(rc))
            sn_batch_item_from_storage(place);
        else if (rc == SN_E_FOR_PILLOW && place->item.source == SN_RECODED)
            place->item.source = SN_STORAGE; /* a limit of Pillow's, which this job has set, goes for the file */
    }
    if (place->item.source == SN_STORAGE)
        rc = prepare_from_file(scratch, context, place, pixels, &why);

    if (rc == SN_MISS)
        return SN_MISS;
    if (rc == 0) {
        append_moves(scratch, context, pixels);
        note_made(context, place, began);
        deliver(context, place, pixels, out);
    } else if (rc == SN_E_FOR_PILLOW || (rc == -EINTR && scratch->is_interruptible))
        place->status = rc; /* Pillow's work: the slot stays reserved for sn_finish(); or to be done again */
    else {
        place->is_of_mask |= !why && sn_codec_is_of_mask(scratch->codec);
        sn_abandon(context, place, rc, why ? why : sn_codec_message(scratch->codec));
    }
    return 0;
}

/* Whether what the place was made of, or made in, may have become zeroes meanwhile. If so it has no slot any more. */
static int was_cut(const sn_context *context, sn_batch_item *place, int has_slot)
{
    if (!has_slot || !atomic_load_explicit(&context->segment->guarded.is_cut, memory_order_acquire))
        return 0;
    place->item.target_slot = SN_NONE;
    return 1;
}

int sn_prepare(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, uint8_t *out)
{
    int has_slot = place->item.source != SN_STORAGE || place->item.target_slot != SN_NONE;
    int rc = prepare(scratch, context, place, out);

    if (SN_RARELY(was_cut(context, place, has_slot)) && rc == 0 && place->status == 0) {
        sn_batch_item_from_storage(place);
        rc = prepare(scratch, context, place, out);
    }
    return rc;
}

void sn_finish(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, const sn_view *picture,
               uint8_t *out)
{
    int has_slot = place->item.target_slot != SN_NONE;
    sn_view decoded;
    sn_rng rng;

    uint8_t *pixels = pixels_for(scratch, context, place);
    give_boxes(scratch, context, place->item.sample);
    int rc = pixels ? sn_codec_head(scratch->codec, context->plan, picture, &decoded) : -ENOMEM;
    if (rc == 0) {
        sn_compare_decoded(context, place, &decoded);
        /* The codec's own view ends with its next call. */
        sn_file *file = &scratch->file; /* its memory */
        rc = sn_grow(&file->bytes, &file->capacity, sn_decoded_bytes(context, &decoded));
        if (rc == 0) {
            sn_decoded_copy(context, file->bytes, &decoded);
            decoded = sn_decoded_view(context, file->bytes, decoded.height, decoded.width);
            start_rng(&rng, context, place);
            rc = sn_codec_augment_decoded(scratch->codec, context->plan, &rng, &decoded, pixels);
        }
    }
    if (rc == 0 && place->item.keep == SN_DECODED)
        keep_decoded(context, place, &decoded);
    if (rc == 0) {
        append_moves(scratch, context, pixels);
        deliver(context, place, pixels, out);
    } else {
        sn_abandon(context, place, rc, sn_codec_message(scratch->codec));
    }
    if (SN_RARELY(was_cut(context, place, has_slot)) && rc == 0) {
        keep_nothing(place);
        sn_finish(scratch, context, place, picture, out);
    }
}
