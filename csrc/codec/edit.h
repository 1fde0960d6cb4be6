/*
 * edit.h -- what happens to a whole picture once it has its size: an edit of colour.h, tone.h,
 * blur.h and warp.h.
 *
 * Colours and tones change in place. The others look at neighbours, so they read a copy.
 *
 * Callers    one thread at a time an sn_editor.
 * Owns       a copy of the picture, and scratch, until it is released.
 * Errors     -ENOMEM.
 */
#ifndef SN_EDIT_H
#define SN_EDIT_H

#include <stdbool.h>

#include "blur.h"
#include "buffer.h"
#include "colour.h"
#include "tone.h"
#include "warp.h"

enum sn_edit_kind {
    SN_EDIT_COLOUR = 0,
    SN_EDIT_TONE = 1,
    SN_EDIT_SHARPNESS = 2,
    SN_EDIT_BLUR = 3,
    SN_EDIT_WARP = 4
};

typedef struct {
    uint32_t kind; /* enum sn_edit_kind: which of those below there is */
    union {
        sn_colour colour;
        sn_tone tone;
        float sharpness; /* the factor */
        sn_blur blur;
        sn_warp warp;
    };
} sn_edit;

typedef struct {
    sn_buffer copy, scratch;
} sn_editor;

/* Change a picture whose rows lie close together. */
int sn_edit_run(sn_editor *editor, const sn_edit *edit, uint8_t *rgb, uint32_t height, uint32_t width);

void sn_editor_release(sn_editor *editor);

#endif
