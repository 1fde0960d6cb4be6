#include "jpeg_frame.h"

#include <stdio.h>

#include <jpeglib.h>

bool sn_jpeg_frame_of(const struct jpeg_decompress_struct *info, sn_jpeg_frame *frame)
{
    const jpeg_component_info *components = info->comp_info;
    bool is_grey = info->num_components == 1 && info->jpeg_color_space == JCS_GRAYSCALE;

    if (!is_grey && (info->num_components != 3 || info->jpeg_color_space != JCS_YCbCr))
        return false;
    frame->height = info->image_height;
    frame->width = info->image_width;
    frame->n_components = (uint32_t)info->num_components;
    frame->across = is_grey ? 1 : (uint32_t)components[0].h_samp_factor;
    frame->down = is_grey ? 1 : (uint32_t)components[0].v_samp_factor;
    for (uint32_t k = 0; k < frame->n_components; k++) {
        const JQUANT_TBL *table = components[k].quant_table;

        if (table == NULL || (k > 0 && (components[k].h_samp_factor != 1 || components[k].v_samp_factor != 1)))
            return false;
        for (int i = 0; i < SN_BLOCK; i++)
            frame->quantisers[k][i] = table->quantval[i];
    }
    return sn_jpeg_frame_is_sound(frame);
}

bool sn_jpeg_frame_is_sound(const sn_jpeg_frame *frame)
{
    if (frame->height == 0 || frame->width == 0 || frame->height > JPEG_MAX_DIMENSION ||
        frame->width > JPEG_MAX_DIMENSION)
        return false;
    if (frame->n_components == 1 || frame->across == 1)
        return frame->across == 1 && frame->down == 1 && (frame->n_components == 1 || frame->n_components == 3);
    /* libjpeg-turbo takes another way where there are one or two columns of chroma. */
    return frame->n_components == 3 && frame->across == 2 && (frame->down == 1 || frame->down == 2) &&
           sn_jpeg_width_of(frame, 1) > 2;
}
