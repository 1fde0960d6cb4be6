/*
 * test_codec.c -- codecs in many threads make of a file what one codec makes of it alone.
 *
 *   files x plans --6 threads, each with a codec of its own, in an order of its own--> digests
 *                 --1 thread, a new codec for each-->                              the same
 *
 * A codec that carries something over from the last picture, or shares something with another
 * codec, gives another digest; a sanitizer sees where.
 */
#include <pthread.h>

#include "base/sn_status.h"
#include "check.h"
#include "codec/sn_codec.h"
#include "pictures.h"
#include "plans.h"

#define N_THREADS 6
#define DAMAGED_EACH 3 /* truncated, and as many flipped ... */
#define LARGE 100000   /* ... but none where there are more pixels, which takes long */
#define MAX_PIXELS 1000000

static const uint32_t sizes[][2] = {{1, 1},   {1, 600}, {300, 1},  {7, 13},   {8, 8},
                                    {16, 17}, {33, 64}, {75, 100}, {120, 97}, {400, 600}};
static const uint8_t samplings[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}};

#define N_SIZES (sizeof sizes / sizeof *sizes)
#define N_SAMPLINGS (sizeof samplings / sizeof *samplings)
#define N_WHOLE (N_SIZES * N_SAMPLINGS)
#define MAX_FILES (N_WHOLE * (1 + 2 * DAMAGED_EACH))
#define MAX_CASES (MAX_FILES * N_PLANS)

static picture_file files[MAX_FILES]; /* the whole ones first */
static uint32_t n_files, n_cases;     /* a case: a file and a plan */
static sn_plan plans[N_PLANS];
static uint64_t digests[N_THREADS][MAX_CASES];
static uint64_t seed;
static pthread_barrier_t together;

/* All combinations of size and sampling, with the rest drawn. */
static void make_files(void)
{
    sn_rng rng;
    uint32_t n = 0;

    n_files = N_WHOLE;
    for (uint32_t size = 0; size < N_SIZES; size++)
        for (uint32_t sampling = 0; sampling < N_SAMPLINGS; sampling++, n++) {
            picture_kind kind = {.height = sizes[size][0], .width = sizes[size][1], .across = 1, .down = 1};
            int damaged = kind.height * kind.width > LARGE ? 0 : DAMAGED_EACH;

            sn_rng_start(&rng, seed, 0, 0, n, SN_STREAM_ORDER);
            kind.colour = (n + size) % PICTURE_COLOURS;
            kind.progressive = sn_rng_below(&rng, 3) == 0;
            kind.restart = sn_rng_below(&rng, 3) == 0 ? 1 + (uint8_t)sn_rng_below(&rng, 5) : 0;
            kind.quality = 20 + (uint8_t)sn_rng_below(&rng, 80);
            if (kind.colour != PICTURE_GREY && kind.colour != PICTURE_RGB && kind.colour != PICTURE_CMYK) {
                kind.across = samplings[sampling][0];
                kind.down = samplings[sampling][1];
            }
            files[n] = picture_make(&kind, &rng);
            while (damaged--) {
                files[n_files++] = picture_truncated(files[n], &rng);
                files[n_files++] = picture_flipped(files[n], &rng);
            }
        }
    n_cases = n_files * N_PLANS;
}

static void add(uint64_t *digest, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;

    *digest = sn_mix64(*digest ^ length);
    for (; length > 0;) {
        uint64_t word = 0;
        size_t n = length < sizeof word ? length : sizeof word;

        memcpy(&word, at, n);
        *digest = sn_mix64(*digest ^ word);
        at += n;
        length -= n;
    }
}

static void add_outcome(uint64_t *digest, const sn_codec *codec, int rc)
{
    const char *message = sn_codec_message(codec);

    add(digest, &rc, sizeof rc);
    if (rc != 0) {
        CHECK(*message);
        add(digest, message, strlen(message));
    }
}

static uint8_t *room(size_t bytes)
{
    uint8_t *made = malloc(bytes);

    CHECK(made);
    return made;
}

/* A view's pixels, in memory that ends with them. */
static sn_view tight(const sn_view *view)
{
    size_t row = (size_t)3 * view->width;
    uint8_t *pixels = room(row * view->height);

    for (uint32_t y = 0; y < view->height; y++)
        memcpy(pixels + y * row, view->pixels + y * view->stride, row);
    return (sn_view){pixels, view->height, view->width, row, NULL, 0};
}

static void add_view(uint64_t *digest, const sn_view *view)
{
    for (uint32_t y = 0; y < view->height; y++)
        add(digest, view->pixels + y * view->stride, (size_t)3 * view->width);
}

/* An AUGMENTED picture, and the batch that is made of it. */
static void add_augmented(uint64_t *digest, const sn_plan *plan, uint32_t i, const uint8_t *pixels, uint32_t height,
                          uint32_t width)
{
    size_t bytes = plan_item_bytes(plan, height, width);
    uint8_t *item = room(bytes);
    sn_rng rng;

    add(digest, pixels, (size_t)3 * height * width);
    sn_rng_start(&rng, seed, 0, 0, i, SN_STREAM_ERASE);
    sn_batch_write(plan, pixels, height, width, &rng, item);
    add(digest, item, bytes);
    free(item);
}

