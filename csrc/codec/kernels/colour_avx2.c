#include "simd.h"

#ifdef SN_HAVE_AVX2_CODE

/* Without FMA: a fused step rounds once where Pillow's arithmetic rounds twice. */
#define SN_LOOP __attribute__((target("avx2")))
#define SN_COLOUR_TABLE sn_colour_avx2

#include "colour_loops.h"

#endif
