/*
 * sn_codec.h -- from the bytes of a picture to the pixels of a batch.
 *
 *   bytes --probe--> size              of a JPEG
 *   bytes --decode--> DECODED          whole picture and head, when its payload will be kept
 *   bytes --augment--> AUGMENTED       straight, decoding only the region that is wanted
 *         --recode---> RECODED         on the way there
 *   DECODED --augment--> AUGMENTED
 *   AUGMENTED --batch--> the output tensor
 *
 * A plan may be of sounds. Then `bytes` are a sound's file, a view has its channels as rows, and a size is (channels,
 * frames). What is said of Pillow goes for Python's soundfile.
 *
 * A plan may be of pairs: a picture and a mask of its size, which goes the same way (mask.h). `bytes` are then what
 * sn_pair_begin() describes, and a view has a mask too.
 *
 * Callers    one thread at a time a codec; different codecs in any threads.
 * Blocking   never; no I/O, no lock, no Python.
 * Owns       decoder state and scratch buffers, reused: beyond libjpeg's own, no allocation per
 *            picture in the steady state. A view that a call returns lives until the next call
 *            on that codec.
 * Errors     SN_E_FOR_PILLOW, SN_E_DECODE, SN_E_TOO_LARGE, SN_E_PLAN, -ENOMEM;
 *            sn_codec_message() has the reason in words.
 */
#ifndef SN_CODEC_H
#define SN_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "../base/sn_rng.h"
#include "sn_plan.h"

typedef struct sn_codec sn_codec;

/* Pixels, uint8, rows of `width` RGB triples `stride` bytes apart. Of a sound: float32, rows of `width` frames. */
typedef struct {
    const uint8_t *pixels;
    uint32_t height, width;
    size_t stride;
    const uint8_t *mask; /* of a pair: height * width bytes, rows close together; else NULL */
    uint32_t rate;       /* of a sound that goes into a head: frames a second; else 0 */
} sn_view;

/* The bytes of a pair: a number of SN_PAIR_HEADER bytes, the lowest first, which is the length of the picture's file;
 * that file; the mask's file. Writes the number, once the picture's length is known. */
#define SN_PAIR_HEADER 4
void sn_pair_begin(uint8_t header[SN_PAIR_HEADER], uint32_t picture_length);

/* The vector instructions that are used, "AVX2" or "NEON"; NULL: plain C. Decided once a process (simd.h). */
const char *sn_codec_simd(void);

/* The libjpeg-turbo that this was compiled with: 2001005 is version 2.1.5. */
int sn_codec_libjpeg_turbo(void);

/* The libpng that this was compiled with, 10639 for 1.6.39, and the libwebp that is loaded, 0x010204 for 1.2.4. 0: this
 * was compiled without, and Pillow decodes that format. */
int sn_codec_libpng(void);
int sn_codec_libwebp(void);

/* The libsndfile that is loaded, 0x010200 for 1.2.0. 0: this was compiled without, and Python reads all sounds. */
int sn_codec_libsndfile(void);

/* The libdeflate that this was compiled with, 0x010e for 1.14. 0: without, libpng takes longer. */
int sn_codec_libdeflate(void);

/* NULL when memory is short. `max_pixels` limits what is decoded (0: nothing does). */
sn_codec *sn_codec_new(uint64_t max_pixels);
void sn_codec_free(sn_codec *codec);

/* Why the last call on this codec failed; a string that lives until the next call. */
const char *sn_codec_message(const sn_codec *codec);

/* Whether the last call failed because of a pair's mask, and not of its picture. */
int sn_codec_is_of_mask(const sn_codec *codec);

/* The boxes of the pictures that are augmented from now on, for plans with an op that reads them; they stay the caller's. */
void sn_codec_set_boxes(sn_codec *codec, sn_boxes boxes);

/* How the last call has moved the picture, until the next call: by sn_codec_augment_encoded(), or by
 * sn_codec_augment_decoded() with a plan without head, all of the plan's ops. */
const sn_moves *sn_codec_moves(const sn_codec *codec);

/* Read the header of a JPEG alone. 0, or a failure as above: SN_E_FOR_PILLOW of all other formats. */
int sn_codec_probe(sn_codec *codec, const uint8_t *bytes, size_t length, uint32_t *height, uint32_t *width);

/* The same of a sound: what its header says. It may have fewer frames; INT64_MAX: it does not say. */
int sn_codec_probe_sound(sn_codec *codec, const uint8_t *bytes, size_t length, uint32_t *rate, uint32_t *channels,
                         uint64_t *frames);

/* Decode and run the head of `plan`: *out is the DECODED picture, RGB. */
int sn_codec_decode(sn_codec *codec, const sn_plan *plan, const uint8_t *bytes, size_t length, sn_view *out);

