#include "recode.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "../../base/sn_status.h"

#define MOST_BLOCKS 6 /* of an MCU */

static int refusal(const sn_recoding *recoding)
{
    return recoding->is_full ? SN_FULL : SN_E_DECODE;
}

/* -- One scan of Huffman codes -- */

/* The coefficients of a row of MCUs: each component's rows of blocks, one behind the other, whole MCUs across. */
typedef struct {
    int16_t (*blocks)[SN_BLOCK];
    uint32_t across; /* blocks of a row */
} part;

static bool decode_row(sn_huffman *huffman, const sn_jpeg_frame *frame, const part parts[SN_COMPONENTS])
{
    int16_t (*blocks[MOST_BLOCKS])[SN_BLOCK];

    for (uint32_t column = 0; column < sn_jpeg_columns(frame); column++) {
        uint32_t n = 0;

        for (uint32_t k = 0; k < frame->n_components; k++)
            for (uint32_t down = 0; down < sn_jpeg_down(frame, k); down++)
                for (uint32_t across = 0; across < sn_jpeg_across(frame, k); across++)
                    blocks[n++] =
                        parts[k].blocks + (size_t)down * parts[k].across + column * sn_jpeg_across(frame, k) + across;
        if (!sn_huffman_decode(huffman, blocks))
            return false;
    }
    return true;
}

static int put_row(sn_recoding *recoding, uint32_t row, const part parts[SN_COMPONENTS])
{
    const sn_jpeg_frame *frame = &recoding->frame;

    for (uint32_t k = 0; k < frame->n_components; k++)
        for (uint32_t down = 0; down < sn_jpeg_down(frame, k); down++) {
            uint32_t of_blocks = row * sn_jpeg_down(frame, k) + down;
            const int16_t (*blocks)[SN_BLOCK] = (const int16_t (*)[SN_BLOCK])parts[k].blocks;

            if (of_blocks < sn_jpeg_blocks_down(frame, k) &&
                !sn_recoding_put(recoding, k, of_blocks, blocks + (size_t)down * parts[k].across))
                return refusal(recoding);
        }
    return SN_OK;
}

static int recode_codes(sn_huffman *huffman, sn_buffer *rows, sn_recoding *recoding)
{
    const sn_jpeg_frame *frame = &recoding->frame;
    part parts[SN_COMPONENTS];
    size_t n_blocks = 0;

    for (uint32_t k = 0; k < frame->n_components; k++) {
        parts[k].across = sn_jpeg_columns(frame) * sn_jpeg_across(frame, k);
        n_blocks += (size_t)parts[k].across * sn_jpeg_down(frame, k);
    }
    if (sn_buffer_reserve(rows, n_blocks * sizeof *parts->blocks) != 0)
        return -ENOMEM;
    parts[0].blocks = (int16_t (*)[SN_BLOCK])(void *)rows->data;
    for (uint32_t k = 1; k < frame->n_components; k++)
        parts[k].blocks = parts[k - 1].blocks + (size_t)parts[k - 1].across * sn_jpeg_down(frame, k - 1);
    for (uint32_t row = 0; row < sn_jpeg_rows(frame); row++) {
        int rc;

        memset(rows->data, 0, n_blocks * sizeof *parts->blocks);
        if (!decode_row(huffman, frame, parts))
            return SN_E_DECODE;
        rc = put_row(recoding, row, parts);
        if (rc != SN_OK)
            return rc;
    }
    return SN_OK;
}

/* -- Several scans: libjpeg-turbo reads them -- */

static bool is_complete(const struct jpeg_decompress_struct *info)
{
    for (int component = 0; info->coef_bits != NULL && component < info->num_components; component++)
        for (int k = 0; k < DCTSIZE2; k++)
            if (info->coef_bits[component][k] != 0)
                return false;
    return true;
}

static int recode_arrays(struct jpeg_decompress_struct *info, jvirt_barray_ptr *arrays, sn_recoding *recoding)
{
    const sn_jpeg_frame *frame = &recoding->frame;

    for (uint32_t k = 0; k < frame->n_components; k++)
        for (uint32_t row = 0; row < sn_jpeg_blocks_down(frame, k); row++) {
            JBLOCKARRAY blocks = info->mem->access_virt_barray((j_common_ptr)info, arrays[k], row, 1, FALSE);

            if (!sn_recoding_put(recoding, k, row, (const int16_t (*)[SN_BLOCK])blocks[0]))
                return refusal(recoding);
        }
    return SN_OK;
}

/* -- Either -- */

int sn_recode(struct jpeg_decompress_struct *info, sn_huffman *huffman, sn_buffer *rows, sn_recoding *recoding,
              void *payload, size_t room, size_t *bytes)
{
    jvirt_barray_ptr *arrays = NULL;
    sn_jpeg_frame frame;
    int rc;

    if (info->arith_code)
        return SN_E_FOR_PILLOW;
    if (jpeg_has_multiple_scans(info)) {
        arrays = jpeg_read_coefficients(info);
        if (!is_complete(info))
            return SN_E_FOR_PILLOW;
    } else {
        jpeg_start_decompress(info);
        if (!sn_huffman_begin(huffman, info))
            return SN_E_FOR_PILLOW;
    }
    if (!sn_jpeg_frame_of(info, &frame))
        return SN_E_FOR_PILLOW;
    if (!sn_recoding_begin(recoding, &frame, payload, room))
        return recoding->is_full ? SN_FULL : SN_E_FOR_PILLOW;
    rc = arrays != NULL ? recode_arrays(info, arrays, recoding) : recode_codes(huffman, rows, recoding);
    if (rc != SN_OK)
        return rc;
    if (arrays == NULL)
        sn_huffman_end(huffman, info);
    *bytes = sn_recoding_end(recoding);
    return info->err->num_warnings > 0 ? SN_E_DECODE : SN_OK;
}
