#define _GNU_SOURCE
#include "sn_library.h"

#include <dlfcn.h>

/* A program may have the same library linked into itself, whose names must not get mixed with these: DEEPBIND, which
 * sanitizers do not allow. */
void *sn_library(const char *const *names, size_t n)
{
    int how = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    void *library = NULL;

#if defined(RTLD_DEEPBIND) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    how |= RTLD_DEEPBIND;
#endif
    for (int is_new = 0; is_new < 2 && !library; is_new++)
        for (size_t i = 0; i < n && !library; i++)
            library = dlopen(names[i], is_new ? how : how | RTLD_NOLOAD);
    return library;
}
