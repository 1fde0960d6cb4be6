/*
 * test_remote.c -- samples' files on servers that answer rightly, wrongly, late, or not at all.
 *
 * The server is fake_host.h's. It is met with and without TLS. Real servers are met in tests/unit/_core/test_remote.py and
 * test_remote_tls.py.
 */
#define _GNU_SOURCE
#include "base/sn_rng.h"
#include "base/sn_status.h"
#include "check.h"
#include "fake_host.h"
#include "remote/sn_remote.h"
#include "remote/sn_resp.h"
#include "tls_front.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define FUZZED 1000000u
#else
#define FUZZED 10000000u
#endif
#define SAMPLES HOST_SAMPLES
#define MOST_BYTES 20000u
#define CLIENTS 4u
#define TURNS 1500u

static const uint8_t dataset[SN_REMOTE_DATASET] = "a dataset's name";

/* -- Answers -- */

static void check_answers(void)
{
    static const struct {
        const char *text;
        int rc;
        enum sn_answer_kind kind;
        uint64_t length;
    } cases[] = {{"+OK\r\n", 0, SN_ANSWER_OK, 0},
                 {"-ERR no\r\n", 0, SN_ANSWER_ERROR, 0},
                 {":12\r\n", 0, SN_ANSWER_NUMBER, 0},
                 {":-1\r\n", 0, SN_ANSWER_NUMBER, 0},
                 {"$5\r\nhello\r\n", 0, SN_ANSWER_BYTES, 5},
                 {"$0\r\n\r\n", 0, SN_ANSWER_BYTES, 0},
                 {"$-1\r\n", 0, SN_ANSWER_NOTHING, 0},
                 {"$100\r\n", 0, SN_ANSWER_BYTES, 100},
                 {"$101\r\n", -EPROTO, 0, 0},
                 {"$-2\r\n", -EPROTO, 0, 0},
                 {"$\r\n", -EPROTO, 0, 0},
                 {"$-\r\n", -EPROTO, 0, 0},
                 {"$5x\r\n", -EPROTO, 0, 0},
                 {"$9999999999999999999\r\n", -EPROTO, 0, 0},
                 {":\r\n", -EPROTO, 0, 0},
                 {"*1\r\n", -EPROTO, 0, 0},
                 {"HTTP/1.1 400 Bad Request\r\n", -EPROTO, 0, 0},
                 {"\n", -EPROTO, 0, 0},
                 {"+OK\n", -EPROTO, 0, 0},
                 {"", SN_BUSY, 0, 0},
                 {"$5", SN_BUSY, 0, 0},
                 {"$5\r", SN_BUSY, 0, 0}};
    sn_answer answer;
    size_t used;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc = sn_resp_answer((const uint8_t *)cases[i].text, strlen(cases[i].text), 100, &answer, &used);
        CHECK_EQUAL(rc, cases[i].rc, "%s", cases[i].text);
        if (rc == 0) {
            CHECK_EQUAL(answer.kind, cases[i].kind, "%s", cases[i].text);
            CHECK_EQUAL(answer.length, cases[i].length, "%s", cases[i].text);
            CHECK_EQUAL(used, strchr(cases[i].text, '\n') + 1 - cases[i].text, "%s", cases[i].text);
        }
    }
    uint8_t endless[SN_RESP_LINE];
    memset(endless, '+', sizeof endless);
    CHECK_EQUAL(sn_resp_answer(endless, sizeof endless - 1, 100, &answer, &used), SN_BUSY, "a line that may end");
    CHECK_EQUAL(sn_resp_answer(endless, sizeof endless, 100, &answer, &used), -EPROTO, "a line without an end");
}

