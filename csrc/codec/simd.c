#include "simd.h"

#include <stdlib.h>
#include <string.h>

static bool detect(void)
{
#ifdef SN_HAVE_AVX2_CODE
    const char *wanted = getenv("SENECA_SIMD");

    if (wanted != NULL && strcmp(wanted, "none") == 0)
        return false;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

bool sn_simd_avx2(void)
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
