#define _GNU_SOURCE
#include "sn_remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/sn_hash.h"
#include "../base/sn_rng.h"
#include "../base/sn_status.h"
#include "sn_socket.h"

#define KEY_BYTES 64
#define TERMS_BYTES 64

/* The end of each value. */
typedef struct {
    char magic[8];
    uint64_t length, check;
    uint32_t sample, zero;
} trailer;

static const char MAGIC[8] = {'s', 'e', 'n', 'e', 'c', 'a', '-', '1'};

_Static_assert(SN_REMOTE_MOST + sizeof(trailer) <= SN_SERVER_MOST, "a file and its trailer are one answer");

typedef struct {
    sn_server *server;
    uint64_t weight; /* of its name */
} place;

struct sn_remote {
    pid_t owner;
    uint32_t n;
    place places[];
};

/* -- Servers -- */

sn_remote *sn_remote_new(const sn_remote_server *servers, uint32_t n)
{
    sn_remote *remote = calloc(1, sizeof *remote + n * sizeof *remote->places);

    if (!remote)
        return NULL;
    remote->owner = getpid();
    for (uint32_t i = 0; i < n; i++) {
        remote->places[i].server = sn_server_new(&servers[i]);
        remote->places[i].weight = sn_hash64(servers[i].name, strlen(servers[i].name), 0);
        if (!remote->places[i].server) {
            sn_remote_free(remote);
            return NULL;
        }
        remote->n++;
    }
    return remote;
}

int sn_remote_move(sn_remote *remote, uint32_t at, const char *address)
{
    return sn_server_move(remote->places[at].server, address);
}

/* Rendezvous hashing (Thaler and Ravishankar, 1998): the server whose name and the key weigh most together. If a server
 * is added or taken away, only its own samples move. */
uint32_t sn_remote_server_of(const sn_remote *remote, const uint8_t *dataset, uint32_t sample)
{
    uint64_t key = sn_hash64(dataset, SN_REMOTE_DATASET, sample), most = 0;
    uint32_t best = 0;

    for (uint32_t i = 0; i < remote->n; i++) {
        uint64_t weight = sn_mix64(key ^ sn_mix64(remote->places[i].weight));
        if (i == 0 || weight > most) {
            most = weight;
            best = i;
        }
    }
    return best;
}

int sn_remote_ping(sn_remote *remote, uint32_t at)
{
    sn_server *self = remote->places[at].server;
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    sn_answer answer;

    if (remote->owner != getpid() || !sn_server_may_ask(self, 0))
        return SN_MISS;
    sn_connection *one = sn_server_send(self, (const uint8_t *)ping, sizeof ping - 1);
    if (one)
        one = sn_server_receive(self, one, (const uint8_t *)ping, sizeof ping - 1, &answer);
    if (!one)
        return SN_MISS;
    if (answer.kind != SN_ANSWER_OK) {
        sn_server_give_up(self, one, -EPROTO, &answer);
        return SN_MISS;
    }
    sn_server_done(self, one);
    return 0;
}

void sn_remote_read_counts(sn_remote *remote, uint32_t at, sn_remote_counts *counts)
{
    sn_server_read_counts(remote->places[at].server, counts);
}

void sn_remote_free(sn_remote *remote)
{
    if (!remote || remote->owner != getpid())
        return; /* a forked child's: a thread of the parent may have held its mutexes */
    for (uint32_t i = 0; i < remote->n; i++)
        sn_server_free(remote->places[i].server);
    free(remote);
}

/* -- Samples -- */

/* Write "seneca:<the dataset's name, hexadecimal>:<the sample>": how many characters. */
static size_t write_key(char key[KEY_BYTES], const uint8_t *dataset, uint32_t sample)
{
    static const char prefix[] = "seneca:";
    char *at = key + sizeof prefix - 1;

    memcpy(key, prefix, sizeof prefix - 1);
    for (uint32_t i = 0; i < SN_REMOTE_DATASET; i++) {
        *at++ = "0123456789abcdef"[dataset[i] >> 4];
        *at++ = "0123456789abcdef"[dataset[i] & 15];
    }
    *at++ = ':';
    at += sn_resp_number(at, sample);
    return (size_t)(at - key);
}

