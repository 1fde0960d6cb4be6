#include "sound_steps.h"

#include <stdbool.h>

#include "noise.h"

/* The part of a stretch that is needed from now on. */
static sn_planes narrowed(const sn_planes *planes, int64_t first, uint64_t count)
{
    return (sn_planes){sn_planes_at(planes, 0, first), planes->stride, planes->channels, first, count};
}

static void mix(sn_planes *planes)
{
    float *mean = planes->data;

    for (uint32_t channel = 1; channel < planes->channels; channel++) {
        const float *other = sn_planes_at(planes, channel, planes->first);

        for (uint64_t k = 0; k < planes->count; k++)
            mean[k] += other[k];
    }
    for (uint64_t k = 0; k < planes->count; k++)
        mean[k] /= (float)planes->channels;
    planes->channels = 1;
}

static void scale(const sn_planes *planes, float factor)
{
    for (uint32_t channel = 0; channel < planes->channels; channel++) {
        float *frames = sn_planes_at(planes, channel, planes->first);

        for (uint64_t k = 0; k < planes->count; k++)
            frames[k] *= factor;
    }
}

/* `from` is the whole sound of `n` frames. */
static void roll(const sn_planes *from, const sn_planes *to, int64_t by, int64_t n)
{
    int64_t first, end;

    sn_planes_clear_outside(to, 0, n);
    sn_planes_within(to, 0, n, &first, &end);
    for (int64_t at = first, part; at < end; at += part) {
        int64_t source = (at - by + n) % n;

        part = n - source < end - at ? n - source : end - at;
        for (uint32_t channel = 0; channel < to->channels; channel++)
            memcpy(sn_planes_at(to, channel, at), sn_planes_at(from, channel, source), sizeof(float) * (size_t)part);
    }
}

static int add_noise(const sn_planes *planes, const sn_step *step, sn_buffer *room)
{
    int rc = sn_buffer_reserve(room, sizeof(float) * step->frames);

    for (uint32_t channel = 0; channel < planes->channels && rc == SN_OK; channel++)
        sn_noise_add(sn_planes_at(planes, channel, 0), step->frames, step->snr, step->seed, channel,
                     (float *)room->data);
    return rc;
}

/* A step that makes a sound elsewhere than it was. */
static void make(const sn_step *step, const sn_planes *before, const sn_planes *after)
{
    if (step->kind == SN_STEP_RESAMPLE)
        sn_sinc_run(step->sinc, before, after, step->frames);
    else
        roll(before, after, step->by, (int64_t)step->frames);
}

/* One that changes it where it is. */
static int change(const sn_step *step, sn_planes *planes, sn_buffer *spare)
{
    switch (step->kind) {
    case SN_STEP_MIX:
        mix(planes);
        break;
    case SN_STEP_SCALE:
        scale(planes, step->factor);
        break;
    case SN_STEP_NOISE:
        return add_noise(planes, step, spare);
    default:
        planes->first -= step->by;
        sn_planes_clear_outside(planes, 0, (int64_t)step->frames);
    }
    return SN_OK;
}

int sn_sound_steps_run(const sn_sound_route *route, sn_buffer turns[2], sn_planes *planes)
{
    uint32_t turn = 0;
    int rc = SN_OK;

    for (uint32_t k = 0; k < route->n_steps && rc == SN_OK; k++) {
        const sn_step *step = &route->steps[k];
        bool is_last = k + 1 == route->n_steps;
        sn_planes before = narrowed(planes, step->first, step->count);

        *planes = before;
        if (step->kind == SN_STEP_RESAMPLE || step->kind == SN_STEP_ROLL) {
            turn = 1 - turn;
            rc = sn_planes_reserve(&turns[turn], before.channels, is_last ? 0 : step[1].first,
                                   is_last ? step->frames : step[1].count, planes);
            if (rc == SN_OK)
                make(step, &before, planes);
        } else {
            rc = change(step, planes, &turns[1 - turn]);
        }
    }
    if (rc == SN_OK)
        *planes = narrowed(planes, 0, route->frames);
    return rc;
}
