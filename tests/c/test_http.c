/*
 * test_http.c -- objects by HTTP from a server that answers rightly, wrongly, late, or not at all: whoever gets bytes gets those
 * that were asked for.
 *
 *   sn_http, many requests at a time --> libcurl --> this test's server, a thread for each connection
 *
 * A path says how it is answered: /longer is longer than asked for. The bytes of all objects are byte_at().
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/sn_rng.h"
#include "check.h"
#include "http/sn_http.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define FUZZED 2000u
#else
#define FUZZED 20000u
#endif
#define OBJECT (100u << 10)
#define MANY 4000u
#define ETAG "\"an etag\""
#define MOST_S 60 /* that a test waits; nothing takes so long */

static uint16_t port;
static uint64_t seed;
static atomic_uint connections, hanging;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static int is_released; /* the mutex's */

static uint8_t byte_at(uint64_t at)
{
    return (uint8_t)((at * 0x9E3779B97F4A7C15u) >> 40);
}

/* -- The server -- */

typedef struct {
    char how[32];
    unsigned long long first, last;
    int is_part, is_expected; /* a range, and the etag, is asked for */
} question;

/* The value of a header, in a head that ends with a NUL; NULL: there is none. */
static const char *header(const char *head, const char *name)
{
    const char *found = strcasestr(head, name);
    return found ? found + strlen(name) : NULL;
}

/* 0; -1: the client has gone. */
static int read_question(int fd, question *asked)
{
    char head[4096];
    size_t length = 0;

    head[0] = 0;
    while (!strstr(head, "\r\n\r\n")) {
        CHECK(length < sizeof head - 1);
        ssize_t n = recv(fd, head + length, sizeof head - 1 - length, 0);
        if (n <= 0)
            return -1;
        length += (size_t)n;
        head[length] = 0;
    }
    CHECK(sscanf(head, "GET /%31[a-z_] HTTP/1.1\r\n", asked->how) == 1);
    const char *range = header(head, "\r\nRange: bytes="), *etag = header(head, "\r\nIf-Match: ");
    asked->first = 0;
    asked->last = OBJECT - 1;
    asked->is_part = range && sscanf(range, "%llu-%llu", &asked->first, &asked->last) == 2;
    asked->is_expected = etag && strncmp(etag, ETAG "\r\n", strlen(ETAG) + 2) == 0;
    return 0;
}

static int send_all(int fd, const char *bytes, size_t length)
{
    return send(fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length ? 0 : -1;
}

/* Some bytes become others, and some are left out, but for the last four: without an empty line the body begins elsewhere. */
static size_t spoil(sn_rng *rng, char *head, size_t length)
{
    static const char bytes[] = "0123456789-/: \r\n\tabcELT\0\xff";

    for (uint32_t n = 1 + sn_rng_below(rng, 3); n > 0; n--) {
        size_t at = sn_rng_below(rng, (uint32_t)length - 4);
        if (sn_rng_below(rng, 3)) {
            head[at] = bytes[sn_rng_below(rng, sizeof bytes - 1)];
        } else {
            memmove(head + at, head + at + 1, length - at - 1);
            length--;
        }
    }
    return length;
}

static int is(const char *how, const char *name)
{
    return strcmp(how, name) == 0;
}

/* 0: the connection goes on. */
static int answer(int fd, const question *asked, sn_rng *rng)
{
    static const char dots[] = "no bytes of the object";
    const char *how = asked->how;
    unsigned long long first = asked->first, length = asked->last - first + 1, sent = length;
    int status = asked->is_part ? 206 : 200;
    char head[512], body[OBJECT + 1];

    CHECK(asked->last < OBJECT && asked->is_expected);
    if (is(how, "hangs")) {
        atomic_fetch_add(&hanging, 1);
        pthread_mutex_lock(&mutex);
        while (!is_released)
            pthread_cond_wait(&released, &mutex);
        pthread_mutex_unlock(&mutex);
    }
    if (is(how, "endless")) {
        static const char zeros[64 << 10];
        int head_length = snprintf(head, sizeof head, "HTTP/1.1 200 As asked\r\nContent-Length: 999999999999\r\n\r\n");
        send_all(fd, head, (size_t)head_length);
        while (send_all(fd, zeros, sizeof zeros) == 0)
            usleep(1000);
        return -1;
    }
    if (is(how, "all_of_it")) {
        status = 200;
        first = 0;
        length = sent = OBJECT;
    } else if (is(how, "longer")) {
        sent = ++length;
    } else if (is(how, "shorter")) {
        sent = --length;
    } else if (is(how, "cut")) {
        sent /= 2;
    } else if (is(how, "refused")) {
        status = 403;
    } else if (is(how, "moved")) {
        status = 301;
    } else if (is(how, "without_status")) {
        status = 200;
    }
    for (unsigned long long i = 0; i < sent; i++)
        body[i] = (char)byte_at(first + i);
    int n = snprintf(head, sizeof head, "HTTP/1.1 %d As asked\r\nETag: %s\r\nLocation: /right\r\n", status,
                     is(how, "exchanged") ? "\"another\"" : ETAG);
    if (asked->is_part && !is(how, "without_range"))
        n += snprintf(head + n, sizeof head - (size_t)n, "content-range:bytes %llu-%llu/%u\r\n",
                      first + (is(how, "another_part") ? 1 : 0), asked->last, OBJECT);
    n += is(how, "chunked")
             ? snprintf(head + n, sizeof head - (size_t)n, "Transfer-Encoding: chunked\r\n\r\n%llx\r\n", length)
             : snprintf(head + n, sizeof head - (size_t)n, "Content-Length: %llu\r\n\r\n", length);
    if (is(how, "without_status")) { /* HTTP/200 As asked */
        memmove(head + 5, head + 9, (size_t)n - 9);
        n -= 4;
    }
    size_t head_length = is(how, "spoilt") ? spoil(rng, head, (size_t)n) : (size_t)n;
    int rc = 0;
    if (is(how, "rubbish"))
        rc = send_all(fd, dots, sizeof dots);
    else if (!is(how, "nothing"))
        rc = send_all(fd, head, head_length) | send_all(fd, body, sent);
    if (is(how, "chunked"))
        rc |= send_all(fd, "\r\n0\r\n\r\n", 7);
    int is_whole =
        sent == asked->last - asked->first + 1 && !is(how, "nothing") && !is(how, "rubbish") && !is(how, "spoilt");
    return rc || !is_whole;
}

static void *serve(void *data)
{
    int fd = (int)(intptr_t)data;
    question asked;
    sn_rng rng;

    sn_rng_start(&rng, seed, 1, 0, atomic_fetch_add(&connections, 1), SN_STREAM_REST);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    while (read_question(fd, &asked) == 0 && answer(fd, &asked, &rng) == 0)
        continue;
    close(fd);
    return NULL;
}

static void *listen_on(void *data)
{
    int listening = (int)(intptr_t)data, fd;

    while ((fd = accept(listening, NULL, NULL)) >= 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0);
        pthread_detach(thread);
    }
    return NULL;
}

