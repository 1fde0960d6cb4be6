/*
 * sample_files.h -- a folder with a file for each sample, which goes at the end of the program.
 *
 * Callers    one thread; once a program.
 */
#ifndef SAMPLE_FILES_H
#define SAMPLE_FILES_H

#include "pictures.h"

#define SAMPLE_PATH 96 /* bytes of a path, with its end */

/* Make a folder below `above`, and the paths of n files in it: `paths` has room for n * SAMPLE_PATH bytes, and path_at says
 * where each begins. Both are the caller's, and live as long as the program. */
void sample_files_begin(const char *above, uint32_t n, char *paths, uint64_t *path_at);

void sample_files_write(uint32_t number, const picture_file *content);

#endif
