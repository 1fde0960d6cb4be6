#include "sn_digests.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../base/sn_crash.h"
#include "../base/sn_status.h"
#include "../shm/sn_row.h"
#include "sn_store.h"

#define DIGEST_SHIFT 16
#define FIXED ((uint64_t)1 << 15)
#define AGREED ((uint64_t)1 << 14)
#define MAKER (AGREED - 1)
#define JOB_BITS 6
#define GENERATIONS 256u

_Static_assert(SN_MAX_JOBS == 1 << JOB_BITS, "a job's bit fits its place");

/* Opening. */

static uint32_t find(const sn_header *head, uint64_t kind)
{
    uint32_t table = 0;

    while (table < SN_DIGEST_TABLES && atomic_load(&head->tables[table].kind) != kind)
        table++;
    return table;
}

static int is_in_use(const sn_header *head, const sn_digest_table *table)
{
    for (uint32_t i = 0; i < SN_MAX_ROWS / 64; i++)
        if (table->users[i] & head->live_rows[i])
            return 1;
    return table->taker != 0;
}

/* A free one, else the oldest of those that no living process has open. */
static uint32_t to_take(const sn_header *head)
{
    uint32_t best = SN_DIGEST_TABLES;

    for (uint32_t i = 0; i < SN_DIGEST_TABLES; i++) {
        const sn_digest_table *table = &head->tables[i];
        if (is_in_use(head, table))
            continue;
        if (atomic_load(&table->kind) == 0)
            return i;
        if (best == SN_DIGEST_TABLES || table->when < head->tables[best].when)
            best = i;
    }
    return best;
}

static int is_taken_by(const sn_digest_table *table, uint32_t row)
{
    return table->taker == row + 1 && atomic_load(&table->kind) == 0;
}

/* One that this process took before and did not come to name, else another. Under the lock. */
static uint32_t take(sn_header *head, uint32_t row)
{
    uint32_t i = 0;

    while (i < SN_DIGEST_TABLES && !is_taken_by(&head->tables[i], row))
        i++;
    if (i == SN_DIGEST_TABLES)
        i = to_take(head);
    if (i < SN_DIGEST_TABLES) {
        atomic_store(&head->tables[i].kind, 0);
        SN_CRASH_POINT(table_nameless);
        memset(head->tables[i].users, 0, sizeof head->tables[i].users);
        SN_CRASH_POINT(table_unused);
        head->tables[i].taker = row + 1;
    }
    return i;
}

static void name_it(const sn_digests *digests, sn_digest_table *table, uint64_t kind, enum sn_form form,
                    const char *shape)
{
    table->job_key = digests->segment->rows[digests->row].job_key;
    table->when = (uint64_t)time(NULL);
    table->pid = (int32_t)getpid();
    table->form = form;
    table->has_company = 0;
    SN_CRASH_POINT(table_begun);
    for (uint32_t i = 0; i < SN_MAX_JOBS; i++)
        atomic_store_explicit(&table->compared[i], 0, memory_order_relaxed);
    memset(table->shape, 0, sizeof table->shape);
    memcpy(table->shape, shape, strnlen(shape, sizeof table->shape - 1));
    SN_CRASH_POINT(table_described);
    table->taker = 0;
    SN_CRASH_POINT(table_taken);
    atomic_store_explicit(&table->kind, kind, memory_order_release);
}

/* Find it or name what was taken for it, else take one: SN_MISS, and what was taken is to be cleared. */
static int open_locked(sn_digests *digests, uint32_t *taken, uint64_t kind, enum sn_form form, const char *shape)
{
    sn_header *head = digests->segment->head;
    uint32_t table = find(head, kind);

    if (table == SN_DIGEST_TABLES && *taken < SN_DIGEST_TABLES && is_taken_by(&head->tables[*taken], digests->row)) {
        table = *taken;
        name_it(digests, &head->tables[table], kind, form, shape);
        SN_CRASH_POINT(table_named);
    }
    if (table < SN_DIGEST_TABLES) {
        if (digests->segment->rows[digests->row].job_key != head->tables[table].job_key)
            head->tables[table].has_company = 1;
        if (*taken < SN_DIGEST_TABLES && is_taken_by(&head->tables[*taken], digests->row))
            head->tables[*taken].taker = 0; /* another process was faster */
        SN_CRASH_POINT(table_found);
        sn_bit_set(head->tables[table].users, digests->row);
        digests->table = table;
        return 0;
    }
    *taken = take(head, digests->row);
    if (*taken == SN_DIGEST_TABLES && sn_store_reap(digests->segment, 1) > 0)
        *taken = take(head, digests->row);
    return *taken < SN_DIGEST_TABLES ? SN_MISS : SN_E_RECORDS;
}

int sn_digests_open(sn_digests *digests, uint64_t kind, enum sn_form form, const char *shape)
{
    sn_segment *segment = digests->segment;
    uint32_t taken = SN_DIGEST_TABLES;
    int rc;

    do {
        rc = sn_store_enter(segment, SN_LOCK_DEADLINE_MS);
        if (rc != 0)
            return rc;
        rc = open_locked(digests, &taken, kind, form, shape);
        sn_store_leave(segment);
        /* Without the lock: it is free meanwhile, and stays so until this process names it or dies. */
        if (rc == SN_MISS && sn_segment_clear_digests(segment, taken) != 0)
            return SN_E_RECORDS;
        SN_CRASH_POINT(table_cleared);
    } while (rc == SN_MISS);
    return rc;
}

