/*
 * sn_prepare.h -- one sample's way, from whatever form it is in to its place in the batch.
 *
 *   STORAGE --read--> ENCODED --> (DECODED) --> AUGMENTED --> out
 *      a payload of the segment may be entered at any form, and each that is made on the way
 *      may be left behind: AUGMENTED in its reserved slot, DECODED or ENCODED as an offer
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

#include "sn_batch.h"

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

/* Read the file of a place ahead of sn_prepare(), by another thread. It blocks on storage, for ever where that hangs.
 *
 * 0, also where the file cannot be read: sn_prepare() reports it. -EMFILE, -ENFILE, -ENOMEM: too many files are read at
 * a time, and sn_prepare() reads this one. */
int sn_read_ahead(const sn_context *context, sn_batch_item *place);

/* How often this thread has gone to sleep. One whose core is taken away does not. */
long sn_thread_sleeps(void);

/* 0: it is prepared, or has failed. SN_MISS: its bytes are to be fetched first; nothing else was done. */
int sn_prepare(sn_scratch *scratch, const sn_context *context, sn_batch_item *place, uint8_t *out);

/* Whether sn_prepare() will need the bytes of the place's file, as far as that is known before. */
int sn_batch_item_needs_file(const sn_batch_item *place);

/* Whether the place's file came over a network. Pillow then gets it from place->file, and it is not fetched again. */
int sn_batch_item_was_fetched(const sn_context *context, const sn_batch_item *place);

/* A request to other hosts. */
typedef struct {
    uint32_t sample;
    uint8_t wants_copy; /* the AUGMENTED copy */
    uint8_t wants_file; /* or else the file */
    sn_file file;       /* memory that may be used; then what has come */
} sn_asked;

/* Get what other hosts have left of up to SN_REMOTE_AT_ONCE samples, where the context names such hosts. What was found is
 * good, and says is_remote. */
void sn_ask_other_hosts(const sn_context *context, sn_asked *asked, uint32_t n);

/* Files that other hosts were asked for, and that have to be taken. */
typedef struct {
    sn_gets gets;
    sn_wish wishes[SN_REMOTE_AT_ONCE];
    sn_file *files[SN_REMOTE_AT_ONCE]; /* in the sn_asked */
    uint32_t n;
} sn_question;

/* Ask for files, and for no copies, without waiting. The context names other hosts; `asked` stays until the files are taken. */
void sn_ask_for_files(const sn_context *context, sn_asked *asked, uint32_t n, sn_question *question);

/* Take them, and wait for those that have not come. What was found is good, and says is_remote. */
void sn_take_files(const sn_context *context, const sn_question *question);

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
