/*
 * test_pool.c -- iterators with pools of threads share one segment; each sample comes once a member
 * and epoch, with the pixels that a lone codec makes of it.
 *
 *   files (JPEG, left to Pillow, damaged, missing) --> 10 iterators, each a thread with a member and a pool
 *       of its own: prefetch, deliver in any order, drop amid the work, close with batches under way, and
 *       with threads that hang in a read and come back when the others have gone on; the number of
 *       threads that prepare changes; in every other epoch storage is slow, and files are read ahead;
 *       three iterators' files are external: threads of the test fetch them, and some come back too late;
 *       one iterator is given its samples, at random and some of them often; for one the ctimes of all files have moved;
 *       two begin some epochs early: they give way to another, bring files, and deliver what is complete
 *
 * What is prepared for others is made with its maker's numbers: such a copy has to be what one of the
 * other jobs makes in one of its epochs.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/sn_status.h"
#include "cache.h"
#include "check.h"
#include "sample_files.h"
#include "plans.h"
#include "pool/sn_early.h"
#include "pool/sn_pool.h"
#include "shm/sn_row.h"

#define N_SAMPLES 90
#define N_EPOCHS 6
#define N_HANDLES 8
#define N_ITERATORS 10
#define BATCH 8
#define DEPTH 4 /* batches under way */
#define PAYLOAD_BYTES (3u << 20)
#define MAX_PIXELS 100000
#define HANGS_MS 20
#define SLOW_US 200    /* a read in every other epoch: files are then read ahead */
#define MOST_THREADS 5 /* that a limit may ask for */
#define PATIENCE_MS 2
#define N_FETCHERS 3  /* of an iterator whose files are external */
#define N_GIVEN 150   /* samples of an epoch that is given them */
#define N_TURNS 2     /* so many kinds of draws of one sample it has, by their random numbers */
#define CHECK_EVERY 3 /* that are served from what is kept */
#define DOUBTS 0      /* the iterator whose files have new ctimes */
#define EARLY 5       /* the iterator that begins early, and brings files; so does the next, whose files are external */

enum content { JPEG, DAMAGED, FOR_PILLOW, EMPTY, FOLDER, MISSING };

typedef struct {
    enum content content;
    picture_file file;
    sn_view picture; /* of FOR_PILLOW: what another decoder makes of it; points into the file */
} sample;

/* An iterator of a job. Equal jobs are ranks: one takes the even samples, one the odd. */
typedef struct {
    int handle; /* -1: private */
    uint32_t job, plan, threads;
    uint32_t first, step;
    uint8_t shares, keeps, substitutes;
    uint8_t is_external, is_given;
} iterator;

static const iterator iterators[N_ITERATORS] = {
    {0, 0, PLAN_TRAIN, 3, 0, 1, 1, 1, 1, 0, 0},   {1, 1, PLAN_TRAIN, 2, 0, 1, 1, 1, 1, 1, 0},
    {2, 2, PLAN_TRAIN, 2, 0, 2, 1, 1, 1, 0, 0},   {3, 2, PLAN_TRAIN, 1, 1, 2, 1, 0, 1, 0, 0},
    {4, 3, PLAN_TRAIN_2, 0, 0, 1, 1, 1, 1, 1, 0}, {0, 0, PLAN_EVAL, 1, 0, 1, 0, 1, 0, 0, 0},
    {-1, 9, PLAN_TWO, 2, 0, 1, 1, 1, 1, 1, 0},    {5, 10, PLAN_COLOUR, 2, 0, 1, 1, 1, 1, 0, 0},
    {6, 11, PLAN_COLOUR, 2, 0, 1, 1, 1, 1, 0, 0}, {7, 12, PLAN_TRAIN, 2, 0, 1, 1, 1, 1, 0, 1},
};
static const uint64_t decoded_pipelines[N_PLANS] = {100, 100, 101, 102, 103}; /* the first two have no head */

typedef struct {
    uint64_t of[SN_FORMS], unrecoded[SN_UNRECODED_WHYS], staged, finished, failed, dropped, unread, batches, hung,
        ahead, limits;
    uint64_t offered, accepted, checkable, checks;
    uint64_t suspects, refused;
    uint64_t fetched, joined, void_tickets, late;
    uint64_t brought, early;
} counts;

struct stream;

/* A thread that fetches. */
typedef struct {
    pthread_t thread;
    struct stream *stream;
    sn_rng rng;
    uint64_t fetched, joined, void_tickets, late; /* late: brought when nobody may enter the pool any more */
} fetcher;

/* What an iterator is while it runs, as the border in seneca/_core has it. */
typedef struct stream {
    const iterator *who;
    sn_member *member;
    sn_pool *pool;
    sn_context context;
    sn_batch *under_way[DEPTH];
    uint32_t n_under_way;
    int is_early;
    sn_offers offers;
    sn_note notes[N_SAMPLES];
    uint32_t until_check;
    uint32_t to_give;
    uint8_t times[N_SAMPLES];
    uint64_t unrecoded[(N_SAMPLES + 63) / 64];
    sn_rng rng;
    sn_codec *lone;
    counts counts;
    fetcher fetchers[N_FETCHERS];
    pthread_mutex_t gate; /* as the interpreter's lock in the border */
    int is_closed;        /* the gate's */
} stream;

