/*
 * sinc.h -- another number of frames a second, as torchaudio.transforms.Resample computes it.
 *
 *   y[q * to + phase] = sum of x[q * from + k] * weight[phase][k]      x is zero outside the sound
 *
 * The rates are divided by their greatest common divisor. A weight is a sinc under a window, which ends at so many zero
 * crossings on both sides. torchaudio multiplies with all the zeros beyond them too, 509 weights of which 67 are not
 * zero for 44,100 to 8,000 a second. Here only those are kept, which changes no more than how sums are rounded.
 *
 * The weights are torchaudio's to the last bits. It computes them in doubles, except for the place of a phase, which it
 * rounds to a float; so does this. (torchaudio.functional.resample rounds each step to a float, and differs from
 * its own transform by up to 2e-5 at usual rates.)
 *
 * Lives in   a codec, which keeps the last few tables.
 * Callers    the one thread that uses the codec.
 * Owns       the tables. One that sn_sincs_find() gave lives until SN_MAX_RESAMPLES others were asked for.
 */
#ifndef SN_SINC_H
#define SN_SINC_H

#include "../kernels/sinc_kernels.h"
#include "planes.h"

typedef struct {
    sn_sinc sinc;
    uint32_t lowpass_filter_width, window;
    double rolloff, beta;
    uint64_t used; /* when, by a count; 0: there is no table */
} sn_sinc_table;

/* All zero: none yet. */
typedef struct {
    sn_sinc_table tables[SN_MAX_RESAMPLES];
    uint64_t count;
} sn_sincs;

void sn_sincs_release(sn_sincs *sincs);

/* The table of a RESAMPLE from another rate than its own. SN_OK, -ENOMEM; SN_E_TOO_LARGE: it would be, because the
 * rates have hardly a common divisor. */
int sn_sincs_find(sn_sincs *sincs, uint32_t rate, const sn_op *op, const sn_sinc **out);

/* How many frames `frames` become: torchaudio's number, which rounds the quotient to a float before it goes up. */
uint64_t sn_sinc_frames(uint32_t rate, uint32_t new_rate, uint64_t frames);

/* The frames that `count` > 0 frames from `first` >= 0 are made of. */
void sn_sinc_reads(const sn_sinc *sinc, int64_t first, uint64_t count, int64_t *from, uint64_t *n);

/* Make all frames of `to` in [0, frames), and zeros elsewhere. `from` has what they are made of. */
void sn_sinc_run(const sn_sinc *sinc, const sn_planes *from, const sn_planes *to, uint64_t frames);

#endif
