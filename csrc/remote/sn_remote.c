#define _GNU_SOURCE
#include "sn_remote.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../base/sn_hash.h"
#include "../base/sn_rng.h"
#include "../base/sn_status.h"
#include "sn_resp.h"

#define CONNECT_MS 200
#define PATIENCE_MS 100          /* without one byte more */
#define ANSWER_NS 500000000u     /* for an answer, and 10 us for each of its bytes */
#define BYTE_NS 10000u
#define MOST_FAILURES 3          /* in a row, before a server is left alone */
#define SHORTEST_NS 1000000000u  /* that it is left alone */
#define LONGEST_NS 30000000000u
#define FULL_NS 30000000000u     /* that a server without room is given nothing */
#define KEY_BYTES 64
#define GONE 1                   /* the server has closed a connection that it had answered on before */

typedef struct connection {
    struct connection *next;
    int fd;
    uint32_t owed;     /* answers to SET and DEL that nobody has read */
    int is_fresh;      /* no answer has come on it */
    size_t from, until; /* of `bytes`: received, and not read */
    uint8_t bytes[4096];
} connection;

/* What ends each value. */
typedef struct {
    char magic[8];
    uint64_t length, check;
    uint32_t sample, zero;
} trailer;

static const char MAGIC[8] = {'s', 'e', 'n', 'e', 'c', 'a', '-', '1'};

typedef struct {
    char *name, *user, *password;
    uint64_t weight; /* of its name */
    uint32_t database;
    struct sockaddr_storage address;
    socklen_t address_length;

    pthread_mutex_t mutex;
    /* The mutex's. */
    connection *idle;
    uint32_t failures;      /* in a row */
    uint64_t alone_until;   /* CLOCK_MONOTONIC; it is left alone */
    uint64_t pause;         /* how long the next time */
    int is_tried;           /* one caller asks it again */
    uint64_t full_until;
    sn_remote_counts counts;
} server;

struct sn_remote {
    pid_t owner;
    uint32_t n;
    server servers[];
};

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* -- Servers -- */

static int set_address(server *self, const sn_remote_server *about)
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

sn_remote *sn_remote_new(const sn_remote_server *servers, uint32_t n)
{
    sn_remote *remote = calloc(1, sizeof *remote + n * sizeof *remote->servers);
    int failed = 0;

    if (!remote)
        return NULL;
    remote->owner = getpid();
    for (uint32_t i = 0; i < n; i++) {
        server *self = &remote->servers[i];
        self->name = copy_of(servers[i].name, &failed);
        self->user = copy_of(servers[i].user, &failed);
        self->password = copy_of(servers[i].password, &failed);
        self->weight = sn_hash64(servers[i].name, strlen(servers[i].name), 0);
        self->database = servers[i].database;
        self->pause = SHORTEST_NS;
        pthread_mutex_init(&self->mutex, NULL);
        remote->n++;
        failed |= set_address(self, &servers[i]) != 0;
    }
    if (failed) {
        sn_remote_free(remote);
        return NULL;
    }
    return remote;
}