static uint64_t seed;
static cache shared;
static sn_plan plans[N_PLANS];
static sample samples[N_SAMPLES];
static char paths[N_SAMPLES * SAMPLE_PATH];
static uint64_t path_at[N_SAMPLES];
static sn_piece pieces[N_SAMPLES]; /* of external containers, which have some neighbours each, and one far away */
static sn_container containers[N_SAMPLES];
static _Atomic uint8_t changes[N_SAMPLES];
static sn_pools pools;
static pthread_barrier_t all_are_here;
static counts totals[N_ITERATORS];
static _Atomic uint32_t is_slow;
static _Atomic uint32_t hanging; /* iterators that are about to be closed while storage does not answer */

static void pass_us(int us)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

static void pass_ms(int ms)
{
    pass_us(1000 * ms);
}

/* In place of the C library's. */
ssize_t read(int fd, void *buffer, size_t count)
{
    if (atomic_load(&hanging))
        pass_ms(HANGS_MS);
    else if (atomic_load(&is_slow))
        pass_us(SLOW_US);
    return syscall(SYS_read, fd, buffer, count);
}

/* -- Files -- */

static void draw_content(sample *s, uint32_t i, sn_rng *rng)
{
    picture_kind kind = {.height = 1 + sn_rng_below(rng, 110),
                         .width = 1 + sn_rng_below(rng, 110),
                         .colour = sn_rng_below(rng, PICTURE_COLOURS),
                         .across = 1,
                         .down = 1,
                         .progressive = sn_rng_below(rng, 4) == 0,
                         .quality = 70};
    picture_file whole;

    s->content = i % 10 < 6 ? JPEG : i % 10 == 6 ? DAMAGED : i % 10 == 7 ? FOR_PILLOW : i < 30 ? EMPTY + i / 10 : JPEG;
    if (kind.colour == PICTURE_YCC || kind.colour == PICTURE_YCCK) {
        kind.across = 1 + (uint8_t)sn_rng_below(rng, 2);
        kind.down = 1 + (uint8_t)sn_rng_below(rng, 2);
    }
    switch (s->content) {
    case JPEG:
        s->file = picture_make(&kind, rng);
        break;
    case DAMAGED:
        whole = picture_make(&kind, rng);
        s->file = sn_rng_below(rng, 2) ? picture_truncated(whole, rng) : picture_flipped(whole, rng);
        picture_free(&whole);
        break;
    case FOR_PILLOW:
        s->file.length = (size_t)3 * kind.height * kind.width;
        s->file.bytes = malloc(s->file.length);
        CHECK(s->file.bytes);
        for (size_t k = 0; k < s->file.length; k++)
            s->file.bytes[k] = (uint8_t)sn_rng_below(rng, 255); /* never 0xFF, which begins a JPEG */
        s->picture = (sn_view){s->file.bytes, kind.height, kind.width, (size_t)3 * kind.width, NULL, 0};
        break;
    default:
        break;
    }
}

static void make_files(void)
{
    const char *above = getenv("TMPDIR");
    sn_rng rng;

    sample_files_begin(above && strlen(above) < 32 ? above : "/tmp", N_SAMPLES, paths, path_at);
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        sample *s = &samples[i];

        sn_rng_start(&rng, seed, 0, 0, i, SN_STREAM_ORDER);
        draw_content(s, i, &rng);
        if (s->content == MISSING)
            continue;
        if (s->content == FOLDER) {
            CHECK(mkdir(paths + path_at[i], 0700) == 0);
            continue;
        }
        sample_files_write(i, &s->file);
    }
}

/* Five samples a container, one way round or the other, of which the fifth is too far away to be a neighbour. */
static void lay_out(void)
{
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        uint32_t in = i / 5, k = in % 2 ? 4 - i % 5 : i % 5, number = 5 * in + k;
        sn_container *container = &containers[in];

        container->size_bytes += k == 4 ? SN_MOST_GAP_BYTES + 1 : 512;
        pieces[number] = (sn_piece){
            .length = (uint32_t)samples[number].file.length, .container = in, .offset = container->size_bytes};
        container->size_bytes += samples[number].file.length;
    }
}

/* -- Fetching -- */

static int enter(stream *s)
{
    pthread_mutex_lock(&s->gate);
    int may = !s->is_closed;
    if (may)
        sn_pool_enter(s->pool);
    pthread_mutex_unlock(&s->gate);
    return may;
}

