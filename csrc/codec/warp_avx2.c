#include "simd.h"

#ifdef SN_HAVE_AVX2_CODE

/* Without FMA: a fused step rounds once where Pillow's arithmetic rounds twice. */
#define SN_LOOP __attribute__((target("avx2")))
#define SN_WARP_TABLE sn_warp_avx2

#include "warp_loops.h"

#endif
