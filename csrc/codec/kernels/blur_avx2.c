#include "simd.h"

#ifdef SN_HAVE_AVX2_CODE

/* Without FMA: the same bits as plain C. */
#define SN_LOOP __attribute__((target("avx2")))
#define SN_BLUR_TABLE sn_blur_avx2

#include "blur_loops.h"

#endif
