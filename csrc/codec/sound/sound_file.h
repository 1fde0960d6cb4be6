/*
 * sound_file.h -- the samples of a sound file in memory: WAV, FLAC, Ogg (Vorbis and Opus) or MP3, by libsndfile.
 *
 *   bytes --open--> rate, channels, frames --read a part, or all--> float32, one channel after another
 *
 * Samples are those of soundfile.read(dtype="float32"), bit for bit, and the mean of the channels is torch's. What
 * libsndfile does not open, and other formats, are left to Python, which decides and words the error. A FLAC that
 * libsndfile opens is read by flac.h, and by libsndfile if that finds anything unusual in it.
 *
 * A part may be read alone if it is then the same as in the whole file (`is_exact`): of WAVs whose samples have one
 * size, and of FLACs that have as many frames as they say. Decoders of MP3, Vorbis and Opus carry something over from
 * frame to frame, and their files may be wrong about their length. They are read from the beginning to the end, which
 * also says how many frames there are.
 *
 * Callers    any threads, one at a time a file.
 * Blocking   never.
 * Owns       libsndfile's state, from open to close, and a buffer that it keeps. The bytes stay the caller's.
 * Errors     each has its reason in `message`, but for -ENOMEM.
 */
#ifndef SN_SOUND_FILE_H
#define SN_SOUND_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flac.h"
#include "planes.h"

#define SN_SOUND_MESSAGE 200

typedef struct {
    void *handle; /* libsndfile's; NULL: not open */
    const uint8_t *bytes;
    size_t length, at; /* where libsndfile reads next */
    uint32_t rate, channels;
    uint64_t frames; /* as the header says */
    bool is_exact;
    bool was_read; /* something of it, and the next read does not begin where the file does */
    bool is_flac;  /* that flac.h may read */
    sn_flac flac;
    sn_buffer packed; /* frames of all channels, as libsndfile gives them */
    char *message;    /* SN_SOUND_MESSAGE bytes of the caller's */
} sn_sound_file;

/* `in_part`: a part of it may be read, and not only all that the header claims.
 *
 * SN_OK; SN_E_FOR_PILLOW: it is left to Python; SN_E_TOO_LARGE: more than SN_MAX_CHANNELS. Close it also if this
 * fails. */
int sn_sound_open(sn_sound_file *file, const uint8_t *bytes, size_t length, bool in_part);

/* Read a stretch of the channels, or with `mono` of their mean, into `buffer`. Only if is_exact.
 *
 * SN_OK; SN_MISS: it has fewer frames than it says; SN_E_DECODE, SN_E_TOO_LARGE, -ENOMEM. */
int sn_sound_read_part(sn_sound_file *file, bool mono, int64_t first, uint64_t count, sn_buffer *buffer,
                       sn_planes *out);

/* Read all that it has. Memory grows with what comes, and not with what the header says. SN_OK, or as above. */
int sn_sound_read_all(sn_sound_file *file, bool mono, sn_buffer *buffer, sn_planes *out);

void sn_sound_close(sn_sound_file *file);

/* Free the memory that it keeps from file to file. */
void sn_sound_release(sn_sound_file *file);

/* The libsndfile that is loaded: 0x010200 is version 1.2.0. 0: Seneca was compiled without, and Python reads all. */
int sn_sound_version(void);

#endif