int sn_remote_move(sn_remote *remote, uint32_t at, const char *address)
{
    server *self = &remote->servers[at];
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

/* Rendezvous hashing (Thaler and Ravishankar, 1998): the server whose name and the key weigh most together. If a server
 * is added or taken away, only its own samples move. */
static server *server_of(const sn_remote *remote, const uint8_t *dataset, uint32_t sample)
{
    uint64_t key = sn_hash64(dataset, SN_REMOTE_DATASET, sample), most = 0;
    uint32_t best = 0;

    for (uint32_t i = 0; i < remote->n; i++) {
        uint64_t weight = sn_mix64(key ^ sn_mix64(remote->servers[i].weight));
        if (i == 0 || weight > most) {
            most = weight;
            best = i;
        }
    }
    return (server *)&remote->servers[best];
}

uint32_t sn_remote_server_of(const sn_remote *remote, const uint8_t *dataset, uint32_t sample)
{
    return (uint32_t)(server_of(remote, dataset, sample) - remote->servers);
}

static void close_all(connection *first)
{
    while (first) {
        connection *next = first->next;
        close(first->fd);
        free(first);
        first = next;
    }
}

static connection *take_idle(server *self)
{
    pthread_mutex_lock(&self->mutex);
    connection *all = self->idle;
    self->idle = NULL;
    pthread_mutex_unlock(&self->mutex);
    return all;
}

/* Whether a caller may ask this server now. If it may, it has to end with succeeded() or failed(). */
static int may_ask(server *self)
{
    pthread_mutex_lock(&self->mutex);
    int is_alone = self->failures >= MOST_FAILURES;
    int may = !is_alone || (!self->is_tried && now() >= self->alone_until);
    if (may && is_alone)
        self->is_tried = 1;
    if (!may)
        self->counts.skipped++;
    pthread_mutex_unlock(&self->mutex);
    return may;
}

static void failed(server *self, const char *message)
{
    pthread_mutex_lock(&self->mutex);
    self->counts.failures++;
    snprintf(self->counts.message, sizeof self->counts.message, "%s", message);
    self->is_tried = 0;
    /* Many callers fail at a time when a server dies. That is one failure more, and one pause. */
    if (self->failures < MOST_FAILURES)
        self->failures++;
    if (self->failures == MOST_FAILURES && now() >= self->alone_until) {
        self->alone_until = now() + self->pause;
        self->pause = self->pause * 2 < LONGEST_NS ? self->pause * 2 : LONGEST_NS;
    }
    pthread_mutex_unlock(&self->mutex);
    close_all(take_idle(self));
}

static void succeeded(server *self)
{
    pthread_mutex_lock(&self->mutex);
    self->failures = 0;
    self->is_tried = 0;
    self->pause = SHORTEST_NS;
    pthread_mutex_unlock(&self->mutex);
}

/* -- Sockets -- */

/* Wait until the socket is ready; -ETIMEDOUT. */
static int await(int fd, short events, int patience_ms, uint64_t deadline)
{
    struct pollfd one = {.fd = fd, .events = events};
    uint64_t began = now(), until = began + (uint64_t)patience_ms * 1000000;

    if (until > deadline)
        until = deadline;
    for (;;) {
        uint64_t at = now();
        int left_ms = until > at ? (int)((until - at + 999999) / 1000000) : 0;
        int n = poll(&one, 1, left_ms);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (now() >= until)
            return -ETIMEDOUT;
    }
}

static int send_all(connection *self, struct iovec *parts, size_t n)
{
    size_t length = 0;
    for (size_t i = 0; i < n; i++)
        length += parts[i].iov_len;
    uint64_t deadline = now() + ANSWER_NS + length * BYTE_NS;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = n};

    while (message.msg_iovlen) {
        ssize_t sent = sendmsg(self->fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            int rc = await(self->fd, POLLOUT, PATIENCE_MS, deadline);
            if (rc != 0)
                return rc;
        } else if (sent < 0 && errno != EINTR) {
            return -errno;
        }
        for (size_t left = sent > 0 ? (size_t)sent : 0; left > 0;) {
            struct iovec *part = message.msg_iov;
            size_t gone = left < part->iov_len ? left : part->iov_len;
            part->iov_base = (uint8_t *)part->iov_base + gone;
            part->iov_len -= gone;
            left -= gone;
            if (part->iov_len == 0) {
                message.msg_iov++;
                message.msg_iovlen--;
            }
        }
    }
    return 0;
}

