/*
 * served.h -- a sample that is served from a payload of a segment, whatever the payload and its record are.
 *
 *   a record, and bytes in its place --sn_prepare--> the sample's place in a batch; or a failure, for its file is none
 *
 * The segment has two slots, and room for the payload and one copy, in memory of this process that ends with it.
 * There is no file of the sample: what is damaged is not served.
 *
 * Callers    one thread.
 */
#ifndef SERVED_H
#define SERVED_H

#include "plans.h"
#include "slots/sn_slots.h"

#define SERVED_PLANS (N_PLANS + N_SOUND_PLANS) /* those of sounds come last, of one channel */

typedef struct {
    uint32_t plan;
    enum sn_form form;      /* that it is served from */
    enum sn_form keep;      /* that it is to be kept in besides */
    int stages;             /* a copy is made for others */
    sn_slot source, target; /* their records, as they are found: lengths and places */
    const uint8_t *bytes;   /* at the source's place, as many as are there */
    size_t length;
    uint32_t granules; /* of the segment, besides those of one copy */
} served;

void served_begin(void);
void served_end(void);

/* The status of the place: 0, it was served. */
int served_prepare(const served *sample);

/* How many bytes a copy has by that plan. */
uint32_t served_copy_bytes(uint32_t plan);

#endif
