#include "recode.h"

#include <stdio.h>

#include <jpeglib.h>

#include "../../base/sn_status.h"

static bool is_complete(const struct jpeg_decompress_struct *info)
{
    for (int component = 0; info->coef_bits != NULL && component < info->num_components; component++)
        for (int k = 0; k < DCTSIZE2; k++)
            if (info->coef_bits[component][k] != 0)
                return false;
    return true;
}

static bool put_arrays(struct jpeg_decompress_struct *info, jvirt_barray_ptr *arrays, sn_recoding *recoding)
{
    const sn_jpeg_frame *frame = &recoding->frame;

    for (uint32_t k = 0; k < frame->n_components; k++)
        for (uint32_t row = 0; row < sn_jpeg_blocks_down(frame, k); row++) {
            JBLOCKARRAY blocks = info->mem->access_virt_barray((j_common_ptr)info, arrays[k], row, 1, FALSE);

            if (!sn_recoding_put(recoding, k, row, (const int16_t (*)[SN_BLOCK])blocks[0]))
                return false;
        }
    return true;
}

int sn_recode_scans(struct jpeg_decompress_struct *info, sn_recoding *recoding, sn_recoded_payload *to)
{
    jvirt_barray_ptr *arrays;
    sn_jpeg_frame frame;

    if (info->arith_code)
        return SN_E_FOR_PILLOW;
    arrays = jpeg_read_coefficients(info);
    if (!is_complete(info) || !sn_jpeg_frame_of(info, &frame))
        return SN_E_FOR_PILLOW;
    if (!sn_recoding_begin(recoding, &frame, to->bytes, to->room))
        return recoding->is_full ? SN_FULL : SN_E_FOR_PILLOW;
    if (!put_arrays(info, arrays, recoding))
        return recoding->is_full ? SN_FULL : SN_E_DECODE;
    to->length = sn_recoding_end(recoding);
    return info->err->num_warnings > 0 ? SN_E_DECODE : SN_OK;
}
