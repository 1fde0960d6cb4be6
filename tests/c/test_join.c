/*
 * test_join.c -- processes come to a segment, publish what they are, and leave it: in turn, so that each case
 * says what has to be there afterwards.
 *
 *   a handle is what a process has; the name, the rows and what they publish are checked from the others'
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sn_rng.h"
#include "base/sn_status.h"
#include "cache.h"
#include "check.h"
#include "shm/sn_row.h"
#include "shm/sn_snapshot.h"
#include "store/sn_check.h"
#include "store/sn_hints.h"
#include "store/sn_join.h"
#include "store/sn_store.h"

#define N_SAMPLES 100

typedef struct {
    sn_segment *segment;
    uint32_t row;
    int answer, fd;
} process;

static uint64_t seed;
static char path[64];
static sn_geometry geometry;
static off_t no_memory_from; /* 0: there is memory */
static int cannot_reserve;

/* In place of the C library's. */
int fallocate(int fd, int mode, off_t at, off_t length)
{
    if (mode == 0 && (cannot_reserve || (no_memory_from && at >= no_memory_from))) {
        errno = cannot_reserve ? EOPNOTSUPP : ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, at, length);
}

static void remove_name(void)
{
    unlink(path);
}

static int is_linked(void)
{
    int fd = open(path, O_RDWR | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int is_open(int fd)
{
    return fcntl(fd, F_GETFD) != -1;
}

static process join_as(uint64_t job_key, const sn_geometry *wanted)
{
    process self = {.fd = open(path, O_RDWR | O_CLOEXEC | O_CREAT, 0600)};

    CHECK(self.fd >= 0);
    self.answer = sn_join(self.fd, path, wanted, 0, job_key, NULL, NULL, &self.segment, &self.row);
    if (self.segment == NULL)
        CHECK(!is_open(self.fd));
    return self;
}

static process joined(uint64_t job_key, int answer)
{
    process self = join_as(job_key, &geometry);

    CHECK_EQUAL(self.answer, answer, "job %" PRIu64, job_key);
    CHECK(self.segment && sn_row_is_own(self.segment, self.row));
    CHECK_EQUAL(self.segment->head->busy, 0, "out of the lock");
    CHECK_EQUAL(self.segment->rows[self.row].job_key, job_key, "row %u", self.row);
    return self;
}

static void leave(process *self)
{
    CHECK_EQUAL(sn_leave(self->segment, self->row), 0, "row %u", self->row);
    sn_segment_close(self->segment);
}

static void die(process *self)
{
    cache_die(self->segment);
    sn_segment_close(self->segment);
}

static void check_derived(const process *self)
{
    char why[256] = "";

    CHECK_EQUAL(sn_store_enter(self->segment, CACHE_PATIENCE_MS), 0, "to check");
    CHECK_EQUAL(sn_store_check(self->segment, why, sizeof why), 0, "%s", why);
    sn_store_leave(self->segment);
}

static uint32_t count_processes(const process *self)
{
    sn_store_stats stats;

    CHECK_EQUAL(sn_store_enter(self->segment, CACHE_PATIENCE_MS), 0, "to count");
    sn_store_read_stats(self->segment, &stats);
    sn_store_leave(self->segment);
    return stats.processes;
}

static void sets_of_rows_are_walked(void)
{
    uint64_t set[SN_MAX_ROWS / 64];
    sn_rng rng;

    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_ORDER);
    for (uint32_t round = 0; round < 1000; round++) {
        uint32_t found = 0, rarely = 1 + sn_rng_below(&rng, 60);

        memset(set, 0, sizeof set);
        for (uint32_t row = 0; row < SN_MAX_ROWS; row++)
            if (sn_rng_below(&rng, rarely) == 0)
                sn_bit_set(set, row);
        for (uint32_t row = sn_rows_next(set, 0); row < SN_MAX_ROWS; row = sn_rows_next(set, row + 1)) {
            CHECK_EQUAL(sn_bit_get(set, row), 1, "row %u", row);
            found++;
        }
        CHECK_EQUAL(found, __builtin_popcountll(set[0]) + __builtin_popcountll(set[1]), "round %u", round);
    }
}

static void the_last_to_leave_takes_the_name_away(void)
{
    process a = joined(7, SN_ATTACH_CREATED), b = joined(8, SN_ATTACH_JOINED), c = joined(7, SN_ATTACH_JOINED);

    CHECK(a.row != b.row && b.row != c.row && a.row != c.row);
    CHECK_EQUAL(count_processes(&a), 3, "all are here");
    check_derived(&c);
    leave(&b);
    CHECK_EQUAL(count_processes(&a), 2, "one has left");
    leave(&a);
    CHECK(is_linked());
    leave(&c);
    CHECK(!is_linked());
}

static void who_comes_reaps_the_dead(void)
{
    process a = joined(7, SN_ATTACH_CREATED), b = joined(8, SN_ATTACH_JOINED);

    die(&a);
    CHECK_EQUAL(b.segment->rows[a.row].state, SN_ROW_LIVE, "nobody has checked");
    process c = joined(9, SN_ATTACH_JOINED);
    CHECK_EQUAL(count_processes(&c), 2, "the dead does not count");
    CHECK_EQUAL(c.row, a.row, "whose row is given again");
    die(&b);
    CHECK_EQUAL(count_processes(&c), 1, "a reader finds the dead too");
    die(&c);
    CHECK(is_linked()); /* nobody was there to take it away */
    process d = join_as(7, &geometry);
    CHECK_EQUAL(d.answer, SN_E_GONE, "its users have died");
    CHECK(!is_linked());
}

static void one_that_is_to_be_kept_stays_and_is_rebuilt(void)
{
    geometry.keep = SN_KEEP_FOREVER;
    process a = joined(7, SN_ATTACH_CREATED);
    geometry.keep = 0;
    memset(a.segment->first, 0xCD, N_SAMPLES * sizeof *a.segment->first); /* as if something came over it */
    leave(&a);
    CHECK(is_linked());
    sn_sweep(open(path, O_RDWR | O_CLOEXEC, 0600), path);
    CHECK(is_linked());
    process b = joined(8, SN_ATTACH_JOINED);
    CHECK_EQUAL(b.segment->first[0], SN_NONE, "rebuilt by who came");
    check_derived(&b);
    b.segment->head->geometry.keep = 0;
    leave(&b);
    CHECK(!is_linked());
}

static void a_row_may_stay_when_its_process_leaves(void)
{
    process a = joined(7, SN_ATTACH_CREATED), b = joined(8, SN_ATTACH_JOINED);

    CHECK_EQUAL(sn_leave(a.segment, SN_NONE), 0, "a thread hangs");
    CHECK(is_linked());
    CHECK_EQUAL(count_processes(&b), 2, "its row is held");
    leave(&b);
    CHECK(is_linked()); /* a still lives, as far as others can see */
    CHECK_EQUAL(sn_leave(a.segment, SN_NONE), 0, "and is the last");
    CHECK(!is_linked());
    CHECK_EQUAL(a.segment->rows[a.row].state, SN_ROW_LIVE, "its row is held");
    leave(&a);
}

static void without_the_lock_the_row_is_left_to_others(void)
{
    process a = joined(7, SN_ATTACH_CREATED), b = joined(8, SN_ATTACH_JOINED);

    CHECK_EQUAL(sn_store_enter(b.segment, CACHE_PATIENCE_MS), 0, "one sits on the lock");
    process c = join_as(9, &geometry);
    CHECK_EQUAL(c.answer, SN_BUSY, "no coming");
    CHECK_EQUAL(sn_leave(a.segment, a.row), SN_BUSY, "and no going");
    CHECK_EQUAL(b.segment->rows[a.row].state, SN_ROW_LIVE, "nothing was touched");
    sn_segment_close(a.segment);
    CHECK_EQUAL(sn_store_reap(b.segment, 1), 1, "who left like that");
    sn_store_leave(b.segment);
    leave(&b);
    CHECK(!is_linked());
}

static void sweeping_leaves_what_is_in_use(void)
{
    process a = joined(7, SN_ATTACH_CREATED);
    int fd = open(path, O_RDWR | O_CLOEXEC, 0600);

    CHECK_EQUAL(sn_store_enter(a.segment, CACHE_PATIENCE_MS), 0, "a sweeper does not wait for it");
    sn_sweep(fd, path);
    CHECK(is_linked() && !is_open(fd));
    sn_store_leave(a.segment);
    die(&a);
    fd = open(path, O_RDWR | O_CLOEXEC, 0600);
    sn_sweep(fd, path);
    CHECK(!is_linked() && !is_open(fd));
}

static void sweep(void)
{
    sn_sweep(open(path, O_RDWR | O_CLOEXEC, 0600), path);
}

/* As if so many seconds had passed since its last user left. */
static void pass(int seconds)
{
    const off_t at = offsetof(sn_header, left_at);
    int fd = open(path, O_RDWR | O_CLOEXEC, 0600);
    uint32_t left_at;

    CHECK(fd >= 0 && pread(fd, &left_at, sizeof left_at, at) == sizeof left_at);
    left_at -= left_at != 0 ? (uint32_t)seconds : 0;
    CHECK(pwrite(fd, &left_at, sizeof left_at, at) == sizeof left_at);
    close(fd);
}

static void one_that_is_kept_for_some_time_goes_when_that_is_over(void)
{
    geometry.keep = 1000;
    process a = joined(7, SN_ATTACH_CREATED);
    geometry.keep = 0;
    pass(5000);
    sweep();
    CHECK(is_linked()); /* in use */
    leave(&a);
    pass(900);
    sweep();
    CHECK(is_linked()); /* the time is counted from the leave */
    process b = joined(8, SN_ATTACH_JOINED);
    CHECK_EQUAL(b.segment->head->geometry.keep, 1000, "who asks for less changes nothing");
    die(&b);
    pass(5000);
    sweep();
    CHECK(is_linked()); /* its last user was killed: the time begins now */
    pass(900);
    sweep();
    CHECK(is_linked());
    pass(200);
    sweep();
    CHECK(!is_linked());

    geometry.keep = 1000;
    a = joined(7, SN_ATTACH_CREATED);
    leave(&a);
    pass(2000);
    CHECK_EQUAL(join_as(8, &geometry).answer, SN_E_GONE, "too late");
    b = joined(8, SN_ATTACH_CREATED);
    geometry.keep = 3000;
    a = joined(7, SN_ATTACH_JOINED);
    CHECK_EQUAL(a.segment->head->geometry.keep, 3000, "who asks for more has it");
    leave(&a);
    leave(&b);
    geometry.n_samples++;
    geometry.keep = 0;
    CHECK_EQUAL(join_as(9, &geometry).answer, SN_E_GONE, "nobody's, and in the way of another dataset of that name");
    a = joined(9, SN_ATTACH_CREATED);
    leave(&a);
    geometry.n_samples--;
    CHECK(!is_linked());
}

static int discard(void)
{
    int fd = open(path, O_RDWR | O_CLOEXEC, 0600), rc = sn_discard(fd, path);

    CHECK(!is_open(fd));
    return rc;
}

static void discarding_takes_what_is_kept_and_leaves_what_is_in_use(void)
{
    geometry.keep = SN_KEEP_FOREVER;
    process a = joined(7, SN_ATTACH_CREATED);
    CHECK_EQUAL(discard(), SN_BUSY, "in use");
    leave(&a);
    CHECK(is_linked());
    int fd = open(path, O_RDWR | O_CLOEXEC, 0600);
    process b = joined(8, SN_ATTACH_JOINED);
    CHECK_EQUAL(sn_discard(fd, path), SN_BUSY, "somebody has come since it was opened");
    leave(&b);
    CHECK_EQUAL(discard(), 0, "kept, and nobody's");
    CHECK(!is_linked());
    geometry.keep = 0;
    a = joined(7, SN_ATTACH_CREATED);
    die(&a);
    CHECK_EQUAL(discard(), 0, "its user has died");
    CHECK(!is_linked());
    CHECK(ftruncate(open(path, O_RDWR | O_CLOEXEC | O_CREAT, 0600), 4096) == 0);
    CHECK_EQUAL(discard(), 0, "its creator has died");
    CHECK(!is_linked());
}

static void a_snapshot_shows_what_is_there_and_leaves_no_trace(void)
{
    process a = joined(7, SN_ATTACH_CREATED), b = joined(8, SN_ATTACH_JOINED);
    int fd = open(path, O_RDONLY | O_CLOEXEC, 0);
    sn_snapshot snapshot;
    sn_header before = *a.segment->head;

    CHECK_EQUAL(sn_snapshot_take(fd, &snapshot), 0, "read-only");
    CHECK(!snapshot.torn && snapshot.memory_bytes >= geometry.payload_bytes);
    CHECK_EQUAL(snapshot.rows[b.row].job_key, 8, "row %u", b.row);
    CHECK(snapshot.alive[a.row / 64] >> a.row % 64 & 1 && snapshot.alive[b.row / 64] >> b.row % 64 & 1);
    die(&b);
    CHECK_EQUAL(sn_snapshot_take(fd, &snapshot), 0, "again");
    CHECK_EQUAL(snapshot.rows[b.row].state, SN_ROW_LIVE, "nobody has reaped it");
    CHECK(snapshot.alive[a.row / 64] >> a.row % 64 & 1 && !(snapshot.alive[b.row / 64] >> b.row % 64 & 1));
    CHECK(memcmp(&before, a.segment->head, sizeof before) == 0);

    uint32_t version = a.segment->head->layout_version;
    a.segment->head->layout_version = version + 1;
    CHECK_EQUAL(sn_snapshot_take(fd, &snapshot), SN_E_VERSION, "of another version");
    a.segment->head->layout_version = version;
    a.segment->head->geometry.n_samples++;
    CHECK_EQUAL(sn_snapshot_take(fd, &snapshot), SN_E_CORRUPT, "it does not fit the file");
    a.segment->head->geometry.n_samples--;
    leave(&a);
    CHECK_EQUAL(sn_snapshot_take(fd, &snapshot), 0, "its name is gone, and it is there as long as it is open");
    close(fd);
}

static void without_memory_for_its_row_nobody_comes(void)
{
    sn_header layout;

    CHECK_EQUAL(sn_layout_compute(&geometry, &layout), 0, "the geometry");
    no_memory_from = (off_t)layout.areas_at;
    process a = join_as(7, &geometry);
    CHECK_EQUAL(a.answer, -ENOSPC, "for the maker");
    CHECK(!is_linked()); /* it has made one, and nobody has a row in it */
    no_memory_from = 0;
    a = joined(7, SN_ATTACH_CREATED);
    no_memory_from = (off_t)layout.areas_at;
    process b = join_as(8, &geometry);
    CHECK_EQUAL(b.answer, SN_E_RECORDS, "for one more");
    CHECK(is_linked());
    no_memory_from = 0;
    b = joined(8, SN_ATTACH_JOINED); /* so the other let go of the lock */
    leave(&a);
    leave(&b);
}

static void rows_run_out(void)
{
    process all[SN_MAX_ROWS];

    for (uint32_t i = 0; i < SN_MAX_ROWS; i++)
        all[i] = joined(i % 4, i == 0 ? SN_ATTACH_CREATED : SN_ATTACH_JOINED);
    process other = join_as(5, &geometry);
    CHECK_EQUAL(other.answer, SN_E_ROWS_FULL, "every row has a living owner");
    CHECK(is_linked());
    for (uint32_t i = 0; i < SN_MAX_ROWS; i++)
        leave(&all[i]);
    CHECK(!is_linked());
}

static void only_what_was_asked_for_is_joined(void)
{
    sn_geometry other = geometry;
    process a = join_as(7, NULL);

    CHECK_EQUAL(a.answer, SN_MISS, "there is none");
    a = joined(7, SN_ATTACH_CREATED);
    other.fingerprint[0]++;
    CHECK_EQUAL(join_as(8, &other).answer, SN_E_MISMATCH, "of another dataset");
    process b = join_as(8, NULL);
    CHECK_EQUAL(b.answer, SN_ATTACH_JOINED, "whatever is there");
    leave(&a);
    leave(&b);
    CHECK(!is_linked());
}

static void a_job_is_known_by_its_attachments(void)
{
    process a = joined(7, SN_ATTACH_CREATED), b = joined(8, SN_ATTACH_JOINED), c = joined(7, SN_ATTACH_JOINED);
    uint64_t found[SN_MAX_ROWS], first;

    CHECK_EQUAL(sn_hints_attachments(b.segment, b.row, found), 1, "a job of one");
    CHECK_EQUAL(found[0] >> 32, b.row, "itself");
    CHECK_EQUAL(sn_hints_attachments(c.segment, c.row, found), 2, "a job of two");
    CHECK_EQUAL(found[0] >> 32, c.row, "itself first");
    CHECK_EQUAL(found[1] >> 32, a.row, "then the other");
    CHECK_EQUAL((uint32_t)found[0], c.segment->rows[c.row].generation, "row %u", c.row);
    first = found[0];
    leave(&c);
    CHECK_EQUAL(sn_hints_attachments(a.segment, a.row, found), 1, "the other has left");
    c = joined(7, SN_ATTACH_JOINED);
    CHECK_EQUAL(sn_hints_attachments(c.segment, c.row, found), 2, "and comes again");
    CHECK(found[0] != first && found[0] >> 32 == first >> 32); /* to the same row, as another */
    leave(&a);
    leave(&b);
    leave(&c);
}

static void processes_publish_their_pace(void)
{
    process a = joined(7, SN_ATTACH_CREATED), b = joined(8, SN_ATTACH_JOINED);
    sn_pace paces[SN_MAX_ROWS];

    CHECK_EQUAL(sn_hints_paces(a.segment, paces), 0, "nobody has published");
    sn_hint_pace(b.segment, b.row, 1000, 50);
    CHECK_EQUAL(sn_hints_paces(a.segment, paces), 1, "one has");
    CHECK(paces[0].row == b.row && paces[0].job_key == 8 && paces[0].second == 1000 && paces[0].pace == 50);
    sn_hint_pace(a.segment, a.row, 1001, 20);
    atomic_store(&b.segment->forked, 1);
    sn_hint_pace(b.segment, b.row, 1002, 60); /* of a child, which has no part in it */
    atomic_store(&b.segment->forked, 0);
    CHECK_EQUAL(sn_hints_paces(b.segment, paces), 2, "both have");
    CHECK(paces[0].row < paces[1].row);
    for (uint32_t i = 0; i < 2; i++)
        CHECK_EQUAL(paces[i].second, paces[i].row == a.row ? 1001 : 1000, "row %u", paces[i].row);
    leave(&b);
    CHECK_EQUAL(sn_hints_paces(a.segment, paces), 1, "who has left publishes nothing");
    b = joined(8, SN_ATTACH_JOINED);
    CHECK_EQUAL(sn_hints_paces(a.segment, paces), 1, "nor who has just come");
    leave(&a);
    leave(&b);
}

static void processes_publish_that_they_exchange(void)
{
    process a = joined(7, SN_ATTACH_CREATED), b = joined(8, SN_ATTACH_JOINED);

    CHECK(!sn_hints_others_exchange(b.segment, 8, 22));
    sn_hint_exchange(a.segment, a.row, 22);
    CHECK(sn_hints_others_exchange(b.segment, 8, 22));
    CHECK(!sn_hints_others_exchange(b.segment, 7, 22)); /* it is of that job itself */
    CHECK(!sn_hints_others_exchange(b.segment, 8, 23));
    die(&a);
    CHECK(!sn_hints_others_exchange(b.segment, 8, 22));
    leave(&b);
}

/* As if another boot of the host had made it; 0: nobody knows which. */
static void boot_is(uint32_t boot)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    CHECK(fd >= 0 && pwrite(fd, &boot, sizeof boot, offsetof(sn_header, boot)) == sizeof boot);
    close(fd);
}

