#define _GNU_SOURCE
#include "sn_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "sn_socket.h"

#define MOST_FAILURES 3         /* in a row, before it is left alone */
#define MOST_WRONG 64           /* values without a right one between them, before it is left alone */
#define SLOW_NS 100000000u      /* a wrong value counts once more for each of these that it took */
#define SHORTEST_NS 1000000000u /* that it is left alone */
#define LONGEST_NS 30000000000u
#define FULL_NS 30000000000u /* that it is given nothing while it has no room */
#define TURN_NS 200000000u   /* that a caller waits for others to shake hands */

struct sn_server {
    char *user, *password;
    uint32_t database;
    int is_tls;
    sn_tls_settings settings; /* texts of its own */
    sn_tls_context *tls;      /* whose turn it is to connect; NULL: it is to be made */

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a turn is over, or a connection is idle */
    /* The mutex's. */
    struct sockaddr_storage address;
    socklen_t address_length;
    int is_connecting;   /* with TLS: it is somebody's turn */
    uint32_t vain_turns; /* that brought no connection */
    int is_tls_old;      /* the files that it is made of may have changed */
    sn_connection *idle;
    uint32_t failures;    /* in a row */
    uint64_t wrong;       /* values; fewer after right ones */
    uint64_t alone_until; /* sn_now_ns(); it is left alone */
    uint64_t pause;       /* how long the next time */
    int is_tried;         /* one caller asks it again */
    uint64_t full_until;
    sn_remote_counts counts;
};

/* -- Its life -- */

static int set_address(sn_server *self, const sn_remote_server *about)
{
    struct sockaddr_un *local = (struct sockaddr_un *)&self->address;
    struct sockaddr_in *four = (struct sockaddr_in *)&self->address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&self->address;

    memset(&self->address, 0, sizeof self->address);
    if (about->path) {
        if (strlen(about->path) >= sizeof local->sun_path)
            return -EINVAL;
        local->sun_family = AF_UNIX;
        strcpy(local->sun_path, about->path);
        self->address_length = sizeof *local;
    } else if (inet_pton(AF_INET, about->address, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(about->port);
        self->address_length = sizeof *four;
    } else if (inet_pton(AF_INET6, about->address, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(about->port);
        self->address_length = sizeof *six;
    } else {
        return -EINVAL;
    }
    return 0;
}

static char *copy_of(const char *text, int *failed)
{
    char *copy = text ? strdup(text) : NULL;
    *failed |= text && !copy;
    return copy;
}

static int copy_settings(sn_server *self, const sn_tls_settings *settings)
{
    int failed = 0;

    self->is_tls = 1;
    self->settings.host = copy_of(settings->host, &failed);
    self->settings.ca_file = copy_of(settings->ca_file, &failed);
    self->settings.cert_file = copy_of(settings->cert_file, &failed);
    self->settings.key_file = copy_of(settings->key_file, &failed);
    return failed;
}

sn_server *sn_server_new(const sn_remote_server *about)
{
    sn_server *self = calloc(1, sizeof *self);
    pthread_condattr_t clock;
    int failed = 0;

    if (!self)
        return NULL;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&self->changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&self->mutex, NULL);
    self->user = copy_of(about->user, &failed);
    self->password = copy_of(about->password, &failed);
    self->database = about->database;
    self->pause = SHORTEST_NS;
    failed |= about->tls && copy_settings(self, about->tls);
    if (failed || set_address(self, about) != 0) {
        sn_server_free(self);
        return NULL;
    }
    return self;
}

int sn_server_move(sn_server *self, const char *address)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)&self->address;

    if (self->address.ss_family == AF_UNIX)
        return -EINVAL;
    sn_remote_server about = {.address = address, .port = ntohs(four->sin_port)}; /* IPv6 has the port there too */
    pthread_mutex_lock(&self->mutex);
    struct sockaddr_storage before = self->address;
    int rc = set_address(self, &about);
    if (rc != 0)
        self->address = before;
    pthread_mutex_unlock(&self->mutex);
    return rc;
}

/* -- Whether it is asked -- */

static void close_all(sn_connection *first)
{
    while (first) {
        sn_connection *next = first->next;
        sn_connection_close(first);
        first = next;
    }
}

