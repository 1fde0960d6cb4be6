/*
 * sn_http.h -- bytes of objects by HTTP: many requests at a time in one thread, on connections that stay open.
 *
 *   URL, etag, range --add()--> under way --step()--> done(): its bytes; or the status, and why there are none
 *
 * libcurl speaks to the servers. It is loaded when it is first needed, and no header of it is needed to build. It follows no
 * redirect and sends no credentials: a URL has its signature. Proxies are those of the environment.
 *
 * Lives in   private memory.
 * Callers    one thread.
 * Blocking   sn_http_step(), for as long as the caller says.
 * After fork a child must neither use nor free what its parent has made: it would end the parent's TLS.
 */
#ifndef SN_HTTP_H
#define SN_HTTP_H

#include <stddef.h>
#include <stdint.h>

#define SN_HTTP_AT_ONCE 64 /* requests */
#define SN_HTTP_TEXT 320   /* bytes of a text, with its NUL */

typedef struct sn_http sn_http;

typedef struct {
    const char *url, *etag;              /* a server refuses an object with another etag; NULL: any will do */
    uint64_t offset, length;             /* of the bytes */
    int is_part;                         /* they are a part of the object */
    long connect_ms, silent_s, whole_ms; /* the most: to connect, without a byte, in all */
} sn_http_request;

typedef struct {
    long status;             /* of HTTP; 0: no server has answered */
    char etag[SN_HTTP_TEXT]; /* "": the server gives none, or a longer one */
    uint8_t *bytes;          /* in memory of malloc(), for which the caller may put other memory here, or NULL */
    size_t capacity;         /* of that memory: a byte more than was asked for, at the least */
} sn_http_answer;

/* The result of a request. 0: the bytes are those that were asked for. -ETIMEDOUT: they are late. -EPROTO: the server has
 * refused, or has answered with something else. -EIO: no whole answer came, or one of another length. */
typedef void sn_http_done(void *data, uint32_t request, int rc, sn_http_answer *answer);

/* One thread of the process at a time, because old versions of libcurl begin so. NULL: there is no memory, or no libcurl, as
 * `why` says. */
sn_http *sn_http_new(char why[SN_HTTP_TEXT]);

/* Close the connections, and give up what is under way. */
void sn_http_free(sn_http *self);

/* Give up what is under way. Connections that nothing is under way on stay open, for whichever thread uses them next. */
void sn_http_give_up(sn_http *self);

/* How many requests are under way. */
uint32_t sn_http_under_way(const sn_http *self);

/* Begin a request, while fewer than SN_HTTP_AT_ONCE are under way. Its texts are copied. The request's number, which another
 * gets after it has ended; below 0: why it has not begun. */
int sn_http_add(sn_http *self, const sn_http_request *request);

/* Wait so long at the most for something to come, and take it. `done` is called for each request that has ended. */
void sn_http_step(sn_http *self, int wait_ms, sn_http_done *done, void *data);

#endif
