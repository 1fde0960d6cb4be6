/*
 * sn_batch.h -- one batch on its way: a place for each sample, and who has done what.
 *
 *   drawn --> submitted --> [threads claim places] --> complete --> read by the iterator
 *
 *   a place:  DRAWN -----------------------> CLAIMED --> prepared
 *               |                              ^
 *               +--> READING --> READ AHEAD ---+    while storage is slow: its file, by a thread that only reads;
 *               ^                              |    and each file that is fetched from elsewhere, or from other hosts
 *               +---- bytes are wanted --------+    its cached payload is damaged: its file is to be fetched
 *   AWAITED ----^                                   another job makes its copy: passed over until then (sn_copy_wait.h)
 *
 * Lives in   private memory. Made and freed by the iterator's thread; in between, a place
 *            belongs to the thread that claimed it.
 * Ordering   the pool's mutex: who sees the batch complete sees all that was written.
 */
#ifndef SN_BATCH_H
#define SN_BATCH_H

#include <stdint.h>

#include "../codec/sn_codec.h"
#include "../member/sn_member.h"
#include "../remote/sn_hosts.h"
#include "../remote/sn_remote.h"
#include "../shm/sn_segment.h"

/* The copy that serves a sample: the staged one that is served or made. */
typedef struct {
    uint32_t slot; /* SN_NONE: it is this iterator's alone */
    uint32_t generation;
    uint32_t form; /* that it is served from; SN_FROM_HOST: another host has left a copy */
} sn_note;

#define SN_FROM_HOST 254u

/* Where a sample's bytes are, if its file has those of other samples too. */
typedef struct {
    uint64_t offset;
    uint32_t length, container;
} sn_piece;

/* Such a file, as it was when the pieces were listed: in another one they are elsewhere. */
typedef struct {
    uint64_t size_bytes;
    int64_t mtime_ns;
} sn_container;

/* What is known of a sample's file: whether it has changed since the segment was made (sn_header.newest_ctime). Then its
 * payloads there may be of the time before. */
enum sn_change_of_file {
    SN_UNCHANGED = 0,
    SN_SUSPECT = 1, /* it has changed: maybe its mode, maybe its bytes */
    SN_COMPARED = 2 /* it has, and this job has found a kept payload to be what the file comes to now */
};

/* The state that all batches of one iterator share. Outlives them; owned by the border. */
typedef struct {
    const sn_plan *plan;
    uint32_t height, width;  /* of an AUGMENTED copy */
    uint64_t item_bytes;     /* of one sample in the output */
    uint64_t beside_bytes;   /* of what goes beside one sample: a mask, or sn_moves; 0: nothing */
    sn_segment *segment;     /* NULL: private */
    const char *paths;       /* NUL-terminated, one after another */
    const uint64_t *path_at; /* sample, or container -> its path's offset; of pairs 2 * sample, and its mask's next */
    const sn_piece *pieces;  /* sample -> its piece of a container; NULL: each has a file of its own */
    const sn_container *containers;
    uint8_t is_external;      /* containers are no files of this host: sn_pool_fetched() brings each piece's bytes */
    const float (*boxes)[4];  /* of all samples, one after another; NULL: no op reads any */
    const uint64_t *box_at;   /* sample -> its first; and one more number, the end */
    uint8_t boxes_are_shares; /* see sn_boxes */
    uint64_t largest;         /* bytes that a file without a piece may have; 0: it is not known */
    sn_remote *remote;        /* what other hosts have read may be there; NULL: there are none */
    uint8_t dataset[SN_REMOTE_DATASET]; /* as it is called there */
    sn_hosts *hosts;                    /* with which copies are shared there; NULL: with none */
    uint8_t copies[SN_REMOTE_DATASET];  /* as this epoch's are called there */
    uint64_t seed, nonce;               /* nonce: mixed into what is staged for others */
    uint64_t job_key;
    uint32_t epoch;
    uint32_t check_every; /* of the places that are served from a kept form; 0: none is checked */
    uint64_t *checked;    /* a bit a sample: it was, so others are checked before their turn; NULL: they are not */
    uint64_t *unrecoded; /* a bit a sample: its file has no RECODED payload, and that is not tried again; NULL: it is */
    _Atomic uint8_t
        *changes;        /* enum sn_change_of_file, by sample; NULL: no file has changed. Relaxed: it only saves work */
    uint32_t files_name; /* names the files as they were when the epoch began, see sn_client */
    sn_note *notes;      /* sample -> its note, written as it is drawn; NULL: not wanted */
    _Atomic uint32_t *progress; /* counts the places that are finished, for other jobs; NULL: not wanted */
} sn_context;

