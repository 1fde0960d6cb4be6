/*
 * sn_library.h -- a shared library that is loaded at run time, by name.
 *
 * A wheel contains neither OpenSSL nor libcurl, and does not need them to be there: who calls says what to do without.
 *
 * Callers    any thread.
 * Blocking   on the files of the library.
 * Ordering   the loader's own lock.
 */
#ifndef SN_LIBRARY_H
#define SN_LIBRARY_H

#include <stddef.h>

/* For dlsym(). The first of `names` that the process has loaded already: what else uses it here found that one. Else the
 * first that can be loaded. NULL: there is none. It stays loaded. */
void *sn_library(const char *const *names, size_t n);

#endif
