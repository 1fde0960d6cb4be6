#include "sound.h"

#include <stdio.h>

#include "sound_steps.h"

void sn_sounder_begin(sn_sounder *sounder, char *message)
{
    sounder->file.message = message;
}

void sn_sounder_release(sn_sounder *sounder)
{
    sn_sound_release(&sounder->file);
    sn_buffer_release(&sounder->whole);
    sn_buffer_release(&sounder->turns[0]);
    sn_buffer_release(&sounder->turns[1]);
    sn_sincs_release(&sounder->sincs);
}

static int explain(sn_sounder *sounder, int rc, const sn_sound_route *route)
{
    char *message = sounder->file.message;

    if (message[0] == '\0' && rc == SN_E_TOO_LARGE && route->misfit_rate)
        snprintf(message, SN_SOUND_MESSAGE,
                 "to resample it to %u frames a second takes a table of more than 16 MiB: choose a rate that has a "
                 "larger common divisor with its own",
                 route->misfit_rate);
    else if (message[0] == '\0' && rc == SN_E_TOO_LARGE)
        snprintf(message, SN_SOUND_MESSAGE,
                 "in the pipeline it takes more than 1 GiB as floats: leave it out, or cut it into pieces");
    else if (message[0] == '\0' && rc == SN_E_PLAN)
        snprintf(message, SN_SOUND_MESSAGE, "the pipeline wants 1 to 64 channels, and to resample it a rate");
    else if (message[0] == '\0' && rc == -ENOMEM)
        snprintf(message, SN_SOUND_MESSAGE, "no memory for the sound");
    return rc;
}

/* The pipeline has room for what it makes of the sounds that it expects, and for no other. */
static int check_output(sn_sounder *sounder, const sn_plan *plan, const sn_sound_route *route)
{
    uint32_t channels = 0, frames = 0;
    int rc = sn_plan_output_size(plan, &channels, &frames);

    if (rc == SN_OK && channels == route->channels && frames == route->frames)
        return SN_OK;
    snprintf(sounder->file.message, SN_SOUND_MESSAGE,
             "it comes out with %u channels and %llu frames, which does not fit the pipeline", route->channels,
             (unsigned long long)route->frames);
    return SN_E_PLAN;
}

static int check_channels(sn_sounder *sounder, const sn_plan *plan, uint32_t channels)
{
    if (plan->channels == 0 || plan->channels == channels)
        return SN_OK;
    snprintf(sounder->file.message, SN_SOUND_MESSAGE,
             "it has %u channels, and the pipeline expects %u: mix them, or leave it out", channels, plan->channels);
    return SN_E_DECODE;
}

/* Lay the route, and see whether what it makes fits. */
static int lay(sn_sounder *sounder, const sn_plan *plan, const sn_op *ops, uint32_t n_ops, sn_rng *rng, uint32_t rate,
               uint32_t channels, uint64_t frames, bool to_out, sn_sound_route *route)
{
    int rc = sn_sound_route_lay(route, ops, n_ops, rng, &sounder->sincs, rate, channels, frames);

    return rc == SN_OK && to_out ? check_output(sounder, plan, route) : rc;
}

/* What the steps have made goes to `out`, close together, or is seen through *view. */
static void hand_out(const sn_planes *planes, uint32_t rate, uint8_t *out, sn_view *view)
{
    size_t row = sizeof(float) * planes->count;

    if (out == NULL) {
        *view = (sn_view){(const uint8_t *)planes->data,
                          planes->channels,
                          (uint32_t)planes->count,
                          sizeof(float) * planes->stride,
                          NULL,
                          rate};
        return;
    }
    for (uint32_t channel = 0; channel < planes->channels; channel++)
        memcpy(out + channel * row, sn_planes_at(planes, channel, planes->first), row);
}

/* The stretch that a route needs of a sound that is in memory as a whole, in memory that the steps may change. */
static int take(sn_sounder *sounder, const sn_planes *whole, const sn_sound_route *route, sn_planes *out)
{
    int64_t from, to;
    int rc = sn_planes_reserve(&sounder->turns[0], whole->channels, route->first, route->count, out);

    if (rc != SN_OK)
        return rc;
    sn_planes_clear_outside(out, 0, (int64_t)whole->count);
    sn_planes_within(out, 0, (int64_t)whole->count, &from, &to);
    for (uint32_t channel = 0; channel < whole->channels && from < to; channel++)
        memcpy(sn_planes_at(out, channel, from), sn_planes_at(whole, channel, from),
               sizeof(float) * (size_t)(to - from));
    return SN_OK;
}

