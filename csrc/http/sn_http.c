#define _GNU_SOURCE
#include "sn_http.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/sn_clock.h"
#include "../base/sn_descriptor.h"
#include "../base/sn_library.h"

#define EVENTS 64           /* that one step takes */
#define LARGE (1u << 20)    /* a larger buffer is not kept for the next request */
#define REFUSAL (64u << 10) /* bytes of what is not wanted that are received, because the connection then stays open */

/* -- libcurl's functions and numbers, which are the same in each version -- */

typedef struct {
    int kind;
    void *easy;
    union {
        void *pointer;
        int ended; /* how */
    } data;
} message;

#define FUNCTIONS(X)                                                                                                   \
    X(int, curl_global_init, (long))                                                                                   \
    X(void *, curl_easy_init, (void))                                                                                  \
    X(int, curl_easy_setopt, (void *, int, ...))                                                                       \
    X(int, curl_easy_getinfo, (void *, int, ...))                                                                      \
    X(void, curl_easy_cleanup, (void *))                                                                               \
    X(void *, curl_multi_init, (void))                                                                                 \
    X(int, curl_multi_setopt, (void *, int, ...))                                                                      \
    X(int, curl_multi_add_handle, (void *, void *))                                                                    \
    X(int, curl_multi_remove_handle, (void *, void *))                                                                 \
    X(int, curl_multi_socket_action, (void *, int, int, int *))                                                        \
    X(message *, curl_multi_info_read, (void *, int *))                                                                \
    X(int, curl_multi_cleanup, (void *))                                                                               \
    X(void *, curl_slist_append, (void *, const char *))                                                               \
    X(void, curl_slist_free_all, (void *))

typedef struct {
#define MEMBER(answer, name, parameters) answer(*name) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
} functions;

enum {
    GLOBAL_ALL = 3,
    WRITE_DATA = 10001,
    URL = 10002,
    RANGE = 10007,
    USER_AGENT = 10018,
    LOW_SPEED_LIMIT = 19,
    LOW_SPEED_TIME = 20,
    HEADERS = 10023,
    HEADER_DATA = 10029,
    HTTP_VERSION = 84,
    NO_SIGNAL = 99,
    TIMEOUT_MS = 155,
    CONNECT_TIMEOUT_MS = 156,
    PROTOCOLS = 181,
    PATH_AS_IS = 234,
    QUICK_EXIT = 322, /* from 7.87 on: closing does not wait for the thread that looks up a name */
    WRITE_FUNCTION = 20011,
    HEADER_FUNCTION = 20079,
    OPEN_SOCKET_FUNCTION = 20163,
    MULTI_MOST_CONNECTIONS = 6,
    MULTI_SOCKET_DATA = 10002,
    MULTI_TIMER_DATA = 10005,
    MULTI_SOCKET_FUNCTION = 20001,
    MULTI_TIMER_FUNCTION = 20004,
    HTTP_1_1 = 2,
    PROTOCOL_HTTP = 1,
    PROTOCOL_HTTPS = 2,
    STATUS = 0x200002,
    DONE = 0,
    LATE = 28,
    MESSAGE_ENDED = 1,
    WANTS_IN = 1, /* of a socket, from libcurl; and what came, to libcurl */
    WANTS_OUT = 2,
    WANTS_NOTHING = 4,
    CAME_ERROR = 4,
    NO_SOCKET = -1,
};

/* libcurl's struct curl_sockaddr: the socket that it wants. */
typedef struct {
    int family, type, protocol;
    unsigned length;
    struct sockaddr address;
} wanted_socket;

