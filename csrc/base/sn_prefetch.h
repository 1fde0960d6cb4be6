/*
 * sn_prefetch.h -- ask for a line of memory before it is needed.
 *
 * Records of millions of samples are met at random places: each costs a miss of the caches and, worse, a
 * walk through page tables that are in no cache either. Both overlap with those of other lines only as far as
 * the processor's window of some hundred instructions reaches. So ask for the lines of a whole batch in a
 * loop that does nothing else: between the steps of a draw there would be one or two in a window, in such
 * a loop there are tens.
 *
 * Lives in   any memory.
 * Callers    any thread.     Blocking  never.
 */
#ifndef SN_PREFETCH_H
#define SN_PREFETCH_H

#include <stdint.h>

/* A line that may be asked for in vain, at whatever address.
 * The empty asm statement is meant: GCC takes a function that does nothing but prefetch for one that
 * does nothing, and leaves out the calls of it. */
static inline void sn_prefetch(const void *at)
{
    __builtin_prefetch(at);
    __asm__ volatile("");
}

/* A line that is needed: a processor drops prefetches where too many are on their way, loads it does not. */
static inline void sn_fetch(const uint64_t *at)
{
    (void)*(const volatile uint64_t *)at;
}

#endif