/* Comparing. */

static _Atomic uint64_t *word_of(const sn_digests *digests, uint32_t sample)
{
    return &sn_segment_digests(digests->segment, digests->table)[sample];
}

/* Of another job it is read while that one may end and a new one take its bit: then its words have a tag that no job has, or
 * count for the new one once. */
static uint64_t maker_tag(const sn_segment *segment, uint32_t job)
{
    uint64_t generation = atomic_load_explicit(&segment->head->job_generations[job], memory_order_relaxed);

    return (generation % GENERATIONS) << JOB_BITS | job;
}

static uint32_t job_of(const sn_digests *digests)
{
    return digests->segment->rows[digests->row].job % SN_MAX_JOBS;
}

static int is_same(uint64_t one, uint64_t other)
{
    return one >> DIGEST_SHIFT == other >> DIGEST_SHIFT;
}

/* The word of a digest, which is never 0. */
static uint64_t word_with(uint64_t digest, int is_fixed, uint64_t tag)
{
    uint64_t kept = digest >> DIGEST_SHIFT;

    return (kept ? kept : 1) << DIGEST_SHIFT | (is_fixed ? FIXED : 0) | tag;
}

/* Mark the sample. Whether it was not marked before. */
static int mark(const sn_digests *digests, uint32_t sample)
{
    uint64_t bit = (uint64_t)1 << (sample % 64);

    return !(atomic_fetch_or_explicit(&digests->marks[sample / 64], bit, memory_order_relaxed) & bit);
}

/* For this job, and for that of the word if no other digest was equal before and it is here still. */
static void count(const sn_digests *digests, uint32_t sample)
{
    sn_digest_table *table = &digests->segment->head->tables[digests->table];
    uint64_t word = atomic_fetch_or_explicit(word_of(digests, sample), AGREED, memory_order_relaxed);
    uint32_t other = (uint32_t)(word & (SN_MAX_JOBS - 1));

    atomic_fetch_add_explicit(&table->compared[job_of(digests)], 1, memory_order_relaxed);
    SN_CRASH_POINT(digest_compared);
    if (!(word & AGREED) && (word & MAKER) == maker_tag(digests->segment, other))
        atomic_fetch_add_explicit(&table->compared[other], 1, memory_order_relaxed);
}

enum sn_met sn_digests_meet(const sn_digests *digests, uint32_t sample, uint64_t digest, int is_fixed, int draws)
{
    _Atomic uint64_t *at = word_of(digests, sample);
    uint64_t mine = word_with(digest, is_fixed, maker_tag(digests->segment, job_of(digests)));
    uint64_t found = atomic_load_explicit(at, memory_order_relaxed);

    for (;;) {
        int says_nothing = is_fixed && draws && found != 0 && !(found & FIXED) && !is_same(found, mine);
        if (found != 0 && !says_nothing)
            break;
        if (atomic_compare_exchange_weak_explicit(at, &found, mine, memory_order_relaxed, memory_order_relaxed)) {
            SN_CRASH_POINT(digest_new);
            mark(digests, sample);
            return SN_DIGEST_NEW;
        }
    }
    int is_own = (found & MAKER) == (mine & MAKER);
    if (is_same(found, mine)) {
        if (mark(digests, sample) && !is_own)
            count(digests, sample);
        return is_own ? SN_DIGEST_OWN : SN_DIGEST_EQUAL;
    }
    return is_own ? SN_DIGEST_CHANGED : SN_DIGEST_DIFFERS;
}

int sn_digests_is_marked(const sn_digests *digests, uint32_t sample)
{
    return (int)(atomic_load_explicit(&digests->marks[sample / 64], memory_order_relaxed) >> (sample % 64) & 1);
}

int sn_digests_vouch(const sn_digests *digests, uint32_t sample, uint64_t digest)
{
    uint64_t found = atomic_load_explicit(word_of(digests, sample), memory_order_relaxed);

    return found != 0 && is_same(found, word_with(digest, 0, 0)) && sn_digests_is_marked(digests, sample);
}

int sn_digests_have_company(const sn_digests *digests)
{
    return digests->segment->head->tables[digests->table].has_company != 0;
}

uint32_t sn_digests_compared(const sn_digests *digests)
{
    const sn_digest_table *table = &digests->segment->head->tables[digests->table];

    return atomic_load_explicit(&table->compared[job_of(digests)], memory_order_relaxed);
}

uint32_t sn_digests_compared_of(const sn_segment *segment, uint32_t row, uint64_t kind)
{
    uint32_t table = find(segment->head, kind), job = segment->rows[row].job % SN_MAX_JOBS;

    if (table == SN_DIGEST_TABLES)
        return 0;
    return atomic_load_explicit(&segment->head->tables[table].compared[job], memory_order_relaxed);
}

uint64_t sn_digests_maker(const sn_digests *digests, uint32_t sample)
{
    uint64_t found = atomic_load_explicit(word_of(digests, sample), memory_order_relaxed);
    uint32_t job = (uint32_t)(found & (SN_MAX_JOBS - 1));

    if (found == 0 || (found & MAKER) != maker_tag(digests->segment, job))
        return 0;
    for (uint32_t row = 0; row < SN_MAX_ROWS; row++) {
        const sn_row *record = &digests->segment->rows[row];
        if (atomic_load_explicit(&record->state, memory_order_acquire) == SN_ROW_LIVE && record->job == job)
            return record->job_key;
    }
    return 0;
}
