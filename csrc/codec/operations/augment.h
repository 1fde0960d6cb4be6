/*
 * augment.h -- carries a route out: from the pixels of a picture, or from its JPEG, to the
 * pixels of the last pass.
 *
 *   JPEG --only the first pass's span--> pass --> pass --> ... --> out
 *   view ----------------------------------^
 *
 * In a pass, the window is made first (resize.c, or a copy), then what lies around it (pad.c),
 * then the picture is changed (edit.c).
 *
 * Callers    one thread at a time an sn_augmenter.
 * Owns       two buffers in turn, the decoder's, the resizer's and the editor's; a view given back points into
 *            one of them, or into the source, until the next call.
 * Errors     those of jpeg.h; -ENOMEM.
 */
#ifndef SN_AUGMENT_H
#define SN_AUGMENT_H

#include "resize.h"
#include "route.h"

typedef struct {
    sn_resizer resizer;
    sn_editor editor;
    sn_buffer decoded, turns[2];
} sn_augmenter;

/* Run `route` from `jpeg`, which is open, or if that is NULL from `picture`. With `out`, the
 * pixels go there, rows close together; without, *view says where they are. `fast`: the
 * decoder may shrink the picture as far as the first pass does in any case. */
int sn_augment(sn_augmenter *augmenter, const sn_route *route, sn_jpeg *jpeg, bool fast, const sn_view *picture,
               uint8_t *out, sn_view *view);

void sn_augmenter_release(sn_augmenter *augmenter);

#endif
