/*
 * sn_prepare.h -- one sample's way, from whatever form it is in to its place in the batch.
 *
 *   STORAGE --read--> ENCODED --> (DECODED or RECODED) --> AUGMENTED --> out
 *      a payload of the segment may be entered at any form, and each that is made on the way
 *      may be left behind: AUGMENTED in its reserved slot; DECODED, RECODED or ENCODED as an offer
 *
 * A cached payload that turns out to be damaged is no reason to fail: the sample is then prepared from its file,
 * and that alone is blamed if it fails as well.
 *
 * Where containers are external, no file is opened here. What needs a file's bytes is answered with SN_MISS, until they
 * are in place->file.
 *
 * Callers    the thread that claimed the place, with scratch memory of its own.
 * Blocking   on storage, for ever where that hangs; a FIFO is no file, and is not waited for.
 * Errors     place->status, place->message; the reserved slot is aborted. -EINTR is no failure: nothing was done, and
 *            the place is as it was (only with an sn_scratch that is interruptible).
 */
#ifndef SN_PREPARE_H
#define SN_PREPARE_H

#include "sn_item_file.h"
#include "sn_scratch.h"

/* 0: it is prepared, or has failed. SN_MISS: its bytes are to be fetched first; nothing else was done. */
int sn_prepare(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, uint8_t *out);

/* Whether sn_prepare() will need the bytes of the place's file, as far as that is known before. */
int sn_batch_item_needs_file(const sn_batch_item *place);

/* Whether the place's file came over a network. Pillow then gets it from place->file, and it is not fetched again. */
int sn_batch_item_was_fetched(const sn_context *context, const sn_batch_item *place);

/* The rest of the way for a picture that was decoded elsewhere (status SN_E_FOR_PILLOW): from place->kept,
 * where that is, from place->file where that has it, from the slot that the place is served from, or from the file
 * once more; where Pillow cannot read what the slot has, sn_batch_item_from_storage() before. */
void sn_finish(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, const sn_view *picture,
               uint8_t *out);

/* The cached payload that the place was to be served from is damaged, or what another host has left of it: it is served
 * from storage. The slot stays held until the place is settled. */
void sn_batch_item_from_storage(sn_batch_item *place);

/* Give up a place that will not be prepared: its reserved slot is aborted. */
void sn_abandon(const sn_context *context, sn_batch_item *place, int status, const char *message);

/* Nobody works on this batch any more: give up the places that wait for sn_finish(). */
void sn_abandon_unfinished(sn_batch *batch);

#endif