static sn_connection *take_idle(sn_server *self)
{
    pthread_mutex_lock(&self->mutex);
    sn_connection *all = self->idle;
    self->idle = NULL;
    pthread_mutex_unlock(&self->mutex);
    return all;
}

int sn_server_may_ask(sn_server *self, uint32_t samples)
{
    pthread_mutex_lock(&self->mutex);
    int is_alone = self->failures >= MOST_FAILURES;
    int may = !is_alone || (!self->is_tried && sn_now_ns() >= self->alone_until);
    if (may && is_alone)
        self->is_tried = 1;
    if (!may)
        self->counts.skipped += samples;
    pthread_mutex_unlock(&self->mutex);
    return may;
}

/* Count a failure, which is the last of so many in a row. The mutex is held. */
static void note_failure(sn_server *self, const char *message, uint32_t in_a_row)
{
    self->counts.failures++;
    if (*message)
        snprintf(self->counts.message, sizeof self->counts.message, "%s", message);
    self->is_tried = 0;
    self->failures = in_a_row < MOST_FAILURES ? in_a_row : MOST_FAILURES;
    if (self->failures == MOST_FAILURES && sn_now_ns() >= self->alone_until) {
        self->alone_until = sn_now_ns() + self->pause;
        self->pause = self->pause * 2 < LONGEST_NS ? self->pause * 2 : LONGEST_NS;
    }
}

static void failed(sn_server *self, const char *message)
{
    pthread_mutex_lock(&self->mutex);
    self->is_tls_old = 1;
    /* Many callers fail at a time when a server dies. That is one failure more, and one pause. */
    note_failure(self, message, self->failures + 1);
    pthread_mutex_unlock(&self->mutex);
    close_all(take_idle(self));
}

static void succeeded(sn_server *self)
{
    pthread_mutex_lock(&self->mutex);
    if (self->wrong >= MOST_WRONG) {
        note_failure(self, "its values are not what hosts have left there", MOST_FAILURES);
    } else {
        self->failures = 0;
        self->is_tried = 0;
        self->pause = SHORTEST_NS;
    }
    pthread_mutex_unlock(&self->mutex);
}

/* -- Connections -- */

static sn_word word(const char *text)
{
    return (sn_word){.bytes = text, .length = strlen(text)};
}

/* Why a connection has failed. `answer` was the last on it. */
static void explain(const sn_connection *self, int rc, const sn_answer *answer, char message[SN_TLS_WHY])
{
    const char *reason = rc == -EPROTO ? "what answers there is no Redis or Valkey server" : strerror(-rc);

    if (rc == -EPROTO && answer->kind == SN_ANSWER_ERROR)
        snprintf(message, SN_TLS_WHY, "the server says: %.*s", (int)answer->text_length, answer->text);
    else
        snprintf(message, SN_TLS_WHY, "%s", *self->why ? self->why : reason);
}

/* Say something that is answered with OK. */
static int agree(sn_connection *self, const sn_word *words, uint32_t n, char message[SN_TLS_WHY])
{
    sn_answer answer = {.kind = SN_ANSWER_NOTHING};
    int rc = sn_connection_say(self, words, n);

    if (rc == 0)
        rc = sn_connection_answer(self, SN_SERVER_MOST, &answer);
    if (rc == 0 && answer.kind != SN_ANSWER_OK)
        rc = -EPROTO;
    if (rc != 0)
        explain(self, rc, &answer, message);
    return rc;
}

static int introduce(const sn_server *self, sn_connection *one, char message[SN_TLS_WHY])
{
    int rc = 0;

    if (self->password) {
        sn_word words[3] = {word("AUTH"), word(self->user ? self->user : "default"), word(self->password)};
        rc = agree(one, words, 3, message);
    }
    if (rc == 0 && self->database) {
        char number[16];
        snprintf(number, sizeof number, "%u", self->database);
        sn_word words[2] = {word("SELECT"), word(number)};
        rc = agree(one, words, 2, message);
    }
    return rc;
}

