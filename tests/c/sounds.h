/*
 * sounds.h -- small sound files of every format that the codec reads, written by libsndfile.
 *
 * Owns       nothing: as pictures.h.
 */
#ifndef SOUNDS_H
#define SOUNDS_H

#include "pictures.h"

enum sound_format {
    SOUND_WAV_16,
    SOUND_WAV_24,
    SOUND_WAV_FLOAT,
    SOUND_WAV_ADPCM,
    SOUND_FLAC_16,
    SOUND_FLAC_24,
    SOUND_VORBIS,
    SOUND_OPUS,
    SOUND_MP3,
    SOUND_FORMATS
};

extern const char *const sound_names[SOUND_FORMATS];

typedef struct {
    enum sound_format format;
    uint32_t rate, channels, frames;
} sound_kind;

/* Tones, noise and silence that `rng` names. Empty: built without libsndfile, or that does not write the format. */
picture_file sound_make(const sound_kind *kind, sn_rng *rng);

#endif