static int is_left_behind(void)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), left = sn_left_behind(fd);

    close(fd);
    return left;
}

static void one_that_is_kept_does_not_outlive_the_boot(void)
{
    geometry.keep = SN_KEEP_FOREVER;
    process a = joined(7, SN_ATTACH_CREATED);
    uint32_t boot = a.segment->head->boot;
    CHECK(boot != 0);
    boot_is(boot + 1);
    sweep();
    CHECK(is_linked()); /* in use: only of what nobody uses it is asked */
    process b = joined(8, SN_ATTACH_JOINED);
    leave(&a);
    leave(&b);
    boot_is(boot);
    CHECK(!is_left_behind());
    sweep();
    CHECK(is_linked());
    boot_is(0);
    CHECK(!is_left_behind()); /* where the kernel did not say */
    boot_is(boot + 1);
    CHECK(is_left_behind());
    CHECK_EQUAL(join_as(9, &geometry).answer, SN_E_GONE, "some of its pages may never have reached the disk");
    CHECK(!is_linked());
    a = joined(9, SN_ATTACH_CREATED);
    leave(&a);
    boot_is(boot + 1);
    sweep();
    CHECK(!is_linked());
    geometry.keep = 0;
}

static void a_file_with_a_second_name_is_refused(void)
{
    char other[80];
    snprintf(other, sizeof other, "%s-other", path);
    int fd = open(other, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    CHECK(fd >= 0 && write(fd, "\0\0\0\0\0\0\0\0mine", 12) == 12 && link(other, path) == 0);
    CHECK_EQUAL(join_as(7, &geometry).answer, SN_E_OWNER,
                "it may be any file of this user, which is not to be cut off");
    CHECK_EQUAL(lseek(fd, 0, SEEK_END), 12, "nor is it");
    CHECK(unlink(other) == 0);
    close(fd);
    process a = joined(7, SN_ATTACH_CREATED); /* it has one name now, and no magic */
    leave(&a);
}

static void a_path_that_is_too_long_is_refused(void)
{
    static char longer[SN_PATH_BYTES + 1]; /* as "///...", which leads there */
    sn_segment *segment;
    uint32_t row;
    memset(longer, '/', SN_PATH_BYTES);
    memcpy(longer + SN_PATH_BYTES - strlen(path), path, strlen(path));

    int fd = open(path, O_RDWR | O_CLOEXEC | O_CREAT, 0600);
    CHECK_EQUAL(sn_join(fd, longer, &geometry, 0, 7, NULL, NULL, &segment, &row), -ENAMETOOLONG, "");
    CHECK(!is_open(fd) && segment == NULL);
    remove_name();
}

static void a_file_system_that_reserves_nothing_is_refused(void)
{
    cannot_reserve = 1;
    CHECK_EQUAL(join_as(7, &geometry).answer, -EOPNOTSUPP, "nothing is written in its place");
    cannot_reserve = 0;
    CHECK(!is_linked());
}

static void the_last_changes_of_the_split_are_kept(void)
{
    process a = joined(7, SN_ATTACH_CREATED);
    sn_store_stats stats;
    char why[16];

    CHECK_EQUAL(sn_store_enter(a.segment, CACHE_PATIENCE_MS), 0, "to change it");
    sn_store_read_stats(a.segment, &stats);
    CHECK_EQUAL(stats.n_changes, 0, "none yet");
    CHECK_EQUAL(memcmp(stats.split, geometry.split, sizeof stats.split), 0, "as it was made");
    for (uint32_t i = 0; i < SN_CHANGES + 2; i++) {
        const uint32_t split[SN_FORMS] = {0, 5000 + i, 3000 - i, 2000};
        snprintf(why, sizeof why, "%u", i);
        CHECK_EQUAL(sn_store_change_split(a.segment, split, i, why), 0, "change %u", i);
    }
    sn_store_read_stats(a.segment, &stats);
    sn_store_leave(a.segment);
    CHECK_EQUAL(stats.n_changes, SN_CHANGES, "of %u", SN_CHANGES + 2);
    CHECK_EQUAL(stats.split[SN_ENCODED], 5000 + SN_CHANGES + 1, "the last");
    for (uint32_t i = 0; i < SN_CHANGES; i++)
        CHECK_EQUAL(atoi(stats.changes[i].why), i + 2, "the oldest first");
    leave(&a);
}

/* Worker processes come and go with each epoch, and ranks in any order. */
static void a_job_of_many_processes_is_counted_once(void)
{
    process a = joined(7, SN_ATTACH_CREATED);
    const uint32_t *joins = &a.segment->head->joins;

    for (int epoch = 0; epoch < 4; epoch++) {
        process worker = joined(7, SN_ATTACH_JOINED);
        leave(&worker);
    }
    CHECK_EQUAL(*joins, 1000, "one job");
    process b = joined(8, SN_ATTACH_JOINED);
    uint32_t of_two = *joins;
    CHECK(of_two > 1000);
    process rank = joined(8, SN_ATTACH_JOINED);
    leave(&b);
    b = joined(8, SN_ATTACH_JOINED);
    CHECK_EQUAL(*joins, of_two, "two jobs");
    die(&b);
    die(&rank);
    b = joined(8, SN_ATTACH_JOINED);
    CHECK(*joins != of_two); /* it had died, and comes again */
    leave(&b);
    leave(&a);
}

int main(int argc, char **argv)
{
    static void (*const cases[])(void) = {sets_of_rows_are_walked,
                                          the_last_to_leave_takes_the_name_away,
                                          who_comes_reaps_the_dead,
                                          one_that_is_to_be_kept_stays_and_is_rebuilt,
                                          a_row_may_stay_when_its_process_leaves,
                                          without_the_lock_the_row_is_left_to_others,
                                          sweeping_leaves_what_is_in_use,
                                          one_that_is_kept_for_some_time_goes_when_that_is_over,
                                          one_that_is_kept_does_not_outlive_the_boot,
                                          a_file_with_a_second_name_is_refused,
                                          a_path_that_is_too_long_is_refused,
                                          a_file_system_that_reserves_nothing_is_refused,
                                          discarding_takes_what_is_kept_and_leaves_what_is_in_use,
                                          a_snapshot_shows_what_is_there_and_leaves_no_trace,
                                          without_memory_for_its_row_nobody_comes,
                                          rows_run_out,
                                          only_what_was_asked_for_is_joined,
                                          a_job_is_known_by_its_attachments,
                                          processes_publish_their_pace,
                                          processes_publish_that_they_exchange,
                                          the_last_changes_of_the_split_are_kept,
                                          a_job_of_many_processes_is_counted_once};
    const uint32_t n_cases = sizeof cases / sizeof *cases;

    seed = check_seed(argc, argv);
    geometry = (sn_geometry){
        .fingerprint = {1, 2}, .payload_bytes = 1u << 20, .n_samples = N_SAMPLES, .split = {0, 6000, 2000, 2000}};
    snprintf(path, sizeof path, "/dev/shm/seneca-%u-test-join-%d", (unsigned)geteuid(), (int)getpid());
    remove_name(); /* of a process of this number that died */
    atexit(remove_name);
    for (uint32_t i = 0; i < n_cases; i++)
        cases[i]();
    CHECK(!is_linked());
    printf("test_join: %u cases\n", n_cases);
    return 0;
}
