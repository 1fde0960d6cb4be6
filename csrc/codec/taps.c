#include "taps.h"

#include <math.h>
#include <string.h>

#include "../base/sn_status.h"
#include "sn_plan.h"

/* 255 << 22 times the sum of a filter's |weights|, which is below 1.4, still fits 31 bits. */
#define MAX_SHIFT 22

static bool is_plain(const sn_axis *axis)
{
    return axis->filter == SN_PLAIN_BILINEAR || axis->filter == SN_PLAIN_BICUBIC;
}

static bool is_cubic(const sn_axis *axis)
{
    return axis->filter == SN_BICUBIC || axis->filter == SN_PLAIN_BICUBIC;
}

/* How many source samples one output sample steps on. */
static double scale_of(const sn_axis *axis)
{
    return axis->extent / axis->full;
}

/* How much wider the filter is than it is for enlarging. */
static double stretch_of(const sn_axis *axis)
{
    double scale = scale_of(axis);

    return scale < 1.0 || is_plain(axis) ? 1.0 : scale;
}

/* The filter at a distance. Cubic: Keys' convolution, with Pillow's parameter and torch's. */
static double filter_at(const sn_axis *axis, double away)
{
    double a = axis->filter == SN_PLAIN_BICUBIC ? -0.75 : -0.5;

    away = fabs(away);
    if (!is_cubic(axis))
        return away < 1.0 ? 1.0 - away : 0.0;
    if (away < 1.0)
        return ((a + 2.0) * away - (a + 3.0)) * away * away + 1.0;
    if (away < 2.0)
        return (((away - 5.0) * away + 8.0) * away - 4.0) * a;
    return 0.0;
}

/* Pillow's rule: the most bits with which the largest weight stays below 2^15. */
static int choose_shift(const double *weights, size_t n)
{
    double largest = 0;
    int shift = 0;

    for (size_t k = 0; k < n; k++)
        if (weights[k] > largest)
            largest = weights[k];
    while (shift < MAX_SHIFT && (int)(0.5 + largest * (1 << (shift + 1))) < 1 << 15)
        shift++;
    return shift;
}

/* The exact weights of one output, normalised, added to zeros; returns its first sample, *n of
 * them. */
static uint32_t exact_weights(const sn_axis *axis, uint32_t output, double *weights, uint32_t *n)
{
    double stretch = stretch_of(axis), narrow = 1.0 / stretch;
    double support = (is_cubic(axis) ? 2.0 : 1.0) * stretch;
    double center = axis->origin + (output + 0.5) * scale_of(axis);
    double sum = 0;
    int64_t low = (int64_t)floor(center - support + 0.5), first = low < 0 ? 0 : low;
    int64_t high = (int64_t)floor(center + support + 0.5);
    int64_t end = high > axis->source ? axis->source : high;

    /* Beyond the edges there is nothing, and the other weights make up for it; or, plain, the
     * sample at the edge once more. */
    for (int64_t k = is_plain(axis) ? low : first; k < (is_plain(axis) ? high : end); k++) {
        int64_t at = k < first ? first : k < end ? k : end - 1;
        double weight = filter_at(axis, (k - center + 0.5) * narrow);

        weights[at - first] += weight;
        sum += weight;
    }
    *n = (uint32_t)(end - first);
    if (sum != 0)
        for (uint32_t k = 0; k < *n; k++)
            weights[k] /= sum;
    return (uint32_t)first;
}

/* Rounded to fixed point, halves away from zero. */
static int16_t fixed(double weight, int shift)
{
    return (int16_t)(weight * (1 << shift) + (weight < 0 ? -0.5 : 0.5));
}