/* A new connection on which commands are served; NULL: the server has failed, and `message` says how. */
static sn_connection *connect_to(sn_server *self, char message[SN_TLS_WHY])
{
    sn_connection *one = NULL;

    pthread_mutex_lock(&self->mutex);
    struct sockaddr_storage address = self->address;
    socklen_t address_length = self->address_length;
    int is_old = self->is_tls_old;
    self->is_tls_old = 0;
    pthread_mutex_unlock(&self->mutex);
    if (self->is_tls && is_old) {
        sn_tls_context_release(self->tls);
        self->tls = NULL;
    }
    if (self->is_tls && !self->tls && !(self->tls = sn_tls_context_new(&self->settings, message)))
        return NULL;
    int rc = sn_connection_open((struct sockaddr *)&address, address_length, self->tls, &one, message);
    if (rc == 0 && introduce(self, one, message) != 0) {
        sn_connection_close(one);
        one = NULL;
    }
    if (!one && !*message)
        snprintf(message, SN_TLS_WHY, "%s", strerror(-rc));
    return one;
}

/* With TLS: wait until a connection is idle, it is this caller's turn, or another's turn has brought nothing: then this
 * caller's would not either. The mutex is held. 0: take what is idle, or connect. */
static int await_turn(sn_server *self)
{
    uint64_t until = sn_now_ns() + TURN_NS;
    struct timespec time = sn_time_at(until);
    uint32_t vain = self->vain_turns;
    int rc = 0;

    while (rc == 0 && !self->idle && self->is_connecting && vain == self->vain_turns)
        rc = -pthread_cond_timedwait(&self->changed, &self->mutex, &time);
    if (self->idle)
        return 0;
    return vain != self->vain_turns ? -ECONNREFUSED : rc;
}

/* A connection that is not in use, or a new one; NULL: the server has failed, and `message` says how, or another caller
 * knows. */
static sn_connection *get_connection(sn_server *self, char message[SN_TLS_WHY])
{
    *message = '\0';
    pthread_mutex_lock(&self->mutex);
    int rc = self->is_tls ? await_turn(self) : 0;
    sn_connection *one = self->idle;
    if (one)
        self->idle = one->next;
    else if (rc == 0)
        self->is_connecting = self->is_tls;
    pthread_mutex_unlock(&self->mutex);
    if (rc == -ETIMEDOUT)
        snprintf(message, SN_TLS_WHY, "%s", strerror(ETIMEDOUT));
    if (one || rc != 0)
        return one;
    one = connect_to(self, message);
    pthread_mutex_lock(&self->mutex);
    self->is_connecting = 0;
    self->vain_turns += !one;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
    return one;
}

static void give_connection(sn_server *self, sn_connection *one)
{
    pthread_mutex_lock(&self->mutex);
    one->next = self->idle;
    self->idle = one;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->mutex);
}

/* The answer to a SET or DEL that was sent before. */
static void note_owed(sn_server *self, const sn_answer *answer)
{
    pthread_mutex_lock(&self->mutex);
    if (answer->kind == SN_ANSWER_OK) {
        self->counts.stored++;
    } else if (answer->kind == SN_ANSWER_ERROR) {
        self->counts.refused++;
        self->full_until = sn_now_ns() + FULL_NS;
        snprintf(self->counts.message, sizeof self->counts.message, "a sample was not stored: %.*s",
                 (int)answer->text_length, answer->text);
    }
    pthread_mutex_unlock(&self->mutex);
}

static int read_owed(sn_server *self, sn_connection *one)
{
    sn_answer answer;

    while (one->owed) {
        int rc = sn_connection_answer(one, SN_SERVER_MOST, &answer);
        if (rc != 0)
            return rc;
        if (answer.kind == SN_ANSWER_BYTES)
            return -EPROTO;
        one->owed--;
        one->is_fresh = 0;
        note_owed(self, &answer);
    }
    return 0;
}

int sn_server_next(sn_connection *one, sn_answer *answer)
{
    answer->kind = SN_ANSWER_NOTHING;
    int rc = sn_connection_answer(one, SN_SERVER_MOST, answer);
    if (rc == 0)
        one->is_fresh = 0;
    return rc == 0 && answer->kind == SN_ANSWER_ERROR && !sn_answer_is_of_another_type(answer) ? -EPROTO : rc;
}

/* Whether the server has closed a connection that it had answered on before: a fresh one may serve. */
static int is_gone(int was_fresh, int rc)
{
    return !was_fresh && (rc == -ECONNRESET || rc == -EPIPE);
}