static int from_planes(sn_sounder *sounder, const sn_plan *plan, const sn_op *ops, uint32_t n_ops, sn_rng *rng,
                       uint32_t rate, const sn_planes *whole, uint8_t *out, sn_view *view)
{
    sn_planes planes = *whole;
    sn_sound_route route;
    int rc = lay(sounder, plan, ops, n_ops, rng, rate, whole->channels, whole->count, out != NULL, &route);

    if (rc == SN_OK && route.n_steps > 0)
        rc = take(sounder, whole, &route, &planes);
    if (rc == SN_OK)
        rc = sn_sound_steps_run(&route, sounder->turns, &planes);
    if (rc == SN_OK)
        hand_out(&planes, route.rate, out, view);
    return explain(sounder, rc, &route);
}

int sn_sound_from_view(sn_sounder *sounder, const sn_plan *plan, const sn_op *ops, uint32_t n_ops, sn_rng *rng,
                       const sn_view *sound, uint8_t *out, sn_view *view)
{
    /* No step writes where there is none, and else the frames are copied. */
    sn_planes whole = {(float *)(uintptr_t)sound->pixels, sound->stride / sizeof(float), sound->height, 0,
                       sound->width};

    int rc = SN_OK;

    sounder->file.message[0] = '\0';
    if (out == NULL) /* DECODED may have been mixed */
        rc = check_channels(sounder, plan, sound->height);
    if (rc == SN_OK && (sound->height == 0 || sound->height > SN_MAX_CHANNELS))
        rc = explain(sounder, SN_E_PLAN, &(sn_sound_route){0});
    if (rc != SN_OK)
        return rc;
    return from_planes(sounder, plan, ops, n_ops, rng, sound->rate, &whole, out, view);
}

/* The ops on an open file. */
static int from_open(sn_sounder *sounder, const sn_plan *plan, uint32_t n_ops, sn_rng *rng, uint8_t *out, sn_view *view)
{
    sn_sound_file *file = &sounder->file;
    bool mono = n_ops > 0 && plan->ops[0].kind == SN_OP_MONO; /* mixed as it is read */
    sn_rng again = rng ? *rng : (sn_rng){0};
    sn_sound_route route;
    sn_planes planes;
    int rc = SN_MISS;

    if (file->is_exact) {
        rc = lay(sounder, plan, plan->ops, n_ops, rng, file->rate, mono ? 1 : file->channels, file->frames, out != NULL,
                 &route);
        if (rc == SN_OK)
            rc = sn_sound_read_part(file, mono, route.first, route.count, &sounder->turns[0], &planes);
        if (rc == SN_OK)
            rc = sn_sound_steps_run(&route, sounder->turns, &planes);
        if (rc == SN_OK)
            hand_out(&planes, route.rate, out, view);
        if (rc != SN_MISS)
            return explain(sounder, rc, &route);
        if (rng)
            *rng = again;
    }
    rc = sn_sound_read_all(file, mono, &sounder->whole, &planes);
    if (rc != SN_OK)
        return explain(sounder, rc, &(sn_sound_route){0});
    return from_planes(sounder, plan, plan->ops, n_ops, rng, file->rate, &planes, out, view);
}

static bool crops(const sn_plan *plan, uint32_t n_ops)
{
    for (uint32_t k = 0; k < n_ops; k++)
        if (sn_kinds[plan->ops[k].kind].flags & SN_SETS_SIZE)
            return true;
    return false;
}

int sn_sound_from_file(sn_sounder *sounder, const sn_plan *plan, uint32_t n_ops, sn_rng *rng, const uint8_t *bytes,
                       size_t length, uint8_t *out, sn_view *view)
{
    int rc;

    sounder->file.message[0] = '\0';
    rc = sn_sound_open(&sounder->file, bytes, length, crops(plan, n_ops));
    if (rc == SN_OK)
        rc = check_channels(sounder, plan, sounder->file.channels);
    if (rc == SN_OK)
        rc = from_open(sounder, plan, n_ops, rng, out, view);
    sn_sound_close(&sounder->file);
    return rc;
}

int sn_sounder_probe(sn_sounder *sounder, const uint8_t *bytes, size_t length, uint32_t *rate, uint32_t *channels,
                     uint64_t *frames)
{
    int rc;

    sounder->file.message[0] = '\0';
    rc = sn_sound_open(&sounder->file, bytes, length, false);
    if (rc == SN_OK) {
        *rate = sounder->file.rate;
        *channels = sounder->file.channels;
        *frames = sounder->file.frames;
    }
    sn_sound_close(&sounder->file);
    return rc;
}
