/*
 * decode_loop.c -- how many pictures a second the codec prepares with no loader around it.
 *
 *   decode_loop boxes EPOCHS LIST                      a line a picture and epoch: where it is cropped
 *   decode_loop MODE THREADS WARM_S SECONDS LIST       images, elapsed_s and cpu_s, as JSON
 *
 *   limit            decode, of each picture, only the region that its random crop wants
 *   exact, fast      the whole way: that region, resized, flipped, normalised into float32
 *   recode           the whole way, and makes the RECODED payload, of each picture that has one
 *   recoded          the whole way from these payloads; of the pictures without one, from the file
 *   decoded          the way from decoded pictures of 400 x 470, in random places of 64 MiB
 *   copy-decoded     no work: the same bytes read, as many written
 *   augmented        the way from staged copies, in random places of 64 MiB
 *   copy-augmented   no work: the same bytes read, as many written
 *   fill             as many bytes written
 *
 * LIST names the files, one a line; all are in memory before the clock starts. Every thread has a
 * codec of its own, takes every THREADS-th picture, and writes into 64 places in turn, as a
 * loader's thread does. `boxes` leaves out (and names) what cannot be decoded; crops repeat after
 * EPOCHS passes over the pictures, so that others can be given the same ones.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/sn_rng.h"
#include "codec/operations/route.h"
#include "loop.h"

#define EPOCHS 8 /* as bench_decode.py asks of `boxes` */
#define SEED 7
#define PLACES 64
#define MAX_PIXELS 64000000
#define BLOCK_BYTES ((size_t)64 << 20)
#define PAGE 4096u
#define DECODED_HEIGHT 400u
#define DECODED_WIDTH 470u

typedef struct {
    char *path;
    uint8_t *bytes;
    size_t length;
    uint32_t height, width;
    uint8_t *recoded; /* its payload; NULL: it has none, or none was asked for */
    size_t recoded_bytes;
} picture;

/* Payloads side by side, each at the start of a page, as the cache lays them. */
typedef struct {
    uint8_t *bytes;
    size_t stride;
    uint32_t count;
} block;

static picture *pictures;
static uint32_t n_pictures, n_threads;
static sn_plan plan;
static block staged, decoded;
static atomic_bool stopped;

typedef struct {
    _Alignas(128) atomic_uint_fast64_t images;
    pthread_t thread;
    sn_codec *codec;
    sn_rng places; /* which payload is next */
    uint32_t index, epoch;
    uint8_t *pixels;  /* one AUGMENTED picture */
    uint8_t *payload; /* one RECODED */
    float *out;       /* PLACES pictures */
} worker;

static sn_rng rng_of(uint32_t epoch, uint32_t index)
{
    sn_rng rng;

    sn_rng_start(&rng, SEED, 0, epoch % EPOCHS, index, SN_STREAM_AUGMENT);
    return rng;
}

/* Where the picture's random crop lies, and whether it is flipped. */
static sn_pass pass_of(const picture *p, uint32_t epoch, uint32_t index)
{
    sn_rng rng = rng_of(epoch, index);
    sn_route route;

    if (sn_route_lay(&route, plan.ops, plan.n_ops, &rng, p->height, p->width, NULL, MAX_PIXELS) != 0 ||
        route.n_passes != 1)
        give_up("%s: no route of one pass", p->path);
    return route.passes[0];
}

static const picture *next_picture(worker *w, uint32_t *epoch, uint32_t *index)
{
    *epoch = w->epoch;
    *index = w->index;
    w->index += n_threads;
    if (w->index >= n_pictures) {
        w->index %= n_pictures;
        w->epoch++;
    }
    return &pictures[*index];
}

static void decode_region(worker *w, float *out)
{
    uint32_t epoch, index;
    const picture *p = next_picture(w, &epoch, &index);
    sn_rect box = pass_of(p, epoch, index).box;
    sn_view view;

    (void)out;
    if (sn_codec_decode_region(w->codec, p->bytes, p->length, box.top, box.left, box.height, box.width, &view) != 0)
        give_up("%s: %s", p->path, sn_codec_message(w->codec));
}