static int bring(stream *s, const sn_wanted *wanted)
{
    uint64_t end = wanted->offset + wanted->length, begin = UINT64_MAX, last = 0, of_pieces = 0;
    int rc = 0;
    /* In memory that is gone when the call returns, or that the pool may keep. */
    size_t capacity = (size_t)wanted->length + 1;
    uint8_t *bytes = calloc(1, capacity);

    CHECK(bytes && wanted->n > 0);
    for (uint32_t i = 0; i < wanted->n; i++) {
        const sample *from = &samples[wanted->samples[i]];
        const sn_piece *piece = &pieces[wanted->samples[i]];

        CHECK(piece->container == wanted->container && piece->offset >= wanted->offset &&
              piece->offset + piece->length <= end);
        rc = from->content == FOLDER ? -EISDIR : from->content == MISSING ? -ENOENT : rc;
        if (from->file.length)
            memcpy(bytes + (piece->offset - wanted->offset), from->file.bytes, from->file.length);
        begin = piece->offset < begin ? piece->offset : begin;
        last = piece->offset + piece->length > last ? piece->offset + piece->length : last;
        of_pieces += piece->length;
    }
    CHECK(begin == wanted->offset && last == end); /* nothing is asked for before the first, or behind the last */
    CHECK(wanted->n == 1 || end - begin <= of_pieces + SN_MOST_GAP_BYTES);
    if (rc == 0 && wanted->ticket % 2 == 0)
        rc = sn_pool_fetched_in(s->pool, wanted->ticket, &bytes, &capacity, wanted->length);
    else
        rc = sn_pool_fetched(s->pool, wanted->ticket, bytes, wanted->length, rc, rc ? "is not there" : NULL);
    if (bytes)
        memset(bytes, 0xee, capacity);
    free(bytes);
    return rc;
}

static void *fetch(void *argument)
{
    fetcher *self = argument;
    stream *s = self->stream;
    sn_wanted wanted;

    while (enter(s)) {
        int rc = sn_pool_next_fetch(s->pool, &wanted, (int)sn_rng_below(&self->rng, 5));
        sn_pool_leave(s->pool);
        CHECK(rc == 0 || rc == SN_BUSY || rc == SN_E_CLOSED);
        if (rc != 0)
            continue;
        if (atomic_load(&hanging) && sn_rng_below(&self->rng, 4) == 0)
            pass_ms(HANGS_MS);
        else if (sn_rng_below(&self->rng, 2))
            pass_us(SLOW_US);
        if (!enter(s)) {
            self->late++;
            break;
        }
        rc = bring(s, &wanted);
        CHECK(rc == 0 || rc == SN_MISS);
        self->fetched += rc == 0;
        self->void_tickets += rc == SN_MISS;
        self->joined += rc == 0 && wanted.n > 1;
        CHECK_EQUAL(bring(s, &wanted), SN_MISS, "a ticket is good once, sample %u", wanted.samples[0]);
        sn_pool_leave(s->pool);
    }
    return NULL;
}

static void start_fetchers(stream *s, uint32_t epoch)
{
    s->is_closed = 0;
    for (uint32_t i = 0; i < N_FETCHERS && s->who->is_external; i++) {
        fetcher *one = &s->fetchers[i];
        *one = (fetcher){.stream = s};
        sn_rng_start(&one->rng, seed, 0, 1 + epoch, 100 * (uint32_t)(s->who - iterators) + i, SN_STREAM_CHOOSE);
        CHECK(pthread_create(&one->thread, NULL, fetch, one) == 0);
    }
}

/* The pool may be gone. */
static void join_fetchers(stream *s)
{
    for (uint32_t i = 0; i < N_FETCHERS && s->who->is_external; i++) {
        fetcher *one = &s->fetchers[i];
        pthread_join(one->thread, NULL);
        s->counts.fetched += one->fetched;
        s->counts.joined += one->joined;
        s->counts.void_tickets += one->void_tickets;
        s->counts.late += one->late;
    }
}

/* -- What has to come out -- */

static uint64_t nonce_of(const iterator *who, uint32_t epoch)
{
    return sn_mix64((uint64_t)(who - iterators) << 32 | epoch) | 1;
}

/* A view's pixels on their own: the codec's end with its next call. */
static sn_view tight(const sn_view *view)
{
    size_t row = (size_t)3 * view->width;
    uint8_t *pixels = malloc(row * view->height);

    CHECK(pixels);
    for (uint32_t y = 0; y < view->height; y++)
        memcpy(pixels + y * row, view->pixels + y * view->stride, row);
    return (sn_view){pixels, view->height, view->width, row, NULL, 0};
}

static uint64_t seed_of(const iterator *who, uint64_t turn)
{
    return turn ? (seed + who->job) ^ sn_mix64(turn) : seed + who->job;
}

/* The item that `who` makes of a sample in a turn with these numbers, by way of DECODED or straight; behind it how its
 * picture was moved, if the plan says that. */