static void start_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 128) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    port = ntohs(address.sin_port);
    CHECK(pthread_create(&thread, NULL, listen_on, (void *)(intptr_t)fd) == 0);
    pthread_detach(thread);
}

/* -- Requests -- */

typedef struct {
    sn_http_request asked[SN_HTTP_AT_ONCE];
    int rc; /* of the last */
    long status;
    char etag[SN_HTTP_TEXT];
    uint32_t ended, right;
} outcome;

static void take(void *data, uint32_t request, int rc, sn_http_answer *got)
{
    outcome *self = data;
    const sn_http_request *asked = &self->asked[request];

    for (uint64_t i = 0; rc == 0 && i < asked->length; i++)
        CHECK_EQUAL(got->bytes[i], byte_at(asked->offset + i), "byte %llu", (unsigned long long)i);
    self->rc = rc;
    self->status = got->status;
    strcpy(self->etag, got->etag);
    self->ended++;
    self->right += rc == 0;
    if (rc == 0 && self->right % 3 == 0) { /* keep them */
        free(got->bytes);
        got->bytes = NULL;
        got->capacity = 0;
    }
}

static void begin(sn_http *http, outcome *self, const char *how, uint64_t offset, uint64_t length)
{
    char url[128];
    sn_http_request asked = {url, ETAG, offset, length, length < OBJECT, 1000 * MOST_S, MOST_S, 1000 * MOST_S};

    snprintf(url, sizeof url, "http://127.0.0.1:%u/%s", port, how);
    int number = sn_http_add(http, &asked);
    CHECK(number >= 0 && number < SN_HTTP_AT_ONCE);
    memset(url, 0, sizeof url); /* it was copied */
    self->asked[number] = asked;
}

static void await(sn_http *http, outcome *self)
{
    while (sn_http_under_way(http) > 0)
        sn_http_step(http, 1000, take, self);
}

static void check_answers(sn_http *http)
{
    static const struct {
        const char *how;
        int of_all, of_part; /* rc */
    } cases[] = {{"right", 0, 0},
                 {"chunked", 0, 0},
                 {"exchanged", 0, 0}, /* its etag is for the caller to compare */
                 {"another_part", 0, -EPROTO},
                 {"without_range", 0, -EPROTO},
                 {"all_of_it", 0, -EPROTO},
                 {"refused", -EPROTO, -EPROTO},
                 {"moved", -EPROTO, -EPROTO},
                 {"longer", -EIO, -EIO},
                 {"shorter", -EIO, -EIO},
                 {"cut", -EIO, -EIO},
                 {"rubbish", -EIO, -EIO},
                 {"nothing", -EIO, -EIO}};

    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const char *how = cases[i / 2].how;
        int is_part = i % 2, wanted = is_part ? cases[i / 2].of_part : cases[i / 2].of_all;
        if (!is_part && strcmp(how, "longer") == 0)
            continue; /* the object has no more bytes */
        outcome got = {0};
        begin(http, &got, how, is_part ? 1000 : 0, is_part ? 50000 : OBJECT);
        await(http, &got);
        CHECK_EQUAL(got.ended, 1, "%s", how);
        CHECK_EQUAL(got.rc, wanted, "%s, part %d", how, is_part);
        if (wanted != -EIO)
            CHECK(strcmp(got.etag, strcmp(how, "exchanged") ? ETAG : "\"another\"") == 0);
        if (wanted == -EPROTO)
            CHECK_EQUAL(got.status,
                        strcmp(how, "refused") == 0     ? 403
                        : strcmp(how, "moved") == 0     ? 301
                        : strcmp(how, "all_of_it") == 0 ? 200
                                                        : 206,
                        "%s", how);
    }
}

