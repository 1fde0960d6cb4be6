/*
 * sn_hash.h -- a checksum of bytes that other machines hand back.
 *
 * XXH64, as its specification has it (Collet, "xxHash fast digest algorithm", version 0.1.1): quick, and each
 * flipped bit changes half of the result. It finds accidents. It is no secret, and no defence against a forger.
 *
 * Lives in   private memory.
 * Callers    any.
 * Blocking   never.
 */
#ifndef SN_HASH_H
#define SN_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t sn_hash64(const void *bytes, size_t n, uint64_t seed);

#endif
