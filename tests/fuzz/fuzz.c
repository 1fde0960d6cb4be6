#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void write_seeds(const char *folder)
{
    char path[4096];
    sn_rng rng;

    for (uint32_t number = 0; number < FUZZ_SEEDS; number++) {
        sn_rng_start(&rng, 1, 0, 0, number, SN_STREAM_CHOOSE);
        picture_file seed = fuzz_seed(number, &rng);
        if (!seed.bytes)
            continue;
        snprintf(path, sizeof path, "%s/seed-%02u", folder, number);
        FILE *file = fopen(path, "wb");
        CHECK(file && fwrite(seed.bytes, 1, seed.length, file) == seed.length && fclose(file) == 0);
        picture_free(&seed);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    fuzz_begin();
    if (*argc == 3 && strcmp((*argv)[1], "--seeds") == 0) {
        write_seeds((*argv)[2]);
        exit(0);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    fuzz_one(bytes, length);
    return 0;
}

picture_file fuzz_with_header(const void *header, size_t length, picture_file file)
{
    picture_file longer = {malloc(length + file.length), length + file.length};

    CHECK(longer.bytes);
    memcpy(longer.bytes, header, length);
    if (file.length)
        memcpy(longer.bytes + length, file.bytes, file.length);
    picture_free(&file);
    return longer;
}
