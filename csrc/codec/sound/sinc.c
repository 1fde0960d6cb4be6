#include "sinc.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define MOST_WEIGHTS ((uint64_t)1 << 22) /* of a table: 16 MiB */

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* The modified Bessel function of the first kind of order 0, by its series. */
static double bessel(double x)
{
    double term = 1, sum = 1;

    for (int k = 1; term > sum * 1e-17; k++) {
        term *= x * x / 4 / ((double)k * k);
        sum += term;
    }
    return sum;
}

/* How a table is computed. */
typedef struct {
    double base, width; /* the cut-off in units of the first rate; zero crossings */
    double beta, scale;
    uint32_t window;
    uint32_t from, to;
} design;

static double weight_of(const design *of, double t)
{
    double window, angle = t * M_PI;

    if (of->window == SN_SINC_HANN) {
        double half = cos(angle / of->width / 2);

        window = half * half;
    } else {
        double part = t / of->width;

        window = bessel(of->beta * sqrt(1 - part * part)) / (double)(float)bessel(of->beta);
    }
    return (t == 0 ? 1 : sin(angle) / angle) * (window * of->scale);
}

/* The weights of one phase, and where they begin. */
static int32_t fill(const design *of, uint32_t phase, uint32_t taps, float *weights)
{
    double place = (double)(-(float)phase / (float)of->to);
    double reach = of->width / of->base * of->from;
    int64_t start = (int64_t)floor((double)phase / of->to * of->from - reach);

    for (uint32_t k = 0; k < taps; k++) {
        double t = (place + (double)(start + k) / of->from) * of->base;

        weights[k] = fabs(t) < of->width ? (float)weight_of(of, t) : 0;
    }
    return (int32_t)start;
}

static void release(sn_sinc_table *table)
{
    free((void *)table->sinc.start);
    free((void *)table->sinc.weights);
    *table = (sn_sinc_table){0};
}

void sn_sincs_release(sn_sincs *sincs)
{
    for (int k = 0; k < SN_MAX_RESAMPLES; k++)
        release(&sincs->tables[k]);
}

static int make(sn_sinc_table *table, const sn_op *op, uint32_t from, uint32_t to)
{
    design of = {.width = op->resample.lowpass_filter_width,
                 .beta = (float)op->resample.beta,
                 .window = op->resample.window,
                 .from = from,
                 .to = to};
    double taps;
    int32_t *start;
    float *weights;

    of.base = (from < to ? from : to) * op->resample.rolloff;
    of.scale = of.base / from;
    taps = floor(2 * of.width / of.base * from) + 3; /* the ends lie between frames */
    taps = ceil(taps / SN_SINC_LANES) * SN_SINC_LANES;
    if (taps * to > (double)MOST_WEIGHTS)
        return SN_E_TOO_LARGE;
    start = malloc(sizeof *start * to);
    weights = malloc(sizeof *weights * (size_t)taps * to);
    table->sinc = (sn_sinc){from, to, (uint32_t)taps, start, weights};
    if (start == NULL || weights == NULL) {
        release(table);
        return -ENOMEM;
    }
    for (uint32_t phase = 0; phase < to; phase++)
        start[phase] = fill(&of, phase, (uint32_t)taps, weights + (size_t)phase * (size_t)taps);
    table->lowpass_filter_width = op->resample.lowpass_filter_width;
    table->window = op->resample.window;
    table->rolloff = op->resample.rolloff;
    table->beta = op->resample.beta;
    return SN_OK;
}

static bool is_of(const sn_sinc_table *table, const sn_op *op, uint32_t from, uint32_t to)
{
    return table->used && table->sinc.from == from && table->sinc.to == to &&
           table->lowpass_filter_width == op->resample.lowpass_filter_width && table->window == op->resample.window &&
           table->rolloff == op->resample.rolloff && table->beta == op->resample.beta;
}

/* The table of these rates, or else the one that was not used for the longest time. */
static sn_sinc_table *find(sn_sincs *sincs, const sn_op *op, uint32_t from, uint32_t to)
{
    sn_sinc_table *oldest = &sincs->tables[0];

    for (int k = 0; k < SN_MAX_RESAMPLES; k++) {
        if (is_of(&sincs->tables[k], op, from, to))
            return &sincs->tables[k];
        if (sincs->tables[k].used < oldest->used)
            oldest = &sincs->tables[k];
    }
    return oldest;
}

int sn_sincs_find(sn_sincs *sincs, uint32_t rate, const sn_op *op, const sn_sinc **out)
{
    uint32_t divisor = common_divisor(rate, op->resample.rate);
    uint32_t from = rate / divisor, to = op->resample.rate / divisor;
    sn_sinc_table *table = find(sincs, op, from, to);

    if (!is_of(table, op, from, to)) {
        int rc;

        release(table);
        rc = make(table, op, from, to);
        if (rc != SN_OK)
            return rc;
    }
    table->used = ++sincs->count;
    *out = &table->sinc;
    return SN_OK;
}

uint64_t sn_sinc_frames(uint32_t rate, uint32_t new_rate, uint64_t frames)
{
    uint32_t divisor = common_divisor(rate, new_rate);
    uint64_t from = rate / divisor, to = new_rate / divisor;
    uint64_t rounded = (uint64_t)ceilf((float)((double)(to * frames) / (double)from));
    uint64_t most = (frames / from + 1) * to; /* of the blocks that torchaudio makes */

    return rounded < most ? rounded : most;
}

void sn_sinc_reads(const sn_sinc *sinc, int64_t first, uint64_t count, int64_t *from, uint64_t *n)
{
    int64_t last = first + (int64_t)count - 1;
    int64_t end = last / sinc->to * sinc->from + sinc->start[last % sinc->to] + sinc->taps;

    *from = first / sinc->to * sinc->from + sinc->start[first % sinc->to];
    *n = (uint64_t)(end - *from);
}

void sn_sinc_run(const sn_sinc *sinc, const sn_planes *from, const sn_planes *to, uint64_t frames)
{
    int64_t first, end;

    sn_planes_clear_outside(to, 0, (int64_t)frames);
    sn_planes_within(to, 0, (int64_t)frames, &first, &end);
    if (first == end)
        return;
    for (uint32_t channel = 0; channel < to->channels; channel++) {
        const float *block = sn_planes_at(from, channel, first / sinc->to * sinc->from);
        uint32_t phase = (uint32_t)(first % sinc->to);
        uint64_t n = (uint64_t)(end - first);
        float *out = sn_planes_at(to, channel, first);

#ifdef SN_HAVE_SIMD_CODE
        if (sn_simd_usable()) {
            sn_sinc_simd(sinc, phase, block, n, out);
            continue;
        }
#endif
        sn_sinc_plain(sinc, phase, block, n, out);
    }
}
