/*
 * sound_steps.h -- carries a route out on a stretch of a sound.
 *
 *   turns[0]  read --mix, scale, window, noise, in place--> --resample, roll--> turns[1] --> ... --> turns[0] ...
 *
 * Each step makes the frames that the steps after it need, and no others.
 *
 * Callers    the one thread that uses the codec.
 * Blocking   never.
 */
#ifndef SN_SOUND_STEPS_H
#define SN_SOUND_STEPS_H

#include "planes.h"
#include "sound_route.h"

/* *planes is the stretch that the route needs, in turns[0]; without any step it may be anywhere, and is only read. Then
 * it is all frames of what the steps have made. 0, -ENOMEM, SN_E_TOO_LARGE. */
int sn_sound_steps_run(const sn_sound_route *route, sn_buffer turns[2], sn_planes *planes);

#endif
