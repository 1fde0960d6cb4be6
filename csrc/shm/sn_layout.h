/*
 * sn_layout.h -- where everything is stored in a segment.
 *
 *   header | rows | telemetry | traits | slots | first | wants   | writing | committed | granule map | payload
 *            who    hints       hints    what    where   derived   derived   hints       derived       bytes
 *
 *     ...  | row areas | digests
 *            one a row   hints, one table a kind of payload
 *
 *   row area:  ledger | seen  | eligible | counts  | timetable
 *              held     taken   derived    derived   hints
 *
 * Truth: rows, ledgers, seen bits, the changes of the split, generations of job bits, which table of digests is of
 * which kind, distrust, what of the payload has memory, the newest change of a file, and the upper part of each slot record. All else but hints is
 * derived from it and made anew by sn_store_rebuild().
 *
 * The records and the first part of the payload are reserved at birth, the rest of the payload piece by piece while
 * it is in use (sn_backing.h). A row area has no memory until a row is claimed that
 * uses it: seen bits of 128 rows would be the most of the records of a large dataset. Those of the
 * last rows, which members are given first, are put into huge pages at birth, where row areas are that large.
 * A table of digests has no memory until a process opens it (sn_digests.h).
 *
 * Lives in   the segment. Offsets and fixed widths, never pointers; 64-byte aligned parts.
 * Callers    everything here is read and written by the lock holder, except
 *            `sn_slot.state` and the committed bits (a slot's writer publishes without the lock),
 *            `sn_header.abandoned` and `.distrust` (whoever was served what is not so),
 *            `sn_header.magic` and payload bytes (a slot's writer; whoever pins it),
 *            `sn_telemetry` and `sn_traits` (a row's owner; see sn_telemetry.h),
 *            digests and `sn_digest_table.compared` (whoever makes a sample; see sn_digests.h).
 * Crash      see sn_store.h.
 */
#ifndef SN_LAYOUT_H
#define SN_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SN_MAGIC 0x31304143454E4553u /* "SENECA01", little endian */
#define SN_LAYOUT_VERSION 17u

#define SN_GRANULE 4096u       /* payload space is given out in pages */
#define SN_HUGE_PAGE 2097152u  /* records of many samples are stored in these, where the kernel has them */
#define SN_MAX_ROWS 128u       /* participants at once */
#define SN_AREAS_AT_BIRTH 8u   /* of the last rows, where row areas are huge pages: a member for each GPU of a host */
#define SN_MAX_JOBS 64u        /* one bit each in a copy's uses mask */
#define SN_MAX_LEDGER 16384u   /* slots that one participant may hold at once */
#define SN_MAX_WRITING 65536u  /* slots that are being written at once */
#define SN_GROUP 512u          /* slots whose committed bits share a cache line */
#define SN_CHANGES 8u          /* of the split that are remembered */
#define SN_DIGEST_TABLES 64u   /* kinds of payloads that processes compare at once */
#define SN_MOST_TRAITS 64u     /* that a process publishes of its dataset */
#define SN_DATASET_NAME 64u    /* bytes of the name that people know a dataset by */
#define SN_TELEMETRY_WORDS 62u /* of what a process publishes of its work */
#define SN_NONE UINT32_MAX     /* no slot, no granule, no row */
#define SN_KEEP_FOREVER UINT32_MAX

/* The numbers stand in audit logs. RECODED comes between ENCODED and DECODED in all else. */
enum sn_form { SN_STORAGE = 0, SN_ENCODED = 1, SN_DECODED = 2, SN_AUGMENTED = 3, SN_RECODED = 4, SN_FORMS = 5 };

enum sn_slot_state {
    SN_SLOT_EMPTY = 0,
    SN_SLOT_WRITING = 1,
    SN_SLOT_READY = 2,
    SN_SLOT_FAILED = 3 /* its writer could not finish; freed when the writer lets go of it */
};

enum sn_row_state { SN_ROW_FREE = 0, SN_ROW_LIVE = 1 };

enum sn_row_kind {
    SN_ROW_HOLDER = 1, /* a process that is attached: keeps the segment and its job's bit, and
                          holds what its workers pin and write */
    SN_ROW_MEMBER = 2, /* one iterator that draws batches */
    SN_ROW_SUBSET = 3  /* says which samples a member's dataset has, where these are not all: seen
                          bits that do not change, of the member's job and pipeline */
};

