/*
 * test_flac.c -- FLACs with all that the format has: what comes out is what went in, and what libFLAC makes of it.
 *
 * Then bits are turned, and the sums are made to agree again: nothing is read beyond its end, and what is read is what
 * libFLAC makes of it.
 */
#include "check.h"
#include "codec/kernels/flac_kernels.h"
#include "codec/sound/flac.h"
#include "flacs.h"

#ifdef SN_HAVE_SNDFILE
#include <sndfile.h>
#endif

#define DEFAULT_COUNT 600
#define MOST_FRAMES 3000

static sn_flac flac;
static sn_buffer buffer;

static flac_kind draw_kind(sn_rng *rng)
{
    static const uint8_t widths[] = {8, 16, 16, 16, 24}; /* that libsndfile reads */
    flac_kind kind = {.channels = sn_rng_below(rng, 4) ? 1 + sn_rng_below(rng, 2) : 1 + sn_rng_below(rng, 8),
                      .bits = widths[sn_rng_below(rng, sizeof widths)],
                      .is_variable = sn_rng_below(rng, 3) == 0};

    kind.frames = 1 + sn_rng_below(rng, MOST_FRAMES);
    kind.block = sn_rng_below(rng, 3) ? 16u << sn_rng_below(rng, 8) : 16 + sn_rng_below(rng, 2 * MOST_FRAMES);
    return kind;
}

/* What libFLAC makes of it: floats, frame by frame, as many as there are. */
#ifdef SN_HAVE_SNDFILE
typedef struct {
    const picture_file *file;
    sf_count_t at;
} reading;

static sf_count_t get_length(void *user)
{
    return (sf_count_t)((reading *)user)->file->length;
}

static sf_count_t seek(sf_count_t offset, int whence, void *user)
{
    reading *of = user;

    return of->at = offset + (whence == SEEK_SET ? 0 : whence == SEEK_CUR ? of->at : get_length(user));
}

static sf_count_t read_bytes(void *to, sf_count_t count, void *user)
{
    reading *of = user;
    sf_count_t left = get_length(user) - of->at, n = count < left ? count : left;

    n = n < 0 ? 0 : n;
    memcpy(to, of->file->bytes + of->at, (size_t)n);
    of->at += n;
    return n;
}

static sf_count_t tell(void *user)
{
    return ((reading *)user)->at;
}

static uint32_t read_by_libflac(const picture_file *file, uint32_t channels, uint32_t frames, float *out)
{
    SF_VIRTUAL_IO io = {get_length, seek, read_bytes, NULL, tell};
    SF_INFO info = {0};
    reading of = {file, 0};
    SNDFILE *handle = sf_open_virtual(&io, SFM_READ, &info, &of);
    sf_count_t got = 0;

    if (handle && info.channels == (int)channels)
        got = sf_readf_float(handle, out, frames);
    if (handle)
        sf_close(handle);
    return (uint32_t)got;
}
#endif

/* Read the frames [first, end). */
static int read_ours(const picture_file *file, bool mono, uint32_t channels, int64_t first, int64_t end, sn_planes *out)
{
    if (!sn_flac_open(&flac, file->bytes, file->length) || flac.stream.channels != channels)
        return SN_MISS;
    if (first > 0 || end < (int64_t)flac.stream.frames)
        (void)sn_flac_is_whole(&flac);
    CHECK_EQUAL(sn_planes_reserve(&buffer, mono ? 1 : channels, first, (uint64_t)(end - first), out), SN_OK, "room");
    return sn_flac_read(&flac, mono, first, end, out);
}

