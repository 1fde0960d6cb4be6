/*
 * planes.h -- a stretch of a sound in memory: float32, one channel after another.
 *
 *      frames   ... -2 -1 | 0 1 2 ...      n-1 | n n+1 ...
 *                  zeros          sound           zeros
 *                 ^first .............................. first + count
 *
 * A stretch may begin before the sound and end behind it. What it has there is zero, as the filter of a resampling and
 * a crop that is longer than the sound want it.
 *
 * Lives in   the buffer of whoever made it, as long as that is not reserved again.
 */
#ifndef SN_PLANES_H
#define SN_PLANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../../base/sn_status.h"
#include "../buffer.h"
#include "../sn_plan.h"

typedef struct {
    float *data;   /* of the first channel, at `first` */
    size_t stride; /* floats from one channel to the next */
    uint32_t channels;
    int64_t first;
    uint64_t count;
} sn_planes;

/* Room for such a stretch, whose content is undefined. 0, -ENOMEM, SN_E_TOO_LARGE: see SN_MAX_FRAMES. */
static inline int sn_planes_reserve(sn_buffer *buffer, uint32_t channels, int64_t first, uint64_t count, sn_planes *out)
{
    int rc;

    if (count > SN_MAX_FRAMES / channels)
        return SN_E_TOO_LARGE;
    rc = sn_buffer_reserve(buffer, sizeof(float) * channels * count);
    *out = (sn_planes){(float *)buffer->data, count, channels, first, count};
    return rc;
}

/* One channel of it, at this frame, which lies in the stretch or just behind it. */
static inline float *sn_planes_at(const sn_planes *planes, uint32_t channel, int64_t frame)
{
    return planes->data + channel * planes->stride + (frame - planes->first);
}

/* The part of it that lies in [first, end), as frames of the stretch: *from to *to, which may be empty. */
static inline void sn_planes_within(const sn_planes *planes, int64_t first, int64_t end, int64_t *from, int64_t *to)
{
    int64_t last = planes->first + (int64_t)planes->count;

    *from = first < planes->first ? planes->first : first > last ? last : first;
    *to = end > last ? last : end < *from ? *from : end;
}

/* Make it zero outside [first, end). */
static inline void sn_planes_clear_outside(const sn_planes *planes, int64_t first, int64_t end)
{
    int64_t last = planes->first + (int64_t)planes->count, from, to;

    sn_planes_within(planes, first, end, &from, &to);
    for (uint32_t channel = 0; channel < planes->channels; channel++) {
        memset(sn_planes_at(planes, channel, planes->first), 0, sizeof(float) * (size_t)(from - planes->first));
        memset(sn_planes_at(planes, channel, to), 0, sizeof(float) * (size_t)(last - to));
    }
}

/* Frames of several channels, one frame after another: one channel of them. */
static inline void sn_planes_unpack(const float *packed, uint32_t channels, size_t n, float *out)
{
    for (size_t k = 0; k < n; k++)
        out[k] = packed[k * channels];
}

/* ... and the mean of the channels, as torch computes it: their sum in order, and one division. (Of four or more torch
 * adds some frames in another order.) */
static inline void sn_planes_mix(const float *packed, uint32_t channels, size_t n, float *out)
{
    if (channels == 2) { /* written so that the compiler makes vectors of it */
        for (size_t k = 0; k < n; k++)
            out[k] = (packed[2 * k] + packed[2 * k + 1]) / 2;
        return;
    }
    for (size_t k = 0; k < n; k++, packed += channels) {
        float sum = packed[0];

        for (uint32_t channel = 1; channel < channels; channel++)
            sum += packed[channel];
        out[k] = sum / (float)channels;
    }
}

#endif
