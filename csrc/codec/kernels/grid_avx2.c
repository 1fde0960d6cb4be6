#include "simd.h"

#ifdef SN_HAVE_AVX2_CODE

#include <immintrin.h>
#include <string.h>

#define SN_GRID_LOAD(made, at)                                                                                         \
    do {                                                                                                               \
        int word_;                                                                                                     \
        memcpy(&word_, at, sizeof word_);                                                                              \
        word_ = (word_ & 0xffffff) | 1 << 24;                                                                          \
        made = (four)_mm_cvtepi32_ps(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(word_)));                                     \
    } while (0)
#define SN_GRID_PACK(made, of)                                                                                         \
    do {                                                                                                               \
        __m128i words_ = _mm_cvtps_epi32((__m128)(of));                                                                \
        int word_;                                                                                                     \
        words_ = _mm_packus_epi32(words_, words_);                                                                     \
        word_ = _mm_cvtsi128_si32(_mm_packus_epi16(words_, words_));                                                   \
        memcpy(made, &word_, sizeof word_);                                                                            \
    } while (0)

/* Without FMA: the same bits as plain C. */
#define SN_LOOP __attribute__((target("avx2")))
#define SN_GRID_TABLE sn_grid_avx2

#include "grid_loops.h"

#endif
