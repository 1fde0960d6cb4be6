#include "sound_route.h"

#include <math.h>

/* What an op is laid with. The route says what the sound is like before it. */
typedef struct {
    sn_sound_route *route;
    sn_rng *rng;
    sn_sincs *sincs;
} laying;

static sn_step *add(sn_sound_route *route, enum sn_step_kind kind)
{
    sn_step *step = &route->steps[route->n_steps++];

    *step = (sn_step){.kind = kind, .frames = route->frames};
    return step;
}

static void add_window(sn_sound_route *route, uint64_t start, uint32_t frames)
{
    if (start != 0 || frames != route->frames) {
        sn_step *step = add(route, SN_STEP_WINDOW);

        step->by = (int64_t)start;
        step->frames = route->frames = frames;
    }
}

static int lay_mono(const laying *with, const sn_op *op)
{
    sn_sound_route *route = with->route;

    (void)op;
    if (route->channels > 1)
        add(route, SN_STEP_MIX);
    route->channels = 1;
    return SN_OK;
}

static int lay_resample(const laying *with, const sn_op *op)
{
    sn_sound_route *route = with->route;
    sn_step *step;
    int rc;

    if (route->rate == 0)
        return SN_E_PLAN;
    if (op->resample.rate == route->rate)
        return SN_OK;
    step = add(route, SN_STEP_RESAMPLE);
    step->frames = route->frames = sn_sinc_frames(route->rate, op->resample.rate, route->frames);
    if (step->frames > UINT32_MAX)
        return SN_E_TOO_LARGE;
    rc = sn_sincs_find(with->sincs, route->rate, op, &step->sinc);
    if (rc == SN_E_TOO_LARGE)
        route->misfit_rate = op->resample.rate;
    route->rate = op->resample.rate;
    return rc;
}

static int lay_time_crop(const laying *with, const sn_op *op)
{
    uint32_t frames = op->time_crop.frames;
    uint64_t start = op->time_crop.start;

    if (op->time_crop.is_centered && with->route->frames > frames)
        start = (with->route->frames - frames) / 2;
    add_window(with->route, start, frames);
    return SN_OK;
}

static int lay_random_time_crop(const laying *with, const sn_op *op)
{
    uint32_t frames = op->random_time_crop.frames;
    uint64_t more = with->route->frames > frames ? with->route->frames - frames : 0;

    add_window(with->route, more > 0 ? sn_rng_below(with->rng, (uint32_t)more + 1) : 0, frames);
    return SN_OK;
}

static int lay_random_gain(const laying *with, const sn_op *op)
{
    if (sn_rng_double(with->rng) < op->random_gain.p) {
        double decibels = sn_rng_uniform(with->rng, op->random_gain.gain[0], op->random_gain.gain[1]);

        add(with->route, SN_STEP_SCALE)->factor = (float)pow(10, decibels / 20);
    }
    return SN_OK;
}

static int lay_random_polarity(const laying *with, const sn_op *op)
{
    if (sn_rng_double(with->rng) < op->chance.p)
        add(with->route, SN_STEP_SCALE)->factor = -1;
    return SN_OK;
}

static int lay_random_noise(const laying *with, const sn_op *op)
{
    if (sn_rng_double(with->rng) < op->random_noise.p) {
        sn_step *step = add(with->route, SN_STEP_NOISE);

        step->snr = sn_rng_uniform(with->rng, op->random_noise.snr[0], op->random_noise.snr[1]);
        step->seed = (uint64_t)sn_rng_u32(with->rng) << 32;
        step->seed |= sn_rng_u32(with->rng);
    }
    return SN_OK;
}

/* torch-audiomentations' Shift: a whole number of frames, both ends among them. */
static int lay_random_time_shift(const laying *with, const sn_op *op)
{
    if (sn_rng_double(with->rng) < op->random_time_shift.p) {
        int64_t least = (int64_t)rint(op->random_time_shift.shift[0] * (double)with->route->frames);
        int64_t most = (int64_t)rint(op->random_time_shift.shift[1] * (double)with->route->frames);
        int64_t by = least + (int64_t)(sn_rng_double(with->rng) * (double)(most - least + 1));
        sn_step *step;

        if (by == 0)
            return SN_OK;
        step = add(with->route, op->random_time_shift.rollover ? SN_STEP_ROLL : SN_STEP_WINDOW);
        step->by = op->random_time_shift.rollover ? by : -by;
    }
    return SN_OK;
}

static int (*const lay[SN_N_OPS])(const laying *, const sn_op *) = {
#define LAID(...)
#define DRAWN(...)
#define SOUND(KIND, kind, ...) [SN_OP_##KIND] = lay_##kind,
#include "../ops.def"
};

/* What a step needs for `count` frames from `first` on of the sound that it makes. */
static void look_back(sn_step *step, uint64_t frames_before, int64_t first, uint64_t count)
{
    int64_t end = first + (int64_t)count, last = (int64_t)frames_before;
    int64_t made_first = first > 0 ? first : 0, made_end = end < (int64_t)step->frames ? end : (int64_t)step->frames;

    step->first = first;
    step->count = count;
    switch (step->kind) {
    case SN_STEP_WINDOW:
        step->first += step->by;
        break;
    case SN_STEP_RESAMPLE:
        step->first = step->count = 0;
        if (made_first < made_end)
            sn_sinc_reads(step->sinc, made_first, (uint64_t)(made_end - made_first), &step->first, &step->count);
        break;
    case SN_STEP_ROLL:
        step->first = 0;
        step->count = frames_before;
        break;
    case SN_STEP_NOISE: /* whose power is that of the whole sound */
        step->first = first < 0 ? first : 0;
        step->count = (uint64_t)((end > last ? end : last) - step->first);
    }
}

int sn_sound_route_lay(sn_sound_route *route, const sn_op *ops, uint32_t n_ops, sn_rng *rng, sn_sincs *sincs,
                       uint32_t rate, uint32_t channels, uint64_t frames)
{
    laying with = {route, rng, sincs};

    *route = (sn_sound_route){.rate = rate, .channels = channels, .frames = frames};
    if (frames > UINT32_MAX)
        return SN_E_TOO_LARGE;
    for (uint32_t k = 0; k < n_ops; k++) {
        int rc = lay[ops[k].kind](&with, &ops[k]);

        if (rc != SN_OK)
            return rc;
    }
    route->first = 0;
    route->count = route->frames;
    for (uint32_t k = route->n_steps; k-- > 0;) {
        look_back(&route->steps[k], k > 0 ? route->steps[k - 1].frames : frames, route->first, route->count);
        route->first = route->steps[k].first;
        route->count = route->steps[k].count;
    }
    return SN_OK;
}