static int make_alone(const stream *s, const iterator *who, uint64_t turn, uint64_t nonce, uint32_t epoch, uint32_t i,
                      int by_decoded, uint64_t deliverers_turn, uint8_t *item)
{
    const sample *from = &samples[i];
    const sn_plan *plan = &plans[who->plan];
    uint32_t height = s->context.height, width = s->context.width;
    uint8_t *pixels = malloc((size_t)3 * height * width);
    sn_view view, decoded;
    sn_rng rng;
    int rc;

    CHECK(pixels);
    sn_rng_start(&rng, seed_of(who, turn), nonce, epoch, i, SN_STREAM_AUGMENT);
    if (from->content == FOR_PILLOW || by_decoded) {
        if (from->content == FOR_PILLOW)
            rc = sn_codec_head(s->lone, plan, &from->picture, &view);
        else
            rc = sn_codec_decode(s->lone, plan, from->file.bytes, from->file.length, &view);
        if (rc == 0) {
            decoded = tight(&view);
            rc = sn_codec_augment_decoded(s->lone, plan, &rng, &decoded, pixels);
            free((uint8_t *)decoded.pixels);
        }
    } else {
        rc = sn_codec_augment_encoded(s->lone, plan, &rng, from->file.bytes, from->file.length, pixels);
    }
    sn_rng_start(&rng, seed_of(s->who, deliverers_turn), 0, s->context.epoch, i, SN_STREAM_ERASE);
    if (rc == 0)
        sn_batch_write(plan, pixels, height, width, &rng, item);
    if (rc == 0 && plan->has_moves)
        memcpy(item + s->context.item_bytes, sn_codec_moves(s->lone), sizeof(sn_moves));
    free(pixels);
    return rc;
}

/* Whether a place of a batch has what was made alone. */
static int is_same(const stream *s, const sn_batch_item *place, const uint8_t *made, const uint8_t *item)
{
    const sn_context *context = &s->context;
    const uint8_t *beside = place->batch->beside + (size_t)(place - place->batch->places) * context->beside_bytes;

    return memcmp(made, item, context->item_bytes) == 0 &&
           memcmp(made + context->item_bytes, beside, context->beside_bytes) == 0;
}

/* Some other job made this copy for some epoch of its own. */
static int is_of_another(const stream *s, const sn_batch_item *place, const uint8_t *item)
{
    uint8_t *made = malloc(s->context.item_bytes + s->context.beside_bytes);
    uint64_t turn = place->turn;
    uint32_t i = place->item.sample;
    int found = 0;

    CHECK(made);
    for (const iterator *maker = iterators; maker < iterators + N_ITERATORS && !found; maker++)
        for (uint32_t epoch = 0; epoch < N_EPOCHS && !found; epoch++)
            for (uint64_t of = maker->is_given; of <= (maker->is_given ? N_TURNS : 0) && !found; of++)
                for (int by_decoded = 0; by_decoded < 2 && !found; by_decoded++)
                    found = maker->job != s->who->job && maker->plan == s->who->plan &&
                            make_alone(s, maker, of, nonce_of(maker, epoch), epoch, i, by_decoded, turn, made) == 0 &&
                            is_same(s, place, made, item);
    free(made);
    return found;
}

static void check_place(stream *s, const sn_batch_item *place, const uint8_t *item)
{
    const sn_item *drawn = &place->item;
    const sample *from = &samples[drawn->sample];
    uint32_t i = drawn->sample;
    uint8_t *made;
    int rc;

    CHECK(atomic_load(&place->settled));
    if (drawn->source == SN_AUGMENTED) {
        CHECK_EQUAL(place->status, 0, "sample %u", i);
        CHECK_EQUAL(is_of_another(s, place, item), 1, "sample %u, plan %u", i, s->who->plan);
        return;
    }
    switch (from->content) {
    case FOLDER:
        rc = -EISDIR;
        break;
    case MISSING:
        rc = -ENOENT;
        break;
    default:
        made = malloc(s->context.item_bytes + s->context.beside_bytes);
        CHECK(made);
        rc = make_alone(s, s->who, place->turn, drawn->target_slot != SN_NONE ? s->context.nonce : 0, s->context.epoch,
                        i, drawn->source == SN_DECODED || drawn->keep == SN_DECODED, place->turn, made);
        if (rc == 0 && place->status == 0)
            CHECK_EQUAL(is_same(s, place, made, item), 1, "sample %u, from form %d, %s", i, drawn->source,
                        drawn->target_slot != SN_NONE ? "staged" : "not staged");
        free(made);
        if (rc == SN_E_FOR_PILLOW)
            rc = SN_E_CLOSED; /* given up in deliver() */
        if (drawn->source == SN_STORAGE)
            CHECK_EQUAL(place->read_bytes, from->file.length, "sample %u", i);
    }
    CHECK_EQUAL(place->status, rc, "sample %u, content %d, from form %d", i, from->content, drawn->source);
    CHECK(rc == 0 || rc == SN_E_CLOSED || (place->message && *place->message));
}

/* -- The iterator -- */

