/*
 * sn_rendezvous.h -- which of several hosts makes the copy of a sample, where all make the same.
 *
 * Each sample has one *owner*: the host whose name and the sample have the highest hash together (rendezvous hashing).
 * The owner makes the copy and leaves it on a server. The others ask for it there, and make it if it is not there.
 * Hosts may be of other opinions about who is near. Then a copy is made twice, or asked for in vain.
 *
 * One sample in SN_PROBE is always left and asked for. So a host that has stopped to ask, because copies did not pay, sees
 * when they do again.
 *
 * Lives in   private memory.
 */
#ifndef SN_RENDEZVOUS_H
#define SN_RENDEZVOUS_H

#include <stdint.h>

#include "sn_rng.h"

#define SN_MOST_HOSTS 64u /* others */
#define SN_PROBE 16u

typedef struct {
    uint64_t self, others[SN_MOST_HOSTS]; /* names of hosts */
    uint32_t n;                           /* others; 0: there are none */
    int asks;                             /* this host: copies pay here */
    int leaves;                           /* another host asks */
} sn_rendezvous;

/* The task of a copy's maker with regard to other hosts. */
enum sn_role {
    SN_ALONE = 0,
    SN_LEAVES_COPY = 1,  /* it makes the copy for all hosts */
    SN_ASKS_FOR_COPY = 2 /* another host was to; what that has not left is made for this host alone */
};

static inline uint64_t sn_rendezvous_hash(uint32_t sample)
{
    return sn_mix64((uint64_t)sample + 1);
}

static inline int sn_rendezvous_is_probe(uint32_t sample)
{
    return sn_rendezvous_hash(sample) % SN_PROBE == 0;
}

static inline enum sn_role sn_rendezvous_role(const sn_rendezvous *near, uint32_t sample)
{
    uint64_t of_sample = sn_rendezvous_hash(sample), own = sn_mix64(of_sample ^ near->self);
    int is_probe = sn_rendezvous_is_probe(sample);

    if (near->n == 0)
        return SN_ALONE;
    for (uint32_t i = 0; i < near->n; i++)
        if (sn_mix64(of_sample ^ near->others[i]) > own)
            return near->asks || is_probe ? SN_ASKS_FOR_COPY : SN_ALONE;
    return near->leaves || is_probe ? SN_LEAVES_COPY : SN_ALONE;
}

#endif
