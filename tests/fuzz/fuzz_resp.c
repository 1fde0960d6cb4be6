/*
 * fuzz_resp.c -- a server of files and copies answers with any bytes: what is given out as a sample's file is one of ours.
 *
 *   what | answers of each connection --> sn_resp_answer; GETs of files; the roster of hosts, and copies
 */
#include "base/sn_status.h"
#include "check.h"
#include "fuzz.h"
#include "peer.h"
#include "remote/sn_hosts.h"
#include "remote/sn_remote.h"

#include <errno.h>

#define MOST 4096u
#define FILE_BYTES 40u
#define SAMPLE 3u

static const uint8_t dataset[SN_REMOTE_DATASET] = "a dataset's name";

void fuzz_begin(void)
{
}

static void answer(const uint8_t *bytes, size_t length)
{
    sn_answer found;
    size_t used = 0;
    int rc = sn_resp_answer(bytes, length, MOST, &found, &used);

    CHECK(rc == 0 || rc == SN_BUSY || rc == -EPROTO);
    if (rc == 0)
        CHECK(used >= 3 && used <= length && found.length <= MOST && (const uint8_t *)found.text == bytes + 1 &&
              found.text_length == used - 3);
}

static void file_of(uint32_t sample, uint8_t bytes[FILE_BYTES])
{
    for (uint32_t i = 0; i < FILE_BYTES; i++)
        bytes[i] = (uint8_t)(sample * 31 + i);
}

static sn_remote *client(void)
{
    sn_remote_server server = {.name = "here", .path = "/nowhere"};
    sn_remote *remote = sn_remote_new(&server, 1);

    CHECK(remote);
    return remote;
}

static void get_files(uint8_t n)
{
    sn_remote *remote = client();
    sn_wish wishes[SN_REMOTE_AT_ONCE] = {0};
    sn_remote_counts counts;
    uint64_t sum = 0;

    n = 1 + n % SN_REMOTE_AT_ONCE;
    for (int again = 0; again < 2; again++) {
        for (uint32_t i = 0; i < n; i++) {
            wishes[i].sample = SAMPLE + i;
            wishes[i].most = i % 2 ? MOST : 0;
        }
        sn_remote_get(remote, dataset, wishes, n);
        for (uint32_t i = 0; i < n; i++)
            for (size_t k = 0; wishes[i].is_found && k < wishes[i].length; k++)
                sum += wishes[i].bytes[k];
    }
    sn_remote_read_counts(remote, 0, &counts);
    CHECK(counts.hits <= 2u * n && strnlen(counts.message, SN_TLS_WHY) < SN_TLS_WHY);
    for (uint32_t i = 0; i < n; i++)
        free(wishes[i].bytes);
    CHECK(sum <= UINT32_MAX);
    sn_remote_free(remote);
}

static void meet(void)
{
    sn_remote *remote = client();
    sn_hosts *hosts = sn_hosts_new(remote, dataset, 7);
    sn_wish wish = {.sample = SAMPLE, .most = MOST};
    sn_rendezvous near;

    CHECK(hosts);
    sn_hosts_begin(hosts, dataset);
    sn_hosts_meet(hosts);
    sn_hosts_near(hosts, 100, &near);
    CHECK(near.n <= SN_MOST_HOSTS);
    sn_hosts_get(hosts, dataset, &wish, 1);
    free(wish.bytes);
    sn_hosts_free(hosts);
    sn_remote_free(remote);
}

void fuzz_one(const uint8_t *bytes, size_t length)
{
    uint8_t what = fuzz_byte(&bytes, &length);

    peer_says(bytes, length);
    if (what % 4 == 0)
        answer(bytes, length);
    else if (what % 4 == 1)
        meet();
    else
        get_files(what / 4);
    peer_forget();
}

/* -- Seeds: values as sn_remote_put() sends them -- */

static size_t value_of(uint32_t sample, const uint8_t *file, size_t length, uint8_t *value, size_t room)
{
    uint8_t heard[1024];
    static const uint8_t silence[2];
    sn_remote *remote = client();

    peer_says(silence, sizeof silence);
    sn_remote_put(remote, dataset, sample, file, length, (sn_terms){.replaces = 1});
    size_t n = peer_heard(heard, sizeof heard);
    peer_forget();
    sn_remote_free(remote);
    size_t end = n - 2, value_length = length + 32; /* the trailer, and a line's end */
    CHECK(n > value_length && value_length <= room);
    memcpy(value, heard + end - value_length, value_length);
    return value_length;
}

static size_t append(uint8_t *to, const char *line, const uint8_t *value, size_t length)
{
    size_t at = strlen(line);

    memcpy(to, line, at);
    if (value) {
        memcpy(to + at, value, length);
        memcpy(to + at + length, "\r\n", 2);
        at += length + 2;
    }
    return at;
}

picture_file fuzz_seed(uint32_t number, sn_rng *rng)
{
    static const char *const lines[] = {"$-1\r\n", "-LOADING the dataset\r\n", "+OK\r\n", ":1\r\n", "$0\r\n\r\n"};
    uint8_t what = (uint8_t)number, file[FILE_BYTES], value[128], said[1024], roster[48] = {9, 0, 0, 0, 0, 0, 0, 0, 1};
    char line[32];
    size_t at = 0;

    if (what % 4 == 0) {
        at = append(said, lines[number / 4 % 5], NULL, 0);
    } else {
        for (uint32_t i = 0; i < 1 + sn_rng_below(rng, 3); i++) {
            size_t n, begin = at;
            at += 2;
            for (uint32_t sample = SAMPLE; sample < SAMPLE + 4; sample++) {
                file_of(sample, file);
                n = what % 4 == 1 && i == 0 ? value_of(UINT32_MAX, roster, sizeof roster, value, sizeof value)
                                            : value_of(sample, file, FILE_BYTES, value, sizeof value);
                snprintf(line, sizeof line, "$%zu\r\n", n);
                if (sn_rng_below(rng, 4) == 0)
                    at += append(said + at, lines[sn_rng_below(rng, 5)], NULL, 0);
                else
                    at += append(said + at, line, value, n);
                if (at > sizeof said - 200)
                    break;
            }
            said[begin] = (uint8_t)(at - begin - 2);
            said[begin + 1] = (uint8_t)((at - begin - 2) >> 8);
            if (at > sizeof said - 600)
                break;
        }
    }
    picture_file all = {malloc(at), at};
    CHECK(all.bytes);
    memcpy(all.bytes, said, at);
    return fuzz_with_header(&what, 1, all);
}
