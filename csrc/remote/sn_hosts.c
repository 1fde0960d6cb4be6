#include "sn_hosts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_clock.h"
#include "../base/sn_hash.h"

#define MEET_NS 500000000u
#define SOON_NS 50000000u /* between the first meetings: who has begun with this host? */
#define SOON 20u
#define GONE_NS 3000000000u
#define ROSTER_MS 10000u
#define ROSTER UINT32_MAX /* in place of a sample, in the roster's key */
#define MEAN_OVER 4.0     /* meetings, of the pace */
#define EPOCHS 2
#define COSTS_OVER 128.0 /* copies, of what they take */
#define FOUND_OVER 16.0  /* probes */

/* One line of the roster. */
typedef struct {
    uint64_t host;
    uint64_t time_ns;        /* since the host's boot, which its name has in it: others only see whether it goes on */
    uint64_t epochs[EPOCHS]; /* the name of its copies now, and in the epoch before; 0: there was none */
    uint64_t place;
    uint64_t asks; /* for all copies that others own, and not only for probes */
} line;

typedef struct {
    line line;
    uint64_t seen_ns; /* when its time went on, by this host's clock */
} other;

struct sn_hosts {
    sn_remote *remote;
    uint8_t sequence[SN_REMOTE_DATASET];
    uint64_t self;
    _Atomic uint32_t lives_ms;        /* how long a copy is to stay */
    _Atomic uint64_t place, meets_ns; /* when the next meeting is; UINT64_MAX: one is going on */

    pthread_mutex_t mutex;
    other others[SN_MOST_HOSTS]; /* also those that are gone: another host may still have them in its roster */
    uint32_t n, meetings;
    uint64_t epochs[EPOCHS]; /* as in a line */
    uint64_t met_ns, met_place;
    double pace;              /* samples in a nanosecond; 0: not known */
    double made_ns, asked_ns; /* of a thread, for one copy; 0: not known */
    double found;             /* the share of probes that were there when they were asked for; 1 at first */
};

sn_hosts *sn_hosts_new(sn_remote *remote, const uint8_t sequence[SN_REMOTE_DATASET], uint64_t self)
{
    sn_hosts *hosts = calloc(1, sizeof *hosts);

    if (!hosts)
        return NULL;
    hosts->remote = remote;
    memcpy(hosts->sequence, sequence, sizeof hosts->sequence);
    hosts->self = self;
    hosts->found = 1.0;
    atomic_init(&hosts->lives_ms, SN_LEAST_COPY_MS);
    pthread_mutex_init(&hosts->mutex, NULL);
    return hosts;
}

void sn_hosts_free(sn_hosts *hosts)
{
    if (!hosts)
        return;
    pthread_mutex_destroy(&hosts->mutex);
    free(hosts);
}

static int is_here(const other *one, uint64_t now_ns)
{
    return now_ns - one->seen_ns < GONE_NS;
}

/* Where to note a host: its own place, a new one, or that of the one that is gone longest; NULL: all are here. */
static other *find(sn_hosts *hosts, uint64_t host, uint64_t now_ns)
{
    other *oldest = NULL;

    for (uint32_t i = 0; i < hosts->n; i++) {
        if (hosts->others[i].line.host == host)
            return &hosts->others[i];
        if (!oldest || hosts->others[i].seen_ns < oldest->seen_ns)
            oldest = &hosts->others[i];
    }
    if (hosts->n < SN_MOST_HOSTS)
        return &hosts->others[hosts->n++];
    return is_here(oldest, now_ns) ? NULL : oldest;
}

/* Take over what the roster says. Another host may have written it that knew less: a time only goes on. The mutex is held. */
static void read_roster(sn_hosts *hosts, const uint8_t *bytes, size_t length, uint64_t now_ns)
{
    line one;

    for (size_t at = 0; at + sizeof one <= length; at += sizeof one) {
        memcpy(&one, bytes + at, sizeof one);
        other *known = one.host == hosts->self ? NULL : find(hosts, one.host, now_ns);
        if (known && (known->line.host != one.host || one.time_ns > known->line.time_ns))
            *known = (other){one, now_ns};
    }
}

/* Note how fast this host goes on while it does. The mutex is held. */
static void measure(sn_hosts *hosts, uint64_t now_ns, uint64_t place)
{
    if (hosts->met_ns && place > hosts->met_place && now_ns > hosts->met_ns) {
        double pace = (double)(place - hosts->met_place) / (double)(now_ns - hosts->met_ns);
        hosts->pace += (pace - hosts->pace) / (hosts->pace > 0 ? MEAN_OVER : 1.0);
    }
    hosts->met_ns = now_ns;
    hosts->met_place = place;
}

/* Whether copies pay: always, as long as that is not known. The mutex is held. */
static int pays(const sn_hosts *hosts)
{
    return hosts->made_ns <= 0 || hosts->asked_ns <= hosts->found * hosts->made_ns;
}

/* Write the roster of those that are here, and of this host: how many lines. The mutex is held. */
static uint32_t write_roster(const sn_hosts *hosts, uint64_t now_ns, uint64_t place, line *lines)
{
    uint32_t n = 0;

    lines[n++] = (line){hosts->self, now_ns, {hosts->epochs[0], hosts->epochs[1]}, place, (uint64_t)pays(hosts)};
    for (uint32_t i = 0; i < hosts->n; i++)
        if (is_here(&hosts->others[i], now_ns))
            lines[n++] = hosts->others[i].line;
    return n;
}