void sn_server_give_up(sn_server *self, sn_connection *one, int rc, const sn_answer *answer)
{
    char message[SN_TLS_WHY];

    explain(one, rc, answer, message);
    sn_connection_close(one);
    failed(self, message);
}

sn_connection *sn_server_send(sn_server *self, const uint8_t *commands, size_t length)
{
    sn_answer nothing = {.kind = SN_ANSWER_NOTHING};
    char message[SN_TLS_WHY];

    for (;;) {
        struct iovec part = {.iov_base = (void *)commands, .iov_len = length};
        sn_connection *one = get_connection(self, message);
        if (!one) {
            failed(self, message);
            return NULL;
        }
        int rc = sn_connection_send(one, &part, 1);
        if (rc == 0)
            return one;
        if (!is_gone(one->is_fresh, rc)) {
            sn_server_give_up(self, one, rc, &nothing);
            return NULL;
        }
        sn_connection_close(one); /* the others are as old; each try is with one less */
    }
}

sn_connection *sn_server_receive(sn_server *self, sn_connection *one, const uint8_t *commands, size_t length,
                                 sn_answer *answer)
{
    while (one) {
        int was_fresh = one->is_fresh;
        answer->kind = SN_ANSWER_NOTHING;
        int rc = read_owed(self, one);
        if (rc == 0)
            rc = sn_server_next(one, answer);
        if (rc == 0)
            return one;
        if (!is_gone(was_fresh, rc)) {
            sn_server_give_up(self, one, rc, answer);
            return NULL;
        }
        sn_connection_close(one);
        one = sn_server_send(self, commands, length);
    }
    return NULL;
}

void sn_server_done(sn_server *self, sn_connection *one)
{
    give_connection(self, one);
    succeeded(self);
}

int sn_server_wants(sn_server *self)
{
    pthread_mutex_lock(&self->mutex);
    int it_does = self->failures == 0 && sn_now_ns() >= self->full_until;
    pthread_mutex_unlock(&self->mutex);
    return it_does;
}

void sn_server_set(sn_server *self, struct iovec *parts, size_t n, int is_short_lived)
{
    sn_answer nothing = {.kind = SN_ANSWER_NOTHING};
    char message[SN_TLS_WHY];
    sn_connection *one = get_connection(self, message);

    if (!one) {
        failed(self, message);
        return;
    }
    int rc = sn_connection_send(one, parts, n);
    if (rc == 0) {
        one->owed++;
        pthread_mutex_lock(&self->mutex);
        self->counts.short_lived += is_short_lived != 0;
        pthread_mutex_unlock(&self->mutex);
        give_connection(self, one);
    } else if (rc == -EPIPE || rc == -ECONNRESET) {
        sn_connection_close(one); /* the next GET finds out whether the server is there */
    } else {
        sn_server_give_up(self, one, rc, &nothing);
    }
}

void sn_server_count(sn_server *self, const sn_remote_counts *more)
{
    pthread_mutex_lock(&self->mutex);
    self->counts.hits += more->hits;
    self->counts.misses += more->misses;
    self->counts.bytes += more->bytes;
    self->counts.get_ns += more->get_ns;
    if (more->hits)
        self->wrong = 0;
    else if (self->wrong > 0)
        self->wrong--;
    pthread_mutex_unlock(&self->mutex);
}

void sn_server_count_wrong(sn_server *self, uint64_t took_ns)
{
    pthread_mutex_lock(&self->mutex);
    self->counts.misses++;
    self->counts.wrong++;
    self->wrong += 1 + took_ns / SLOW_NS;
    pthread_mutex_unlock(&self->mutex);
}

void sn_server_read_counts(sn_server *self, sn_remote_counts *counts)
{
    pthread_mutex_lock(&self->mutex);
    *counts = self->counts;
    counts->is_left_alone = self->failures >= MOST_FAILURES;
    pthread_mutex_unlock(&self->mutex);
}

void sn_server_free(sn_server *self)
{
    sn_connection *all = take_idle(self);

    for (sn_connection *one = all; one; one = one->next)
        if (read_owed(self, one) != 0)
            break;
    close_all(all);
    sn_tls_context_release(self->tls);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->mutex);
    free((char *)self->settings.host);
    free((char *)self->settings.ca_file);
    free((char *)self->settings.cert_file);
    free((char *)self->settings.key_file);
    free(self->user);
    free(self->password);
    free(self);
}