/* How many bytes an AUGMENTED copy has. */
static inline size_t sn_context_copy_bytes(const sn_context *context)
{
    return (size_t)sn_plan_copy_bytes(context->plan, context->height, context->width);
}

/* Nanoseconds that a place took, 0 for what it did not need and for what sn_finish() does. */
typedef struct {
    uint64_t read;    /* its file, by the wall, from storage or another host; its share of a request for several */
    uint64_t blocked; /* by the wall: the thread that prepared it read it itself, or waited until it was read ahead */
    uint64_t prepare; /* ENCODED to AUGMENTED in one go; the next three by the thread's own clock too */
    uint64_t decode;  /* ENCODED to DECODED, which is to be kept */
    uint64_t augment; /* DECODED to AUGMENTED */
    uint64_t recode;  /* ENCODED to RECODED, which is to be kept, and to AUGMENTED */
    uint64_t redraw;  /* RECODED to AUGMENTED */
} sn_spent;

/* READING, where containers are external: it has a ticket in sn_fetches. */
enum sn_stage { SN_DRAWN, SN_READING, SN_READ_AHEAD, SN_CLAIMED, SN_AWAITED };

/* A file that was read, or why it was not. */
typedef struct {
    uint8_t *bytes; /* owned, and used again for another file */
    size_t capacity, length;
    const char *why; /* static; NULL: strerror(-rc) */
    int rc;
    int is_remote;    /* it came from another host's memory, and not from storage */
    int is_copy;      /* and is no file, but the sample's AUGMENTED copy */
    int is_of_mask;   /* `rc` is that of a pair's mask */
    int64_t ctime_ns; /* of the file that it was read from, of two the newer; 0: it was not read from a file */
} sn_file;

typedef struct sn_batch_item {
    sn_item item;
    _Atomic uint32_t settled; /* nobody will touch its slots again; release, see sn_batch_settle() */
    int32_t status;           /* 0; SN_E_FOR_PILLOW: wants sn_finish(); else the failure */
    uint32_t read_bytes;      /* from storage */
    int64_t ctime_ns;         /* its file's when that was read; 0: it was not read from a file of this host */
    uint8_t is_remote;        /* its file came from another host's memory */
    uint8_t is_copy;          /* its copy did, and there was no file */
    uint8_t is_of_mask;       /* a pair has failed because of its mask */
    uint8_t unrecoded;        /* 1 and an enum sn_unrecoded; 0: it is kept RECODED, or that was not asked */
    uint32_t damaged;         /* what it was to be served from, and it was served from storage instead */
    uint8_t check;            /* compare what it is served from with the file: see sn_context.check_every */
    uint8_t is_suspect;       /* its file has changed: it is served from the cache only if that has come to the same */
    uint8_t different;        /* it was compared, and differs */
    uint8_t is_held_back;     /* the iterator's thread's: it is AWAITED, see sn_copy_wait.h */
    uint8_t was_coming;       /* likewise: another job was making its copy, and that was checked again */
    sn_spent spent;
    uint64_t turn;  /* distinguishes the draws of one sample in an epoch, by their random numbers; 0: there is one */
    char *message;  /* of a failure; owned */
    uint8_t *kept;  /* a private payload that might be kept; owned */
    sn_offer offer; /* what it is */
    uint64_t
        awaited_ns;  /* that its file was under way, where that took its time: the thread that waited for it slept. Of
                          * files from other hosts: what no preparation hides */
    uint8_t is_read; /* its file was read ahead */
    uint8_t skips_remote;  /* another host has nothing of it, or what is damaged: it is fetched from its container */
    uint8_t fetches_alone; /* a request for it and its neighbours has failed */
    uint32_t together;     /* places that its request has brought; 0: it was not requested */
    sn_file file;          /* which has it */

    /* Under the pool's mutex. */
    enum sn_stage stage;
    struct sn_batch *batch;
    struct sn_batch_item *following; /* that was read ahead */
} sn_batch_item;

/* An accepted offer: copy the private payload into its slot. */
typedef struct {
    uint8_t *payload; /* owned */
    sn_offer offer;
} sn_copy;