static void whole_way(worker *w, float *out)
{
    uint32_t epoch, index;
    const picture *p = next_picture(w, &epoch, &index);
    sn_rng rng = rng_of(epoch, index);

    if (sn_codec_augment_encoded(w->codec, &plan, &rng, p->bytes, p->length, w->pixels) != 0)
        give_up("%s: %s", p->path, sn_codec_message(w->codec));
    write_place(&plan, w->pixels, out);
}

static void whole_way_recoded(worker *w, float *out)
{
    uint32_t epoch = w->epoch, index = w->index;
    const picture *p = &pictures[index];
    sn_rng rng = rng_of(epoch, index);

    if (p->recoded == NULL) {
        whole_way(w, out);
        return;
    }
    next_picture(w, &epoch, &index);
    if (sn_codec_augment_recoded(w->codec, &plan, &rng, p->recoded, p->recoded_bytes, w->pixels) != 0)
        give_up("%s: %s", p->path, sn_codec_message(w->codec));
    write_place(&plan, w->pixels, out);
}

static size_t largest_recoded(void)
{
    size_t largest = 0;

    for (uint32_t i = 0; i < n_pictures; i++)
        if (pictures[i].length > largest)
            largest = pictures[i].length;
    return sn_codec_most_recoded(largest);
}

static void recode(worker *w, float *out)
{
    uint32_t epoch, index;
    const picture *p = next_picture(w, &epoch, &index);
    sn_rng rng = rng_of(epoch, index);
    sn_recoded_payload payload = {w->payload, sn_codec_most_recoded(p->length), 0, 0};

    if (sn_codec_augment_and_recode(w->codec, &plan, &rng, p->bytes, p->length, &payload, w->pixels) != 0 ||
        payload.rc != 0)
        give_up("%s: %s", p->path, sn_codec_message(w->codec));
    write_place(&plan, w->pixels, out);
}

static const uint8_t *some_payload(worker *w, const block *from)
{
    return from->bytes + sn_rng_below(&w->places, from->count) * from->stride;
}

static sn_view some_decoded(worker *w)
{
    return (sn_view){some_payload(w, &decoded), DECODED_HEIGHT, DECODED_WIDTH, 3 * DECODED_WIDTH, NULL, 0};
}

static void from_decoded(worker *w, float *out)
{
    uint32_t epoch, index;
    sn_view view = some_decoded(w);
    sn_rng rng;

    next_picture(w, &epoch, &index);
    rng = rng_of(epoch, index);
    if (sn_codec_augment_decoded(w->codec, &plan, &rng, &view, w->pixels) != 0)
        give_up("decoded: %s", sn_codec_message(w->codec));
    write_place(&plan, w->pixels, out);
}

/* Copy `rows` of `bytes`, over and over, until the output is full: what is read is read from
 * memory once, and what is written is the whole output. */
static void copy_rows(const uint8_t *row, size_t stride, uint32_t rows, size_t bytes, float *out)
{
    size_t left = VALUES * sizeof *out;
    uint8_t *to = (uint8_t *)out;

    while (left > 0)
        for (uint32_t y = 0; y < rows && left > 0; y++) {
            size_t n = bytes < left ? bytes : left;

            memcpy(to, row + y * stride, n);
            to += n;
            left -= n;
        }
}

static void copy_decoded(worker *w, float *out)
{
    uint32_t epoch, index;
    sn_view view = some_decoded(w);
    picture like = {.path = "decoded", .height = view.height, .width = view.width};
    sn_rect box;

    next_picture(w, &epoch, &index);
    box = pass_of(&like, epoch, index).box;
    copy_rows(view.pixels + box.top * view.stride + 3 * (size_t)box.left, view.stride, box.height,
              3 * (size_t)box.width, out);
}

static void from_staged(worker *w, float *out)
{
    write_place(&plan, some_payload(w, &staged), out);
}

static void copy_staged(worker *w, float *out)
{
    copy_rows(some_payload(w, &staged), 0, 1, VALUES, out);
}

static void fill(worker *w, float *out)
{
    memset(out, (int)(w->epoch++ & 1), VALUES * sizeof *out);
}

static const struct {
    const char *name;
    void (*prepare)(worker *w, float *out);
} modes[] = {
    {"limit", decode_region},
    {"exact", whole_way},
    {"fast", whole_way},
    {"recode", recode},
    {"recoded", whole_way_recoded},
    {"decoded", from_decoded},
    {"augmented", from_staged},
    {"copy-decoded", copy_decoded},
    {"copy-augmented", copy_staged},
    {"fill", fill},
};

