/*
 * rect.h -- a rectangle of pixels.
 */
#ifndef SN_RECT_H
#define SN_RECT_H

#include <stdint.h>

typedef struct {
    uint32_t top, left, height, width;
} sn_rect;

#endif
