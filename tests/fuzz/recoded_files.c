#include "recoded_files.h"

#include <stdlib.h>

#include "check.h"
#include "codec/sn_codec.h"

picture_file recodable_file(uint32_t number, sn_rng *rng)
{
    picture_kind kind = {
        .height = 8 + number, .width = 20, .colour = PICTURE_YCC, .across = 1, .down = 1, .quality = 40};

    kind.across = kind.down = 1 + number % 2;
    kind.progressive = number % 8 == 1;
    return picture_make(&kind, rng);
}

picture_file recoded_file(uint32_t number, sn_rng *rng)
{
    picture_file file = recodable_file(number, rng);
    sn_codec *codec = sn_codec_new(0);
    sn_recoded_payload payload = {.room = 2 * file.length + 1000};

    payload.bytes = malloc(payload.room);
    CHECK(codec && payload.bytes);
    CHECK_EQUAL(sn_codec_recode(codec, file.bytes, file.length, &payload), 0, "file %u", number);
    picture_free(&file);
    sn_codec_free(codec);
    return (picture_file){payload.bytes, payload.length};
}