static void (*prepare)(worker *w, float *out);

static void *work(void *context)
{
    worker *w = context;

    for (uint64_t k = 0; !atomic_load_explicit(&stopped, memory_order_relaxed); k++) {
        prepare(w, w->out + k % PLACES * VALUES);
        atomic_fetch_add_explicit(&w->images, 1, memory_order_relaxed);
    }
    return NULL;
}

static void start(worker *w, uint32_t number)
{
    w->codec = sn_codec_new(MAX_PIXELS);
    w->index = number % n_pictures;
    w->pixels = room(VALUES);
    w->payload = room(largest_recoded());
    w->out = room(PLACES * VALUES * sizeof *w->out);
    sn_rng_start(&w->places, SEED, 0, 0, number, SN_STREAM_CHOOSE);
    if (w->codec == NULL || pthread_create(&w->thread, NULL, work, w) != 0)
        give_up("no thread, or no memory for its codec");
}

static uint64_t images_of(const worker *workers)
{
    uint64_t images = 0;

    for (uint32_t i = 0; i < n_threads; i++)
        images += atomic_load_explicit(&workers[i].images, memory_order_relaxed);
    return images;
}

static void sleep_for(double seconds)
{
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    while (nanosleep(&left, &left) != 0)
        continue;
}

static void measure(double warm_s, double seconds)
{
    worker *workers = room(n_threads * sizeof *workers);
    uint64_t images, wall, cpu;

    memset(workers, 0, n_threads * sizeof *workers);
    for (uint32_t i = 0; i < n_threads; i++)
        start(&workers[i], i);
    sleep_for(warm_s);
    images = images_of(workers);
    wall = nanoseconds(CLOCK_MONOTONIC);
    cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    sleep_for(seconds);
    images = images_of(workers) - images;
    wall = nanoseconds(CLOCK_MONOTONIC) - wall;
    cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    atomic_store(&stopped, true);
    for (uint32_t i = 0; i < n_threads; i++) {
        pthread_join(workers[i].thread, NULL);
        sn_codec_free(workers[i].codec);
        free(workers[i].pixels);
        free(workers[i].out);
    }
    free(workers);
    printf("{\"images\": %llu, \"elapsed_s\": %.6f, \"cpu_s\": %.6f}\n", (unsigned long long)images,
           (double)wall * 1e-9, (double)cpu * 1e-9);
}

/* Pictures of `height` x `width`, made from the files in turn by `how`. */
static block fill_block(const sn_plan *how, uint32_t height, uint32_t width)
{
    sn_codec *codec = sn_codec_new(MAX_PIXELS);
    block made = {.stride = ((size_t)3 * height * width + PAGE - 1) / PAGE * PAGE};

    made.count = (uint32_t)(BLOCK_BYTES / made.stride);
    made.bytes = room(made.count * made.stride);
    for (uint32_t i = 0; i < made.count; i++) {
        const picture *p = &pictures[i % n_pictures];
        sn_rng rng = rng_of(0, i);

        if (codec == NULL ||
            sn_codec_augment_encoded(codec, how, &rng, p->bytes, p->length, made.bytes + i * made.stride) != 0)
            give_up("%s: %s", p->path, codec ? sn_codec_message(codec) : "no memory");
    }
    sn_codec_free(codec);
    return made;
}

/* Make the payload of each picture that has one. */
static void recode_all(void)
{
    sn_codec *codec = sn_codec_new(MAX_PIXELS);
    size_t files = 0, payloads = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; codec != NULL && i < n_pictures; i++) {
        picture *p = &pictures[i];
        sn_recoded_payload payload = {.room = sn_codec_most_recoded(p->length)};

        payload.bytes = room(payload.room);
        if (sn_codec_recode(codec, p->bytes, p->length, &payload) != 0) {
            free(payload.bytes);
            continue;
        }
        p->recoded = payload.bytes;
        p->recoded_bytes = payload.length;
        files += p->length;
        payloads += payload.length;
        n++;
    }
    fprintf(stderr, "%u of %u pictures have a RECODED payload, of %.3f times the bytes of their files\n", n, n_pictures,
            files ? (double)payloads / (double)files : 0);
    sn_codec_free(codec);
}