/* Every slot record is on exactly one list. Copies that n members are eligible for: list SN_LIST_WANT + n.
 * That number is in `wants` besides, a byte a staged slot, for a draw compares it of many. The writing
 * list is an array, for a slot's place in it to be a number. */
enum sn_list {
    SN_LIST_FREE_STAGE = 0,
    SN_LIST_FREE_KEEP = 1,
    SN_LIST_WRITING = 2,
    SN_LIST_ENCODED = 3,
    SN_LIST_RECODED = 4,
    SN_LIST_DECODED = 5,
    SN_LIST_WANT = 6,
    SN_LISTS = SN_LIST_WANT + SN_MAX_ROWS + 1
};

/* Why a file that was to be kept RECODED has no such payload. */
enum sn_unrecoded {
    SN_UNRECODED_KIND = 0,    /* it is no JPEG of the colours, samplings and codes that have one, or has to be turned */
    SN_UNRECODED_DAMAGED = 1, /* it is damaged, or has values that no sound picture has */
    SN_UNRECODED_LARGE = 2,   /* the payload would be larger than it is worth */
    SN_UNRECODED_WHYS = 3
};

/* The list of a kept payload that nobody writes. */
static inline enum sn_list sn_list_of(enum sn_form form)
{
    return form == SN_DECODED ? SN_LIST_DECODED : form == SN_RECODED ? SN_LIST_RECODED : SN_LIST_ENCODED;
}

/* The forms that are kept across epochs, those first that save least. */
#define SN_KEPT_FORMS 3
static const enum sn_form sn_kept_forms[SN_KEPT_FORMS] = {SN_ENCODED, SN_RECODED, SN_DECODED};

static inline bool sn_is_kept(uint32_t form)
{
    return form != SN_STORAGE && form != SN_AUGMENTED;
}

/* A place for one payload. Slots 0 .. n_stage-1 hold staged copies, the others what is kept. */
typedef struct {
    /* truth */
    _Atomic uint32_t state;
    uint32_t generation; /* which occupant; steps with each reservation */
    uint32_t sample;
    uint16_t writer_row;
    uint8_t form;
    uint8_t alone; /* derived: surely no other slot holds anything of this sample */
    uint32_t writer_generation;
    uint32_t granule; /* the payload's first granule */
    uint32_t length;  /* bytes */
    union {
        struct {
            uint16_t height, width; /* of a kept picture */
        };
        uint32_t files_name; /* AUGMENTED: names the files as its writer's job has seen them, see sn_client */
    };
    uint64_t pipeline; /* fingerprint of the stages that made it; 0 for ENCODED */
    uint64_t uses;     /* the jobs that this copy has served, a bit each */
    /* derived */
    uint32_t next_of_sample;
    uint16_t pins;    /* ledger entries that name this slot */
    uint8_t list;     /* the list that it is on */
    uint8_t in_order; /* truth: a copy, and who made it came to its sample in an order that is not random */
    uint32_t list_next, list_prev; /* on the writing list list_prev is the place in it */
} sn_slot;

_Static_assert(sizeof(sn_slot) == 64, "one cache line a slot");

/* A participant: a living owner holds the OFD lock on this row's byte. */
typedef struct {
    /* truth. What sn_hints.h reads without the lock is atomic, for it may change meanwhile. */
    _Atomic uint32_t state;
    _Atomic uint32_t generation;
    _Atomic uint16_t kind;
    _Atomic uint16_t exchanges; /* SN_ROW_HOLDER: names the pipeline whose copies its owner last took part in; a hint.
                                 * SN_ROW_MEMBER: whether it lets copies of others take the places of its samples */
    uint32_t job;               /* its bit in uses masks */
    _Atomic uint64_t job_key;
    uint64_t pipeline;   /* fingerprint of the AUGMENTED copies that it uses or makes; 0: none */
    uint32_t stage_need; /* granules: twice what it has in flight */
    uint32_t copy_bytes; /* the largest of these copies that it has made; 0: none yet */
    int32_t pid;         /* for people; never trusted */
    union {
        uint32_t subset;            /* SN_ROW_SUBSET: names its samples, whoever draws from them */
        struct {                    /* SN_ROW_MEMBER */
            uint16_t expects;       /* whether others of its pipeline are expected, see sn_rows_stage_need() */
            uint16_t has_timetable; /* whether that in its row area is complete; a hint */
        };
    };
    /* derived */
    uint32_t eligible; /* set bits of its eligible vector */
    uint32_t staged;   /* granules of the staged copies that it reserved */
    /* SN_ROW_HOLDER: what its owner publishes of itself, without the lock; a hint.
     * SN_ROW_MEMBER: where it is, see sn_exact_share.h; the lock holder's, and a hint too. */
    union {
        _Atomic uint32_t published_at; /* SN_ROW_HOLDER: second of CLOCK_MONOTONIC; 0: nothing yet */
        _Atomic uint32_t order;        /* SN_ROW_MEMBER: names its order; 0: it divides nothing */
    };
    union {
        _Atomic uint32_t pace;  /* SN_ROW_HOLDER: samples a second that its training step takes */
        _Atomic uint32_t drawn; /* SN_ROW_MEMBER: how many places of its order it has drawn */
    };
} sn_row;

