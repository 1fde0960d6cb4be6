/*
 * sound_route.h -- what the ops of a plan do to one sound: random numbers drawn, and which frames each step needs.
 *
 *   ops, rng, rate, channels, frames --lay--> steps --step back from the end--> the frames that each is made of
 *
 *      whole file      ------------------------------------------
 *      the part read                ===========                     a little more than what is made of it
 *      resampled                       ======
 *      cropped                         ======
 *
 * All that is drawn depends on the number of frames and the rng alone. Therefore a crop comes out the same from a file
 * and from DECODED.
 *
 * Lives in   the caller's memory; plain values, but for tables of the codec's sn_sincs.
 */
#ifndef SN_SOUND_ROUTE_H
#define SN_SOUND_ROUTE_H

#include <stdint.h>

#include "../../base/sn_rng.h"
#include "../sn_plan.h"
#include "sinc.h"

enum sn_step_kind {
    SN_STEP_MIX,      /* the mean of the channels */
    SN_STEP_RESAMPLE, /* by `sinc` */
    SN_STEP_WINDOW,   /* `frames` from `by` on, zeros where the sound has none */
    SN_STEP_ROLL,     /* frame k goes to k + by, round the end */
    SN_STEP_SCALE,    /* times `factor` */
    SN_STEP_NOISE     /* of this signal-to-noise ratio, from `seed` */
};

typedef struct {
    uint32_t kind;   /* enum sn_step_kind */
    uint64_t frames; /* of the whole sound after the step */
    int64_t by;
    float factor;
    double snr;
    uint64_t seed;
    const sn_sinc *sinc;
    /* Of the sound before the step: the stretch that it needs. */
    int64_t first;
    uint64_t count;
} sn_step;

typedef struct {
    uint32_t n_steps;
    uint32_t rate, channels; /* after the last step */
    uint64_t frames;         /* likewise */
    uint32_t misfit_rate;    /* to which the table would be too large; 0: to none */
    sn_step steps[SN_PLAN_MAX_OPS];
    int64_t first; /* the stretch of the sound before the first step that is needed */
    uint64_t count;
} sn_sound_route;

/* `rng` may be NULL if no op draws, and `rate` 0 if none resamples, else SN_E_PLAN. SN_E_TOO_LARGE: a table or a sound
 * would be. Or 0, -ENOMEM. */
int sn_sound_route_lay(sn_sound_route *route, const sn_op *ops, uint32_t n_ops, sn_rng *rng, sn_sincs *sincs,
                       uint32_t rate, uint32_t channels, uint64_t frames);

#endif
