#include "sn_distrust.h"

#include <time.h>
#include <unistd.h>

void sn_distrust_tell(sn_segment *segment, uint64_t job_key, uint32_t sample, enum sn_form form)
{
    sn_header *head = segment->head;
    uint32_t nobody = 0;

    /* First: whatever happens to this process, nothing is served from here any more. */
    atomic_store_explicit(&head->abandoned, SN_DISTRUSTED, memory_order_release);
    if (!atomic_compare_exchange_strong(&head->distrust.told, &nobody, 1))
        return;
    head->distrust.sample = sample;
    head->distrust.form = form;
    head->distrust.pid = (int32_t)getpid();
    head->distrust.job_key = job_key;
    head->distrust.when = (uint64_t)time(NULL);
    atomic_store_explicit(&head->distrust.told, 2, memory_order_release);
}

int sn_distrust_read(const sn_segment *segment, sn_distrust *why)
{
    const sn_distrust *told = &segment->head->distrust;

    if (!sn_is_distrusted(segment) || atomic_load_explicit(&told->told, memory_order_acquire) != 2)
        return 0;
    /* Field by field: who comes second may still look at `told`. */
    atomic_init(&why->told, 2);
    why->sample = told->sample;
    why->form = told->form;
    why->pid = told->pid;
    why->job_key = told->job_key;
    why->when = told->when;
    return 1;
}
