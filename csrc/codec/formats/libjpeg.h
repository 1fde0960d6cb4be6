/*
 * libjpeg.h -- one picture that libjpeg-turbo decodes from memory: its errors come back as status codes, its work is bounded.
 *
 *   sn_libjpeg_init --> [ sn_libjpeg_attempt(step) --> step calls libjpeg; an error ends it ]* --> sn_libjpeg_close
 *
 * libjpeg ends by calling error_exit(), which must not return. Here that jumps back into sn_libjpeg_attempt().
 *
 * Callers    one thread at a time an sn_libjpeg.
 * Blocking   never.
 * Owns       libjpeg's memory for the picture, from sn_libjpeg_read_header() to sn_libjpeg_close().
 */
#ifndef SN_LIBJPEG_H
#define SN_LIBJPEG_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

typedef struct {
    struct jpeg_decompress_struct info; /* its client_data is this sn_libjpeg */
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    int rc;        /* why `jump` was taken */
    bool created;  /* `info` holds memory */
    char *message; /* the caller's: why a step has failed */
    size_t room;   /* for the message */
    uint64_t max_pixels;
    int max_scans; /* of the picture that is open */
} sn_libjpeg;

/* Once. Pictures of more than max_pixels fail. `message`, of `room` bytes, outlives it. */
void sn_libjpeg_init(sn_libjpeg *lib, uint64_t max_pixels, char *message, size_t room);

/* Run a step, in which libjpeg and sn_libjpeg_fail() may be called. The step owns nothing that a jump over it would leak.
 * SN_OK; the status with which it failed. */
int sn_libjpeg_attempt(sn_libjpeg *lib, void (*step)(void *), void *argument);

/* In a step: begin with these bytes, which are the whole file. With `saves_app1`, segments of Exif and XMP are kept. */
void sn_libjpeg_read_header(sn_libjpeg *lib, const uint8_t *bytes, size_t length, bool saves_app1);

/* In a step: end it. */
void sn_libjpeg_fail(sn_libjpeg *lib, int rc, const char *format, ...) __attribute__((noreturn, format(printf, 3, 4)));

/* Free what the picture took. Another may follow. */
void sn_libjpeg_close(sn_libjpeg *lib);

#endif