static uint64_t check_of(const uint8_t *bytes, size_t length, const char *key, size_t key_length)
{
    return sn_checksum(bytes, length, sn_hash64(key, key_length, 0));
}

/* The length of the file in a value of ours; SIZE_MAX: the value is not valid. */
static size_t file_in(const uint8_t *value, size_t length, uint32_t sample, const char *key, size_t key_length)
{
    trailer end;

    if (length <= sizeof end)
        return SIZE_MAX;
    length -= sizeof end;
    memcpy(&end, value + length, sizeof end);
    int is_ours = memcmp(end.magic, MAGIC, sizeof MAGIC) == 0 && end.length == length && end.sample == sample &&
                  end.zero == 0 && end.check == check_of(value, length, key, key_length);
    return is_ours ? length : SIZE_MAX;
}

/* Whether a file can be as long as a server says. If not, the connection says why it is given up. */
static int is_too_long(sn_connection *one, const sn_answer *answer, const sn_wish *wish)
{
    size_t most = wish->most ? wish->most : SN_REMOTE_UNKNOWN;

    if (answer->length <= most + sizeof(trailer))
        return 0;
    snprintf(one->why, sizeof one->why, "it has a value of %llu bytes for sample %u, whose file has %zu at the most",
             (unsigned long long)answer->length, wish->sample, most);
    return 1;
}

/* Read what a GET brings. 0, also where that is no file of ours; or the code for sn_server_give_up(). */
static int take(sn_connection *one, const sn_answer *answer, const uint8_t *dataset, sn_wish *wish)
{
    char key[KEY_BYTES];
    size_t key_length = write_key(key, dataset, wish->sample);
    sn_word del[2] = {{"DEL", 3}, {key, key_length}};

    if (answer->kind == SN_ANSWER_BYTES) {
        int rc = is_too_long(one, answer, wish)
                     ? -EMSGSIZE
                     : sn_connection_bytes(one, answer->length, &wish->bytes, &wish->capacity);
        if (rc != 0)
            return rc;
        wish->length = file_in(wish->bytes, answer->length, wish->sample, key, key_length);
        wish->is_found = wish->length != SIZE_MAX;
    } else if (answer->kind != SN_ANSWER_ERROR) {
        return 0;
    }
    if (!wish->is_found && sn_connection_say(one, del, 2) == 0)
        one->owed++; /* that is answered behind all GETs, which were sent before */
    return 0;
}

static void ask_server(const uint8_t *dataset, sn_gets_of_server *part)
{
    char key[KEY_BYTES];

    part->length = 0;
    for (uint32_t i = 0; i < part->n; i++) {
        sn_word get[2] = {{"GET", 3}, {key, write_key(key, dataset, part->wishes[i]->sample)}};
        part->length += sn_resp_command(part->commands + part->length, sizeof part->commands - part->length, 2, get, 2);
    }
    part->connection = NULL;
    if (sn_server_may_ask(part->server, part->n))
        part->connection = sn_server_send(part->server, part->commands, part->length);
}

static void take_from_server(const uint8_t *dataset, const sn_gets_of_server *part)
{
    sn_server *self = part->server;
    uint64_t began = sn_now_ns();
    sn_answer answer;
    sn_connection *one = sn_server_receive(self, part->connection, part->commands, part->length, &answer);

    for (uint32_t i = 0; one && i < part->n; i++) {
        sn_wish *wish = part->wishes[i];
        int rc = i > 0 ? sn_server_next(one, &answer) : 0;
        if (rc == 0)
            rc = take(one, &answer, dataset, wish);
        uint64_t now = sn_now_ns();
        if (rc == -EMSGSIZE || (rc == 0 && !wish->is_found && answer.kind != SN_ANSWER_NOTHING)) {
            sn_server_count_wrong(self, now - began);
        } else if (rc == 0) {
            sn_remote_counts more = {.misses = 1};
            if (wish->is_found)
                more = (sn_remote_counts){.hits = 1, .bytes = wish->length, .get_ns = now - began};
            sn_server_count(self, &more);
        }
        if (rc != 0) {
            sn_server_give_up(self, one, rc, &answer);
            return;
        }
        began = now;
    }
    if (one)
        sn_server_done(self, one);
}

