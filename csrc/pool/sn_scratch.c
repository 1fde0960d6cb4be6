#include "sn_scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sn_scratch_init(sn_scratch *scratch, uint64_t max_pixels)
{
    memset(scratch, 0, sizeof *scratch);
    scratch->codec = sn_codec_new(max_pixels);
    return scratch->codec ? 0 : -ENOMEM;
}

void sn_scratch_free(sn_scratch *scratch)
{
    sn_codec_free(scratch->codec);
    free(scratch->file.bytes);
    free(scratch->pixels);
}
