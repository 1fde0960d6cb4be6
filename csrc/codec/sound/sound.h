/*
 * sound.h -- what sn_codec.h does with a plan of sounds.
 *
 *   file --the part that the ops need, or all--> planes --steps of the route--> DECODED, AUGMENTED
 *   DECODED ------------------------------------> planes --steps ------------->          AUGMENTED
 *
 * Both ways give the same bits. Of a file that is read in part, damage elsewhere goes unnoticed.
 *
 * Lives in   a codec, with all of its memory.
 * Callers    the one thread that uses the codec.
 * Errors     as sn_codec.h has them, with the reason in the message.
 */
#ifndef SN_SOUND_H
#define SN_SOUND_H

#include "../sn_codec.h"
#include "sinc.h"
#include "sound_file.h"

typedef struct {
    sn_sound_file file; /* with the codec's message */
    sn_sincs sincs;
    sn_buffer whole;    /* a file that had to be read to its end */
    sn_buffer turns[2]; /* see sound_steps.h */
} sn_sounder;

/* All zero before; `message` has SN_SOUND_MESSAGE bytes. */
void sn_sounder_begin(sn_sounder *sounder, char *message);
void sn_sounder_release(sn_sounder *sounder);

int sn_sounder_probe(sn_sounder *sounder, const uint8_t *bytes, size_t length, uint32_t *rate, uint32_t *channels,
                     uint64_t *frames);

/* Run the first `n_ops` ops on a file. Either `out` takes what comes of all ops of the plan, or *view is what came. */
int sn_sound_from_file(sn_sounder *sounder, const sn_plan *plan, uint32_t n_ops, sn_rng *rng, const uint8_t *bytes,
                       size_t length, uint8_t *out, sn_view *view);

/* Run these ops of the plan on a sound in memory, likewise. */
int sn_sound_from_view(sn_sounder *sounder, const sn_plan *plan, const sn_op *ops, uint32_t n_ops, sn_rng *rng,
                       const sn_view *sound, uint8_t *out, sn_view *view);

#endif