static void open_stream(stream *s, uint32_t epoch)
{
    const iterator *who = s->who;
    sn_segment *segment = who->handle < 0 ? NULL : shared.handles[who->handle];
    uint32_t own[N_SAMPLES], n_own = 0;
    int joined;

    for (uint32_t i = who->first; i < N_SAMPLES && !who->is_given; i += who->step)
        own[n_own++] = i;
    s->to_give = who->is_given ? N_GIVEN : 0;
    s->context = (sn_context){.plan = &plans[who->plan],
                              .segment = segment,
                              .paths = paths,
                              .path_at = path_at,
                              .seed = seed + who->job,
                              .nonce = nonce_of(who, epoch),
                              .epoch = epoch,
                              .check_every = CHECK_EVERY,
                              .unrecoded = s->unrecoded,
                              .changes = who == &iterators[DOUBTS] ? changes : NULL,
                              .files_name = 7 + who->job % 2,
                              .notes = s->notes};
    s->until_check = CHECK_EVERY;
    CHECK(sn_plan_output_size(s->context.plan, &s->context.height, &s->context.width) == 0);
    s->context.item_bytes = plan_item_bytes(s->context.plan, s->context.height, s->context.width);
    s->context.beside_bytes = s->context.plan->has_moves ? sizeof(sn_moves) : 0;

    sn_member_options options = {
        .epoch = {.n_samples = N_SAMPLES,
                  .samples = own,
                  .count = n_own,
                  .places = n_own,
                  .seed = s->context.seed,
                  .epoch = epoch},
        .job_key = who->job,
        .client = {.decoded_pipeline = decoded_pipelines[who->plan],
                   .augmented_pipeline = 200 + who->plan,
                   .height = (uint16_t)s->context.height,
                   .width = (uint16_t)s->context.width,
                   .copy_bytes = (uint32_t)sn_plan_copy_bytes(s->context.plan, s->context.height, s->context.width),
                   .files_name = s->context.files_name,
                   .shares = who->shares,
                   .keeps = who->keeps,
                   .recodes = true},
        .process_row = segment ? shared.rows[who->handle] : SN_NONE,
        .in_flight = DEPTH * BATCH,
        .substitutes = who->substitutes,
    };
    CHECK_EQUAL(sn_member_open(segment, &options, &s->member, &joined), 0, "epoch %u", epoch);
    if (who->is_external) {
        s->context.is_external = 1;
        s->context.pieces = pieces;
        s->context.containers = containers;
        s->context.paths = NULL; /* nobody opens them */
    }
    int is_early = who == &iterators[EARLY] || who == &iterators[EARLY + 1];
    s->pool = sn_pool_new(who->threads, MOST_THREADS, MAX_PIXELS, is_early || who == &iterators[0] ? &pools : NULL);
    s->lone = sn_codec_new(MAX_PIXELS);
    CHECK(s->pool && s->lone);
    s->is_early = is_early && (who->is_external ? epoch == 3 : epoch % 2);
    if (s->is_early)
        sn_early_begin(s->pool);
    if (s->is_early && !who->is_external)
        CHECK_EQUAL(sn_early_bring(s->pool, &s->context, own, n_own, (uint64_t)65536 << sn_rng_below(&s->rng, 8)), 0,
                    "epoch %u", epoch);
    s->n_under_way = 0;
    memset(s->times, 0, sizeof s->times);
    start_fetchers(s, epoch);
}

static void settle(stream *s)
{
    for (uint32_t i = 0; i < s->n_under_way; i++)
        sn_batch_settle(s->under_way[i], s->member);
}

/* The note of a place that was drawn names the copy that serves it, or is made for others. */
static void check_note(const stream *s, const sn_batch_item *place)
{
    const sn_item *item = &place->item;
    sn_note given = sn_batch_note_of(&s->context, item);
    const sn_note *note = s->who->is_given ? &given : &s->notes[item->sample];
    uint32_t copy = item->source == SN_AUGMENTED ? item->source_slot : item->target_slot;

    CHECK(note->form == item->source && note->slot == copy);
    CHECK_EQUAL(note->generation, copy == SN_NONE ? 0 : s->context.segment->slots[copy].generation, "slot %u", copy);
}

static uint32_t left_of(const stream *s)
{
    return s->who->is_given ? s->to_give : sn_member_left(s->member);
}

/* Draw these places, or as many samples at random for an iterator that is given them. */
static int draw_into(stream *s, sn_batch *batch, uint32_t wanted, uint32_t *indices)
{
    uint64_t turns[BATCH];

    if (!s->who->is_given)
        return sn_batch_draw(batch, s->member, &s->offers, &s->until_check, indices);
    for (uint32_t i = 0; i < wanted; i++) {
        indices[i] = (uint32_t)sn_rng_below(&s->rng, N_SAMPLES);
        turns[i] = 1 + sn_rng_below(&s->rng, N_TURNS);
    }
    s->to_give -= wanted;
    return sn_batch_draw_given(batch, s->member, &s->offers, &s->until_check, indices, turns);
}

