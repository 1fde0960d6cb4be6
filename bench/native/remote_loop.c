/*
 * remote_loop.c -- what a GET of a file costs the client: CPU and time, on one connection.
 *
 *   remote_loop <address or path> <port, 0: a path> <bytes> <files> <gets> <at once> [<file of CAs: with TLS>]
 *   -> "<CPU us> <wall us>" of a GET
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "remote/sn_remote.h"

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    static const uint8_t dataset[SN_REMOTE_DATASET] = "remote loop";
    if (argc != 7 && argc != 8)
        return 2;
    int port = atoi(argv[2]);
    size_t length = strtoul(argv[3], NULL, 10);
    uint32_t files = (uint32_t)atoi(argv[4]), gets = (uint32_t)atoi(argv[5]);
    uint32_t at_once = (uint32_t)atoi(argv[6]);
    sn_remote_server server = {.name = "it", .port = (uint16_t)port};
    *(port ? &server.address : &server.path) = argv[1];
    sn_tls_settings tls = {.host = argv[1], .ca_file = argv[argc - 1]};
    server.tls = argc == 8 ? &tls : NULL;
    sn_remote *remote = sn_remote_new(&server, 1);
    uint8_t *file = malloc(length);
    sn_wish wishes[SN_REMOTE_AT_ONCE] = {0};
    if (!remote || !file || at_once == 0 || at_once > SN_REMOTE_AT_ONCE)
        return 1;
    for (size_t i = 0; i < length; i++)
        file[i] = (uint8_t)(i * 2654435761u >> 13);
    for (uint32_t i = 0; i < files; i++) {
        sn_remote_put(remote, dataset, i, file, length, (sn_terms){0});
        wishes->sample = i;
        sn_remote_get(remote, dataset, wishes, 1);
        if (!wishes->is_found || wishes->length != length)
            return 1;
    }
    double cpu = seconds(CLOCK_THREAD_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
    for (uint32_t i = 0; i < gets; i += at_once) {
        for (uint32_t k = 0; k < at_once; k++)
            wishes[k].sample = (i + k) % files;
        sn_remote_get(remote, dataset, wishes, at_once);
        for (uint32_t k = 0; k < at_once; k++)
            if (!wishes[k].is_found)
                return 1;
    }
    cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
    wall = seconds(CLOCK_MONOTONIC) - wall;
    printf("%.2f %.2f\n", 1e6 * cpu / gets, 1e6 * wall / gets);
    return 0;
}
