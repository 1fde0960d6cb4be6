#include "sn_prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../base/sn_status.h"
#include "../slots/sn_slots.h"

#define MAX_FILE_BYTES ((size_t)1 << 30)

int sn_bench_init(sn_bench *bench, uint64_t max_pixels)
{
    memset(bench, 0, sizeof *bench);
    bench->codec = sn_codec_new(max_pixels);
    return bench->codec ? 0 : -ENOMEM;
}

void sn_bench_free(sn_bench *bench)
{
    sn_codec_free(bench->codec);
    free(bench->bytes);
    free(bench->pixels);
}

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int grow(uint8_t **buffer, size_t *capacity, size_t needed)
{
    if (needed <= *capacity)
        return 0;
    size_t size = needed + needed / 2;
    uint8_t *larger = realloc(*buffer, size);
    if (!larger)
        return -ENOMEM;
    *buffer = larger;
    *capacity = size;
    return 0;
}

/* Read the whole file into private memory: a mapping would fault if it shrank meanwhile. The
 * size that fstat tells is a hint; the end of the file is where read() says so. */
static int read_file(sn_bench *bench, const char *path, size_t *length)
{
    struct stat file;
    int rc = 0;
    size_t got = 0;

    *length = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &file) != 0) {
        rc = -errno;
        goto out;
    }
    rc = grow(&bench->bytes, &bench->capacity, (size_t)file.st_size + 1);
    while (rc == 0) {
        ssize_t n = read(fd, bench->bytes + got, bench->capacity - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = -errno;
        if (n <= 0)
            break;
        got += (size_t)n;
        if (got > MAX_FILE_BYTES)
            rc = -EFBIG;
        else if (got == bench->capacity)
            rc = grow(&bench->bytes, &bench->capacity, got + 1);
    }
out:
    close(fd);
    *length = got;
    return rc;
}

static void settle(sn_place *place)
{
    atomic_store_explicit(&place->settled, 1, memory_order_release);
}

void sn_abandon(const sn_trip *trip, sn_place *place, int status, const char *message)
{
    place->status = status;
    if (message && !place->message)
        place->message = strdup(message);
    free(place->kept); /* nothing of it is offered */
    place->kept = NULL;
    if (place->item.target_slot != SN_NONE && !atomic_load(&trip->segment->forked))
        sn_slot_abort(&trip->segment->slots[place->item.target_slot]);
    settle(place);
}

static void start_rng(sn_rng *rng, const sn_trip *trip, const sn_place *place)
{
    int staged = place->item.target_slot != SN_NONE;
    sn_rng_start(rng, trip->seed, staged ? trip->nonce : 0, trip->epoch, place->item.sample, SN_STREAM_AUGMENT);
}

/* Where the AUGMENTED picture is made: in the slot that was reserved for it, or on the bench. */
static uint8_t *pixels_for(sn_bench *bench, const sn_trip *trip, const sn_place *place)
{
    if (place->item.target_slot != SN_NONE)
        return sn_slot_payload(trip->segment, &trip->segment->slots[place->item.target_slot]);
    size_t needed = (size_t)3 * trip->height * trip->width;
    return grow(&bench->pixels, &bench->pixels_capacity, needed) == 0 ? bench->pixels : NULL;
}

/* Commit first: others may be waiting for it, and a held slot stays readable. */
static void deliver(const sn_trip *trip, sn_place *place, const uint8_t *pixels, uint8_t *out)
{
    sn_rng rng;

    if (place->item.target_slot != SN_NONE)
        sn_slot_commit(trip->segment, place->item.target_slot);
    sn_rng_start(&rng, trip->seed, 0, trip->epoch, place->item.sample, SN_STREAM_ERASE);
    sn_batch_write(trip->plan, pixels, trip->height, trip->width, &rng, out);
    place->status = 0;
    settle(place);
}

/* Keep a tight private copy of a DECODED picture, to be offered in the next draw. */
static void keep_decoded(sn_place *place, const sn_view *picture)
{
    size_t row = (size_t)3 * picture->width, length = row * picture->height;
    if (length == 0 || length > UINT32_MAX || picture->height > UINT16_MAX || picture->width > UINT16_MAX)
        return;
    uint8_t *payload = malloc(length);
    if (!payload)
        return; /* not kept; the sample itself goes on */
    for (uint32_t y = 0; y < picture->height; y++)
        memcpy(payload + y * row, picture->pixels + y * picture->stride, row);
    place->kept = payload;
    place->offer = (sn_offer){.sample = place->item.sample, .length = (uint32_t)length,
                              .height = (uint16_t)picture->height, .width = (uint16_t)picture->width,
                              .form = SN_DECODED};
}

static void keep_encoded(sn_place *place, const uint8_t *bytes, size_t length)
{
    _Static_assert(MAX_FILE_BYTES <= UINT32_MAX, "an offer's length has 32 bits");
    uint8_t *payload = length ? malloc(length) : NULL;
    if (!payload)
        return;
    memcpy(payload, bytes, length);
    place->kept = payload;
    place->offer = (sn_offer){.sample = place->item.sample, .length = (uint32_t)length, .form = SN_ENCODED};
}

