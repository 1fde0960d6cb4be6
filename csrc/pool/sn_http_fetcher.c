#include "sn_http_fetcher.h"

#include <stdio.h>
#include <string.h>

#include "../base/sn_status.h"

#define WORTH 8       /* ranges for which the caller is asked for URLs */
#define PATIENCE_MS 2 /* for so many; then fewer will do */
#define IDLE_MS 60000 /* the pool wakes us when it ends */

static void miss(sn_http_fetcher *self, const sn_wanted *wanted, long status)
{
    self->missed[self->n_missed++] = (sn_missed){*wanted, status};
}

static void take(void *data, uint32_t request, int rc, sn_http_answer *answer)
{
    sn_http_fetcher *self = data;
    const sn_wanted *wanted = &self->under_way[request];

    if (rc == 0 && strcmp(answer->etag, self->etags[request]) == 0)
        sn_pool_fetched_in(self->pool, wanted->ticket, &answer->bytes, &answer->capacity, wanted->length);
    else
        miss(self, wanted, answer->status);
}

void sn_http_fetcher_add(sn_http_fetcher *self, uint32_t which, sn_http_request request)
{
    const sn_wanted *wanted = &self->wanted[which];

    request.offset = wanted->offset;
    request.length = wanted->length;
    int number = sn_http_add(self->http, &request);
    if (number < 0) {
        miss(self, wanted, 0);
        return;
    }
    self->under_way[number] = *wanted;
    snprintf(self->etags[number], sizeof self->etags[number], "%s", request.etag);
}

static uint32_t n_in_hand(const sn_http_fetcher *self)
{
    return self->n_wanted + sn_http_under_way(self->http);
}

/* Ask the pool what it wants, while there is room. If nothing is in hand there is nothing else to wait for. */
static int ask(sn_http_fetcher *self)
{
    while (self->n_wanted < SN_HTTP_FETCHER_WANTED && n_in_hand(self) < SN_HTTP_AT_ONCE) {
        int rc = sn_pool_next_fetch(self->pool, &self->wanted[self->n_wanted], n_in_hand(self) ? 0 : IDLE_MS);
        if (rc != 0)
            return rc == SN_BUSY ? 0 : rc;
        self->n_wanted++;
    }
    return sn_pool_ends(self->pool) ? SN_E_CLOSED : 0;
}

/* Whether the caller is to be asked for URLs now, for which it needs the GIL. `since_ms`: when the first was wanted. */
static int is_worth(const sn_http_fetcher *self, int64_t since_ms, int64_t now_ms)
{
    uint32_t n = self->n_wanted;

    return n >= WORTH || (n && (n >= sn_http_under_way(self->http) || now_ms - since_ms >= PATIENCE_MS));
}

int sn_http_fetcher_run(sn_http_fetcher *self, sn_pool *pool)
{
    int64_t since_ms = 0;

    self->pool = pool;
    self->n_wanted = 0;
    while (self->n_missed == 0) {
        int rc = ask(self);
        if (rc != 0)
            return rc;
        int64_t now_ms = sn_now_ms(CLOCK_MONOTONIC);
        if (self->n_wanted && since_ms == 0)
            since_ms = now_ms;
        if (is_worth(self, since_ms, now_ms))
            break;
        sn_http_step(self->http, n_in_hand(self) < SN_HTTP_AT_ONCE ? 1 : SN_HTTP_FETCHER_POLL_MS, take, self);
    }
    return 0;
}