/* Draw a batch and have it prepared; what earlier ones left to be kept is offered. */
static void draw(stream *s, uint32_t room)
{
    uint32_t left = left_of(s), wanted = room < left ? room : left, n_offers = s->offers.n;
    sn_batch *batch = sn_batch_new(&s->context, wanted, n_offers);
    uint32_t indices[BATCH];

    CHECK(batch);
    batch->out = malloc(wanted * s->context.item_bytes + !wanted);
    batch->beside = malloc(wanted * s->context.beside_bytes + 1);
    CHECK(batch->out && batch->beside);
    settle(s);
    s->under_way[s->n_under_way++] = batch;
    CHECK_EQUAL(draw_into(s, batch, wanted, indices), 0, "of %u left", left);
    CHECK_EQUAL(left_of(s), left - wanted, "of %u left", left);
    CHECK_EQUAL(s->offers.n, 0, "after %u offers", n_offers);
    CHECK(batch->n_copies <= n_offers);
    s->counts.offered += n_offers;
    s->counts.accepted += batch->n_copies;
    for (uint32_t i = 0; i < wanted; i++) {
        const sn_batch_item *place = &batch->places[i];

        CHECK(s->who->is_given || s->times[indices[i]]++ == 0);
        CHECK_EQUAL(place->item.sample, indices[i], "place %u", i);
        CHECK(!place->check || sn_is_kept(place->item.source));
        CHECK(place->item.keep != SN_RECODED || !sn_bit_get(s->unrecoded, place->item.sample));
        if (s->context.changes && changes[indices[i]] == SN_SUSPECT) {
            const sn_slot *slot =
                place->item.source_slot == SN_NONE ? NULL : &s->context.segment->slots[place->item.source_slot];
            CHECK(place->item.source != SN_AUGMENTED || slot->files_name == s->context.files_name);
            CHECK(place->is_suspect == sn_is_kept(place->item.source));
            s->counts.refused += place->item.source == SN_STORAGE && slot;
            s->counts.suspects += place->is_suspect;
        }
        CHECK(!place->is_suspect || place->check);
        s->counts.checkable += !place->is_suspect && sn_is_kept(place->item.source);
        s->counts.checks += !place->is_suspect && place->check;
        check_note(s, place);
    }
    sn_pool_submit(s->pool, batch);
    if (sn_rng_below(&s->rng, 3) == 0) {
        sn_pool_limit(s->pool, (uint32_t)sn_rng_below(&s->rng, MOST_THREADS + 2));
        s->counts.limits++;
    }
}

static void free_batch(sn_batch *batch)
{
    free(batch->out);
    free(batch->beside);
    sn_batch_free(batch);
}

/* It is done with, in whatever way: let go of what it holds. */
static void retire(stream *s, uint32_t at)
{
    sn_batch *batch = s->under_way[at];

    sn_batch_done(batch, s->member);
    s->under_way[at] = s->under_way[--s->n_under_way];
    free_batch(batch);
}

static void deliver(stream *s, uint32_t at)
{
    sn_batch *batch = s->under_way[at];
    uint32_t kept = 0, different = 0;
    uint64_t read_bytes = 0;
    sn_batch_sums sums;

    while (sn_pool_wait(s->pool, batch, (int)sn_rng_below(&s->rng, 3)) != 0)
        ;
    s->counts.batches++;
    for (uint32_t i = 0; i < batch->n_places; i++) {
        sn_batch_item *place = &batch->places[i];
        uint8_t *item = batch->out + i * s->context.item_bytes;

        if (place->status == SN_E_FOR_PILLOW) {
            const sample *from = &samples[place->item.sample];

            CHECK(!atomic_load(&place->settled));
            CHECK(!place->kept ==
                  !((place->item.keep == SN_ENCODED || place->item.keep == SN_RECODED) && from->file.length > 0));
            CHECK(!place->kept || memcmp(place->kept, from->file.bytes, from->file.length) == 0);
            if (s->who->is_external && place->item.source == SN_STORAGE && from->file.length) {
                CHECK_EQUAL(place->file.length, from->file.length, "sample %u", place->item.sample);
                CHECK(memcmp(place->file.bytes, from->file.bytes, from->file.length) == 0);
            }
            if (from->content == FOR_PILLOW)
                sn_finish(sn_pool_scratch(s->pool), &s->context, place, &from->picture, item);
            else
                sn_abandon(&s->context, place, SN_E_CLOSED, NULL); /* as when that fails as well */
            s->counts.finished++;
        }
        check_place(s, place, item);
        CHECK(place->status == 0 || !place->kept);
        if (place->kept)
            CHECK(place->offer.form == place->item.keep ||
                  (place->item.keep == SN_RECODED && place->offer.form == SN_ENCODED));
        else if (place->status == 0)
            CHECK_EQUAL(place->item.keep, SN_STORAGE, "sample %u", place->item.sample);
        s->counts.failed += place->status != 0;
        s->counts.ahead += place->spent.blocked < place->spent.read;
        kept += place->kept != NULL;
        read_bytes += place->read_bytes;
        different += place->different;
    }
    sn_batch_sum(batch, &sums);
    for (int form = 0; form < SN_FORMS; form++)
        s->counts.of[form] += sums.served[form];
    for (int why = 0; why < SN_UNRECODED_WHYS; why++)
        s->counts.unrecoded[why] += sums.unrecoded[why];
    s->counts.staged += sums.staged;
    CHECK(sums.read_bytes == read_bytes && sums.different == different);
    CHECK(sums.prepared ==
          sums.served[SN_STORAGE] + sums.served[SN_ENCODED] + sums.served[SN_RECODED] + sums.served[SN_DECODED]);
    uint32_t before = s->offers.n;
    CHECK_EQUAL(sn_offers_collect(&s->offers, batch), 0, "a batch of %u", batch->n_places);
    CHECK_EQUAL(s->offers.n, before + kept, "a batch of %u", batch->n_places);
    retire(s, at);
}

