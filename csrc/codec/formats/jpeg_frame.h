/*
 * jpeg_frame.h -- how the coefficients of a JPEG lie: its size, its components, their blocks and quantisers.
 *
 * Of the samplings there are those that raster.c draws: grey, 4:4:4, 4:2:2 and 4:2:0.
 */
#ifndef SN_JPEG_FRAME_H
#define SN_JPEG_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "../kernels/jpeg_kernels.h"

#define SN_COMPONENTS 3

struct jpeg_decompress_struct;

typedef struct {
    uint32_t height, width;
    uint32_t n_components;                        /* 1: grey, or 3: YCbCr */
    uint32_t across, down;                        /* blocks of the first component in an MCU; the others have one */
    uint16_t quantisers[SN_COMPONENTS][SN_BLOCK]; /* in natural order */
} sn_jpeg_frame;

/* False: libjpeg-turbo's header is that of another kind of JPEG. The first MCU's tables have been read. */
bool sn_jpeg_frame_of(const struct jpeg_decompress_struct *info, sn_jpeg_frame *frame);

/* Whether the numbers are those of a JPEG. */
bool sn_jpeg_frame_is_sound(const sn_jpeg_frame *frame);

/* Of component `k`: blocks of an MCU. */
static inline uint32_t sn_jpeg_across(const sn_jpeg_frame *frame, uint32_t k)
{
    return k == 0 ? frame->across : 1;
}

static inline uint32_t sn_jpeg_down(const sn_jpeg_frame *frame, uint32_t k)
{
    return k == 0 ? frame->down : 1;
}

/* Of component `k`: samples of the picture. */
static inline uint32_t sn_jpeg_width_of(const sn_jpeg_frame *frame, uint32_t k)
{
    return k == 0 ? frame->width : (frame->width + frame->across - 1) / frame->across;
}

static inline uint32_t sn_jpeg_height_of(const sn_jpeg_frame *frame, uint32_t k)
{
    return k == 0 ? frame->height : (frame->height + frame->down - 1) / frame->down;
}

/* Of component `k`: blocks of the picture, without those that only fill an MCU. */
static inline uint32_t sn_jpeg_blocks_across(const sn_jpeg_frame *frame, uint32_t k)
{
    return (sn_jpeg_width_of(frame, k) + 7) / 8;
}

static inline uint32_t sn_jpeg_blocks_down(const sn_jpeg_frame *frame, uint32_t k)
{
    return (sn_jpeg_height_of(frame, k) + 7) / 8;
}

/* MCUs of the picture. */
static inline uint32_t sn_jpeg_columns(const sn_jpeg_frame *frame)
{
    return (frame->width + 8 * frame->across - 1) / (8 * frame->across);
}

static inline uint32_t sn_jpeg_rows(const sn_jpeg_frame *frame)
{
    return (frame->height + 8 * frame->down - 1) / (8 * frame->down);
}

#endif
