#include "edit.h"

#include <string.h>

#include "../../base/sn_status.h"

/* Those that examine a pixel alone. */
static int run_in_place(sn_editor *editor, const sn_edit *edit, uint8_t *rgb, size_t n_pixels)
{
    switch (edit->kind) {
    case SN_EDIT_COLOUR:
        sn_colour_run(&edit->colour, rgb, n_pixels);
        return SN_OK;
    case SN_EDIT_TONE:
        sn_tone_run(&edit->tone, rgb, n_pixels);
        return SN_OK;
    case SN_EDIT_MIX_BEGIN:
        return sn_mix_begin(&editor->mix, edit->weight, rgb, 3 * n_pixels);
    case SN_EDIT_MIX_ADD:
        sn_mix_add(&editor->mix, edit->weight, rgb, 3 * n_pixels);
        return SN_OK;
    default:
        sn_mix_end(&editor->mix, edit->weight, rgb, 3 * n_pixels);
        return SN_OK;
    }
}

static int run_warp(const sn_warp *warp, const uint8_t *from, uint8_t *to, uint32_t height, uint32_t width,
                    sn_buffer *scratch)
{
    sn_lookup lookup = {warp->filter == SN_WARP_NEAREST, warp->has_fill, {warp->fill[0], warp->fill[1], warp->fill[2]}};

    if (warp->on_tensor)
        return sn_grid_affine(warp->matrix, &lookup, from, to, height, width, scratch);
    sn_warp_run(warp, from, to, height, width);
    return SN_OK;
}

int sn_edit_run(sn_editor *editor, const sn_edit *edit, uint8_t *rgb, uint32_t height, uint32_t width)
{
    size_t n_pixels = (size_t)height * width;
    sn_buffer *scratch = &editor->scratch;
    const uint8_t *from;
    int rc;

    if (edit->kind <= SN_EDIT_TONE || edit->kind >= SN_EDIT_MIX_BEGIN)
        return run_in_place(editor, edit, rgb, n_pixels);
    rc = sn_buffer_reserve(&editor->copy, 3 * n_pixels + SN_WARP_SLACK);
    if (rc != SN_OK)
        return rc;
    from = memcpy(editor->copy.data, rgb, 3 * n_pixels);
    memset(editor->copy.data + 3 * n_pixels, 0, SN_WARP_SLACK);
    switch (edit->kind) {
    case SN_EDIT_SHARPNESS:
        sn_sharpen(edit->sharpness, from, rgb, height, width);
        break;
    case SN_EDIT_BLUR:
        rc = sn_blur_run(&edit->blur, from, rgb, height, width, scratch);
        break;
    case SN_EDIT_SOFTEN:
        rc = sn_soften(edit->soften, from, rgb, height, width, scratch);
        break;
    case SN_EDIT_ELASTIC:
        rc = sn_elastic_run(&edit->elastic, from, rgb, height, width, scratch);
        break;
    default:
        rc = run_warp(&edit->warp, from, rgb, height, width, scratch);
    }
    return rc;
}

void sn_editor_release(sn_editor *editor)
{
    sn_buffer_release(&editor->copy);
    sn_buffer_release(&editor->scratch);
    sn_mix_release(&editor->mix);
}
