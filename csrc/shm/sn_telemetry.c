#include "sn_telemetry.h"

#include <string.h>

#include "../base/sn_crash.h"

#define WORK_WORDS (sizeof(sn_work) / sizeof(uint64_t))

static void publish(_Atomic uint32_t *sequence, _Atomic uint32_t *generation, uint32_t of_row, _Atomic uint64_t *words,
                    const uint64_t *values, size_t n)
{
    /* A predecessor may have died while it wrote. */
    uint32_t odd = atomic_load_explicit(sequence, memory_order_relaxed) | 1;

    atomic_store_explicit(sequence, odd, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(generation, of_row, memory_order_relaxed);
    SN_CRASH_POINT(telemetry_odd);
    for (size_t i = 0; i < n; i++)
        atomic_store_explicit(&words[i], values[i], memory_order_relaxed);
    atomic_store_explicit(sequence, odd + 1, memory_order_release);
}

void sn_telemetry_write(sn_segment *segment, uint32_t row, const sn_work *work)
{
    sn_telemetry *block = &segment->telemetry[row];
    uint64_t words[WORK_WORDS];

    if (atomic_load(&segment->forked))
        return;
    memcpy(words, work, sizeof words);
    publish(&block->sequence, &block->generation, segment->rows[row].generation, block->words, words, WORK_WORDS);
}

int sn_telemetry_agrees(const sn_telemetry *first, const sn_telemetry *second)
{
    return first->sequence % 2 == 0 && memcmp(first, second, sizeof *first) == 0;
}

void sn_traits_write(sn_segment *segment, uint32_t row, const sn_dataset *dataset)
{
    sn_traits *block = &segment->traits[row];
    uint64_t words[SN_DATASET_WORDS];

    if (atomic_load(&segment->forked))
        return;
    memcpy(words, dataset, sizeof words);
    publish(&block->sequence, &block->generation, segment->rows[row].generation, block->words, words, SN_DATASET_WORDS);
}

int sn_traits_agree(const sn_traits *first, const sn_traits *second)
{
    return first->sequence % 2 == 0 && memcmp(first, second, sizeof *first) == 0;
}
