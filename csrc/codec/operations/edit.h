/*
 * edit.h -- what happens to a whole picture once it has its size: an edit of colour.h, tone.h,
 * blur.h, warp.h, grid.h and mix.h.
 *
 * Colours, tones and mixes change in place. The others examine neighbours, so they read a copy.
 *
 * Callers    one thread at a time an sn_editor.
 * Owns       a copy of the picture, and scratch, until it is released.
 * Errors     -ENOMEM.
 */
#ifndef SN_EDIT_H
#define SN_EDIT_H

#include <stdbool.h>

#include "../buffer.h"
#include "blur.h"
#include "colour.h"
#include "grid.h"
#include "mix.h"
#include "tone.h"
#include "warp.h"

enum sn_edit_kind {
    SN_EDIT_COLOUR = 0,
    SN_EDIT_TONE = 1,
    SN_EDIT_SHARPNESS = 2,
    SN_EDIT_BLUR = 3,
    SN_EDIT_WARP = 4,
    SN_EDIT_SOFTEN = 5,
    SN_EDIT_ELASTIC = 6,
    SN_EDIT_MIX_BEGIN = 7,
    SN_EDIT_MIX_ADD = 8,
    SN_EDIT_MIX_END = 9
};

typedef struct {
    uint32_t kind; /* enum sn_edit_kind: which of those below there is */
    union {
        sn_colour colour;
        sn_tone tone;
        float sharpness; /* the factor */
        sn_blur blur;
        sn_warp warp;
        float soften; /* the deviation */
        sn_elastic elastic;
        float weight; /* of the mixes */
    };
} sn_edit;

static inline sn_edit sn_colour_edit(uint32_t kind, double factor)
{
    if (kind == SN_HUE) /* down to a whole number as torchvision's cast, then around the byte */
        return (sn_edit){.kind = SN_EDIT_COLOUR, .colour = {kind, 0, (uint8_t)(int)(factor * 255)}};
    return (sn_edit){.kind = SN_EDIT_COLOUR, .colour = {kind, (float)factor, 0}};
}

static inline sn_edit sn_tone_edit(uint32_t kind, uint32_t amount)
{
    return (sn_edit){.kind = SN_EDIT_TONE, .tone = {kind, amount}};
}

static inline sn_edit sn_sharpness_edit(double factor)
{
    return (sn_edit){.kind = SN_EDIT_SHARPNESS, .sharpness = (float)factor};
}

static inline sn_edit sn_mix_edit(enum sn_edit_kind kind, double weight)
{
    return (sn_edit){.kind = kind, .weight = (float)weight};
}

/* Whether places move: it matters then whether a picture is mirrored before or after. */
static inline bool sn_edit_moves(const sn_edit *edit)
{
    return edit->kind == SN_EDIT_WARP || edit->kind == SN_EDIT_ELASTIC;
}

/* Without a matrix as yet. */
static inline sn_edit sn_warp_edit(const sn_warping *warping)
{
    return (sn_edit){.kind = SN_EDIT_WARP,
                     .warp = {.filter = warping->filter,
                              .fill = {warping->fill[0], warping->fill[1], warping->fill[2]},
                              .mask_fill = warping->mask_fill}};
}

typedef struct {
    sn_buffer copy, scratch;
    sn_mix mix;
} sn_editor;

/* Change a picture whose rows follow each other without a gap. */
int sn_edit_run(sn_editor *editor, const sn_edit *edit, uint8_t *rgb, uint32_t height, uint32_t width);

void sn_editor_release(sn_editor *editor);

#endif
