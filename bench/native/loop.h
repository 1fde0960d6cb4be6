/*
 * loop.h -- what the benchmarks' C programs have in common: the clock, files, the plan, the end.
 *
 * The programs are compiled together with csrc/ by bench/compiled.py, one at a time.
 *
 * Errors     none are handled: a benchmark that cannot go on says why and ends with status 1.
 */
#ifndef SN_BENCH_LOOP_H
#define SN_BENCH_LOOP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "codec/sn_codec.h"

#define SIDE 224u
#define VALUES (3u * SIDE * SIDE) /* of one AUGMENTED picture */

__attribute__((noreturn, format(printf, 1, 2))) static inline void give_up(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static inline uint64_t nanoseconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Memory whose pages are there: the first touch is not what is measured. */
static inline void *room(size_t bytes)
{
    size_t rounded = (bytes + 4095) / 4096 * 4096;
    uint8_t *memory = aligned_alloc(4096, rounded);

    if (memory == NULL)
        give_up("no memory for %zu bytes", bytes);
    for (size_t k = 0; k < rounded; k += 4096)
        ((volatile uint8_t *)memory)[k] = 1;
    return memory;
}

/* The whole file; false where it cannot be read. */
static inline bool read_whole(const char *path, uint8_t **bytes, size_t *length)
{
    FILE *file = fopen(path, "rb");
    long size;
    bool read;

    if (file == NULL)
        return false;
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    *bytes = room(size > 0 ? (size_t)size : 1);
    *length = size > 0 ? fread(*bytes, 1, (size_t)size, file) : 0;
    read = size > 0 && *length == (size_t)size;
    fclose(file);
    if (!read)
        free(*bytes);
    return read;
}

/* What everybody trains with: RandomResizedCrop(224), RandomHorizontalFlip, ImageNet's Normalize. */
static inline sn_plan standard_plan(void)
{
    sn_plan plan = {.n_ops = 2, .dtype = SN_FLOAT32, .divisor = 255};
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};

    plan.ops[0] = (sn_op){.kind = SN_OP_RANDOM_RESIZED_CROP,
                          .random_resized_crop = {{SIDE, SIDE}, .scale = {0.08, 1}, .ratio = {3.0 / 4, 4.0 / 3}}};
    plan.ops[1] = (sn_op){.kind = SN_OP_RANDOM_HFLIP, .chance = {0.5}};
    for (int c = 0; c < 3; c++) {
        plan.mean[c] = mean[c];
        plan.std[c] = std[c];
    }
    return plan;
}

/* The one place where the benchmarks write into a batch. */
static inline void write_place(const sn_plan *plan, const uint8_t *pixels, void *out)
{
    sn_batch_write(plan, pixels, SIDE, SIDE, NULL, out);
}

#endif
