/*
 * stage_loop.c -- what one call of each stage of the core costs, timed where it happens.
 *
 *   stage_loop PICTURE      then, line by line:
 *      in   names           out   every stage, each with 1, or with 0 where this core lacks it
 *      in   STAGE CALLS     out   nanoseconds that so many calls took, all together
 *
 * A call of some stages is shorter than a call from Python: the loop and the clock are in here, and
 * bench/micro/ only asks. The clock stands still for what a draw needs done between two of them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/sn_rng.h"
#include "base/sn_status.h"
#include "loop.h"
#include "member/sn_member.h"
#include "slots/sn_slots.h"
#include "store/sn_join.h"
#include "store/sn_store.h"

#define SEED 7
#define DECODED_HEIGHT 400u
#define DECODED_WIDTH 470u
#define PLACES 64u      /* of a batch */
#define SAMPLES 100000u /* of the dataset that members draw from */
#define COPIES 256u     /* room in the stage */
#define COPY_BYTES (37u * SN_GRANULE)

enum input { FILE_BYTES, DECODED, AUGMENTED };

typedef struct sn_stage {
    const char *name;
    uint64_t (*run)(const struct sn_stage *stage, uint64_t calls); /* nanoseconds */
    enum input from;
    sn_op op; /* kind 0: none */
    uint32_t dtype, channels_last;
} sn_stage;

static uint8_t *jpeg, *decoded, *augmented, *out;
static size_t jpeg_length;
static uint32_t jpeg_height, jpeg_width;
static sn_codec *codec;
static volatile uint32_t sink; /* keeps what is computed from being thrown away */

static uint64_t now(void)
{
    return nanoseconds(CLOCK_MONOTONIC);
}

static void expect(int rc, const sn_stage *stage)
{
    if (rc != SN_OK)
        give_up("%s: %d %s", stage->name, rc, sn_codec_message(codec));
}

static sn_plan plan_of(const sn_stage *stage)
{
    sn_plan plan = standard_plan();

    plan.n_ops = stage->op.kind != 0;
    plan.ops[0] = stage->op;
    plan.dtype = stage->dtype;
    plan.channels_last = stage->channels_last;
    return plan;
}

static uint64_t probe(const sn_stage *stage, uint64_t calls)
{
    uint64_t start = now();
    uint32_t height, width;

    for (uint64_t k = 0; k < calls; k++)
        expect(sn_codec_probe(codec, jpeg, jpeg_length, &height, &width), stage);
    return now() - start;
}

static uint64_t decode(const sn_stage *stage, uint64_t calls)
{
    uint64_t start = now();
    sn_view view;

    for (uint64_t k = 0; k < calls; k++)
        expect(sn_codec_decode_region(codec, jpeg, jpeg_length, 0, 0, jpeg_height, jpeg_width, &view), stage);
    return now() - start;
}

/* The middle: half as high, half as wide. */
static uint64_t decode_region(const sn_stage *stage, uint64_t calls)
{
    uint64_t start = now();
    sn_view view;

    for (uint64_t k = 0; k < calls; k++)
        expect(sn_codec_decode_region(codec, jpeg, jpeg_length, jpeg_height / 4, jpeg_width / 4, jpeg_height / 2,
                                      jpeg_width / 2, &view),
               stage);
    return now() - start;
}

/* The stage's op, with other random numbers each call. */
static uint64_t augment(const sn_stage *stage, uint64_t calls)
{
    sn_plan plan = plan_of(stage);
    sn_view view = stage->from == DECODED
                       ? (sn_view){decoded, DECODED_HEIGHT, DECODED_WIDTH, 3 * DECODED_WIDTH, NULL, 0}
                       : (sn_view){augmented, SIDE, SIDE, 3 * SIDE, NULL, 0};
    uint64_t start = now();

    for (uint64_t k = 0; k < calls; k++) {
        sn_rng rng;

        sn_rng_start(&rng, SEED, 0, 0, (uint32_t)k, SN_STREAM_AUGMENT);
        if (stage->from == FILE_BYTES)
            expect(sn_codec_augment_encoded(codec, &plan, &rng, jpeg, jpeg_length, out), stage);
        else
            expect(sn_codec_augment_decoded(codec, &plan, &rng, &view, out), stage);
    }
    return now() - start;
}

/* Into the places of a batch in turn, which no cache holds, as in a loader. */
static uint64_t write_batch(const sn_stage *stage, uint64_t calls)
{
    static const size_t bytes_of[] = {[SN_UINT8] = 1, [SN_FLOAT32] = 4, [SN_FLOAT16] = 2, [SN_BFLOAT16] = 2};
    sn_plan plan = plan_of(stage);
    size_t bytes = VALUES * bytes_of[stage->dtype];
    uint64_t start = now();

    for (uint64_t k = 0; k < calls; k++)
        write_place(&plan, augmented, out + k % PLACES * bytes);
    return now() - start;
}

