/*
 * library.h -- which libjpeg-turbo this process has loaded.
 *
 *   spans of memory --(the caller hashes them)--> a digest that names the library
 *
 * Another build of libjpeg-turbo may make other pixels of the same file. A library does not give its
 * version at run time, and the version of the headers is not that of a library that was upgraded
 * later. Therefore the code and constants that are in memory name it.
 *
 * Callers    any thread.
 * Blocking   for the lock of the dynamic linker, a moment.
 * Owns       nothing: the memory is the library's, which stays loaded.
 */
#ifndef SN_LIBRARY_H
#define SN_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const uint8_t *start;
    size_t length;
} sn_span;

#define SN_LIBRARY_SPANS 8

/* The read-only segments of the library that decodes JPEGs, in their order in its file. They have the
 * same bytes in every process, wherever they are mapped. Returns how many there are, at least 1. */
int sn_jpeg_library(sn_span spans[SN_LIBRARY_SPANS]);

#endif