void sn_hosts_meet(sn_hosts *hosts)
{
    uint64_t now_ns = sn_now_ns(), due = atomic_load_explicit(&hosts->meets_ns, memory_order_relaxed);
    line lines[SN_MOST_HOSTS + 1];
    sn_wish wish = {.sample = ROSTER, .most = sizeof lines};

    if (now_ns < due || !atomic_compare_exchange_strong(&hosts->meets_ns, &due, UINT64_MAX))
        return; /* another thread does */
    sn_remote_get(hosts->remote, hosts->sequence, &wish, 1);
    uint64_t place = atomic_load_explicit(&hosts->place, memory_order_relaxed);
    pthread_mutex_lock(&hosts->mutex);
    if (wish.is_found)
        read_roster(hosts, wish.bytes, wish.length, now_ns);
    measure(hosts, now_ns, place);
    uint32_t n = write_roster(hosts, now_ns, place, lines);
    uint64_t pause = hosts->meetings++ < SOON ? SOON_NS : MEET_NS;
    pthread_mutex_unlock(&hosts->mutex);
    free(wish.bytes);
    sn_remote_put(hosts->remote, hosts->sequence, ROSTER, (const uint8_t *)lines, n * sizeof *lines,
                  (sn_terms){.lives_ms = ROSTER_MS, .replaces = 1});
    atomic_store(&hosts->meets_ns, now_ns + pause);
}

/* Whether a copy that one of two hosts leaves is there when the other needs it. */
static int is_near(const sn_hosts *hosts, const other *one, uint64_t place)
{
    int is_same = 0;

    for (uint32_t i = 0; i < EPOCHS; i++)
        for (uint32_t k = 0; k < EPOCHS; k++)
            is_same |= hosts->epochs[i] != 0 && hosts->epochs[i] == one->line.epochs[k];
    if (!is_same)
        return 0;
    uint64_t apart = one->line.place > place ? one->line.place - place : place - one->line.place;

    return hosts->pace <= 0 || (double)apart <= hosts->pace * SN_MOST_COPY_MS * 1e6;
}

/* How long a copy has to stay for a host that is behind. */
static uint32_t lives_for(const sn_hosts *hosts, const other *one, uint64_t place)
{
    if (one->line.place >= place)
        return SN_LEAST_COPY_MS;
    if (hosts->pace <= 0)
        return SN_MOST_COPY_MS;
    double ms = SN_LEAST_COPY_MS + 2e-6 * (double)(place - one->line.place) / hosts->pace;
    return ms < SN_MOST_COPY_MS ? (uint32_t)ms : SN_MOST_COPY_MS;
}

void sn_hosts_begin(sn_hosts *hosts, const uint8_t copies[SN_REMOTE_DATASET])
{
    uint64_t epoch = sn_hash64(copies, SN_REMOTE_DATASET, 0) | 1;

    pthread_mutex_lock(&hosts->mutex);
    if (hosts->epochs[0] != epoch) {
        hosts->epochs[1] = hosts->epochs[0];
        hosts->epochs[0] = epoch;
        hosts->meetings = 0;
    }
    pthread_mutex_unlock(&hosts->mutex);
    atomic_store(&hosts->meets_ns, 0);
}

void sn_hosts_near(sn_hosts *hosts, uint64_t place, sn_rendezvous *near)
{
    uint64_t now_ns = sn_now_ns();
    uint32_t lives_ms = SN_LEAST_COPY_MS;

    atomic_store_explicit(&hosts->place, place, memory_order_relaxed);
    near->self = hosts->self;
    near->n = 0;
    near->leaves = 0;
    pthread_mutex_lock(&hosts->mutex);
    for (uint32_t i = 0; i < hosts->n; i++) {
        const other *one = &hosts->others[i];
        if (!is_here(one, now_ns) || !is_near(hosts, one, place))
            continue;
        near->others[near->n++] = one->line.host;
        near->leaves |= one->line.asks != 0;
        uint32_t needed_ms = lives_for(hosts, one, place);
        lives_ms = needed_ms > lives_ms ? needed_ms : lives_ms;
    }
    near->asks = pays(hosts);
    pthread_mutex_unlock(&hosts->mutex);
    atomic_store_explicit(&hosts->lives_ms, lives_ms, memory_order_relaxed);
}

static void add_to_mean(double *mean, double value, uint32_t count)
{
    *mean += (value - *mean) * (*mean > 0 ? count / COSTS_OVER : 1.0);
}

void sn_hosts_made(sn_hosts *hosts, uint64_t took_ns)
{
    pthread_mutex_lock(&hosts->mutex);
    add_to_mean(&hosts->made_ns, (double)took_ns, 1);
    pthread_mutex_unlock(&hosts->mutex);
}

void sn_hosts_get(sn_hosts *hosts, const uint8_t *copies, sn_wish *wishes, uint32_t n)
{
    uint64_t began = sn_now_ns();

    sn_remote_get(hosts->remote, copies, wishes, n);
    uint64_t took = sn_now_ns() - began;
    pthread_mutex_lock(&hosts->mutex);
    add_to_mean(&hosts->asked_ns, (double)took / n, n);
    for (uint32_t i = 0; i < n; i++)
        if (sn_rendezvous_is_probe(wishes[i].sample))
            hosts->found += (wishes[i].is_found - hosts->found) / FOUND_OVER;
    pthread_mutex_unlock(&hosts->mutex);
}

void sn_hosts_put(sn_hosts *hosts, const uint8_t *copies, uint32_t sample, const uint8_t *bytes, size_t length)
{
    uint32_t lives_ms = atomic_load_explicit(&hosts->lives_ms, memory_order_relaxed);

    sn_remote_put(hosts->remote, copies, sample, bytes, length, (sn_terms){.lives_ms = lives_ms});
}