static void test_whole(const flac_kind *kind, const picture_file *file, const int32_t *samples, sn_rng *rng)
{
    float scale = 1.0f / (float)(1 << (kind->bits - 1)), *libs = malloc(sizeof *libs * kind->channels * kind->frames);
    sn_planes planes;

    CHECK(libs);
    for (uint32_t turn = 0; turn < 4; turn++) {
        bool mono = turn % 2, in_part = turn / 2;
        uint32_t first = in_part ? sn_rng_below(rng, kind->frames) : 0;
        uint32_t end = in_part ? first + 1 + sn_rng_below(rng, kind->frames - first) : kind->frames;

        CHECK_EQUAL(read_ours(file, mono, kind->channels, first, end, &planes), SN_OK,
                    "%u channels of %u bits, blocks of %u, frames %u to %u of %u", kind->channels, kind->bits,
                    kind->block, first, end, kind->frames);
        for (uint32_t k = first; k < end; k++)
            for (uint32_t channel = 0; channel < planes.channels; channel++) {
                const int32_t *frame = samples + (size_t)k * kind->channels;
                float wanted = (float)frame[channel] * scale;

                for (uint32_t other = 1; other < kind->channels && mono; other++)
                    wanted += (float)frame[other] * scale;
                wanted = mono ? wanted / (float)kind->channels : wanted;
                CHECK(*sn_planes_at(&planes, channel, k) == wanted);
            }
    }
#ifdef SN_HAVE_SNDFILE
    CHECK_EQUAL(read_by_libflac(file, kind->channels, kind->frames, libs), kind->frames,
                "libFLAC: %u channels of %u bits, blocks of %u%s", kind->channels, kind->bits, kind->block,
                kind->is_variable ? ", variable" : "");
    for (size_t k = 0; k < (size_t)kind->frames * kind->channels; k++)
        CHECK(libs[k] == (float)samples[k] * scale);
#endif
    free(libs);
}

static uint32_t sum_of(const uint8_t *bytes, size_t n)
{
    uint32_t sum = 0;

    for (size_t k = 0; k < n; k++) {
        sum ^= (uint32_t)bytes[k] << 8;
        for (int bit = 0; bit < 8; bit++)
            sum = (sum & 0x8000 ? sum << 1 ^ 0x8005 : sum << 1) & 0xFFFF;
    }
    return sum;
}

/* Turn some bits of a block, and let its sum agree. Whether it was read. */
static bool test_turned(const flac_kind *kind, picture_file *file, sn_rng *rng)
{
    sn_planes planes;
    sn_flac_stream stream;
    sn_flac_block block;
    const uint8_t *next;
    uint8_t *at;
    size_t n;
    uint32_t sum;
    bool was_read;

    CHECK(sn_flac_open_stream(&stream, file->bytes, file->length) && sn_flac_open_block(&stream, stream.first, &block));
    for (next = block.samples + 1; next < stream.end; next++) {
        sn_flac_block behind;

        if (sn_flac_open_block(&stream, next, &behind) && behind.first == block.frames)
            break;
    }
    at = file->bytes + (block.samples - file->bytes);
    n = (size_t)(next - block.samples) - 2;
    for (uint32_t k = 1 + sn_rng_below(rng, 3); k > 0; k--)
        at[sn_rng_below(rng, sn_rng_below(rng, 2) ? (uint32_t)n
                             : n < 12             ? (uint32_t)n
                                                  : 12)] ^= (uint8_t)(1 << sn_rng_below(rng, 8));
    sum = sum_of(stream.first, (size_t)(next - 2 - stream.first));
    at[n] = (uint8_t)(sum >> 8);
    at[n + 1] = (uint8_t)sum;
    was_read = read_ours(file, false, kind->channels, 0, kind->frames, &planes) == SN_OK;
#ifdef SN_HAVE_SNDFILE
    if (was_read) {
        float *libs = malloc(sizeof *libs * kind->channels * kind->frames);

        CHECK(libs);
        CHECK_EQUAL(read_by_libflac(file, kind->channels, kind->frames, libs), kind->frames, "libFLAC, of turned bits");
        for (uint32_t k = 0; k < kind->frames; k++)
            for (uint32_t channel = 0; channel < kind->channels; channel++)
                CHECK(*sn_planes_at(&planes, channel, k) == libs[(size_t)k * kind->channels + channel]);
        free(libs);
    }
#endif
    return was_read;
}