/* All that a codec makes of one file, as a number; *failed says whether anything did. */
static uint64_t digest_of(sn_codec *codec, uint32_t i, int *failed)
{
    const picture_file *file = &files[i / N_PLANS];
    const sn_plan *plan = &plans[i % N_PLANS];
    uint64_t digest = 0;
    uint32_t height = 0, width = 0, out_height, out_width;
    sn_rng rng;
    sn_view view, decoded = {0};
    uint8_t *pixels;
    int rc;

    CHECK_EQUAL(sn_plan_output_size(plan, &out_height, &out_width), 0, "plan %u", i % (uint32_t)N_PLANS);
    pixels = room((size_t)3 * out_height * out_width);
    *failed = 0;

    rc = sn_codec_probe(codec, file->bytes, file->length, &height, &width);
    add_outcome(&digest, codec, rc);
    if (rc == 0) { /* some rectangle of it */
        uint32_t top, left;

        sn_rng_start(&rng, seed, 0, 0, i, SN_STREAM_CHOOSE);
        top = sn_rng_below(&rng, height);
        left = sn_rng_below(&rng, width);
        rc = sn_codec_decode_region(codec, file->bytes, file->length, top, left, 1 + sn_rng_below(&rng, height - top),
                                    1 + sn_rng_below(&rng, width - left), &view);
        add_outcome(&digest, codec, rc);
        if (rc == 0)
            add_view(&digest, &view);
    }
    *failed |= rc != 0;

    sn_rng_start(&rng, seed, 0, 0, i, SN_STREAM_AUGMENT);
    rc = sn_codec_augment_encoded(codec, plan, &rng, file->bytes, file->length, pixels);
    add_outcome(&digest, codec, rc);
    if (rc == 0)
        add_augmented(&digest, plan, i, pixels, out_height, out_width);
    *failed |= rc != 0;

    rc = sn_codec_decode(codec, plan, file->bytes, file->length, &view);
    add_outcome(&digest, codec, rc);
    *failed |= rc != 0;
    if (rc == 0) {
        decoded = tight(&view);
        add_view(&digest, &decoded);
        sn_rng_start(&rng, seed, 0, 0, i, SN_STREAM_AUGMENT);
        rc = sn_codec_augment_decoded(codec, plan, &rng, &decoded, pixels);
        add_outcome(&digest, codec, rc);
        if (rc == 0)
            add_augmented(&digest, plan, i, pixels, out_height, out_width);
        *failed |= rc != 0;
    }
    free((uint8_t *)decoded.pixels);
    free(pixels);
    return digest;
}

static void *work(void *argument)
{
    uint64_t *own = argument;
    uint32_t thread = (uint32_t)((own - digests[0]) / (ptrdiff_t)MAX_CASES);
    uint32_t *order = (uint32_t *)room(n_cases * sizeof *order);
    sn_codec *codec = sn_codec_new(MAX_PIXELS);
    sn_rng rng;
    int failed;

    CHECK(codec);
    sn_rng_start(&rng, seed, 0, 1, thread, SN_STREAM_ORDER);
    for (uint32_t i = 0; i < n_cases; i++) {
        uint32_t j = sn_rng_below(&rng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    pthread_barrier_wait(&together);
    for (uint32_t i = 0; i < n_cases; i++)
        own[order[i]] = digest_of(codec, order[i], &failed);
    sn_codec_free(codec);
    free(order);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[N_THREADS];
    uint32_t n_failed = 0, n_damaged;

    seed = check_seed(argc, argv);
    make_files();
    plans_make(plans);
    pthread_barrier_init(&together, NULL, N_THREADS);
    /* The threads first: what is decided once a process has to be decided by all of them. */
    for (int t = 0; t < N_THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, work, digests[t]) == 0);
    for (int t = 0; t < N_THREADS; t++)
        pthread_join(threads[t], NULL);

    for (uint32_t i = 0; i < n_cases; i++) {
        sn_codec *codec = sn_codec_new(MAX_PIXELS);
        int failed;
        uint64_t alone;

        CHECK(codec);
        alone = digest_of(codec, i, &failed);
        sn_codec_free(codec);
        CHECK(!failed || i / N_PLANS >= N_WHOLE);
        n_failed += (uint32_t)failed;
        for (int t = 0; t < N_THREADS; t++)
            CHECK_EQUAL(digests[t][i], alone, "thread %d, file %u, plan %u", t, i / (uint32_t)N_PLANS,
                        i % (uint32_t)N_PLANS);
    }
    n_damaged = (n_files - N_WHOLE) * N_PLANS; /* where all or none failed, it said nothing */
    CHECK(n_failed > n_damaged / 4 && n_failed < n_damaged - n_damaged / 20);
    printf("test_codec: %u files, %u of %u cases failed as they should\n", n_files, n_failed, n_cases);
    for (uint32_t i = 0; i < n_files; i++)
        picture_free(&files[i]);
    pthread_barrier_destroy(&together);
    return 0;
}
