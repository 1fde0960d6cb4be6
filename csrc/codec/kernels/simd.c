#include "simd.h"

#include <stdlib.h>
#include <string.h>

#ifdef SN_HAVE_AVX2_CODE
#include <cpuid.h>

#define BIT_LZCNT (1u << 5)

/* Compilers before GCC 11 do not know "f16c" and "lzcnt" in __builtin_cpu_supports(). Whether the system keeps the wide
 * registers is asked with "avx2". */
static bool has_f16c_and_lzcnt(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0 && __get_cpuid(0x80000001, &a, &b, &c, &d) &&
           (c & BIT_LZCNT) != 0;
}
#endif

static bool detect(void)
{
    const char *wanted = getenv("SENECA_SIMD");

    if (wanted != NULL && strcmp(wanted, "none") == 0)
        return false;
#if defined(SN_HAVE_AVX2_CODE)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
           has_f16c_and_lzcnt();
#elif defined(SN_HAVE_NEON_CODE)
    return true;
#else
    return false;
#endif
}

bool sn_simd_usable(void)
{
    /* 0: not asked yet. Two threads may ask at once; both find the same answer, and nothing else
     * is published with it, hence relaxed. */
    static int known;
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (answer == 0) {
        answer = detect() ? 1 : -1;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer > 0;
}