_Static_assert(sizeof(sn_row) == 64, "one cache line a row");

#define SN_PARTS 255u /* of an epoch, in a timetable */
#define SN_NEVER 255u /* in place of a part: the sample is not this member's */

/* When a member comes to each sample: in which part of its epoch. Of one whose order is fixed; see sn_next_use.h. */
typedef struct {
    uint64_t decoded_pipeline; /* of the DECODED payloads that it can use */
    uint32_t places;           /* of its epoch */
    uint8_t part_of[];         /* by sample */
} sn_timetable;

/* The activity of the threads or worker processes that prepare samples while the training loop waited for them. */
enum sn_cause {
    SN_CAUSE_STORAGE = 0, /* waited for storage */
    SN_CAUSE_DECODE = 1,  /* decoded, or decoded and augmented in one go */
    SN_CAUSE_AUGMENT = 2,
    SN_CAUSE_ITEM = 3,  /* ran the user's code that makes an item */
    SN_CAUSE_BATCH = 4, /* made a batch of samples, and all else that they do */
    SN_CAUSE_CORES = 5, /* waited for a core */
    SN_CAUSE_PEERS = 6, /* made nothing: other jobs make its exact copies, or are to come near */
    SN_CAUSE_OTHER = 7, /* nothing that was seen */
    SN_CAUSES = 8
};

/* The work of one process's loaders since it attached, and where its last epoch is. */
typedef struct {
    uint64_t since_ms, published_ms; /* since 1970: when it began to publish, and when it published this */
    uint64_t delivered;              /* samples, without the batch that the training loop is at */
    uint64_t served[SN_FORMS];       /* by the form that they were served from */
    uint64_t
        unrecoded[SN_UNRECODED_WHYS]; /* files that were to be kept RECODED and have no such payload, by the cause */
    uint64_t prepared, staged;        /* augmented copies that it made; of these, for other jobs too */
    uint64_t skipped, damaged;        /* that could not be prepared; whose payload in the cache was damaged */
    uint64_t read_bytes;              /* from storage */
    uint64_t stall_ns[SN_CAUSES];
    uint64_t
        spent_ns[SN_CAUSES]; /* of preparing; of SN_CAUSE_STORAGE and SN_CAUSE_CORES wall-clock time, else CPU time */
    uint64_t epoch, place, places; /* of the last epoch: its number, samples delivered, of how many (0: not known) */
    uint64_t threads, batch_size;
    uint64_t rank, ranks;
    char name[96];                 /* of the job, for people; ends with a NUL */
    char dataset[SN_DATASET_NAME]; /* likewise, of its dataset */
} sn_work;

typedef struct {
    _Atomic uint32_t sequence;                  /* odd: it is being written; 0: nothing was published */
    _Atomic uint32_t generation;                /* of the row that wrote it */
    _Atomic uint64_t words[SN_TELEMETRY_WORDS]; /* an sn_work, and room for more */
    /* SN_ROW_MEMBER, in an order that others have too: what its owner publishes, see sn_pacing.h; 0: nothing. */
    _Atomic uint32_t progress; /* counts the places that it has finished, from any number on */
    _Atomic uint32_t waits;    /* whether its training loop waits for batches */
} sn_telemetry;

