/*
 * tone.h -- changes of tones, in place: each channel's value gives its new value, by a table.
 *
 *   INVERT         255 - value
 *   POSTERIZE      the highest `amount` bits of it
 *   SOLARIZE       255 - value, from `amount` on
 *   SOLARIZE_ADD   value + `amount`, 255 at most, below 128
 *   PERMUTE        that of another channel: two bits of `amount` each say of which, for red, green, blue
 *   AUTOCONTRAST   stretched, so that the channel's least value is 0 and its greatest 255
 *   EQUALIZE       so that the channel's values are spread evenly
 *
 * They are PIL.ImageOps's, and SOLARIZE_ADD timm's, to the byte.
 *
 * Callers    any thread; no state but the caller's.
 */
#ifndef SN_TONE_H
#define SN_TONE_H

#include <stddef.h>
#include <stdint.h>

enum sn_tone_kind {
    SN_INVERT = 0,
    SN_POSTERIZE = 1,
    SN_SOLARIZE = 2,
    SN_AUTOCONTRAST = 3,
    SN_EQUALIZE = 4,
    SN_SOLARIZE_ADD = 5,
    SN_PERMUTE = 6
};

typedef struct {
    uint32_t kind;   /* enum sn_tone_kind */
    uint32_t amount; /* POSTERIZE: bits, up to 8; SOLARIZE: up to 256; SOLARIZE_ADD: up to 128 */
} sn_tone;

/* Change a whole picture, `n_pixels` RGB triples close together. */
void sn_tone_run(const sn_tone *tone, uint8_t *rgb, size_t n_pixels);

#endif