/* Whatever comes, what is answered lies within what came. The bytes end where the memory ends, for ASan. */
static void fuzz_answers(sn_rng *rng)
{
    static const char *starts[] = {"$1", "$-1\r", "+OK", "-ERR ", ":1", "*3\r\n$3", ""};
    uint8_t *bytes = malloc(24);
    CHECK(bytes != NULL);

    for (uint32_t i = 0; i < FUZZED; i++) {
        uint64_t random = (uint64_t)sn_rng_u32(rng) << 32 | sn_rng_u32(rng);
        const char *start = starts[random % 7];
        size_t length = strlen(start), n = (random >> 8) % 25;
        uint8_t *at = bytes + 24 - n;
        for (size_t j = 0; j < n; j++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            at[j] = j < length && (random >> 60) ? (uint8_t)start[j]
                    : random >> 63               ? "\r\n0123456789-$+:"[random >> 40 & 15]
                                                 : (uint8_t)(random >> 32);
        }
        sn_answer answer;
        size_t used = 0;
        int rc = sn_resp_answer(at, n, 1000, &answer, &used);
        CHECK(rc == 0 || rc == SN_BUSY || rc == -EPROTO);
        if (rc == 0)
            CHECK(used >= 3 && used <= n && answer.length <= 1000 && (const uint8_t *)answer.text == at + 1 &&
                  answer.text_length == used - 3);
    }
    free(bytes);
}

static void check_commands(void)
{
    static const sn_word words[] = {{"SET", 3}, {"k", 1}, {NULL, 12}};
    static const char all[] = "*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\n";
    uint8_t to[64];

    CHECK_EQUAL(sn_resp_command(to, sizeof to, 4, words, 3), sizeof all - 1, "a value that follows");
    CHECK(memcmp(to, all, sizeof all - 1) == 0);
    for (size_t capacity = 0; capacity < sizeof all - 1; capacity++)
        CHECK_EQUAL(sn_resp_command(to, capacity, 4, words, 3), 0, "%zu bytes", capacity);
}

/* -- Clients -- */

static size_t length_of(uint32_t sample)
{
    return 1 + (sample * 2654435761u >> 8) % MOST_BYTES;
}

static void file_of(uint32_t sample, uint8_t *bytes)
{
    for (size_t i = 0; i < length_of(sample); i++)
        bytes[i] = (uint8_t)(sample * 131 + i * 7 + (i >> 8));
}

typedef struct {
    sn_remote *remote;
    uint64_t seed;
    uint32_t hits;
} client;

/* What is there is right, whatever the server says. */
static void *asks(void *argument)
{
    client *self = argument;
    sn_wish wishes[SN_REMOTE_AT_ONCE] = {0};
    uint8_t *right = malloc(MOST_BYTES + 1);
    sn_rng rng;

    CHECK(right != NULL);
    sn_rng_start(&rng, self->seed, 0, 0, 0, SN_STREAM_REST);
    for (uint32_t n, asked = 0; asked < TURNS; asked += n) {
        n = 1 + sn_rng_below(&rng, SN_REMOTE_AT_ONCE);
        n = n < TURNS - asked ? n : TURNS - asked;
        for (uint32_t i = 0; i < n; i++)
            wishes[i].sample = sn_rng_below(&rng, SAMPLES);
        sn_remote_get(self->remote, dataset, wishes, n);
        for (uint32_t i = 0; i < n; i++) {
            const sn_wish *wish = &wishes[i];
            file_of(wish->sample, right);
            if (wish->is_found) {
                CHECK_EQUAL(wish->length, length_of(wish->sample), "sample %u", wish->sample);
                CHECK(memcmp(wish->bytes, right, wish->length) == 0);
                self->hits++;
            } else {
                sn_remote_put(self->remote, dataset, wish->sample, right, length_of(wish->sample), (sn_terms){0});
            }
        }
    }
    for (uint32_t i = 0; i < SN_REMOTE_AT_ONCE; i++)
        free(wishes[i].bytes);
    free(right);
    return NULL;
}

static uint32_t ask_all(sn_remote *remote, uint64_t seed)
{
    pthread_t threads[CLIENTS];
    client clients[CLIENTS];
    uint32_t hits = 0;

    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = (client){.remote = remote, .seed = seed + i};
        CHECK(pthread_create(&threads[i], NULL, asks, &clients[i]) == 0);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        hits += clients[i].hits;
    }
    return hits;
}

static struct {
    uint16_t port; /* of TLS before the host */
    int is_used;
    sn_tls_settings settings;
} secure;

static sn_remote *client_of_host(void)
{
    sn_remote_server server = {.name = "here", .address = "127.0.0.1", .port = host.port};
    if (secure.is_used) {
        server.port = secure.port;
        server.tls = &secure.settings;
    }
    sn_remote *remote = sn_remote_new(&server, 1);
    CHECK(remote != NULL);
    return remote;
}