int sn_taps_build(sn_taps *taps, const sn_axis *axis)
{
    size_t room = (size_t)ceil((is_cubic(axis) ? 2.0 : 1.0) * stretch_of(axis)) * 2 + 1;
    uint32_t count = axis->count, widest = 1, first = UINT32_MAX, end = 0, next = UINT32_MAX;
    uint32_t *low, *start, *used;
    double *exact;
    int16_t *weight;
    size_t padded;
    int rc;

    /* Every output, not only the wanted: the shift, and with it each pixel, must not depend on
     * the window. */
    rc = sn_buffer_reserve(&taps->exact, axis->full * (room * sizeof *exact + 2 * sizeof *low));
    if (rc != 0)
        goto out;
    exact = (double *)taps->exact.data;
    low = (uint32_t *)(exact + axis->full * room);
    memset(exact, 0, axis->full * room * sizeof *exact);
    for (uint32_t i = 0; i < axis->full; i++)
        low[i] = exact_weights(axis, i, exact + i * room, &low[axis->full + i]);
    taps->shift = choose_shift(exact, axis->full * room);

    /* A weight that rounds to nothing asks for no sample: do not decode one for it. One that the
     * next output is made of is kept all the same: a cubic filter is 0 one sample away, not
     * farther, and who goes down the rows must not have passed over that sample. */
    for (uint32_t i = axis->first + count; i-- > axis->first;) {
        uint32_t n = low[axis->full + i], skip = 0;

        while (n > 1 && fixed(exact[i * room + n - 1], taps->shift) == 0)
            n--;
        while (skip + 1 < n && low[i] + skip < next && fixed(exact[i * room + skip], taps->shift) == 0)
            skip++;
        memmove(exact + i * room, exact + i * room + skip, (n - skip) * sizeof *exact);
        low[i] += skip;
        next = low[i];
        low[axis->full + i] = n - skip;
        widest = n - skip > widest ? n - skip : widest;
        first = low[i] < first ? low[i] : first;
        end = low[i] + n - skip > end ? low[i] + n - skip : end;
    }

    taps->span_first = first;
    taps->span_count = end - first;
    taps->count = count;
    taps->width = (widest + 3) / 4 * 4;
    taps->blocks = NULL;

    padded = ((size_t)count + 3) / 4 * 4;
    rc = sn_buffer_reserve(&taps->store, 2 * padded * sizeof *start +
                                             (size_t)count * taps->width * sizeof *weight);
    if (rc != 0)
        goto out;
    taps->start = start = (uint32_t *)taps->store.data;
    taps->used = used = start + padded;
    taps->weight = weight = (int16_t *)(used + padded);
    memset(start, 0, padded * sizeof *start);
    memset(weight, 0, (size_t)count * taps->width * sizeof *weight);
    for (uint32_t i = 0; i < count; i++, weight += taps->width) {
        uint32_t output = axis->first + (axis->flip ? count - 1 - i : i);
        uint32_t n = low[axis->full + output], begin = low[output] - first, lead = 0;

        /* Near the end start earlier, with leading zeros, so that whole groups of four weights
         * stay within the row. */
        if (begin + taps->width > taps->span_count) {
            uint32_t earlier = taps->span_count > taps->width ? taps->span_count - taps->width : 0;
            lead = begin - earlier;
            begin = earlier;
        }
        start[i] = begin;
        used[i] = lead + n;
        for (uint32_t k = 0; k < n; k++)
            weight[lead + k] = fixed(exact[output * room + k], taps->shift);
    }

out:
    return rc;
}

int sn_taps_build_blocks(sn_taps *taps)
{
    uint32_t groups = taps->width / 4, blocks = (taps->count + 3) / 4;
    size_t size = (size_t)blocks * groups * 64 * sizeof(int16_t);
    int16_t *out;
    int rc = sn_buffer_reserve(&taps->block_store, size);

    if (rc != 0)
        return rc;
    taps->blocks = out = (int16_t *)taps->block_store.data;
    for (uint32_t block = 0; block < blocks; block++)
        for (uint32_t group = 0; group < groups; group++)
            for (uint32_t vector = 0; vector < 4; vector++)
                for (uint32_t lane = 0; lane < 2; lane++, out += 8) {
                    uint32_t i = 4 * block + 2 * lane + vector / 2;
                    const int16_t *pair;
                    uint32_t bits = 0;

                    if (i < taps->count) {
                        pair = taps->weight + (size_t)i * taps->width + 4 * group + 2 * (vector % 2);
                        memcpy(&bits, pair, sizeof bits);
                    }
                    for (int k = 0; k < 4; k++)
                        memcpy(out + 2 * k, &bits, sizeof bits);
                }
    return SN_OK;
}

void sn_taps_release(sn_taps *taps)
{
    sn_buffer_release(&taps->exact);
    sn_buffer_release(&taps->store);
    sn_buffer_release(&taps->block_store);
}
