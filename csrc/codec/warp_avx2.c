#include "simd.h"

#ifdef SN_HAVE_AVX2_CODE

#include <immintrin.h>
#include <string.h>

#define SN_WARP_LOAD(made, at)                                                                     \
    do {                                                                                           \
        int word_;                                                                                 \
        memcpy(&word_, at, sizeof word_);                                                          \
        made = (doubles)_mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(word_)));           \
    } while (0)
#define SN_WARP_PACK(made, of)                                                                     \
    do {                                                                                           \
        __m128i words_ = _mm256_cvttpd_epi32((__m256d)(of));                                       \
        int word_;                                                                                 \
        words_ = _mm_packus_epi32(words_, words_);                                                 \
        word_ = _mm_cvtsi128_si32(_mm_packus_epi16(words_, words_));                               \
        memcpy(made, &word_, sizeof word_);                                                        \
    } while (0)

/* Without FMA: a fused step rounds once where Pillow's arithmetic rounds twice. */
#define SN_LOOP __attribute__((target("avx2")))
#define SN_WARP_TABLE sn_warp_avx2

#include "warp_loops.h"

#endif
