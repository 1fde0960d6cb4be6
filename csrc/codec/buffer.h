/*
 * buffer.h -- scratch memory that grows and is kept.
 *
 * Lives in   a codec; released by its sn_codec_free().
 * Callers    the one thread that uses the codec.
 * Errors     -ENOMEM; the buffer is then empty and may be used again.
 */
#ifndef SN_BUFFER_H
#define SN_BUFFER_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Vector code reads a few bytes past the last pixel of a row: every buffer ends in this many
 * bytes that belong to no pixel. */
#define SN_BUFFER_SLACK 96

typedef struct {
    uint8_t *data;
    size_t capacity; /* bytes that may be asked for; the slack comes on top */
} sn_buffer;

/* Make room for `size` bytes. What was in the buffer is lost when it grows: no caller grows a
 * buffer that it still reads, so nothing is copied. */
static inline int sn_buffer_reserve(sn_buffer *buffer, size_t size)
{
    if (size <= buffer->capacity && buffer->data != NULL)
        return 0;
    free(buffer->data);
    buffer->capacity = 0;
    buffer->data = size <= SIZE_MAX - SN_BUFFER_SLACK ? malloc(size + SN_BUFFER_SLACK) : NULL;
    if (buffer->data == NULL)
        return -ENOMEM;
    buffer->capacity = size;
    return 0;
}

static inline void sn_buffer_release(sn_buffer *buffer)
{
    free(buffer->data);
    buffer->data = NULL;
    buffer->capacity = 0;
}

#endif
