/*
 * noise.h -- white Gaussian noise at a signal-to-noise ratio, as torchaudio.functional.add_noise adds it.
 *
 *   seed, channel, frame --Philox, Box and Muller--> a normal number      the same whatever else is made of the sound
 *
 * The ratio is that of the sound's energy to the energy of the very noise that is added, in each channel. Nothing is
 * added to silence.
 *
 * Callers    any threads.
 */
#ifndef SN_NOISE_H
#define SN_NOISE_H

#include <stdint.h>

/* Add it to `n` frames of one channel; `noise` is room for as many. `snr` is in decibels. */
void sn_noise_add(float *frames, uint64_t n, double snr, uint64_t seed, uint32_t channel, float *noise);

#endif
