/*
 * sn_serve.h -- how one sample is served, and where what is made of it goes.
 *
 *   a staged copy        READY, of this pipeline, not yet used by this job
 *   DECODED, RECODED, ENCODED     kept payloads, pinned while they are read
 *   storage              nothing at hand; what was read or decoded may be offered to be kept
 *
 * The common part of members (who choose samples) and workers (who are given them).
 *
 * Lives in   the segment; a client is private memory of its member or worker.
 * Callers    the lock holder.     Blocking  never.
 */
#ifndef SN_SERVE_H
#define SN_SERVE_H

#include "sn_holder.h"

/* Whether somebody else makes the copy that serves a place; see sn_exact_share.h. */
enum sn_awaited {
    SN_AWAITS_NOTHING = 0,
    SN_AWAITS_COPY = 1, /* source_slot is held, and being written */
    SN_AWAITS_PEER = 2  /* nothing is held: another member is to draw it soon, and to make it */
};

/* One place of a batch: which sample, from which form, and where it goes besides. */
typedef struct {
    uint32_t sample;
    uint8_t source;                     /* enum sn_form */
    uint8_t keep;                       /* the form worth offering once it is there; 0: none */
    uint8_t awaited;                    /* enum sn_awaited */
    uint8_t peer;                       /* SN_AWAITS_COPY: the row of who is making it */
    uint32_t role;                      /* enum sn_role, of a copy that is made here */
    uint32_t source_slot, source_entry; /* pinned payload; SN_NONE for SN_STORAGE */
    uint32_t target_slot, target_entry; /* reserved for the AUGMENTED copy; SN_NONE: not staged */
} sn_item;

/* A payload in private memory that might be kept; the answer is where to copy it. */
typedef struct {
    uint32_t sample, length;
    uint16_t height, width;
    uint8_t form;
    uint32_t slot, entry; /* out: SN_NONE when it is not wanted */
} sn_offer;

/* For whom. */
typedef struct {
    sn_holder *holder; /* whose row and ledger; NULL: private */
    uint64_t decoded_pipeline, augmented_pipeline;
    uint16_t height, width; /* of an AUGMENTED copy of pixels; 0: it says itself what it holds */
    uint32_t copy_bytes;    /* memory for an AUGMENTED copy; 0: not known yet */
    uint32_t files_name;    /* names the files as its job last saw them, by size and times; 0: it has seen none */
    uint8_t shares;         /* whether it stages AUGMENTED copies and uses others' */
    uint8_t keeps;          /* whether what it prepares may be kept */
    uint8_t recodes;        /* whether its payloads may be RECODED: pictures, without masks */
    uint8_t exact;          /* whether its copies are the same whoever makes them */
    uint8_t in_order;       /* whether it is known to come to samples in an order that is not random */
} sn_client;

/* The client that was asked for, with this holder; a copy of pixels takes what these take if nothing was said. */
sn_client sn_client_make(const sn_client *asked, sn_holder *holder);

void sn_item_clear(sn_item *item, uint32_t sample);

/* A staged copy of `sample` that this client's job may use; SN_NONE. */
uint32_t sn_serve_find_copy(const sn_client *client, uint32_t sample);

/* Serve a staged copy. 0; SN_MISS when no ledger line is free or it is not what it seems. */
int sn_serve_copy(sn_client *client, uint32_t slot, sn_item *item);

/* Serve from the best kept payload or storage, and say which form would be worth keeping. */
void sn_serve_source(sn_client *client, uint32_t sample, sn_item *item);

/* Reserve room for the copy that will be made, where others want it. */
void sn_serve_target(sn_client *client, uint32_t sample, sn_item *item);

/* The same as if `least` members and more wanted it: some that are yet to come. */
void sn_serve_target_for(sn_client *client, uint32_t sample, uint32_t least, sn_item *item);

/* Serve a sample that nothing is held for from whatever there is: a copy, a kept payload, storage. `stages`: and
 * reserve room for the copy that will be made. */
void sn_serve_any(sn_client *client, uint32_t sample, int stages, sn_item *item);

/* Answer an offer: a slot to copy it to, or SN_NONE. */
void sn_serve_offer(sn_client *client, sn_offer *offer);

#endif
