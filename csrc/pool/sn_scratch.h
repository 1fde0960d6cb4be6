/*
 * sn_scratch.h -- what a thread that prepares samples works with.
 *
 * Callers    one thread, until it is freed.
 * Errors     -ENOMEM.
 */
#ifndef SN_SCRATCH_H
#define SN_SCRATCH_H

#include "sn_item_file.h"

/* A thread's tools, reused from sample to sample. */
typedef struct {
    sn_codec *codec;
    sn_file file;
    uint8_t *pixels; /* an AUGMENTED picture that is not staged */
    size_t pixels_capacity;
    int is_interruptible; /* its thread handles signals: one that interrupts a read is not to wait for storage */
} sn_scratch;

int sn_scratch_init(sn_scratch *scratch, uint64_t max_pixels); /* 0 or -ENOMEM */
void sn_scratch_free(sn_scratch *scratch);

#endif