/* Decode a rectangle of a JPEG, which lies inside the picture, and no op: *out has the pixels that the
 * whole picture has there. SN_E_PLAN if it does not lie inside; SN_E_FOR_PILLOW of all other formats. */
int sn_codec_decode_region(sn_codec *codec, const uint8_t *bytes, size_t length, uint32_t top, uint32_t left,
                           uint32_t height, uint32_t width, sn_view *out);

/* Run the head of `plan` on a picture that was decoded elsewhere (Pillow): *out is DECODED. */
int sn_codec_head(sn_codec *codec, const sn_plan *plan, const sn_view *picture, sn_view *out);

/* Whether the plan is one: known kinds, numbers in range, no randomness in the head. Ask once,
 * where it is made; the calls here take it on trust. SN_E_PLAN if not. */
int sn_plan_check(const sn_plan *plan);

/* The size that AUGMENTED will have. It must not depend on the picture: SN_E_PLAN where it
 * does (no op fixes both sides), which leaves nothing to stack. SN_E_TOO_LARGE if an op makes a
 * side too long from one that is known. */
int sn_plan_output_size(const sn_plan *plan, uint32_t *height, uint32_t *width);

/* The whole way from the file's bytes: decode only what the ops need, run head and tail.
 * `out` takes sn_plan_pixel_bytes() for each pixel of sn_plan_output_size(). */
int sn_codec_augment_encoded(sn_codec *codec, const sn_plan *plan, sn_rng *rng, const uint8_t *bytes, size_t length,
                             uint8_t *out);

/* The most bytes of the RECODED payload of a file: one with more saves too little for the memory that it takes. */
static inline size_t sn_codec_most_recoded(size_t length)
{
    return length + length / 10 * 3;
}

/* A RECODED payload (formats/recoded.h) that is to be written. */
typedef struct {
    void *bytes; /* aligned to 4 */
    size_t room; /* that may be written */
    size_t length;
    int rc; /* 0; or why there is none. SN_E_FOR_PILLOW: the file is of a kind that has none, or has to be turned;
               SN_E_DECODE: it is damaged; SN_E_TOO_LARGE; SN_FULL: there is no room */
} sn_recoded_payload;

/* sn_codec_augment_encoded(), never fast, which also writes the payload of the file, in the same pass over its codes. */
int sn_codec_augment_and_recode(sn_codec *codec, const sn_plan *plan, sn_rng *rng, const uint8_t *bytes, size_t length,
                                sn_recoded_payload *payload, uint8_t *out);

/* Write the payload alone. Returns payload->rc. */
int sn_codec_recode(sn_codec *codec, const uint8_t *bytes, size_t length, sn_recoded_payload *payload);

/* The same two from a RECODED payload (formats/recoded.h), aligned to 4, with the same pixels; plans of pairs have none.
 * SN_E_DECODE: it is damaged. */
int sn_codec_decode_recoded(sn_codec *codec, const sn_plan *plan, const void *payload, size_t bytes, sn_view *out);
int sn_codec_augment_recoded(sn_codec *codec, const sn_plan *plan, sn_rng *rng, const void *payload, size_t bytes,
                             uint8_t *out);

/* The tail alone, from DECODED; `out` as above. Same rng, same picture: the same crop, and the
 * same pixels up to rounding, as sn_codec_augment_encoded(). */
int sn_codec_augment_decoded(sn_codec *codec, const sn_plan *plan, sn_rng *rng, const sn_view *decoded, uint8_t *out);

/* Normalise, cast and lay out one AUGMENTED picture into its place in the batch, and erase what
 * plan->erase says unless plan->leaves_erasing: 3 * height * width elements of plan->dtype at `out`. The floats are those of
 * torchvision's ToTensor and Normalize, bit for bit, rounded once to a half. `rng` is started on
 * SN_STREAM_ERASE; it may be NULL if nothing is erased. Of a sound: its height * width floats, cast. */
void sn_batch_write(const sn_plan *plan, const uint8_t *augmented, uint32_t height, uint32_t width, sn_rng *rng,
                    void *out);

/* Draw what sn_batch_write() would erase, with the same rng, if the plan leaves that to whoever takes the batch:
 * sn_plan_erasures() of them at `erasures`, those that are not drawn all zero. */
void sn_batch_draw_erasures(const sn_plan *plan, uint32_t height, uint32_t width, sn_rng *rng, sn_erasure *erasures);

/* Cast the mask of a pair into its place among the batch's masks: sn_plan_mask_bytes() for each pixel. */
void sn_batch_write_mask(const sn_plan *plan, const uint8_t *mask, uint32_t height, uint32_t width, void *out);

/*
 * MixUp in place: each picture of a batch becomes `share` of itself and `rest` of the one before it. `last` is a
 * copy of the last picture, which comes before the first. Products and sum are rounded each, as torch does it.
 */
void sn_batch_mix_up(float *pictures, size_t count, size_t elements, float share, float rest, const float *last);

#endif