static void load(const char *list)
{
    FILE *file = fopen(list, "r");
    sn_codec *codec = sn_codec_new(MAX_PIXELS);
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;

    if (file == NULL || codec == NULL)
        give_up("cannot read %s", list);
    while ((length = getline(&line, &capacity, file)) > 0) {
        picture p = {0};

        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        p.path = strdup(line);
        if (!read_whole(p.path, &p.bytes, &p.length))
            give_up("cannot read %s", p.path);
        if (sn_codec_probe(codec, p.bytes, p.length, &p.height, &p.width) != 0) {
            fprintf(stderr, "left out: %s: %s\n", p.path, sn_codec_message(codec));
            free(p.path);
            free(p.bytes);
            continue;
        }
        pictures = realloc(pictures, (n_pictures + 1) * sizeof *pictures);
        if (pictures == NULL)
            give_up("no memory for %s", list);
        pictures[n_pictures++] = p;
    }
    free(line);
    fclose(file);
    sn_codec_free(codec);
    if (n_pictures == 0)
        give_up("%s names no picture that can be decoded", list);
}

/* Those that the codec decodes from end to end; the others are named and forgotten. */
static void keep_what_decodes(void)
{
    sn_codec *codec = sn_codec_new(MAX_PIXELS);
    uint32_t kept = 0;
    sn_view view;

    for (uint32_t i = 0; i < n_pictures; i++) {
        picture *p = &pictures[i];

        if (codec != NULL && sn_codec_decode_region(codec, p->bytes, p->length, 0, 0, p->height, p->width, &view) == 0)
            pictures[kept++] = *p;
        else
            fprintf(stderr, "left out: %s: %s\n", p->path, codec ? sn_codec_message(codec) : "no memory");
    }
    n_pictures = kept;
    sn_codec_free(codec);
}

/* Those that have a RECODED payload. */
static void keep_recoded(void)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n_pictures; i++)
        if (pictures[i].recoded != NULL)
            pictures[kept++] = pictures[i];
    n_pictures = kept;
    if (n_pictures == 0)
        give_up("no picture has a RECODED payload");
}

static void print_boxes(uint32_t epochs)
{
    for (uint32_t epoch = 0; epoch < epochs; epoch++)
        for (uint32_t i = 0; i < n_pictures; i++) {
            sn_pass pass = pass_of(&pictures[i], epoch, i);

            printf("%u %u %u %u %u %d %s\n", epoch, pass.box.top, pass.box.left, pass.box.height, pass.box.width,
                   pass.flip, pictures[i].path);
        }
}

int main(int argc, char **argv)
{
    sn_plan shrink = {.n_ops = 1, .dtype = SN_UINT8, .divisor = 255, .std = {1, 1, 1}};

    plan = standard_plan();
    shrink.ops[0] = (sn_op){.kind = SN_OP_RESIZE, .size = {DECODED_HEIGHT, DECODED_WIDTH}};
    if (sn_plan_check(&plan) != 0 || sn_plan_check(&shrink) != 0)
        give_up("the codec refuses the plan");
    if (argc == 4 && strcmp(argv[1], "boxes") == 0) {
        load(argv[3]);
        keep_what_decodes();
        print_boxes((uint32_t)atoi(argv[2]));
        return 0;
    }
    for (size_t m = 0; argc == 6 && m < sizeof modes / sizeof *modes; m++)
        if (strcmp(argv[1], modes[m].name) == 0)
            prepare = modes[m].prepare;
    if (prepare == NULL || (n_threads = (uint32_t)atoi(argv[2])) == 0)
        give_up("usage: decode_loop boxes EPOCHS LIST | decode_loop MODE THREADS WARM_S SECONDS LIST");
    load(argv[5]);
    if (prepare == whole_way_recoded || prepare == recode)
        recode_all();
    if (prepare == recode) /* what has no payload is passed over */
        keep_recoded();
    if (prepare == from_staged || prepare == copy_staged)
        staged = fill_block(&plan, SIDE, SIDE);
    if (prepare == from_decoded || prepare == copy_decoded)
        decoded = fill_block(&shrink, DECODED_HEIGHT, DECODED_WIDTH);
    if (strcmp(argv[1], "fast") == 0)
        plan.decode = SN_DECODE_FAST;
    measure(atof(argv[3]), atof(argv[4]));
    return 0;
}