void sn_remote_ask(sn_remote *remote, const uint8_t *dataset, sn_wish *wishes, uint32_t n, sn_gets *gets)
{
    gets->dataset = dataset;
    gets->n_parts = 0;
    for (uint32_t i = 0; i < n; i++)
        wishes[i].is_found = 0;
    if (remote->owner != getpid())
        return;
    for (uint32_t i = 0; i < n; i++) {
        sn_server *server = remote->places[sn_remote_server_of(remote, dataset, wishes[i].sample)].server;
        uint32_t at = 0;
        while (at < gets->n_parts && gets->parts[at].server != server)
            at++;
        sn_gets_of_server *part = &gets->parts[at];
        if (at == gets->n_parts) {
            gets->n_parts++;
            part->server = server;
            part->n = 0;
        }
        part->wishes[part->n++] = &wishes[i];
    }
    for (uint32_t i = 0; i < gets->n_parts; i++)
        ask_server(dataset, &gets->parts[i]);
}

void sn_remote_take(const sn_gets *gets)
{
    for (uint32_t i = 0; i < gets->n_parts; i++)
        if (gets->parts[i].connection)
            take_from_server(gets->dataset, &gets->parts[i]);
}

void sn_remote_get(sn_remote *remote, const uint8_t *dataset, sn_wish *wishes, uint32_t n)
{
    sn_gets gets;

    sn_remote_ask(remote, dataset, wishes, n, &gets);
    sn_remote_take(&gets);
}

/* The words after the value in a SET. How many they are, of at most 3. */
static uint32_t write_terms(char *tail, size_t room, sn_terms terms, int *length)
{
    char lives[12];

    *length = snprintf(tail, room, "\r\n%s", terms.replaces ? "" : "$2\r\nNX\r\n");
    if (terms.lives_ms == 0)
        return terms.replaces ? 0 : 1;
    int digits = snprintf(lives, sizeof lives, "%u", terms.lives_ms);
    *length += snprintf(tail + *length, room - (size_t)*length, "$2\r\nPX\r\n$%d\r\n%s\r\n", digits, lives);
    return terms.replaces ? 2 : 3;
}

void sn_remote_put(sn_remote *remote, const uint8_t *dataset, uint32_t sample, const uint8_t *bytes, size_t length,
                   sn_terms terms)
{
    char key[KEY_BYTES];
    size_t key_length = write_key(key, dataset, sample);
    sn_server *self = remote->places[sn_remote_server_of(remote, dataset, sample)].server;
    uint8_t head[256];
    char tail[TERMS_BYTES];
    int tail_length;
    trailer end = {.length = length, .sample = sample};

    if (length == 0 || length > SN_REMOTE_MOST || remote->owner != getpid() || !sn_server_wants(self))
        return;
    memcpy(end.magic, MAGIC, sizeof MAGIC);
    end.check = check_of(bytes, length, key, key_length);
    sn_word set[3] = {{"SET", 3}, {key, key_length}, {NULL, length + sizeof end}};
    uint32_t more = write_terms(tail, sizeof tail, terms, &tail_length);
    size_t head_length = sn_resp_command(head, sizeof head, 3 + more, set, 3);
    struct iovec parts[4] = {
        {head, head_length}, {(void *)bytes, length}, {&end, sizeof end}, {tail, (size_t)tail_length}};
    sn_server_set(self, parts, 4, terms.lives_ms != 0);
}