_Static_assert(sizeof(sn_telemetry) == 512, "eight cache lines");
_Static_assert(sizeof(sn_work) <= SN_TELEMETRY_WORDS * 8 && sizeof(sn_work) % 8 == 0, "it fits its block");

typedef struct {
    uint32_t head, tail, count;
} sn_list_head;

typedef struct {
    uint64_t fingerprint[2]; /* of the dataset */
    uint64_t payload_bytes;
    uint32_t n_samples;
    uint32_t keep;            /* for so many seconds it outlives the last who leaves; a joiner may ask for more */
    uint32_t split[SN_FORMS]; /* shares of the payload space at birth, in 1/10,000 */
    uint32_t adapts;          /* whether Seneca may change them: the user has not asked for them */
    uint32_t first_granules;  /* so many get memory at birth; 0: all */
} sn_geometry;

/* A split that was chosen, for people. */
typedef struct {
    uint64_t when; /* seconds since 1970 */
    uint32_t split[SN_FORMS];
    char why[228]; /* ends with a NUL, or is cut off */
} sn_change;

/* Names of what a dataset's items depend on, each with a digest of what it is: these show people in what two
 * jobs differ that do not share. */
typedef struct {
    uint64_t name, digest;
} sn_trait;

/* What one process publishes of the dataset that it loads; see sn_telemetry.h. */
typedef struct {
    uint64_t like;   /* names class and length, which datasets have that should perhaps be one; 0: nothing yet */
    uint64_t source; /* names its samples in storage */
    uint64_t kind;   /* names the payloads that it shares */
    uint64_t n;
    sn_trait traits[SN_MOST_TRAITS];
    char apart[232]; /* for people: which job does not share with it, and why; ends with a NUL */
} sn_dataset;

#define SN_DATASET_WORDS (sizeof(sn_dataset) / 8)

typedef struct {
    _Atomic uint32_t sequence, generation; /* as in sn_telemetry */
    _Atomic uint64_t words[SN_DATASET_WORDS];
} sn_traits;

_Static_assert(sizeof(sn_dataset) % 8 == 0 && sizeof(sn_traits) == 1296, "whole words");

/* A table of digests, one for each sample, of the payloads of one kind. See sn_digests.h. */
typedef struct {
    _Atomic uint64_t kind; /* names what the payloads hold; 0: the table is free. Written last, cleared first */
    uint64_t job_key;      /* who began it */
    uint64_t when;         /* seconds since 1970 */
    int32_t pid;
    uint32_t form;
    uint32_t taker;                         /* 1 + the row of who clears it to name it next; 0: none */
    uint32_t has_company;                   /* whether processes of more than one job have had it open */
    uint64_t users[SN_MAX_ROWS / 64];       /* rows of the processes that have it open */
    _Atomic uint32_t compared[SN_MAX_JOBS]; /* by a job's bit: samples that it and another job made, which were equal */
    char shape[72]; /* of a sample, for people: types and sizes; ends with a NUL, or is cut off */
} sn_digest_table;

enum sn_abandoned {
    SN_IN_USE = 0,
    SN_BROKEN = 1,     /* three rebuilds were begun and not finished */
    SN_DISTRUSTED = 2, /* somebody was served what its own dataset does not make: see sn_distrust */
    SN_CUT = 3         /* its file was cut off: see sn_guard */
};

/* Why the payloads here are not trusted. */
typedef struct {
    _Atomic uint32_t reported; /* 0: not yet; 1: somebody is writing this; 2: written */
    uint32_t sample;
    uint32_t form; /* that it was served from; SN_STORAGE: its file, or what it is made of, has changed */
    int32_t pid;
    uint64_t job_key; /* who found it */
    uint64_t when;
} sn_distrust;

