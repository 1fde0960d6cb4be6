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
#define COMMAND_BYTES (KEY_BYTES + 32) /* of a GET, at the most */
#define TERMS_BYTES 64
#define ASKED UINT32_MAX               /* no server's number */

/* What ends each value. */
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
    sn_connection *one = sn_server_ask(self, (const uint8_t *)ping, sizeof ping - 1, &answer);
    if (!one)
        return SN_MISS;
    if (answer.kind != SN_ANSWER_OK) {
        sn_server_give_up(self, one, -EPROTO, &answer);
        return SN_MISS;
    }
    sn_server_done(self, one);
    return 0;
}

void sn_remote_look(sn_remote *remote, uint32_t at, sn_remote_counts *counts)
{
    sn_server_look(remote->places[at].server, counts);
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

static int write_key(char *key, const uint8_t *dataset, uint32_t sample)
{
    char digits[2 * SN_REMOTE_DATASET + 1];

    for (uint32_t i = 0; i < SN_REMOTE_DATASET; i++) {
        digits[2 * i] = "0123456789abcdef"[dataset[i] >> 4];
        digits[2 * i + 1] = "0123456789abcdef"[dataset[i] & 15];
    }
    digits[2 * SN_REMOTE_DATASET] = '\0';
    return snprintf(key, KEY_BYTES, "seneca:%s:%u", digits, sample);
}

static uint64_t check_of(const uint8_t *bytes, size_t length, const char *key, int key_length)
{
    return sn_hash64(bytes, length, sn_hash64(key, (size_t)key_length, 0));
}

/* The length of the file in a value of ours; SIZE_MAX: it is none. */
static size_t file_in(const uint8_t *value, size_t length, uint32_t sample, const char *key, int key_length)
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

/* Read what a GET brings. 0, also where that is no file of ours; or the code for sn_server_give_up(). */
static int take(sn_connection *one, const sn_answer *answer, const char *key, sn_wish *wish)
{
    sn_word del[2] = {{"DEL", 3}, {key, strlen(key)}};

    if (answer->kind != SN_ANSWER_BYTES)
        return 0;
    int rc = sn_connection_bytes(one, answer->length, &wish->bytes, &wish->capacity);
    if (rc != 0)
        return rc;
    wish->length = file_in(wish->bytes, answer->length, wish->sample, key, (int)strlen(key));
    wish->is_found = wish->length != SIZE_MAX;
    if (!wish->is_found && sn_connection_say(one, del, 2) == 0)
        one->owed++; /* that is answered behind all GETs, which were sent before */
    return 0;
}

/* Get the files of samples that one server has. */
static void get_from(sn_server *self, const uint8_t *dataset, sn_wish *const *wishes, uint32_t n)
{
    char keys[SN_REMOTE_AT_ONCE][KEY_BYTES];
    uint8_t commands[SN_REMOTE_AT_ONCE * COMMAND_BYTES];
    size_t length = 0;
    sn_answer answer;
    int rc = 0;

    for (uint32_t i = 0; i < n; i++) {
        size_t key_length = (size_t)write_key(keys[i], dataset, wishes[i]->sample);
        sn_word get[2] = {{"GET", 3}, {keys[i], key_length}};
        length += sn_resp_command(commands + length, sizeof commands - length, 2, get, 2);
    }
    if (!sn_server_may_ask(self, n))
        return;
    uint64_t began = sn_socket_now();
    sn_connection *one = sn_server_ask(self, commands, length, &answer);
    for (uint32_t i = 0; one && i < n; i++) {
        if (i > 0)
            rc = sn_server_next(one, &answer);
        if (rc == 0)
            rc = take(one, &answer, keys[i], wishes[i]);
        if (rc != 0) {
            sn_server_give_up(self, one, rc, &answer);
            return;
        }
        uint64_t now = sn_socket_now();
        sn_remote_counts more = {.misses = 1, .wrong = answer.kind == SN_ANSWER_BYTES};
        if (wishes[i]->is_found)
            more = (sn_remote_counts){.hits = 1, .bytes = wishes[i]->length, .get_ns = now - began};
        sn_server_count(self, &more);
        began = now;
    }
    if (one)
        sn_server_done(self, one);
}

void sn_remote_get(sn_remote *remote, const uint8_t *dataset, sn_wish *wishes, uint32_t n)
{
    sn_wish *of_server[SN_REMOTE_AT_ONCE];
    uint32_t server[SN_REMOTE_AT_ONCE];

    for (uint32_t i = 0; i < n; i++) {
        wishes[i].is_found = 0;
        server[i] = sn_remote_server_of(remote, dataset, wishes[i].sample);
    }
    if (remote->owner != getpid())
        return;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t asked = server[i], count = 0;
        for (uint32_t k = i; k < n && asked != ASKED; k++) {
            if (server[k] == asked) {
                of_server[count++] = &wishes[k];
                server[k] = ASKED;
            }
        }
        if (count > 0)
            get_from(remote->places[asked].server, dataset, of_server, count);
    }
}

/* What follows the value in a SET. How many words it is, of at most 3. */
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
    int key_length = write_key(key, dataset, sample);
    sn_server *self = remote->places[sn_remote_server_of(remote, dataset, sample)].server;
    uint8_t head[256];
    char tail[TERMS_BYTES];
    int tail_length;
    trailer end = {.length = length, .sample = sample};

    if (length == 0 || length > SN_REMOTE_MOST || remote->owner != getpid() || !sn_server_wants(self))
        return;
    memcpy(end.magic, MAGIC, sizeof MAGIC);
    end.check = check_of(bytes, length, key, key_length);
    sn_word set[3] = {{"SET", 3}, {key, (size_t)key_length}, {NULL, length + sizeof end}};
    uint32_t more = write_terms(tail, sizeof tail, terms, &tail_length);
    size_t head_length = sn_resp_command(head, sizeof head, 3 + more, set, 3);
    struct iovec parts[4] = {{head, head_length},
                             {(void *)bytes, length},
                             {&end, sizeof end},
                             {tail, (size_t)tail_length}};
    sn_server_tell(self, parts, 4, terms.lives_ms != 0);
}