/* Each block is the counter of the next: their time in line, as one sample's numbers come. */
static uint64_t philox(const sn_stage *stage, uint64_t calls)
{
    const uint32_t key[2] = {SEED, 1};
    uint32_t block[4] = {0};
    uint64_t start = now();

    (void)stage;
    for (uint64_t k = 0; k < calls; k++)
        sn_philox(key, block, block);
    start = now() - start;
    sink = block[0];
    return start;
}

static uint64_t start_stream(const sn_stage *stage, uint64_t calls)
{
    uint64_t start = now();
    sn_rng rng;

    (void)stage;
    for (uint64_t k = 0; k < calls; k++) {
        sn_rng_start(&rng, SEED, 0, 0, (uint32_t)k, SN_STREAM_AUGMENT);
        sink = sn_rng_u32(&rng);
    }
    return now() - start;
}

static uint32_t process_row;

/* A segment that no name leads to any more: nothing is left behind, however this ends. */
static sn_segment *segment_of_copies(const sn_stage *stage)
{
    sn_geometry geometry = {
        .payload_bytes = COPIES * COPY_BYTES, .n_samples = SAMPLES, .split = {[SN_AUGMENTED] = 10000}};
    sn_segment *segment;
    char path[64];
    int fd, rc;

    snprintf(path, sizeof path, "/dev/shm/seneca-stage-loop-%d", (int)getpid());
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        give_up("cannot make %s", path);
    rc = sn_join(fd, path, &geometry, 0, 1, NULL, NULL, &segment, &process_row);
    unlink(path);
    if (rc != SN_ATTACH_CREATED)
        give_up("%s: %d from joining %s", stage->name, rc, path);
    return segment;
}

static sn_member *member_of_job(const sn_stage *stage, sn_segment *segment, uint64_t job, uint32_t epoch)
{
    sn_member_options options = {
        .epoch = {.n_samples = SAMPLES, .count = SAMPLES, .places = SAMPLES, .seed = job, .epoch = epoch},
        .job_key = job,
        .client = {.decoded_pipeline = 1, .augmented_pipeline = 2, .height = SIDE, .width = SIDE, .shares = 1},
        .process_row = process_row,
        .in_flight = PLACES,
        .substitutes = 1,
    };
    sn_member *member;
    int joined;

    expect(sn_member_open(segment, &options, &member, &joined), stage);
    if (joined != 0)
        give_up("%s: the member has no row", stage->name);
    return member;
}

/* Jobs take turns; each commits what it has reserved and is done with all of it before its next draw. */
static uint64_t draw_in_turn(const sn_stage *stage, uint64_t calls, uint32_t jobs)
{
    sn_segment *segment = segment_of_copies(stage);
    sn_member *members[2] = {0};
    sn_item items[PLACES];
    uint64_t spent = 0;

    for (uint32_t job = 0; job < jobs; job++)
        members[job] = member_of_job(stage, segment, 1 + job, 0);
    for (uint64_t k = 0; k < calls; k++) {
        sn_member **member = &members[k % jobs];
        uint32_t drawn;
        uint64_t start;

        if (sn_member_left(*member) < PLACES) {
            sn_member_close(*member);
            *member = member_of_job(stage, segment, 1 + k % jobs, (uint32_t)k);
        }
        start = now();
        expect(sn_member_draw(*member, PLACES, items, &drawn, NULL, 0), stage);
        spent += now() - start;
        for (uint32_t i = 0; i < drawn; i++)
            if (items[i].target_slot != SN_NONE)
                sn_slot_commit(segment, items[i].target_slot);
        sn_member_done(*member, items, drawn);
    }
    for (uint32_t job = 0; job < jobs; job++)
        sn_member_close(members[job]);
    sn_segment_close(segment);
    return spent;
}

static uint64_t draw_alone(const sn_stage *stage, uint64_t calls)
{
    return draw_in_turn(stage, calls, 1);
}

static uint64_t draw_shared(const sn_stage *stage, uint64_t calls)
{
    return draw_in_turn(stage, calls, 2);
}

static uint64_t commit(const sn_stage *stage, uint64_t calls)
{
    sn_segment *segment = segment_of_copies(stage);
    uint64_t start = now();

    for (uint64_t k = 0; k < calls; k++)
        sn_slot_commit(segment, k % COPIES);
    start = now() - start;
    sn_segment_close(segment);
    return start;
}

static uint64_t lock(const sn_stage *stage, uint64_t calls)
{
    sn_segment *segment = segment_of_copies(stage);
    uint64_t start = now();

    for (uint64_t k = 0; k < calls; k++) {
        expect(sn_store_enter(segment, 0), stage);
        sn_store_leave(segment);
    }
    start = now() - start;
    sn_segment_close(segment);
    return start;
}

#define RESIZE(h, w)                                                                                                   \
    {                                                                                                                  \
        .kind = SN_OP_RESIZE, .size = {h, w}                                                                           \
    }
#define JITTER(...)                                                                                                    \
    {                                                                                                                  \
        .kind = SN_OP_COLOR_JITTER, .color_jitter = {__VA_ARGS__}                                                      \
    }
#define B(low, high) .brightness = {low, high}
#define C(low, high) .contrast = {low, high}
#define S(low, high) .saturation = {low, high}