/* Nobody works on it any more; what another decoder should have finished is given up. */
static void give_up(stream *s, sn_batch *batch)
{
    sn_abandon_unfinished(batch);
    for (uint32_t i = 0; i < batch->n_places; i++) {
        const sn_batch_item *place = &batch->places[i];

        CHECK(atomic_load(&place->settled));
        s->counts.unread += place->status == SN_E_CLOSED;
    }
    s->counts.dropped++;
}

static void drop(stream *s, sn_batch *batch)
{
    sn_pool_drop(s->pool, batch);
    while (sn_pool_wait(s->pool, batch, 10) != 0)
        ;
    give_up(s, batch);
}

/* With whatever is under way, in the order that the border has: drop all, end the threads, leave. As long as a
 * thread hangs what it has in hand is left to it. */
static void close_stream(stream *s)
{
    s->counts.brought += sn_early_brought(s->pool);
    pthread_mutex_lock(&s->gate);
    s->is_closed = 1;
    pthread_mutex_unlock(&s->gate);
    for (uint32_t i = 0; i < s->n_under_way; i++)
        sn_pool_drop(s->pool, s->under_way[i]);
    if (sn_pool_end(s->pool, PATIENCE_MS) != 0) {
        s->counts.hung++;
        settle(s);
        sn_member_retire(s->member);
        while (sn_pool_end(s->pool, 0) != 0)
            pass_ms(1);
    }
    for (uint32_t i = 0; i < s->n_under_way; i++)
        give_up(s, s->under_way[i]);
    sn_pool_free(s->pool);
    for (uint32_t i = 0; i < s->n_under_way; i++)
        free_batch(s->under_way[i]);
    join_fetchers(s); /* some hang until now */
    sn_offers_free(&s->offers);
    sn_member_close(s->member);
    sn_codec_free(s->lone);
}

/* All batches are done: the next draw lets go of everything. */
static void check_nothing_held(stream *s)
{
    uint32_t generation, drawn, row = sn_member_row(s->member, &generation);

    if (!s->context.segment || row == SN_NONE || sn_member_draw(s->member, 0, NULL, &drawn, NULL, 0) != 0)
        return;
    for (uint32_t entry = 0; entry < s->context.segment->n_ledger; entry++)
        CHECK_EQUAL(sn_ledger(s->context.segment, row)[entry], 0, "line %u of row %u", entry, row);
}

static void run_epoch(stream *s, uint32_t epoch, int drops, int ends_early)
{
    while (left_of(s) || s->n_under_way) {
        while (s->n_under_way < DEPTH && left_of(s))
            draw(s, 1 + sn_rng_below(&s->rng, BATCH));
        if (ends_early && sn_rng_below(&s->rng, 8) == 0)
            return;
        uint32_t at = sn_rng_below(&s->rng, s->n_under_way);
        /* Others may have more to do than an early pool: what it has not done by now is not waited for. */
        int is_late = s->is_early && sn_pool_wait(s->pool, s->under_way[at], (int)sn_rng_below(&s->rng, 20)) != 0;
        s->counts.early += s->is_early && !is_late;
        if (is_late || (drops && sn_rng_below(&s->rng, 4) == 0)) {
            drop(s, s->under_way[at]);
            retire(s, at);
        } else {
            deliver(s, at);
        }
    }
    for (uint32_t i = 0; i < N_SAMPLES && !s->who->is_given; i++)
        CHECK_EQUAL(s->times[i], i % s->who->step == s->who->first, "sample %u, epoch %u", i, epoch);
    if (s->offers.n) { /* of the last batches: no draw follows that would offer them */
        draw(s, 0);
        deliver(s, 0);
    }
    check_nothing_held(s);
}

static void *iterate(void *argument)
{
    uint32_t number = (uint32_t)((counts *)argument - totals);
    stream s = {.who = &iterators[number]};

    sn_rng_start(&s.rng, seed, 0, 1, number, SN_STREAM_CHOOSE);
    pthread_mutex_init(&s.gate, NULL);
    for (uint32_t epoch = 0; epoch < N_EPOCHS; epoch++) {
        open_stream(&s, epoch);
        if (epoch == 0) /* each has others to share with */
            pthread_barrier_wait(&all_are_here);
        if (number == 0)
            atomic_store(&is_slow, epoch % 2);
        int ends_early = (number + epoch) % 4 == 3, hangs = number % 2 || s.who->is_external;
        atomic_fetch_add(&hanging, ends_early && hangs);
        run_epoch(&s, epoch, (number + epoch) % 2, ends_early);
        close_stream(&s);
        atomic_fetch_sub(&hanging, ends_early && hangs);
    }
    pthread_mutex_destroy(&s.gate);
    totals[number] = s.counts;
    return NULL;
}