typedef struct {
    _Atomic uint64_t magic; /* written last */
    uint32_t layout_version;
    uint32_t row_words; /* 64-bit words of seen bits a row */
    sn_geometry geometry;
    uint64_t segment_bytes;
    uint32_t n_stage, n_slots, n_granules, n_ledger, n_writing;
    uint32_t boot; /* of the host that made it, see sn_segment_is_over(); 0: not known */
    uint64_t rows_at, telemetry_at, traits_at, slots_at, first_at, wants_at, writing_at, committed_at, groups_at,
        granules_at, payload_at;
    uint64_t areas_at;
    uint64_t area_bytes;                      /* from one row area to the next */
    uint64_t seen_in, eligible_in, blocks_in; /* in a row area, whose ledger comes first */
    uint64_t timetable_in;                    /* likewise; it has memory where a member has one */
    uint64_t digests_at, digests_bytes;       /* the tables, and from one to the next */

    /* The lock holder's. */
    _Atomic uint32_t busy;      /* set while a critical section runs: whoever finds it set rebuilds */
    _Atomic uint32_t failures;  /* rebuilds begun and not finished, in a row */
    _Atomic uint32_t abandoned; /* enum sn_abandoned; the last by anybody, without the lock */

    /* Truth: of the payload's granules, counted from the first. See sn_backing.h. */
    _Atomic uint32_t backed; /* so many have memory; grows only */
    _Atomic uint32_t limit;  /* from here on none is given out any more; falls only */

    /* derived */
    uint32_t granules_of[SN_FORMS]; /* in use, by form */
    uint32_t budget_of[SN_FORMS];   /* in granules, by form */
    uint32_t granules_free;
    uint32_t stage_from;      /* no run is free below, for a staged copy */
    uint32_t keep_from;       /* where the search for a kept payload goes on */
    uint32_t largest_run;     /* no free run is longer than this; SN_NONE: not known */
    uint32_t candidates_from; /* the slot where the search for one to evict goes on */
    uint64_t live_rows[SN_MAX_ROWS / 64];
    uint64_t member_rows[SN_MAX_ROWS / 64];
    uint64_t members_of_job[SN_MAX_JOBS][SN_MAX_ROWS / 64];
    sn_list_head lists[SN_LISTS];

    /* Truth: of the split, since birth; the last are at [n % SN_CHANGES]. Counted when all else of it is written. */
    _Atomic uint32_t n_changes;
    uint32_t left_at; /* truth: when its last user left, in seconds since 1970; 0: it is in use, or they were killed */
    sn_change changes[SN_CHANGES];

    /* Hints for whoever has to give up one of several kept segments; the lock holder's. See sn_join.h. */
    uint32_t joins, joined_at; /* how often jobs joined, in 1/1,000, as it counted in this second since 1970 */
    uint64_t cost_ns;          /* that it takes to make one sample again; 0: it is not known */

    /* Truth: what jobs show each other, see sn_digests.h and sn_distrust.h. */
    sn_distrust distrust;
    _Atomic uint16_t job_generations[SN_MAX_JOBS]; /* by bit: how many jobs have had it. Relaxed without the lock */
    sn_digest_table tables[SN_DIGEST_TABLES];

    /* Truth: the newest ctime of all files of the dataset, in ns, as its creator saw them before; 0: they have none, or
     * it is not known. The payloads here were read later. Therefore only a file with a newer ctime may have other bytes
     * now. */
    int64_t newest_ctime;
} sn_header;

_Static_assert(sizeof(sn_digest_table) == 384, "six cache lines");
_Static_assert(sizeof(sn_header) == 29840, "a changed header needs a new layout version");

/* Shares of the payload space, by form, in 1/10,000: those of the last change. */
static inline const uint32_t *sn_split(const sn_header *head)
{
    uint32_t n = atomic_load_explicit(&head->n_changes, memory_order_acquire);
    return n ? head->changes[(n - 1) % SN_CHANGES].split : head->geometry.split;
}

/* How many granules may be given out: those from the first to this one. */
static inline uint32_t sn_usable_granules(const sn_header *head)
{
    uint32_t backed = atomic_load_explicit(&head->backed, memory_order_relaxed);
    uint32_t limit = atomic_load_explicit(&head->limit, memory_order_relaxed);
    return backed < limit ? backed : limit;
}

/* Where everything goes for a cache of this size; fills `layout` but not its magic.
 * 0, or -EINVAL for a geometry that cannot be (no samples, too many, no room). */
int sn_layout_compute(const sn_geometry *geometry, sn_header *layout);

/* Whether a header found in a file of `file_bytes` is exactly what its own geometry plans:
 * 0, SN_E_MAGIC, SN_E_VERSION, SN_E_CORRUPT. Trusts nothing that it reads. */
int sn_layout_validate(const sn_header *found, uint64_t file_bytes);

#endif
