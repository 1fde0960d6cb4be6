/*
 * fuzz_http.c -- a web server answers with any bytes, which libcurl reads: whoever gets bytes gets as many as were asked for.
 *
 *   how | answers of each connection --> sn_http, two requests, one after the other
 */
#include "check.h"
#include "fuzz.h"
#include "http/sn_http.h"
#include "peer.h"

#include <errno.h>

#define MOST_S 5
#define LENGTH 20u
#define OFFSET 10u

static sn_http *http;

void fuzz_begin(void)
{
    char why[SN_HTTP_TEXT];

    sn_http *first = sn_http_new(why); /* which loads libcurl */
    if (!first) {
        fprintf(stderr, "fuzz_http: %s\n", why);
        exit(77); /* as run.py knows it */
    }
    sn_http_free(first);
}

static void take(void *data, uint32_t request, int rc, sn_http_answer *answer)
{
    const sn_http_request *asked = data;
    uint64_t sum = 0;

    (void)request;
    CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -EPROTO || rc == -EIO);
    CHECK(strnlen(answer->etag, SN_HTTP_TEXT) < SN_HTTP_TEXT);
    if (rc == 0) {
        CHECK(answer->status == (asked->is_part ? 206 : 200) && answer->capacity > asked->length);
        for (uint64_t i = 0; i < asked->length; i++)
            sum += answer->bytes[i];
    }
    CHECK(sum <= 255 * LENGTH);
}

static void ask(uint8_t how)
{
    sn_http_request asked = {.url = "http://127.0.0.1:9/object",
                             .etag = how & 1 ? "\"an etag\"" : NULL,
                             .offset = how & 2 ? OFFSET : 0,
                             .length = how & 4 ? LENGTH : 1,
                             .is_part = (how & 2) != 0,
                             .connect_ms = 1000 * MOST_S,
                             .silent_s = MOST_S,
                             .whole_ms = 1000 * MOST_S};

    CHECK(sn_http_add(http, &asked) >= 0);
    while (sn_http_under_way(http) > 0)
        sn_http_step(http, 1000, take, &asked);
}

void fuzz_one(const uint8_t *bytes, size_t length)
{
    uint8_t how = fuzz_byte(&bytes, &length);
    char why[SN_HTTP_TEXT];

    peer_says(bytes, length);
    http = sn_http_new(why);
    CHECK(http);
    ask(how);
    ask(how >> 3);
    sn_http_free(http);
    peer_forget();
}

picture_file fuzz_seed(uint32_t number, sn_rng *rng)
{
    static const char *const heads[] = {
        "HTTP/1.1 206 Partial\r\nETag: \"an etag\"\r\nContent-Range: bytes 10-29/100\r\nContent-Length: 20\r\n\r\n",
        "HTTP/1.1 200 OK\r\netag:  W/\"x\" \r\nContent-Length: 20\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 206 P\r\ncontent-range:bytes 10-29/*\r\nContent-Length: 20\r\n\r\n",
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno",
        "HTTP/1.1 301 Moved\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\n",
        "HTTP/1.1 206 Partial\r\nContent-Range: bytes 11-30/100\r\nContent-Length: 20\r\nConnection: close\r\n\r\n"};
    static const char body[] = "01234567890123456789\r\n0\r\n\r\n";
    uint8_t said[2048], how = (uint8_t)(number * 9 + 4 + 32);
    size_t at = 0;

    for (uint32_t i = 0; i < 2; i++) {
        char longer[512];
        const char *head = heads[(number + i * sn_rng_below(rng, 8)) % 8];
        if (number % 8 >= 6) { /* a value that is as long as may be, or longer */
            snprintf(longer, sizeof longer, "HTTP/1.1 200 OK\r\n%s: %0*u\r\nContent-Length: 20\r\n\r\n",
                     number % 2 ? "ETag" : "Content-Range", SN_HTTP_TEXT - 4 + (int)sn_rng_below(rng, 8), number);
            head = longer;
        }
        size_t n = strlen(head), of_body = number % 8 == 2 ? sizeof body - 1 : 20;
        said[at] = (uint8_t)(n + of_body);
        said[at + 1] = (uint8_t)((n + of_body) >> 8);
        memcpy(said + at + 2, head, n);
        memcpy(said + at + 2 + n, body, of_body);
        at += 2 + n + of_body;
    }
    picture_file all = {malloc(at), at};
    CHECK(all.bytes);
    memcpy(all.bytes, said, at);
    return fuzz_with_header(&how, 1, all);
}