int main(int argc, char **argv)
{
    static const uint32_t split[SN_FORMS] = {0, 1500, 3000, 4000, 1500};
    uint64_t job_keys[N_HANDLES];
    pthread_t threads[N_ITERATORS];
    counts sum = {0};

    seed = check_seed(argc, argv);
    plans_make(plans);
    plans[PLAN_TRAIN].has_moves = 1;
    CHECK(sn_plan_check(&plans[PLAN_TRAIN]) == 0);
    make_files();
    lay_out();
    for (int i = 0; i < N_ITERATORS; i++)
        if (iterators[i].handle >= 0)
            job_keys[iterators[i].handle] = iterators[i].job;
    cache_make(&shared, N_HANDLES, job_keys, N_SAMPLES, PAYLOAD_BYTES, split);
    pthread_barrier_init(&all_are_here, NULL, N_ITERATORS);
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        changes[i] = SN_SUSPECT;
    for (int i = 0; i < N_ITERATORS; i++)
        CHECK(pthread_create(&threads[i], NULL, iterate, &totals[i]) == 0);
    for (int i = 0; i < N_ITERATORS; i++)
        pthread_join(threads[i], NULL);
    cache_check_and_close(&shared);

    for (int i = 0; i < N_ITERATORS; i++) {
        for (int form = 0; form < SN_FORMS; form++)
            sum.of[form] += totals[i].of[form];
        for (int why = 0; why < SN_UNRECODED_WHYS; why++)
            sum.unrecoded[why] += totals[i].unrecoded[why];
        sum.staged += totals[i].staged;
        sum.finished += totals[i].finished;
        sum.failed += totals[i].failed;
        sum.dropped += totals[i].dropped;
        sum.unread += totals[i].unread;
        sum.batches += totals[i].batches;
        sum.hung += totals[i].hung;
        sum.ahead += totals[i].ahead;
        sum.limits += totals[i].limits;
        sum.offered += totals[i].offered;
        sum.accepted += totals[i].accepted;
        sum.checkable += totals[i].checkable;
        sum.checks += totals[i].checks;
        sum.suspects += totals[i].suspects;
        sum.refused += totals[i].refused;
        sum.fetched += totals[i].fetched;
        sum.joined += totals[i].joined;
        sum.void_tickets += totals[i].void_tickets;
        sum.late += totals[i].late;
        sum.brought += totals[i].brought;
        sum.early += totals[i].early;
    }
    printf("test_pool: %" PRIu64 " batches, samples from storage %" PRIu64 ", encoded %" PRIu64 ", recoded %" PRIu64
           ", decoded %" PRIu64 ", copies %" PRIu64 "; %" PRIu64 " staged, %" PRIu64 " finished elsewhere, %" PRIu64
           " failed; %" PRIu64 " batches dropped, %" PRIu64 " places unread, %" PRIu64
           " pools left to a thread that hung; %" PRIu64 " read ahead; %" PRIu64 " requests, %" PRIu64
           " of them for several, %" PRIu64 " too late for their batch, %" PRIu64 " for their pool; %" PRIu64
           " batches complete early, %" PRIu64 " files brought\n",
           sum.batches, sum.of[SN_STORAGE], sum.of[SN_ENCODED], sum.of[SN_RECODED], sum.of[SN_DECODED],
           sum.of[SN_AUGMENTED], sum.staged, sum.finished, sum.failed, sum.dropped, sum.unread, sum.hung, sum.ahead,
           sum.fetched, sum.joined, sum.void_tickets, sum.late, sum.early, sum.brought);
    for (int form = 0; form < SN_FORMS; form++)
        CHECK(sum.of[form] > 0);
    CHECK(sum.unrecoded[SN_UNRECODED_KIND] > 0);
    CHECK(sum.staged > 0 && sum.finished > 0 && sum.failed > 0 && sum.dropped > 0 && sum.unread > 0 && sum.hung > 0);
    CHECK(sum.ahead > 0 && sum.limits > 0);
    CHECK(sum.fetched > 0 && sum.joined > 0 && sum.joined < sum.fetched && sum.void_tickets > 0 && sum.late > 0);
    CHECK(sum.early > 0 && sum.brought > 0);
    CHECK(sum.accepted > 0 && sum.accepted <= sum.offered);
    CHECK(totals[N_ITERATORS - 1].of[SN_AUGMENTED] > 0 && totals[N_ITERATORS - 1].staged > 0); /* of what it is given */
    CHECK(sum.checks > 0 && sum.checks <= sum.checkable / CHECK_EVERY);
    /* An epoch begins to count anew; and each suspect may have been due as well. */
    CHECK(sum.checks + N_ITERATORS * N_EPOCHS + sum.suspects >= sum.checkable / CHECK_EVERY);
    uint32_t compared = 0;
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        compared += changes[i] == SN_COMPARED;
    printf("test_pool: %" PRIu64 " suspects, %u compared, %" PRIu64 " copies refused\n", sum.suspects, compared,
           sum.refused);
    CHECK(compared > 0 && compared <= sum.suspects);
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        picture_free(&samples[i].file);
    pthread_barrier_destroy(&all_are_here);
    return 0;
}
