/*
 * sn_slots.h -- a place for one payload, and the life it leads.
 *
 *        reserve           commit            publish
 *  EMPTY -------> WRITING --------> READY ------------> READY, on a list
 *    ^               |                                      |
 *    |               +-- abort --> FAILED                   |
 *    +---------- free ---------------+------- free ---------+      free needs pins == 0
 *
 * Lives in   the segment's slot table; see sn_layout.h for what is truth and what derived.
 * Callers    commit, abort: the slot's writer, any thread, without the lock.
 *            All else: the lock holder.
 * Blocking   never.
 * Ordering   commit (release) pairs with sn_slot_state() (acquire): who sees READY sees the
 *            whole payload. It says so in two bits besides, which sn_slots_committed() takes
 *            (acquire) in the other order, so that none is ever lost; a bit may be there in vain.
 *            Reserve writes the fields first and the state last, free the state first, so that
 *            a record which is not EMPTY is whole at every instant.
 * Crash      a dead writer leaves WRITING behind, which the rebuild frees, or READY without its
 *            bits, which the rebuild finds.
 */
#ifndef SN_SLOTS_H
#define SN_SLOTS_H

#include "../base/sn_crash.h"
#include "../base/sn_prefetch.h"
#include "../shm/sn_segment.h"
#include "sn_space.h"

static inline uint32_t sn_slot_state(const sn_slot *slot)
{
    return atomic_load_explicit(&slot->state, memory_order_acquire);
}

/* Whether its payload is in the payload space. If not, the record was overwritten. */
static inline int sn_slot_fits(const sn_segment *segment, const sn_slot *slot)
{
    return (uint64_t)slot->granule + sn_granules_for(slot->length) <= segment->n_granules;
}

static inline uint8_t *sn_slot_payload(const sn_segment *segment, const sn_slot *slot)
{
    return segment->payload + (SN_RARELY(!sn_slot_fits(segment, slot)) ? 0 : (uint64_t)slot->granule * SN_GRANULE);
}

/* Where so many bytes of it may be written, which are no more than the segment has: an overwritten record may say less. */
static inline uint8_t *sn_slot_room(const sn_segment *segment, const sn_slot *slot, uint64_t bytes)
{
    uint64_t at = (uint64_t)slot->granule * SN_GRANULE, end = (uint64_t)segment->n_granules * SN_GRANULE;
    return segment->payload + (SN_RARELY(at > end || bytes > end - at) ? 0 : at);
}

/* How many bytes of it may be read. */
static inline uint32_t sn_slot_length(const sn_segment *segment, const sn_slot *slot)
{
    return SN_RARELY(!sn_slot_fits(segment, slot)) ? 0 : slot->length;
}

/* The writer's side, without the lock. A bit of another process's writer must not be lost to a lock of libatomic's. */
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "committed bits are set without a lock");
static inline void sn_slot_commit(sn_segment *segment, uint32_t slot)
{
    uint32_t group = slot / SN_GROUP;
    atomic_store_explicit(&segment->slots[slot].state, SN_SLOT_READY, memory_order_release);
    SN_CRASH_POINT(commit_ready);
    atomic_fetch_or_explicit(&segment->committed[slot / 64], (uint64_t)1 << slot % 64, memory_order_release);
    SN_CRASH_POINT(commit_bit);
    atomic_fetch_or_explicit(&segment->groups[group / 64], (uint64_t)1 << group % 64, memory_order_release);
}

static inline void sn_slot_abort(sn_slot *slot)
{
    atomic_store_explicit(&slot->state, SN_SLOT_FAILED, memory_order_release);
}

typedef struct {
    uint32_t sample;
    uint32_t length; /* bytes, at least 1 */
    union {
        struct {
            uint16_t height, width;
        };
        uint32_t files_name; /* AUGMENTED; see sn_slot */
    };
    uint8_t form;
    uint8_t in_order; /* see sn_slot */
    uint64_t pipeline;
    uint64_t uses;
} sn_payload;

/* A record and room for this payload, WRITING, on the writing list and the sample's chain.
 * SN_NONE when no record is free, no run of granules long enough, or the writing list full. */
uint32_t sn_slot_reserve(sn_segment *segment, const sn_payload *payload, uint32_t row);

/* The slots on the writing list that have been committed since this was last asked: a bit each in `places`,
 * by their place in the list, of which the first sn_bits_words(length of the list) words are written. */
void sn_slots_committed(sn_segment *segment, uint64_t *places);

/* How many slots are on the writing list. */
uint32_t sn_slots_written(const sn_segment *segment);

/* Give record and room back. The slot must have no pins. */
void sn_slot_free(sn_segment *segment, uint32_t slot);

/* A slot is on exactly one list; new ones go to the tail, the oldest are at the head. On the
 * writing list alone they are in no order. */
void sn_slot_move(sn_segment *segment, uint32_t slot, uint32_t list);

/* This slot will be moved to another list, and its record is at hand: fetch what that touches. */
static inline void sn_slot_prefetch_move(const sn_segment *segment, uint32_t slot)
{
    const sn_slot *record = &segment->slots[slot];

    if (record->list_prev != SN_NONE)
        sn_prefetch(&segment->slots[record->list_prev]); /* wherever that is */
    if (record->list_next != SN_NONE)
        sn_prefetch(&segment->slots[record->list_next]);
}

/* The same for one that will be freed. */
static inline void sn_slot_prefetch_free(const sn_segment *segment, uint32_t slot)
{
    sn_prefetch(&segment->first[segment->slots[slot].sample]);
    sn_slot_prefetch_move(segment, slot);
}

/* Rebuilding: forget all lists and chains, then put each slot where its record says. */
void sn_slots_clear(sn_segment *segment);
void sn_slot_adopt(sn_segment *segment, uint32_t slot);

/* Walk the slots of a sample, or by sn_walk_list() of a list from its head:
 *
 *   for (s = sn_walk(segment, segment->first[sample], &left); s != SN_NONE; s = sn_walk(segment, next, &left))
 *
 * `left` begins with segment->n_slots. A link that leads nowhere, or in a circle, ends the walk. Where it leads nowhere in
 * a sample's chain, whoever frees a slot of that chain finds it. */
static inline uint32_t sn_walk(const sn_segment *segment, uint32_t link, uint32_t *left)
{
    if (link >= segment->n_slots)
        return SN_NONE;
    if (SN_RARELY(*left == 0)) { /* and stays 0: it may be of several lists */
        sn_segment_damaged(segment);
        return SN_NONE;
    }
    --*left;
    return link;
}

static inline uint32_t sn_walk_list(const sn_segment *segment, uint32_t link, uint32_t *left)
{
    if (SN_RARELY(link >= segment->n_slots && link != SN_NONE))
        sn_segment_damaged(segment);
    return sn_walk(segment, link, left);
}

#define SN_EACH_OF_SAMPLE(segment, sample, s)                                                                          \
    for (uint32_t left_ = (segment)->n_slots, s = sn_walk(segment, (segment)->first[sample], &left_); s != SN_NONE;    \
         s = sn_walk(segment, (segment)->slots[s].next_of_sample, &left_))

#endif