static int augment_encoded(sn_bench *bench, const sn_trip *trip, sn_place *place, sn_rng *rng,
                           const uint8_t *bytes, size_t length, uint8_t *pixels)
{
    uint64_t began = now(CLOCK_THREAD_CPUTIME_ID), between;
    sn_view decoded;
    int rc;

    if (place->item.keep == SN_DECODED) {
        rc = sn_codec_decode(bench->codec, trip->plan, bytes, length, &decoded);
        if (rc != 0)
            return rc;
        keep_decoded(place, &decoded);
    }
    if (!place->kept) {
        rc = sn_codec_augment_encoded(bench->codec, trip->plan, rng, bytes, length, pixels);
        if (rc == 0) /* a look at what another decoder has to prepare tells nothing of preparing */
            place->spent.prepare = now(CLOCK_THREAD_CPUTIME_ID) - began;
        return rc;
    }
    decoded.pixels = place->kept; /* the codec's own view ends with the next call */
    decoded.stride = (size_t)3 * decoded.width;
    between = now(CLOCK_THREAD_CPUTIME_ID);
    rc = sn_codec_augment_decoded(bench->codec, trip->plan, rng, &decoded, pixels);
    place->spent.decode = between - began;
    place->spent.augment = now(CLOCK_THREAD_CPUTIME_ID) - between;
    return rc;
}

void sn_prepare(sn_bench *bench, const sn_trip *trip, sn_place *place, uint8_t *out)
{
    const sn_item *item = &place->item;
    const sn_slot *source = item->source_slot != SN_NONE ? &trip->segment->slots[item->source_slot] : NULL;
    const char *path = trip->paths + trip->path_at[item->sample];
    sn_rng rng;
    int rc;

    if (item->source == SN_AUGMENTED) {
        deliver(trip, place, sn_slot_payload(trip->segment, source), out);
        return;
    }
    uint8_t *pixels = pixels_for(bench, trip, place);
    if (!pixels) {
        sn_abandon(trip, place, -ENOMEM, NULL);
        return;
    }
    start_rng(&rng, trip, place);
    if (item->source == SN_DECODED) {
        sn_view decoded = {sn_slot_payload(trip->segment, source), source->height, source->width,
                           (size_t)3 * source->width};
        if ((size_t)decoded.height * decoded.stride != source->length) {
            sn_abandon(trip, place, SN_E_DECODE, "its decoded payload is not the size that its record says");
            return;
        }
        uint64_t began = now(CLOCK_THREAD_CPUTIME_ID);
        rc = sn_codec_augment_decoded(bench->codec, trip->plan, &rng, &decoded, pixels);
        place->spent.augment = now(CLOCK_THREAD_CPUTIME_ID) - began;
    } else {
        const uint8_t *bytes;
        size_t length;
        if (item->source == SN_ENCODED) {
            bytes = sn_slot_payload(trip->segment, source);
            length = source->length;
            rc = 0;
        } else {
            uint64_t began = now(CLOCK_MONOTONIC);
            rc = read_file(bench, path, &length);
            place->spent.read = now(CLOCK_MONOTONIC) - began;
            bytes = bench->bytes;
            place->read_bytes = (uint32_t)length;
            if (rc != 0) {
                sn_abandon(trip, place, rc, strerror(-rc));
                return;
            }
        }
        rc = augment_encoded(bench, trip, place, &rng, bytes, length, pixels);
        if (rc == SN_E_NOT_JPEG) { /* Pillow's work: the slot stays reserved for sn_finish() */
            place->status = rc;
            rc = 0;
        }
        if (rc == 0 && item->source == SN_STORAGE && item->keep == SN_ENCODED)
            keep_encoded(place, bytes, length);
        if (place->status == SN_E_NOT_JPEG)
            return;
    }
    if (rc == 0)
        deliver(trip, place, pixels, out);
    else
        sn_abandon(trip, place, rc, sn_codec_message(bench->codec));
}

void sn_finish(sn_bench *bench, const sn_trip *trip, sn_place *place, const sn_view *picture, uint8_t *out)
{
    sn_view decoded;
    sn_rng rng;

    uint8_t *pixels = pixels_for(bench, trip, place);
    int rc = pixels ? sn_codec_head(bench->codec, trip->plan, picture, &decoded) : -ENOMEM;
    if (rc == 0) {
        /* The codec's own view ends with its next call. */
        size_t row = (size_t)3 * decoded.width;
        rc = grow(&bench->bytes, &bench->capacity, row * decoded.height);
        if (rc == 0) {
            for (uint32_t y = 0; y < decoded.height; y++)
                memcpy(bench->bytes + y * row, decoded.pixels + y * decoded.stride, row);
            decoded.pixels = bench->bytes;
            decoded.stride = row;
            start_rng(&rng, trip, place);
            rc = sn_codec_augment_decoded(bench->codec, trip->plan, &rng, &decoded, pixels);
        }
    }
    if (rc == 0 && place->item.keep == SN_DECODED)
        keep_decoded(place, &decoded);
    if (rc == 0)
        deliver(trip, place, pixels, out);
    else
        sn_abandon(trip, place, rc, sn_codec_message(bench->codec));
}
