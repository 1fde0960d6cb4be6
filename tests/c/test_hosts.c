/*
 * test_hosts.c -- hosts that share copies: each sample has one owner, each host finds out who is near, and asks no longer for
 * copies that do not pay.
 *
 *   3 hosts, each with a handle of its own --> one client --> fake_host.h
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>

#include "base/sn_rendezvous.h"
#include "check.h"
#include "fake_host.h"
#include "remote/sn_hosts.h"

#define N_HOSTS 3u
#define N_SAMPLES 30000u

static const uint8_t sequence[SN_REMOTE_DATASET] = "a sequence", epoch_0[SN_REMOTE_DATASET] = "epoch 0",
                     epoch_1[SN_REMOTE_DATASET] = "epoch 1", epoch_2[SN_REMOTE_DATASET] = "epoch 2";
static sn_remote *client;
static sn_hosts *hosts[N_HOSTS];

static void pass_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* -- Owners -- */

static sn_rendezvous near_of(uint32_t self, uint32_t n)
{
    sn_rendezvous near = {.self = 100 + self, .asks = 1, .leaves = 1};

    for (uint32_t i = 0; i < n; i++)
        if (i != self)
            near.others[near.n++] = 100 + i;
    return near;
}

static void check_owners(void)
{
    uint32_t owned[N_HOSTS] = {0}, moved = 0;

    for (uint32_t sample = 0; sample < N_SAMPLES; sample++) {
        uint32_t owners = 0, before = 0;
        for (uint32_t i = 0; i < N_HOSTS; i++) {
            sn_rendezvous near = near_of(i, N_HOSTS), two = near_of(i, 2);
            enum sn_role role = sn_rendezvous_role(&near, sample);
            CHECK(role == SN_LEAVES_COPY || role == SN_ASKS_FOR_COPY);
            owners += role == SN_LEAVES_COPY;
            owned[i] += role == SN_LEAVES_COPY;
            if (i < 2)
                before += sn_rendezvous_role(&two, sample) == SN_LEAVES_COPY && role != SN_LEAVES_COPY;
        }
        CHECK_EQUAL(owners, 1, "sample %u", sample);
        moved += before;
    }
    for (uint32_t i = 0; i < N_HOSTS; i++)
        CHECK(owned[i] > 9500 && owned[i] < 10500);
    CHECK_EQUAL(moved, owned[2], "of %u: only what the third host owns has moved", N_SAMPLES);
}

/* Who does not ask is left a sample in SN_PROBE, and so many are asked for. */
static void check_probes(void)
{
    uint32_t asked = 0, left = 0;

    for (uint32_t sample = 0; sample < N_SAMPLES; sample++) {
        sn_rendezvous one = near_of(0, 2), other = near_of(1, 2), alone = near_of(0, 1);
        one.asks = other.leaves = 0;
        int asks = sn_rendezvous_role(&one, sample) == SN_ASKS_FOR_COPY;
        asked += asks;
        left += sn_rendezvous_role(&other, sample) == SN_LEAVES_COPY;
        CHECK(!asks || sn_rendezvous_role(&other, sample) == SN_LEAVES_COPY);
        CHECK_EQUAL(sn_rendezvous_role(&alone, sample), SN_ALONE, "sample %u", sample);
    }
    CHECK_EQUAL(asked, left, "of %u", N_SAMPLES);
    CHECK(asked > N_SAMPLES / 2 / SN_PROBE / 2 && asked < N_SAMPLES / SN_PROBE);
}

/* -- The roster -- */

static uint32_t count_near(uint32_t which, uint64_t place)
{
    sn_rendezvous near;

    sn_hosts_near(hosts[which], place, &near);
    CHECK_EQUAL(near.self, 100 + which, "host %u", which);
    for (uint32_t i = 0; i < near.n; i++)
        CHECK(near.others[i] >= 100 && near.others[i] < 100 + N_HOSTS && near.others[i] != 100 + which);
    return near.n;
}

