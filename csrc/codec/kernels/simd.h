/*
 * simd.h -- whether the code in vector instructions is used, asked at run time.
 *
 *   SN_HAVE_AVX2_CODE   x86-64: AVX2, and FMA, F16C, BMI2 and LZCNT, which came with it
 *   SN_HAVE_NEON_CODE   64-bit ARM: NEON, which is part of the baseline
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
#elif defined(__AARCH64EL__) && defined(__ARM_NEON)
#define SN_HAVE_NEON_CODE 1
#endif

#if defined(SN_HAVE_AVX2_CODE) || defined(SN_HAVE_NEON_CODE)
#define SN_HAVE_SIMD_CODE 1
#endif

/* There is vector code, this processor runs it, and it may be used. Decided once a process. */
bool sn_simd_usable(void);

#endif