/* Of OpenSSL's build and of GnuTLS's, which have the same functions. */
static const char *const LIBRARIES[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

typedef struct {
    sn_http *all;
    void *easy, *headers;    /* NULL: no request is under way */
    sn_http_request request; /* its texts are gone */
    sn_http_answer answer;
    uint64_t came;   /* bytes of the body, wanted or not */
    uint64_t begins; /* they do, in the object, as the server says; UINT64_MAX: it says nothing */
} transfer;

struct sn_http {
    functions curl;
    void *multi;
    int events;     /* the descriptor of an epoll: what libcurl waits for */
    int64_t due_ms; /* libcurl wants to be called then; INT64_MAX: it does not */
    uint32_t under_way;
    transfer transfers[SN_HTTP_AT_ONCE];
};

/* 0, or `why` not. */
static int load(functions *self, char *why)
{
    void *library = sn_library(LIBRARIES, sizeof LIBRARIES / sizeof *LIBRARIES), *found;

    if (!library) {
        snprintf(why, SN_HTTP_TEXT, "neither %s nor %s can be loaded here", LIBRARIES[0], LIBRARIES[1]);
        return -ENOENT;
    }
#define LOAD(answer, name, parameters)                                                                                 \
    if (!(found = dlsym(library, #name))) {                                                                            \
        snprintf(why, SN_HTTP_TEXT, "the libcurl that is loaded here has no " #name);                                  \
        return -ENOENT;                                                                                                \
    }                                                                                                                  \
    memcpy(&self->name, &found, sizeof found);
    FUNCTIONS(LOAD)
#undef LOAD
    if (self->curl_global_init(GLOBAL_ALL) == DONE) /* again each time, which does nothing */
        return 0;
    snprintf(why, SN_HTTP_TEXT, "libcurl cannot begin here");
    return -ENOENT;
}

/* -- What libcurl calls -- */

/* The value in a line of an answer's head, if it has this name, without blanks around it: its length is `n`. */
static const char *value_of(const char *line, size_t length, const char *name, size_t *n)
{
    size_t at = strlen(name);

    if (length <= at || strncasecmp(line, name, at) != 0 || line[at] != ':')
        return NULL;
    for (at++; at < length && (line[at] == ' ' || line[at] == '\t');)
        at++;
    while (length > at && strchr(" \t\r\n", line[length - 1]))
        length--;
    *n = length - at;
    return line + at;
}

/* A line of an answer's head. One begins with "HTTP/": of several answers, the last counts. */
static size_t take_header(char *line, size_t size, size_t count, void *data)
{
    transfer *self = data;
    size_t length = size * count, n;
    char range[SN_HTTP_TEXT];
    const char *value;

    if (length >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        self->answer.etag[0] = 0;
        self->begins = UINT64_MAX;
    } else if ((value = value_of(line, length, "etag", &n)) && n < SN_HTTP_TEXT) {
        memcpy(self->answer.etag, value, n);
        self->answer.etag[n] = 0;
    } else if ((value = value_of(line, length, "content-range", &n)) && n < SN_HTTP_TEXT) {
        unsigned long long begins;
        memcpy(range, value, n);
        range[n] = 0;
        if (sscanf(range, "bytes %llu-", &begins) == 1)
            self->begins = begins;
    }
    return length;
}

/* Whether the answer's head is that of the bytes that are wanted. */
static int is_wanted(const transfer *self)
{
    long status = 0;

    self->all->curl.curl_easy_getinfo(self->easy, STATUS, &status);
    return self->request.is_part ? status == 206 && self->begins == self->request.offset : status == 200;
}

/* Some bytes of an answer's body. What a refusal says is dropped. */
static size_t take_body(char *bytes, size_t size, size_t count, void *data)
{
    transfer *self = data;
    size_t length = size * count;

    int wanted = is_wanted(self);

    if (self->came + length > (wanted ? self->request.length : REFUSAL))
        return 0; /* libcurl gives up */
    if (wanted)
        memcpy(self->answer.bytes + self->came, bytes, length);
    self->came += length;
    return length;
}

/* As libcurl would, but programs that this process starts do not get its sockets, and no text for a closed
 * standard stream goes into one. */
static int open_socket(void *data, int purpose, const wanted_socket *wanted)
{
    (void)data, (void)purpose;
    return sn_above_standard(socket(wanted->family, wanted->type | SOCK_CLOEXEC, wanted->protocol));
}

static int watch(void *easy, int fd, int wants, void *data, void *of_socket)
{
    sn_http *self = data;
    struct epoll_event event = {.data.fd = fd};

    (void)easy, (void)of_socket;
    event.events = (wants & WANTS_IN ? EPOLLIN : 0u) | (wants & WANTS_OUT ? EPOLLOUT : 0u);
    if (wants == WANTS_NOTHING)
        epoll_ctl(self->events, EPOLL_CTL_DEL, fd, &event);
    else if (epoll_ctl(self->events, EPOLL_CTL_MOD, fd, &event) != 0)
        epoll_ctl(self->events, EPOLL_CTL_ADD, fd, &event);
    return 0;
}

static int set_due(void *multi, long wait_ms, void *data)
{
    sn_http *self = data;

    (void)multi;
    self->due_ms = wait_ms < 0 ? INT64_MAX : sn_now_ms(CLOCK_MONOTONIC) + wait_ms;
    return 0;
}

/* -- Connections -- */

sn_http *sn_http_new(char why[SN_HTTP_TEXT])
{
    sn_http *self = calloc(1, sizeof *self);

    snprintf(why, SN_HTTP_TEXT, "%s", strerror(ENOMEM));
    if (!self || load(&self->curl, why) != 0) {
        free(self);
        return NULL;
    }
    self->due_ms = INT64_MAX;
    self->events = sn_above_standard(epoll_create1(EPOLL_CLOEXEC));
    self->multi = self->curl.curl_multi_init();
    if (self->events < 0 || !self->multi) {
        snprintf(why, SN_HTTP_TEXT, "%s", strerror(self->events < 0 ? errno : ENOMEM));
        sn_http_free(self);
        return NULL;
    }
    self->curl.curl_multi_setopt(self->multi, MULTI_MOST_CONNECTIONS, (long)SN_HTTP_AT_ONCE);
    self->curl.curl_multi_setopt(self->multi, MULTI_SOCKET_DATA, (void *)self);
    self->curl.curl_multi_setopt(self->multi, MULTI_SOCKET_FUNCTION, watch);
    self->curl.curl_multi_setopt(self->multi, MULTI_TIMER_DATA, (void *)self);
    self->curl.curl_multi_setopt(self->multi, MULTI_TIMER_FUNCTION, set_due);
    return self;
}

static void end(transfer *self)
{
    const functions *curl = &self->all->curl;

    curl->curl_multi_remove_handle(self->all->multi, self->easy);
    curl->curl_easy_cleanup(self->easy);
    curl->curl_slist_free_all(self->headers);
    self->easy = self->headers = NULL;
    if (self->answer.capacity > LARGE) {
        free(self->answer.bytes);
        self->answer.bytes = NULL;
        self->answer.capacity = 0;
    }
    self->all->under_way--;
}

void sn_http_give_up(sn_http *self)
{
    for (uint32_t i = 0; i < SN_HTTP_AT_ONCE; i++)
        if (self->transfers[i].easy)
            end(&self->transfers[i]);
}

void sn_http_free(sn_http *self)
{
    if (!self)
        return;
    sn_http_give_up(self);
    for (uint32_t i = 0; i < SN_HTTP_AT_ONCE; i++)
        free(self->transfers[i].answer.bytes);
    if (self->multi)
        self->curl.curl_multi_cleanup(self->multi);
    if (self->events >= 0)
        close(self->events);
    free(self);
}

uint32_t sn_http_under_way(const sn_http *self)
{
    return self->under_way;
}

/* Room for a request's bytes, and its header that refuses other objects. 0, or why not. */
static int provide(transfer *self, const sn_http_request *request)
{
    char condition[SN_HTTP_TEXT + 16];

    if (request->length >= self->answer.capacity) {
        uint8_t *bytes = realloc(self->answer.bytes, request->length + 1);
        if (!bytes)
            return -ENOMEM;
        self->answer.bytes = bytes;
        self->answer.capacity = request->length + 1;
    }
    if (!request->etag)
        return 0;
    if ((size_t)snprintf(condition, sizeof condition, "If-Match: %s", request->etag) >= sizeof condition)
        return -EINVAL;
    self->headers = self->all->curl.curl_slist_append(NULL, condition);
    return self->headers ? 0 : -ENOMEM;
}

static void set(const transfer *self, const sn_http_request *request)
{
    const functions *curl = &self->all->curl;
    const struct {
        int option;
        long value;
    } numbers[] = {
        {NO_SIGNAL, 1},
        {PATH_AS_IS, 1},
        {QUICK_EXIT, 1},
        {HTTP_VERSION, HTTP_1_1},
        {PROTOCOLS, PROTOCOL_HTTP | PROTOCOL_HTTPS},
        {CONNECT_TIMEOUT_MS, request->connect_ms},
        {LOW_SPEED_LIMIT, 1},
        {LOW_SPEED_TIME, request->silent_s},
        {TIMEOUT_MS, request->whole_ms},
    };
    char range[64];

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        curl->curl_easy_setopt(self->easy, numbers[i].option, numbers[i].value);
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)request->offset,
             (unsigned long long)(request->offset + request->length - 1));
    curl->curl_easy_setopt(self->easy, URL, request->url);
    curl->curl_easy_setopt(self->easy, RANGE, request->is_part ? range : NULL);
    curl->curl_easy_setopt(self->easy, HEADERS, self->headers);
    curl->curl_easy_setopt(self->easy, USER_AGENT, "seneca");
    curl->curl_easy_setopt(self->easy, WRITE_DATA, (void *)self);
    curl->curl_easy_setopt(self->easy, WRITE_FUNCTION, take_body);
    curl->curl_easy_setopt(self->easy, HEADER_DATA, (void *)self);
    curl->curl_easy_setopt(self->easy, HEADER_FUNCTION, take_header);
    curl->curl_easy_setopt(self->easy, OPEN_SOCKET_FUNCTION, open_socket);
}

/* Each request has a handle of its own. In one that is used again, libcurl before 8.1.1 writes to freed memory if a head's first
 * line begins with a blank (curl's issue 11101). */
int sn_http_add(sn_http *self, const sn_http_request *request)
{
    transfer *one = self->transfers;

    while (one->easy)
        one++;
    one->all = self;
    one->easy = self->curl.curl_easy_init();
    if (!one->easy)
        return -ENOMEM;
    self->under_way++;
    int rc = provide(one, request);
    if (rc == 0) {
        one->answer.status = 0;
        one->answer.etag[0] = 0;
        one->request = *request;
        one->came = 0;
        one->begins = UINT64_MAX;
        set(one, request);
        rc = self->curl.curl_multi_add_handle(self->multi, one->easy) == DONE ? 0 : -ENOMEM;
    }
    if (rc == 0)
        return (int)(one - self->transfers);
    end(one);
    return rc;
}

/* The result of a request that libcurl has ended like this. */
static int judged(const transfer *self, int ended)
{
    /* "HTTP/200 OK" is an answer without a status to some libcurls. */
    if ((self->answer.status || ended == DONE) && !is_wanted(self))
        return -EPROTO;
    if (ended == LATE)
        return -ETIMEDOUT;
    return ended == DONE && self->came == self->request.length ? 0 : -EIO;
}

/* Report the requests that have ended. */
static void report(sn_http *self, sn_http_done *done, void *data)
{
    message *next;
    int more;

    while ((next = self->curl.curl_multi_info_read(self->multi, &more))) {
        if (next->kind != MESSAGE_ENDED)
            continue;
        int ended = next->data.ended;
        transfer *one = self->transfers;
        while (one->easy != next->easy)
            one++;
        self->curl.curl_easy_getinfo(one->easy, STATUS, &one->answer.status);
        int rc = judged(one, ended);
        done(data, (uint32_t)(one - self->transfers), rc, &one->answer);
        end(one); /* `next` is of no use after it */
    }
}

void sn_http_step(sn_http *self, int wait_ms, sn_http_done *done, void *data)
{
    struct epoll_event events[EVENTS];
    int64_t until_due = self->due_ms - sn_now_ms(CLOCK_MONOTONIC);
    int running;

    if (until_due < wait_ms)
        wait_ms = until_due < 0 ? 0 : (int)until_due;
    int came = epoll_wait(self->events, events, EVENTS, wait_ms);
    for (int i = 0; i < came; i++) {
        int what = (events[i].events & (EPOLLIN | EPOLLHUP) ? WANTS_IN : 0) |
                   (events[i].events & EPOLLOUT ? WANTS_OUT : 0) | (events[i].events & EPOLLERR ? CAME_ERROR : 0);
        self->curl.curl_multi_socket_action(self->multi, events[i].data.fd, what, &running);
    }
    if (sn_now_ms(CLOCK_MONOTONIC) >= self->due_ms) {
        self->due_ms = INT64_MAX;
        self->curl.curl_multi_socket_action(self->multi, NO_SOCKET, 0, &running);
    }
    report(self, done, data);
}
