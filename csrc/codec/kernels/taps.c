#include "taps.h"

#include <math.h>
#include <string.h>

#include "../../base/sn_status.h"
#include "../sn_plan.h"

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

/* The values that all outputs of an axis share, worked out once. */
typedef struct {
    double scale;   /* source samples that one output steps on */
    double stretch; /* how much wider the filter is than it is for enlarging */
    double support; /* how far it reaches */
} reach;

static reach reach_of(const sn_axis *axis)
{
    double scale = axis->extent / axis->full;
    double stretch = scale < 1.0 || is_plain(axis) ? 1.0 : scale;

    return (reach){scale, stretch, (is_cubic(axis) ? 2.0 : 1.0) * stretch};
}

/* As floor(), which is a call where the baseline has no instruction for it. */
static inline int64_t whole(double value)
{
    int64_t cut = (int64_t)value;

    return cut - (value < (double)cut);
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
static int choose_shift(double largest)
{
    int shift = 0;

    while (shift < MAX_SHIFT && (int)(0.5 + largest * (1 << (shift + 1))) < 1 << 15)
        shift++;
    return shift;
}

/* One output, made of `n` source samples from `first` on; of its weights, `skip` come before. */
typedef struct {
    double sum; /* by which the exact weights are to be divided */
    uint32_t first, n, skip;
} output;

/* The exact weights of an output, added to zeros; *largest becomes the largest of all. */
static void exact_weights(const sn_axis *axis, const reach *r, uint32_t number, output *made, double *weights,
                          double *largest)
{
    double narrow = 1.0 / r->stretch, center = axis->origin + (number + 0.5) * r->scale;
    int64_t low = whole(center - r->support + 0.5), first = low < 0 ? 0 : low;
    int64_t high = whole(center + r->support + 0.5);
    int64_t end = high > axis->source ? axis->source : high;
    double sum = 0, most = 0;

    /* Beyond the edges there is nothing, and the other weights make up for it; or, plain, the
     * sample at the edge once more. */
    for (int64_t k = is_plain(axis) ? low : first; k < (is_plain(axis) ? high : end); k++) {
        int64_t at = k < first ? first : k < end ? k : end - 1;
        double weight = filter_at(axis, (k - center + 0.5) * narrow);

        weights[at - first] += weight;
        sum += weight;
    }
    made->sum = sum != 0 ? sum : 1;
    made->first = (uint32_t)first;
    made->n = (uint32_t)(end - first);
    made->skip = 0;
    for (uint32_t k = 0; k < made->n; k++)
        most = weights[k] > most ? weights[k] : most;
    if (most / made->sum > *largest)
        *largest = most / made->sum;
}

/* Rounded to fixed point, halves away from zero. */
static int16_t fixed(double weight, int shift)
{
    return (int16_t)(weight * (1 << shift) + (weight < 0 ? -0.5 : 0.5));
}

int sn_taps_build(sn_taps *taps, const sn_axis *axis)
{
    reach r = reach_of(axis);
    size_t room = (size_t)ceil(r.support) * 2 + 1;
    uint32_t count = axis->count, widest = 1, first = UINT32_MAX, end = 0, next = UINT32_MAX;
    uint32_t *start, *used;
    double *exact, largest = 0;
    output *outputs;
    int16_t *rounded, *weight;
    int rc;

    /* Every output, not only the wanted: the shift, and with it each pixel, must not depend on
     * the window. */
    rc = sn_buffer_reserve(&taps->exact, axis->full * (sizeof *outputs + room * (sizeof *exact + sizeof *rounded)));
    if (rc != 0)
        goto out;
    outputs = (output *)taps->exact.data;
    exact = (double *)(outputs + axis->full);
    rounded = (int16_t *)(exact + axis->full * room);
    memset(exact, 0, axis->full * room * sizeof *exact);
    for (uint32_t i = 0; i < axis->full; i++)
        exact_weights(axis, &r, i, &outputs[i], exact + i * room, &largest);
    taps->shift = choose_shift(largest);

    /* A weight that rounds to nothing asks for no sample: do not decode one for it. One that the
     * next output is made of is kept all the same: a cubic filter is 0 one sample away, not
     * farther, and who goes down the rows must not have passed over that sample. */
    for (uint32_t i = axis->first + count; i-- > axis->first;) {
        output *o = &outputs[i];

        weight = rounded + i * room;
        for (uint32_t k = 0; k < o->n; k++)
            weight[k] = fixed(exact[i * room + k] / o->sum, taps->shift);
        while (o->n > 1 && weight[o->n - 1] == 0)
            o->n--;
        while (o->n > 1 && o->first < next && weight[o->skip] == 0) {
            o->first++;
            o->skip++;
            o->n--;
        }
        next = o->first;
        widest = o->n > widest ? o->n : widest;
        first = o->first < first ? o->first : first;
        end = o->first + o->n > end ? o->first + o->n : end;
    }

    taps->span_first = first;
    taps->span_count = end - first;
    taps->count = count;
    taps->width = (widest + 3) / 4 * 4;

    rc = sn_buffer_reserve(&taps->store, count * (2 * sizeof *start + taps->width * sizeof *weight));
    if (rc != 0)
        goto out;
    taps->start = start = (uint32_t *)taps->store.data;
    taps->used = used = start + count;
    taps->weight = weight = (int16_t *)(used + count);
    memset(weight, 0, (size_t)count * taps->width * sizeof *weight);
    for (uint32_t i = 0; i < count; i++, weight += taps->width) {
        uint32_t number = axis->first + (axis->flip ? count - 1 - i : i);
        const output *o = &outputs[number];

        start[i] = o->first - first;
        used[i] = o->n;
        for (uint32_t k = 0; k < o->n; k++)
            weight[k] = rounded[number * room + o->skip + k];
    }

out:
    return rc;
}

void sn_taps_release(sn_taps *taps)
{
    sn_buffer_release(&taps->exact);
    sn_buffer_release(&taps->store);
    sn_buffer_release(&taps->layout);
}
