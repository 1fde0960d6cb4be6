#include "edit.h"

#include <string.h>

#include "../base/sn_status.h"

int sn_edit_run(sn_editor *editor, const sn_edit *edit, uint8_t *rgb, uint32_t height, uint32_t width)
{
    size_t n_pixels = (size_t)height * width;
    const uint8_t *from;
    int rc = SN_OK;

    if (edit->kind == SN_EDIT_COLOUR || edit->kind == SN_EDIT_TONE) {
        if (edit->kind == SN_EDIT_COLOUR)
            sn_colour_run(&edit->colour, rgb, n_pixels);
        else
            sn_tone_run(&edit->tone, rgb, n_pixels);
        return SN_OK;
    }
    rc = sn_buffer_reserve(&editor->copy, 3 * n_pixels + SN_WARP_SLACK);
    if (rc != SN_OK)
        return rc;
    from = memcpy(editor->copy.data, rgb, 3 * n_pixels);
    memset(editor->copy.data + 3 * n_pixels, 0, SN_WARP_SLACK);
    if (edit->kind == SN_EDIT_SHARPNESS)
        sn_sharpen(edit->sharpness, from, rgb, height, width);
    else if (edit->kind == SN_EDIT_BLUR)
        rc = sn_blur_run(&edit->blur, from, rgb, height, width, &editor->scratch);
    else
        sn_warp_run(&edit->warp, from, rgb, height, width);
    return rc;
}

void sn_editor_release(sn_editor *editor)
{
    sn_buffer_release(&editor->copy);
    sn_buffer_release(&editor->scratch);
}
