#include "sn_distrust.h"

#include <time.h>
#include <unistd.h>

#include "../base/sn_crash.h"

void sn_distrust_report(sn_segment *segment, uint64_t job_key, uint32_t sample, enum sn_form form)
{
    sn_header *head = segment->head;
    uint32_t nobody = 0;

    if (atomic_load_explicit(&segment->guarded.is_cut, memory_order_acquire))
        return; /* of course it differs */
    /* First: whatever happens to this process, nothing is served from here any more. */
    atomic_store_explicit(&head->abandoned, SN_DISTRUSTED, memory_order_release);
    SN_CRASH_POINT(distrust_abandoned);
    if (!atomic_compare_exchange_strong(&head->distrust.reported, &nobody, 1))
        return;
    SN_CRASH_POINT(distrust_writing);
    head->distrust.sample = sample;
    head->distrust.form = form;
    head->distrust.pid = (int32_t)getpid();
    head->distrust.job_key = job_key;
    SN_CRASH_POINT(distrust_named);
    head->distrust.when = (uint64_t)time(NULL);
    SN_CRASH_POINT(distrust_whole);
    atomic_store_explicit(&head->distrust.reported, 2, memory_order_release);
}

int sn_distrust_read(const sn_segment *segment, sn_distrust *why)
{
    const sn_distrust *report = &segment->head->distrust;

    if (!sn_is_distrusted(segment) || atomic_load_explicit(&report->reported, memory_order_acquire) != 2)
        return 0;
    /* Field by field: who comes second may still examine `report`. */
    atomic_init(&why->reported, 2);
    why->sample = report->sample;
    why->form = report->form;
    why->pid = report->pid;
    why->job_key = report->job_key;
    why->when = report->when;
    return 1;
}