/* Vectors and plain C make the same of any rows, and of any bits. */
static void test_kernels(sn_rng *rng)
{
#ifdef SN_HAVE_AVX2_CODE
    static int32_t samples[2][SN_FLAC_ROWS][MOST_FRAMES + SN_FLAC_ROWS];
    static uint8_t bytes[4 * MOST_FRAMES];
    sn_flac_row rows[2][SN_FLAC_ROWS];
    uint32_t n = 1 + sn_rng_below(rng, MOST_FRAMES), k = sn_rng_below(rng, 31),
             length = sn_rng_below(rng, sizeof bytes);
    sn_bits bits[2] = {{.at = bytes, .end = bytes + length}, {.at = bytes, .end = bytes + length}};
    uint32_t most_order = sn_rng_below(rng, SN_FLAC_ORDER + 1), done;

    if (!sn_simd_usable())
        return;
    for (uint32_t row = 0; row < SN_FLAC_ROWS; row++) {
        sn_flac_row *one = &rows[0][row];

        *one = (sn_flac_row){.samples = samples[0][row], .order = sn_rng_below(rng, most_order + 1)};
        one->shift = sn_rng_below(rng, 16);
        for (uint32_t i = 0; i < one->order; i++)
            one->weights[i] = (int32_t)(sn_rng_u32(rng) >> 17) - (1 << 14);
        for (uint32_t i = 0; i < n; i++)
            samples[0][row][i] = samples[1][row][i] = (int32_t)sn_rng_u32(rng) >> sn_rng_below(rng, 32);
        rows[1][row] = *one;
        rows[1][row].samples = samples[1][row];
    }
    sn_predict_plain(rows[0], SN_FLAC_ROWS, n);
    sn_predict_simd(rows[1], n);
    for (uint32_t row = 0; row < SN_FLAC_ROWS; row++)
        CHECK(memcmp(samples[0][row], samples[1][row], sizeof(int32_t) * n) == 0);
    for (uint32_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(sn_rng_u32(rng) & sn_rng_u32(rng) & (i % 64 < 8 ? 0 : 0xff));
    done = sn_rice_plain(&bits[0], k, n, samples[0][0]);
    CHECK_EQUAL(sn_rice_simd(&bits[1], k, n, samples[1][0]), done, "numbers with %u low bits", k);
    CHECK(memcmp(samples[0][0], samples[1][0], sizeof(int32_t) * done) == 0);
    CHECK(bits[0].bits == bits[1].bits && bits[0].n == bits[1].n && bits[0].at == bits[1].at);
#else
    (void)rng;
#endif
}

int main(int argc, char **argv)
{
    const char *asked = getenv("SENECA_FUZZ");
    uint32_t count = asked ? (uint32_t)strtoul(asked, NULL, 10) : DEFAULT_COUNT, were_read = 0;
    uint64_t seed = check_seed(argc, argv);

    for (uint32_t number = 0; number < count; number++) {
        int32_t *samples;
        picture_file file;
        flac_kind kind;
        sn_rng rng;

        sn_rng_start(&rng, seed, 0, 0, number, SN_STREAM_ORDER);
        kind = draw_kind(&rng);
        test_kernels(&rng);
        file = flac_make(&kind, &rng, &samples);
        /* As many bytes as it has, so that a read beyond them is seen. */
        file.bytes = realloc(file.bytes, file.length);
        CHECK(file.bytes);
        test_whole(&kind, &file, samples, &rng);
        were_read += test_turned(&kind, &file, &rng);
        picture_free(&file);
        free(samples);
    }
    sn_flac_release(&flac);
    sn_buffer_release(&buffer);
    printf("test_flac: %u files, and %u of them were read when bits were turned\n", count, were_read);
    return 0;
}
