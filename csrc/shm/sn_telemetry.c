#include "sn_telemetry.h"

#include <string.h>

#define WORDS (sizeof(sn_work) / sizeof(uint64_t))

void sn_telemetry_write(sn_segment *segment, uint32_t row, const sn_work *work)
{
    sn_telemetry *block = &segment->telemetry[row];
    uint64_t words[WORDS];

    if (atomic_load(&segment->forked))
        return;
    memcpy(words, work, sizeof words);
    /* A predecessor may have died while it wrote. */
    uint32_t sequence = atomic_load_explicit(&block->sequence, memory_order_relaxed) | 1;
    atomic_store_explicit(&block->sequence, sequence, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&block->generation, segment->rows[row].generation, memory_order_relaxed);
    for (size_t i = 0; i < WORDS; i++)
        atomic_store_explicit(&block->words[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&block->sequence, sequence + 1, memory_order_release);
}

int sn_telemetry_agrees(const sn_telemetry *first, const sn_telemetry *second)
{
    return first->sequence % 2 == 0 && memcmp(first, second, sizeof *first) == 0;
}