static void check_truth(uint64_t seed)
{
    sn_remote *remote = client_of_host();
    sn_remote_counts counts;

    CHECK_EQUAL(sn_remote_ping(remote, 0), 0, "the server is there");
    uint32_t hits = ask_all(remote, seed);
    sn_remote_read_counts(remote, 0, &counts);
    CHECK_EQUAL(counts.hits, hits, "each hit is counted");
    CHECK_EQUAL(counts.hits + counts.misses, CLIENTS * TURNS, "nobody was refused");
    CHECK(counts.stored <= SAMPLES && hits > CLIENTS * TURNS / 2);
    CHECK_EQUAL(counts.failures + counts.wrong + counts.skipped + counts.refused, 0, "%s", counts.message);
    sn_remote_free(remote);
}

/* One lie at a time from the first on, and all at a time. Then the truth again. */
static void check_lies(uint64_t seed, unsigned first)
{
    for (unsigned lie = first; lie <= LIES; lie++) {
        sn_remote *remote = client_of_host();
        sn_remote_counts counts;

        atomic_store(&host.lies, lie == LIES ? ~0u : 1u << lie);
        ask_all(remote, seed + 100 * lie);
        sn_remote_read_counts(remote, 0, &counts);
        if (lie < LIES) {
            CHECK(atomic_load(&host.lies_used[lie]) > 0);
            int is_value = lie == FLIPPED || lie == OTHERS || lie == SHORTER;
            CHECK_EQUAL(counts.wrong > 0, is_value, "lie %u", lie);
            if (lie != CLOSES) /* on a connection that was used before, another one is tried */
                CHECK_EQUAL(counts.failures > 0, !is_value, "lie %u: %s", lie, counts.message);
        }
        atomic_store(&host.lies, 0);
        struct timespec pause = {.tv_nsec = 100000000};
        for (int tries = 0; tries < 350 && sn_remote_ping(remote, 0) != 0; tries++)
            nanosleep(&pause, NULL); /* it may be left alone, for some seconds */
        CHECK_EQUAL(sn_remote_ping(remote, 0), 0, "after lie %u", lie);
        CHECK(ask_all(remote, seed) > 0);
        sn_remote_free(remote);
    }
}

/* Each sample has one server, whatever the order of the list; where one goes away, only its samples move. */
static void check_rendezvous(void)
{
    sn_remote_server servers[4] = {{.name = "a", .address = "127.0.0.1"},
                                   {.name = "b", .address = "::1"},
                                   {.name = "c", .path = "/nowhere"},
                                   {.name = "d", .address = "127.0.0.1"}};
    sn_remote_server turned[4] = {servers[3], servers[2], servers[1], servers[0]};
    sn_remote *all = sn_remote_new(servers, 4), *other = sn_remote_new(turned, 4), *three = sn_remote_new(servers, 3);
    uint32_t of[4] = {0};

    CHECK(all && other && three);
    for (uint32_t sample = 0; sample < 40000; sample++) {
        uint32_t at = sn_remote_server_of(all, dataset, sample);
        of[at]++;
        CHECK_EQUAL(sn_remote_server_of(other, dataset, sample), 3 - at, "sample %u", sample);
        if (at < 3)
            CHECK_EQUAL(sn_remote_server_of(three, dataset, sample), at, "sample %u", sample);
    }
    for (uint32_t i = 0; i < 4; i++)
        CHECK(of[i] > 9600 && of[i] < 10400); /* 4 and a half standard deviations */
    sn_remote_free(all);
    sn_remote_free(other);
    sn_remote_free(three);
    sn_remote_server wrong = {.name = "e", .address = "host.name"};
    CHECK(sn_remote_new(&wrong, 1) == NULL);
}

int main(int argc, char **argv)
{
    uint64_t seed = check_seed(argc, argv);
    sn_rng rng;

    sn_rng_start(&rng, seed, 0, 0, 0, SN_STREAM_REST);
    check_answers();
    fuzz_answers(&rng);
    check_commands();
    check_rendezvous();
    fake_host_start(seed);
    check_truth(seed);
    check_lies(seed, FLIPPED);
    secure.port = tls_front_start(host.port, &secure.settings);
    secure.is_used = 1;
    if (secure.port) {
        check_truth(seed + 1);
        check_lies(seed + 1, LIES); /* all at a time */
    } else {
        printf("no TLS: there is no libssl, or no command openssl\n");
    }
    tls_front_end();
    fake_host_end();
    return 0;
}