/* Each meets the others until it sees so many, at these places; it may take some meetings. */
static void meet(const uint32_t *who, uint32_t n, uint32_t expected, const uint64_t *places)
{
    uint32_t seen = 0;

    for (int turn = 0; turn < 100 && seen < n; turn++) {
        for (uint32_t i = 0; i < n; i++)
            sn_hosts_meet(hosts[who[i]]);
        pass_ms(20);
        seen = 0;
        for (uint32_t i = 0; i < n; i++)
            seen += count_near(who[i], places[who[i]]) == expected;
    }
    CHECK_EQUAL(seen, n, "hosts see %u others", expected);
}

/* Hosts may go on writing what they knew of one that is gone, the newer line after the older. */
static void check_old_rosters(void)
{
    sn_wish rosters[2] = {{.sample = UINT32_MAX}, {.sample = UINT32_MAX}};

    for (int i = 0; i < 2; i++) {
        sn_hosts_begin(hosts[1], epoch_2); /* it meets at once */
        sn_hosts_meet(hosts[1]);
        do {
            sn_remote_get(client, sequence, &rosters[i], 1); /* the SET may be under way */
        } while (!rosters[i].is_found ||
                 (i == 1 && memcmp(rosters[0].bytes, rosters[1].bytes, rosters[0].length) == 0));
    }
    for (int turn = 0; turn < 80; turn++) {
        const sn_wish *roster = &rosters[turn % 2];
        sn_remote_put(client, sequence, UINT32_MAX, roster->bytes, roster->length,
                      (sn_terms){.lives_ms = 10000, .replaces = 1});
        sn_hosts_begin(hosts[0], turn % 2 ? epoch_1 : epoch_2);
        sn_hosts_meet(hosts[0]);
        if (turn == 2)
            CHECK_EQUAL(count_near(0, 10), 1, "it was just here");
        pass_ms(50);
    }
    CHECK_EQUAL(count_near(0, 10), 0, "it is gone, whatever others write");
    sn_hosts_begin(hosts[0], epoch_2);
    free(rosters[0].bytes);
    free(rosters[1].bytes);
}

static void check_roster(void)
{
    static const uint32_t all[] = {0, 1, 2}, two[] = {0, 1}, one[] = {0};
    static const uint64_t places[] = {10, 20, 30};

    for (uint32_t i = 0; i < N_HOSTS; i++) {
        sn_hosts_begin(hosts[i], epoch_0);
        CHECK_EQUAL(count_near(i, 0), 0, "host %u has met nobody", i);
    }
    meet(all, 3, 2, places);

    /* Two are an epoch further: the third still takes what they leave. Two epochs further they are gone for it. */
    sn_hosts_begin(hosts[0], epoch_1);
    sn_hosts_begin(hosts[1], epoch_1);
    meet(all, 3, 2, places);
    sn_hosts_begin(hosts[0], epoch_2);
    sn_hosts_begin(hosts[1], epoch_2);
    meet(two, 2, 1, places);
    sn_hosts_begin(hosts[2], epoch_2);
    meet(all, 3, 2, places);

    /* One that announces nothing any more is gone after three seconds, also where others still had it in their
     * roster. */
    for (int turn = 0; turn < 40; turn++) {
        sn_hosts_meet(hosts[0]);
        sn_hosts_meet(hosts[1]);
        pass_ms(100);
    }
    CHECK_EQUAL(count_near(0, 10), 1, "the third is gone");
    meet(two, 2, 1, places);
    for (int turn = 0; turn < 40; turn++) {
        sn_hosts_meet(hosts[0]);
        pass_ms(100);
    }
    CHECK_EQUAL(count_near(0, 10), 0, "both are gone");
    check_old_rosters();
    meet(all, 3, 2, places);
    meet(one, 1, 2, places);
}

/* A host that is further away than its pace for SN_MOST_COPY_MS is not near. */
static void check_far(void)
{
    static const uint32_t two[] = {0, 1};
    uint64_t places[] = {1000, 1000, 0};

    for (int turn = 0; turn < 30; turn++) { /* some 1000 places a second */
        places[0] += 100;
        places[1] += 100;
        for (uint32_t i = 0; i < 2; i++) {
            count_near(i, places[i]);
            sn_hosts_meet(hosts[i]);
        }
        pass_ms(100);
    }
    meet(two, 2, 1, places);
    places[0] += 1000 * SN_MOST_COPY_MS / 1000 * 4;
    count_near(0, places[0]);
    for (int turn = 0; turn < 20; turn++) { /* the second hears where it is */
        sn_hosts_meet(hosts[0]);
        sn_hosts_meet(hosts[1]);
        pass_ms(100);
    }
    CHECK_EQUAL(count_near(1, places[1]), 0, "that is too far");
}

