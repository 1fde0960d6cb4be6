/*
 * simd.h -- which instructions this processor has, asked at run time.
 *
 * The library is built for the platform's baseline; what needs more is compiled for its own
 * target, in a file of its own, and chosen here. Plain C is the reference: the vector code must
 * give the same bits, and tests compare the two. SENECA_SIMD=none in the environment keeps to
 * plain C.
 *
 * Callers    any thread.
 */
#ifndef SN_SIMD_H
#define SN_SIMD_H

#include <stdbool.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define SN_HAVE_AVX2_CODE 1
#endif

/* AVX2, FMA and F16C are here and may be used. Decided once a process. */
bool sn_simd_avx2(void);

#endif