/* Fuzzing found that libcurl 7.88 says of such an answer that its status is 0, and that all is well. */
static void check_without_status(sn_http *http)
{
    outcome got = {0};

    begin(http, &got, "without_status", 1000, 50000);
    await(http, &got);
    CHECK_EQUAL(got.ended, 1, "an answer without a status");
    CHECK(got.rc == -EPROTO || got.rc == -EIO);
}

/* A server that sends all of a large object, or refuses at any length, is not listened to until it is late. */
static void check_endless(sn_http *http)
{
    outcome got = {0};

    begin(http, &got, "endless", 0, 1000);
    await(http, &got);
    CHECK_EQUAL(got.rc, -EPROTO, "status %ld", got.status);
}

/* Whether programs that this process starts would get its connections. */
static void check_descriptors(void)
{
    uint32_t found = 0;

    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) != 0 || ntohs(peer.sin_port) != port)
            continue;
        CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        found++;
    }
    CHECK(found > 0);
}

static void check_late(sn_http *http)
{
    outcome got = {0};
    char url[128];
    sn_http_request asked = {url, ETAG, 0, OBJECT, 0, 1000 * MOST_S, MOST_S, 50};

    snprintf(url, sizeof url, "http://127.0.0.1:%u/hangs", port);
    CHECK(sn_http_add(http, &asked) == 0);
    await(http, &got);
    CHECK_EQUAL(got.rc, -ETIMEDOUT, "a server that hangs");
}

/* As many as there may be at a time, each of some part, on connections that stay open. */
static void check_many(sn_http *http, sn_rng *rng)
{
    outcome got = {0};
    uint32_t before = atomic_load(&connections);

    for (uint32_t begun = 0; got.ended < MANY;) {
        for (; begun < MANY && sn_http_under_way(http) < SN_HTTP_AT_ONCE; begun++) {
            uint64_t offset = sn_rng_below(rng, OBJECT - 1),
                     length = 1 + sn_rng_below(rng, (uint32_t)(OBJECT - 1 - offset));
            begin(http, &got, "right", offset, length);
        }
        sn_http_step(http, 1000, take, &got);
    }
    CHECK_EQUAL(got.right, MANY, "of so many");
    CHECK(atomic_load(&connections) - before <= SN_HTTP_AT_ONCE);
}

static void fuzz_heads(sn_http *http, sn_rng *rng)
{
    outcome got = {0};

    for (uint32_t begun = 0; got.ended < FUZZED;) {
        for (; begun < FUZZED && sn_http_under_way(http) < SN_HTTP_AT_ONCE; begun++)
            begin(http, &got, "spoilt", sn_rng_below(rng, 1000), 1 + sn_rng_below(rng, 3000));
        sn_http_step(http, 1000, take, &got);
    }
    CHECK(got.right > 0 && got.right < FUZZED);
}

static void check_give_up(sn_http *http)
{
    outcome got = {0};
    uint32_t before = atomic_load(&hanging);

    for (uint32_t i = 0; i < SN_HTTP_AT_ONCE; i++)
        begin(http, &got, "hangs", 0, OBJECT);
    while (atomic_load(&hanging) - before < SN_HTTP_AT_ONCE)
        sn_http_step(http, 10, take, &got);
    sn_http_give_up(http);
    CHECK_EQUAL(sn_http_under_way(http), 0, "after giving up");
    begin(http, &got, "right", 0, OBJECT);
    await(http, &got);
    CHECK_EQUAL(got.ended, 1, "only that");
    CHECK_EQUAL(got.rc, 0, "after giving up");
    begin(http, &got, "hangs", 0, OBJECT); /* it is under way until the end */
}

int main(int argc, char **argv)
{
    char why[SN_HTTP_TEXT];
    sn_rng rng;

    seed = check_seed(argc, argv);
    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_REST);
    for (int i = 0; i < 4; i++)
        unsetenv(((const char *[]){"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"})[i]);
    start_server();
    sn_http *http = sn_http_new(why);
    if (!http) {
        printf("test_http: nothing is tested: %s\n", why);
        return 0;
    }
    check_answers(http);
    check_without_status(http);
    check_endless(http);
    check_late(http);
    check_many(http, &rng);
    check_descriptors();
    fuzz_heads(http, &rng);
    check_give_up(http);
    sn_http_free(http);
    pthread_mutex_lock(&mutex);
    is_released = 1;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&mutex);
    return 0;
}