/* -- What pays -- */

static int asks(uint32_t which)
{
    sn_rendezvous near;

    sn_hosts_near(hosts[which], 0, &near);
    return near.asks;
}

static uint32_t probe_from(uint32_t sample)
{
    while (!sn_rendezvous_is_probe(sample))
        sample++;
    return sample;
}

static void check_costs(void)
{
    uint32_t left = probe_from(0), missing = probe_from(left + 1);
    sn_wish wish = {0};
    uint8_t copy[1000];

    CHECK(missing < HOST_SAMPLES);
    memset(copy, 7, sizeof copy);
    sn_hosts_put(hosts[1], epoch_2, left, copy, sizeof copy);
    while (fake_host_count(epoch_2) == 0)
        pass_ms(1);
    CHECK(asks(0)); /* nothing is known */
    sn_hosts_made(hosts[0], 1000000000);
    for (int i = 0; i < 1000; i++) {
        wish.sample = left;
        sn_hosts_get(hosts[0], epoch_2, &wish, 1);
        CHECK(wish.is_found && wish.length == sizeof copy && memcmp(wish.bytes, copy, sizeof copy) == 0);
    }
    CHECK(asks(0)); /* a second to make one */
    for (int i = 0; i < 2000; i++)
        sn_hosts_made(hosts[0], 1);
    CHECK(!asks(0)); /* a nanosecond */
    for (int i = 0; i < 2000; i++)
        sn_hosts_made(hosts[0], 1000000000);
    CHECK(asks(0));
    for (int i = 0; i < 4000; i++) {                                             /* nothing is there */
        wish.sample = missing + (i % 2 && !sn_rendezvous_is_probe(missing + 1)); /* only the probe counts */
        sn_hosts_get(hosts[0], epoch_2, &wish, 1);
        CHECK(!wish.is_found);
    }
    for (int i = 0; i < 2000; i++)
        sn_hosts_made(hosts[0], 1000000);
    CHECK(!asks(0));
    free(wish.bytes);
}

/* -- Threads -- */

static atomic_int ends;

static void *meets(void *argument)
{
    sn_hosts *self = argument;

    while (!atomic_load(&ends)) {
        sn_hosts_meet(self);
        sn_hosts_made(self, 1000);
    }
    return NULL;
}

/* For TSan: threads meet and note, while another draws. */
static void check_threads(void)
{
    pthread_t threads[2 * N_HOSTS];

    for (uint32_t i = 0; i < 2 * N_HOSTS; i++)
        CHECK(pthread_create(&threads[i], NULL, meets, hosts[i % N_HOSTS]) == 0);
    for (uint64_t place = 0; place < 100; place++) {
        for (uint32_t i = 0; i < N_HOSTS; i++)
            count_near(i, place);
        if (place % 10 == 0)
            sn_hosts_begin(hosts[0], place % 20 ? epoch_0 : epoch_1);
        pass_ms(5);
    }
    atomic_store(&ends, 1);
    for (uint32_t i = 0; i < 2 * N_HOSTS; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    fake_host_start(check_seed(argc, argv));
    sn_remote_server server = {.name = "here", .address = "127.0.0.1", .port = host.port};
    client = sn_remote_new(&server, 1);
    CHECK(client);
    for (uint32_t i = 0; i < N_HOSTS; i++) {
        hosts[i] = sn_hosts_new(client, sequence, 100 + i);
        CHECK(hosts[i]);
    }
    check_owners();
    check_probes();
    check_roster();
    check_far();
    check_costs();
    check_threads();
    for (uint32_t i = 0; i < N_HOSTS; i++)
        sn_hosts_free(hosts[i]);
    sn_remote_free(client);
    fake_host_end();
    return 0;
}
