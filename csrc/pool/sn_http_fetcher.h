/*
 * sn_http_fetcher.h -- a fetcher without Python: many requests at a time by HTTP, whose bytes go to the pool.
 *
 *   pool --run()--> wanted --the caller finds URLs, add()--> under way --> pool
 *                                                                 \--> missed: the caller asks in another way
 *
 * Lives in   private memory.
 * Callers    one thread, between sn_pool_enter() and sn_pool_leave().
 * Blocking   sn_http_fetcher_run(). If the pool is to end meanwhile, it notices within SN_HTTP_FETCHER_POLL_MS.
 */
#ifndef SN_HTTP_FETCHER_H
#define SN_HTTP_FETCHER_H

#include "../http/sn_http.h"
#include "sn_readers.h"

#define SN_HTTP_FETCHER_WANTED 16 /* ranges that are handed out at a time, at the most */
#define SN_HTTP_FETCHER_POLL_MS 20

/* A range that has not been fetched, or of which another object came. */
typedef struct {
    sn_wanted wanted;
    long status; /* of HTTP; 0: no server has answered */
} sn_missed;

typedef struct {
    sn_http *http;
    sn_wanted wanted[SN_HTTP_FETCHER_WANTED]; /* of the last run; there is room to fetch them */
    uint32_t n_wanted;
    sn_wanted under_way[SN_HTTP_AT_ONCE]; /* by the numbers of their requests */
    char etags[SN_HTTP_AT_ONCE][SN_HTTP_TEXT];
    sn_missed missed[SN_HTTP_AT_ONCE]; /* since the run before the last */
    uint32_t n_missed;
    sn_pool *pool; /* during a run */
} sn_http_fetcher;

/* Bring what comes to the pool, until it wants more, or something is missed. 0; SN_E_CLOSED: the pool ends. */
int sn_http_fetcher_run(sn_http_fetcher *self, sn_pool *pool);

/* Begin to fetch what is wanted. The request says where it is, and need not say which bytes. If that fails, it is missed. */
void sn_http_fetcher_add(sn_http_fetcher *self, uint32_t which, sn_http_request request);

#endif