typedef struct sn_batch {
    const sn_context *context;
    sn_batch_item *places;
    uint32_t n_places;
    uint8_t *out;         /* n_places * context->item_bytes */
    uint8_t *beside;      /* n_places * context->beside_bytes: the masks of pairs, or how pictures were moved */
    sn_erasure *erasures; /* n_places * sn_plan_erasures(), if the plan leaves erasing to whoever takes the batch */
    sn_copy *copies;
    uint32_t n_copies;

    /* Under the pool's mutex. A task is a copy or a place, in this order. */
    uint64_t number;       /* of the batches that were submitted */
    uint32_t next;         /* no task before it is DRAWN, but for those that want another host's copy */
    uint32_t next_wanting; /* the first place that may be DRAWN and want one */
    uint32_t next_read;    /* no place before it may be read ahead */
    uint32_t claimed, finished;
    int dropped;
    struct sn_batch *following;

    /* The iterator's thread's, see sn_copy_wait.h. */
    uint32_t n_awaited;
    uint64_t peer_wait_ns;      /* that it waited for others' copies alone, or was not drawn for the sake of others */
    uint64_t peer_wait_from_ns; /* when that began; 0: it has not */
    uint64_t wait_ns;           /* that the training loop waited for it, once it was drawn */
    int slowly;                 /* it was drawn while the member waited for others, see member/sn_pacing.h */
    struct sn_batch *next_awaiting;
} sn_batch;

/* Private payloads that earlier batches left, to be offered in the next draw. All zero: none. */
typedef struct {
    sn_copy *copies; /* owned, as are their payloads */
    uint32_t n, capacity;
} sn_offers;

void sn_offers_free(sn_offers *offers);

/* Take over what a complete batch has left. 0; -ENOMEM, and then nothing is taken. */
int sn_offers_collect(sn_offers *offers, sn_batch *batch);

/*
 * Draw the places of a batch that was made for so many and for all `offers`, which are emptied: those that are
 * accepted are the batch's copies now, the others are freed. Writes the samples' indices, chooses which places are
 * checked (`until_check` counts down to the next, from batch to batch), and notes which copies serve. The batch is
 * then to be submitted.
 *
 * 0, also where the member had to draw privately; -ENOMEM: nothing was drawn.
 */
int sn_batch_draw(sn_batch *batch, sn_member *member, sn_offers *offers, uint32_t *until_check, uint32_t *indices);

/* The same of samples that the caller names, one for each place, of a member that is given them; with the turn of each.
 * The serving copy is in the places, and is noted nowhere else. */
int sn_batch_draw_given(sn_batch *batch, sn_member *member, sn_offers *offers, uint32_t *until_check,
                        const uint32_t *samples, const uint64_t *turns);

/* It is known what serves a place. If its sample's file has changed: have a kept payload compared with the file first; and
 * make the sample here instead of using a copy, unless the copy's writer had seen the change before it made it. A copy that is
 * awaited is left alone until it has come; then this is to be called again. */
void sn_batch_doubt(sn_batch_item *place);

/* Which copy serves a sample, or which is made of it. It is held: what is said of it cannot change. */
sn_note sn_batch_note_of(const sn_context *context, const sn_item *item);

/* Note that: as it is drawn, and as it is found to differ. */
void sn_batch_note(const sn_context *context, const sn_item *item);

/* Let go, in the member's next draw, of what the places hold that are settled: a slot is held
 * while it is written or read, not until its batch is delivered. The acquire of `settled`
 * pairs with the thread's release: its last access to the slots came before. */
void sn_batch_settle(sn_batch *batch, sn_member *member);

/* It is complete and read, or was dropped: let go of all that it holds. */
void sn_batch_done(sn_batch *batch, sn_member *member);

/* The costs of a complete batch. */
typedef struct {
    uint32_t served[SN_FORMS]; /* by the form that they were served from, here or on another host */
    uint32_t prepared, staged; /* not served from a copy; of which one was made for others */
    uint32_t damaged, checked, different;
    uint32_t in_vain; /* prepared, although another job was to make the copy: it failed, left, or took too long */
    uint32_t n_read, n_prepare, n_decode, n_augment, n_recode,
        n_redraw; /* places that took some of the time in `spent` */
    uint32_t
        unrecoded[SN_UNRECODED_WHYS]; /* files that were to be kept RECODED and have no such payload, by the cause */
    uint32_t n_copies;                /* places whose copies came from other hosts */
    uint32_t n_remote;                /* places whose files did */
    uint64_t remote_ns;               /* asking for these files took so long, which is not in spent.read */
    uint64_t read_bytes, decoded_bytes;
    uint64_t peer_wait_ns;
    sn_spent spent;
} sn_batch_sums;

void sn_batch_sum(const sn_batch *batch, sn_batch_sums *sums);

/* NULL when memory is short. */
sn_batch *sn_batch_new(const sn_context *context, uint32_t n_places, uint32_t n_copies);
void sn_batch_free(sn_batch *batch);

#endif