static const sn_stage stages[] = {
    {"probe", probe, FILE_BYTES, {0}, 0, 0},
    {"decode", decode, FILE_BYTES, {0}, 0, 0},
    {"decode-region", decode_region, FILE_BYTES, {0}, 0, 0},
    {"resize", augment, DECODED, RESIZE(SIDE, SIDE), 0, 0},
    {"resize-across", augment, DECODED, RESIZE(DECODED_HEIGHT, SIDE), 0, 0},
    {"resize-down", augment, DECODED, RESIZE(SIDE, DECODED_WIDTH), 0, 0},
    {"flip", augment, AUGMENTED, {.kind = SN_OP_RANDOM_HFLIP, .chance = {1}}, 0, 0},
    {"brightness", augment, AUGMENTED, JITTER(B(0.6, 1.4), C(1, 1), S(1, 1)), 0, 0},
    {"contrast", augment, AUGMENTED, JITTER(B(1, 1), C(0.6, 1.4), S(1, 1)), 0, 0},
    {"saturation", augment, AUGMENTED, JITTER(B(1, 1), C(1, 1), S(0.6, 1.4)), 0, 0},
    {"hue", augment, AUGMENTED, JITTER(B(1, 1), C(1, 1), S(1, 1), .hue = {-0.1, 0.1}), 0, 0},
    {"grayscale", augment, AUGMENTED, {.kind = SN_OP_RANDOM_GRAYSCALE, .chance = {1}}, 0, 0},
    {"write-uint8-chw", write_batch, AUGMENTED, {0}, SN_UINT8, 0},
    {"write-uint8-hwc", write_batch, AUGMENTED, {0}, SN_UINT8, 1},
    {"write-float32-chw", write_batch, AUGMENTED, {0}, SN_FLOAT32, 0},
    {"write-float32-hwc", write_batch, AUGMENTED, {0}, SN_FLOAT32, 1},
    {"write-float16-chw", write_batch, AUGMENTED, {0}, SN_FLOAT16, 0},
    {"write-float16-hwc", write_batch, AUGMENTED, {0}, SN_FLOAT16, 1},
    {"write-bfloat16-chw", write_batch, AUGMENTED, {0}, SN_BFLOAT16, 0},
    {"write-bfloat16-hwc", write_batch, AUGMENTED, {0}, SN_BFLOAT16, 1},
    {"philox", philox, FILE_BYTES, {0}, 0, 0},
    {"start-stream", start_stream, FILE_BYTES, {0}, 0, 0},
    {"draw-alone", draw_alone, FILE_BYTES, {0}, 0, 0},
    {"draw-shared", draw_shared, FILE_BYTES, {0}, 0, 0},
    {"commit", commit, FILE_BYTES, {0}, 0, 0},
    {"lock", lock, FILE_BYTES, {0}, 0, 0},
};
#define N_STAGES (sizeof stages / sizeof *stages)

static bool is_there(const sn_stage *stage)
{
    sn_plan plan = plan_of(stage);

    return sn_plan_check(&plan) == SN_OK;
}

static void get_ready(const char *path)
{
    sn_stage shrink = {"shrink", augment, FILE_BYTES, RESIZE(DECODED_HEIGHT, DECODED_WIDTH), 0, 0};
    sn_stage cut = {"cut", augment, FILE_BYTES, RESIZE(SIDE, SIDE), 0, 0};

    codec = sn_codec_new(0);
    if (codec == NULL || !read_whole(path, &jpeg, &jpeg_length))
        give_up("cannot read %s", path);
    expect(sn_codec_probe(codec, jpeg, jpeg_length, &jpeg_height, &jpeg_width), &shrink);
    out = room(PLACES * VALUES * sizeof(float));
    augmented = room(VALUES);
    decoded = room(3 * DECODED_HEIGHT * DECODED_WIDTH);
    augment(&shrink, 1);
    memcpy(decoded, out, 3 * DECODED_HEIGHT * DECODED_WIDTH);
    augment(&cut, 1);
    memcpy(augmented, out, VALUES);
}

int main(int argc, char **argv)
{
    unsigned long long calls;
    char line[128], name[64];

    if (argc != 2)
        give_up("usage: stage_loop PICTURE");
    get_ready(argv[1]);
    while (fgets(line, sizeof line, stdin) != NULL) {
        const sn_stage *asked = NULL;

        if (strcmp(line, "names\n") == 0) {
            for (size_t i = 0; i < N_STAGES; i++)
                printf("%s %d ", stages[i].name, is_there(&stages[i]));
            printf("\n");
        } else {
            if (sscanf(line, "%63s %llu", name, &calls) != 2)
                give_up("not a request: %s", line);
            for (size_t i = 0; i < N_STAGES; i++)
                if (strcmp(name, stages[i].name) == 0)
                    asked = &stages[i];
            if (asked == NULL || !is_there(asked))
                give_up("no stage %s here", name);
            printf("%llu\n", (unsigned long long)asked->run(asked, calls));
        }
        fflush(stdout);
    }
    return 0;
}