/* Receive some bytes: how many, or below 0. -ECONNRESET: the server has closed the connection. */
static ssize_t receive(connection *self, uint8_t *to, size_t most, uint64_t deadline)
{
    for (;;) {
        ssize_t n = recv(self->fd, to, most, 0);
        if (n > 0)
            return n;
        if (n == 0)
            return -ECONNRESET;
        if (errno == EAGAIN) {
            int rc = await(self->fd, POLLIN, PATIENCE_MS, deadline);
            if (rc != 0)
                return rc;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
}

static int read_answer(connection *self, sn_answer *answer)
{
    uint64_t deadline = now() + ANSWER_NS;

    for (;;) {
        size_t used;
        int rc = sn_resp_answer(self->bytes + self->from, self->until - self->from, SN_REMOTE_MOST + sizeof(trailer),
                                answer, &used);
        if (rc != SN_BUSY) {
            self->from += rc == 0 ? used : 0;
            return rc;
        }
        if (self->from) {
            memmove(self->bytes, self->bytes + self->from, self->until - self->from);
            self->until -= self->from;
            self->from = 0;
        }
        ssize_t n = receive(self, self->bytes + self->until, sizeof self->bytes - self->until, deadline);
        if (n < 0)
            return (int)n;
        self->until += (size_t)n;
    }
}

/* The bytes that an answer has announced, and the CR LF behind them, into a buffer that grows. */
static int read_bytes(connection *self, size_t length, uint8_t **bytes, size_t *capacity)
{
    uint64_t deadline = now() + ANSWER_NS + length * BYTE_NS;
    size_t whole = length + 2, at = self->until - self->from;

    if (whole > *capacity) {
        uint8_t *larger = realloc(*bytes, whole + whole / 2);
        if (!larger)
            return -ENOMEM;
        *bytes = larger;
        *capacity = whole + whole / 2;
    }
    at = at < whole ? at : whole;
    memcpy(*bytes, self->bytes + self->from, at);
    self->from += at;
    while (at < whole) {
        ssize_t n = receive(self, *bytes + at, whole - at, deadline);
        if (n < 0)
            return (int)n;
        at += (size_t)n;
    }
    return (*bytes)[length] == '\r' && (*bytes)[length + 1] == '\n' ? 0 : -EPROTO;
}

/* -- Connections -- */

static int say(connection *self, const sn_word *words, uint32_t n)
{
    uint8_t command[1024];
    struct iovec part = {.iov_base = command, .iov_len = sn_resp_command(command, sizeof command, n, words, n)};

    return part.iov_len ? send_all(self, &part, 1) : -EINVAL;
}

static sn_word word(const char *text)
{
    return (sn_word){.bytes = text, .length = strlen(text)};
}

/* Say something that is answered with OK. */
static int agree(connection *self, const sn_word *words, uint32_t n, char *message, size_t capacity)
{
    sn_answer answer = {0};
    int rc = say(self, words, n);

    if (rc == 0)
        rc = read_answer(self, &answer);
    if (rc == 0 && answer.kind != SN_ANSWER_OK) {
        rc = -EPROTO;
        if (answer.kind == SN_ANSWER_ERROR)
            snprintf(message, capacity, "the server says: %.*s", (int)answer.text_length, answer.text);
    }
    return rc;
}

static int introduce(const server *self, connection *one, char *message, size_t capacity)
{
    int rc = 0;

    if (self->password) {
        sn_word words[3] = {word("AUTH"), word(self->user ? self->user : "default"), word(self->password)};
        rc = agree(one, words, 3, message, capacity);
    }
    if (rc == 0 && self->database) {
        char number[16];
        snprintf(number, sizeof number, "%u", self->database);
        sn_word words[2] = {word("SELECT"), word(number)};
        rc = agree(one, words, 2, message, capacity);
    }
    return rc;
}

/* A new connection's socket, or below 0. */
static int connect_to(const struct sockaddr *address, socklen_t address_length)
{
    int error = 0, yes = 1, rc = 0;
    socklen_t length = sizeof error;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    if (address->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(fd, address, address_length) != 0) {
        rc = errno == EINPROGRESS || errno == EINTR ? await(fd, POLLOUT, CONNECT_MS, UINT64_MAX) : -errno;
        if (rc == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0)
            rc = -error;
    }
    if (rc != 0)
        close(fd);
    return rc != 0 ? rc : fd;
}

/* A connection that nobody uses, or a new one; NULL: the server has failed, and `message` says how. */
static connection *get_connection(server *self, char *message, size_t capacity)
{
    pthread_mutex_lock(&self->mutex);
    connection *one = self->idle;
    if (one)
        self->idle = one->next;
    struct sockaddr_storage address = self->address;
    socklen_t address_length = self->address_length;
    pthread_mutex_unlock(&self->mutex);
    if (one)
        return one;

    *message = '\0';
    int rc = -ENOMEM;
    one = calloc(1, sizeof *one);
    if (one) {
        one->is_fresh = 1;
        one->fd = connect_to((struct sockaddr *)&address, address_length);
        rc = one->fd < 0 ? one->fd : introduce(self, one, message, capacity);
        if (rc == 0)
            return one;
        if (one->fd >= 0)
            close(one->fd);
        free(one);
    }
    if (!*message)
        snprintf(message, capacity, "%s", strerror(-rc));
    return NULL;
}

static void give_connection(server *self, connection *one)
{
    pthread_mutex_lock(&self->mutex);
    one->next = self->idle;
    self->idle = one;
    pthread_mutex_unlock(&self->mutex);
}

/* The answer to a SET or DEL that was sent before. */
static void note_owed(server *self, const sn_answer *answer)
{
    pthread_mutex_lock(&self->mutex);
    if (answer->kind == SN_ANSWER_OK) {
        self->counts.stored++;
    } else if (answer->kind == SN_ANSWER_ERROR) {
        self->counts.refused++;
        self->full_until = now() + FULL_NS;
        snprintf(self->counts.message, sizeof self->counts.message, "a sample was not stored: %.*s",
                 (int)answer->text_length, answer->text);
    }
    pthread_mutex_unlock(&self->mutex);
}

static int read_owed(server *self, connection *one)
{
    sn_answer answer;

    while (one->owed) {
        int rc = read_answer(one, &answer);
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

/* Send a command and read the first line of its answer. GONE: the connection had been closed since it was used; a fresh
 * one may serve. */
static int ask(server *self, connection *one, const sn_word *words, uint32_t n, sn_answer *answer)
{
    int was_used = !one->is_fresh;
    int rc = say(one, words, n);

    if (rc == 0)
        rc = read_owed(self, one);
    if (rc == 0)
        rc = read_answer(one, answer);
    if (rc == 0)
        one->is_fresh = 0;
    return was_used && (rc == -ECONNRESET || rc == -EPIPE) ? GONE : rc;
}

static void give_up(server *self, connection *one, int rc, const sn_answer *answer)
{
    char message[160];

    if (rc == -EPROTO && answer->kind == SN_ANSWER_ERROR)
        snprintf(message, sizeof message, "the server says: %.*s", (int)answer->text_length, answer->text);
    else
        snprintf(message, sizeof message, "%s",
                 rc == -EPROTO ? "what answers there is no Redis or Valkey server" : strerror(-rc));
    close(one->fd);
    free(one);
    failed(self, message);
}

/* Ask on a connection of the server's. NULL: it has failed, which is counted. */
static connection *ask_server(server *self, const sn_word *words, uint32_t n, sn_answer *answer)
{
    char message[160];

    for (;;) {
        connection *one = get_connection(self, message, sizeof message);
        if (!one) {
            failed(self, message);
            return NULL;
        }
        answer->kind = SN_ANSWER_NOTHING;
        int rc = ask(self, one, words, n, answer);
        if (rc == 0 && answer->kind == SN_ANSWER_ERROR)
            rc = -EPROTO;
        if (rc == 0)
            return one;
        if (rc != GONE) {
            give_up(self, one, rc, answer);
            return NULL;
        }
        close(one->fd); /* the others are as old; each try is with one less */
        free(one);
    }
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

int sn_remote_get(sn_remote *remote, const uint8_t *dataset, uint32_t sample, uint8_t **bytes, size_t *capacity,
                  size_t *length)
{
    char key[KEY_BYTES];
    int key_length = write_key(key, dataset, sample);
    server *self = server_of(remote, dataset, sample);
    sn_word get[2] = {word("GET"), {key, (size_t)key_length}}, del[2] = {word("DEL"), {key, (size_t)key_length}};
    sn_answer answer;

    if (remote->owner != getpid() || !may_ask(self))
        return SN_MISS;
    uint64_t began = now();
    connection *one = ask_server(self, get, 2, &answer);
    if (!one)
        return SN_MISS;
    size_t found = SIZE_MAX;
    if (answer.kind == SN_ANSWER_BYTES) {
        int rc = read_bytes(one, answer.length, bytes, capacity);
        if (rc != 0) {
            give_up(self, one, rc, &answer);
            return SN_MISS;
        }
        found = file_in(*bytes, answer.length, sample, key, key_length);
        if (found == SIZE_MAX && say(one, del, 2) == 0)
            one->owed++;
    }
    pthread_mutex_lock(&self->mutex);
    self->counts.hits += found != SIZE_MAX;
    self->counts.misses += found == SIZE_MAX;
    self->counts.wrong += found == SIZE_MAX && answer.kind == SN_ANSWER_BYTES;
    self->counts.bytes += found != SIZE_MAX ? found : 0;
    self->counts.get_ns += found != SIZE_MAX ? now() - began : 0;
    pthread_mutex_unlock(&self->mutex);
    give_connection(self, one);
    succeeded(self);
    *length = found;
    return found != SIZE_MAX ? 0 : SN_MISS;
}

static int wants(server *self)
{
    pthread_mutex_lock(&self->mutex);
    int it_does = self->failures == 0 && now() >= self->full_until;
    pthread_mutex_unlock(&self->mutex);
    return it_does;
}

void sn_remote_put(sn_remote *remote, const uint8_t *dataset, uint32_t sample, const uint8_t *bytes, size_t length)
{
    char key[KEY_BYTES], message[160];
    int key_length = write_key(key, dataset, sample);
    server *self = server_of(remote, dataset, sample);
    uint8_t head[256];
    trailer end = {.length = length, .sample = sample};

    if (length == 0 || length > SN_REMOTE_MOST || remote->owner != getpid() || !wants(self))
        return;
    connection *one = get_connection(self, message, sizeof message);
    if (!one) {
        failed(self, message);
        return;
    }
    memcpy(end.magic, MAGIC, sizeof MAGIC);
    end.check = check_of(bytes, length, key, key_length);
    sn_word set[3] = {word("SET"), {key, (size_t)key_length}, {NULL, length + sizeof end}};
    size_t head_length = sn_resp_command(head, sizeof head, 4, set, 3);
    static const char tail[] = "\r\n$2\r\nNX\r\n";
    struct iovec parts[4] = {{head, head_length},
                             {(void *)bytes, length},
                             {&end, sizeof end},
                             {(void *)tail, sizeof tail - 1}};
    int rc = send_all(one, parts, 4);
    if (rc == 0) {
        one->owed++;
        give_connection(self, one);
        return;
    }
    close(one->fd);
    free(one);
    if (rc != -EPIPE && rc != -ECONNRESET) /* the next GET finds out whether the server is there */
        failed(self, strerror(-rc));
}

int sn_remote_ping(sn_remote *remote, uint32_t at)
{
    server *self = &remote->servers[at];
    sn_word ping[1] = {word("PING")};
    sn_answer answer;

    if (remote->owner != getpid() || !may_ask(self))
        return SN_MISS;
    connection *one = ask_server(self, ping, 1, &answer);
    if (!one)
        return SN_MISS;
    int rc = answer.kind == SN_ANSWER_OK ? 0 : -EPROTO;
    if (rc != 0) {
        give_up(self, one, rc, &answer);
        return SN_MISS;
    }
    give_connection(self, one);
    succeeded(self);
    return 0;
}

void sn_remote_look(sn_remote *remote, uint32_t at, sn_remote_counts *counts)
{
    server *self = &remote->servers[at];

    pthread_mutex_lock(&self->mutex);
    *counts = self->counts;
    counts->is_left_alone = self->failures >= MOST_FAILURES;
    pthread_mutex_unlock(&self->mutex);
}

void sn_remote_free(sn_remote *remote)
{
    if (!remote || remote->owner != getpid())
        return; /* a forked child's: a thread of the parent may have held its mutexes */
    for (uint32_t i = 0; i < remote->n; i++) {
        server *self = &remote->servers[i];
        connection *all = take_idle(self);
        for (connection *one = all; one; one = one->next)
            if (read_owed(self, one) != 0)
                break;
        close_all(all);
        pthread_mutex_destroy(&self->mutex);
        free(self->name);
        free(self->user);
        free(self->password);
    }
    free(remote);
}
