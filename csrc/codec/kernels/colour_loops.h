/*
 * colour_loops.h -- the bodies of colour_kernels.h, written so that a compiler makes vectors of
 * them: pixels are parted into three planes a block at a time, and no loop over a plane branches.
 *
 * Included by each file that compiles them, which says for which target:
 *   SN_LOOP            what stands before each function
 *   SN_COLOUR_TABLE    the name of the table of functions
 */
#include "colour_kernels.h"

#define BLOCK 512 /* pixels; six planes of them stay in the first-level cache */

typedef struct {
    uint8_t red[BLOCK], green[BLOCK], blue[BLOCK];
} planes;

SN_LOOP static inline void part(const uint8_t *rgb, size_t n, planes *to)
{
    for (size_t k = 0; k < n; k++) {
        to->red[k] = rgb[3 * k];
        to->green[k] = rgb[3 * k + 1];
        to->blue[k] = rgb[3 * k + 2];
    }
}

SN_LOOP static inline void join(const planes *from, size_t n, uint8_t *rgb)
{
    for (size_t k = 0; k < n; k++) {
        rgb[3 * k] = from->red[k];
        rgb[3 * k + 1] = from->green[k];
        rgb[3 * k + 2] = from->blue[k];
    }
}

static inline int grey_of(int red, int green, int blue)
{
    return (9798 * red + 19235 * green + 3735 * blue + (1 << 14)) >> 15;
}

SN_LOOP static uint64_t grey_sum(const uint8_t *rgb, size_t n_pixels)
{
    uint64_t sum = 0;

    for (size_t done = 0; done < n_pixels; done += BLOCK) {
        size_t n = n_pixels - done < BLOCK ? n_pixels - done : BLOCK;
        int of_block = 0;
        planes p;

        part(rgb + 3 * done, n, &p);
        for (size_t k = 0; k < n; k++)
            of_block += grey_of(p.red[k], p.green[k], p.blue[k]);
        sum += (uint64_t)of_block;
    }
    return sum;
}

SN_LOOP static void saturate(uint8_t *rgb, size_t n_pixels, float factor)
{
    for (size_t done = 0; done < n_pixels; done += BLOCK) {
        size_t n = n_pixels - done < BLOCK ? n_pixels - done : BLOCK;
        planes p;

        part(rgb + 3 * done, n, &p);
        for (size_t k = 0; k < n; k++) {
            float grey = (float)grey_of(p.red[k], p.green[k], p.blue[k]);

            p.red[k] = sn_blended(grey, p.red[k], factor);
            p.green[k] = sn_blended(grey, p.green[k], factor);
            p.blue[k] = sn_blended(grey, p.blue[k], factor);
        }
        join(&p, n, rgb + 3 * done);
    }
}

static inline int max_of(int a, int b)
{
    return a > b ? a : b;
}

static inline int min_of(int a, int b)
{
    return a < b ? a : b;
}

/* The circle of hues has 1530 places here, six edges of 255. How far a channel is from full, in
 * 255ths: red is full on the sixth edge and the first, falls on the second, rises on the fifth.
 * Green is red two edges on, blue is red four edges on. */
static inline int lack(int place)
{
    place -= 1530 & -(place >= 1530);
    return max_of(0, min_of(255, min_of(place - 255, 1275 - place)));
}

static inline uint8_t shade(float value, float saturation, int lacking)
{
    return (uint8_t)(value * (1.0f - saturation * ((float)lacking / 255.0f)) + 0.5f);
}

/* Pillow's way to HSV and back, whose floats and doubles round as they do there. Where several
 * cases are distinguished, masks of ones and zeros choose. */
SN_LOOP static void turn_hue(uint8_t *rgb, size_t n_pixels, uint8_t turn)
{
    for (size_t done = 0; done < n_pixels; done += BLOCK) {
        size_t n = n_pixels - done < BLOCK ? n_pixels - done : BLOCK;
        planes from, to;

        part(rgb + 3 * done, n, &from);
        for (size_t k = 0; k < n; k++) {
            int r = from.red[k], g = from.green[k], b = from.blue[k];
            int high = max_of(r, max_of(g, b)), low = min_of(r, min_of(g, b));
            int spread = high - low, divisor = spread + (spread == 0);
            int is_red = -(r == high), is_green = -(g == high) & ~is_red;
            int is_blue = ~(is_red | is_green);

            /* In sixths of the circle, from the middle of the highest channel's two. */
            int plus = high - ((b & is_red) | (r & is_green) | (g & is_blue));
            int minus = high - ((g & is_red) | (b & is_green) | (r & is_blue));
            double middle = (double)((2 & is_green) | (4 & is_blue));
            float sixths =
                (float)(middle + (double)((float)plus / (float)divisor) - (double)((float)minus / (float)divisor));
            double around = (double)sixths / 6.0 + 1.0;
            float circle = (float)(around - (double)(int)around);

            int hue = (int)((double)circle * 255.0) & -(spread != 0);
            float share = (float)spread / (float)(high + (high == 0));
            float saturation = (float)(int)((double)share * 255.0) / 255.0f;
            int place = 6 * ((hue + turn) & 255);

            to.red[k] = shade((float)high, saturation, lack(place));
            to.green[k] = shade((float)high, saturation, lack(place + 1020));
            to.blue[k] = shade((float)high, saturation, lack(place + 510));
        }
        join(&to, n, rgb + 3 * done);
    }
}

const sn_colour_kernels SN_COLOUR_TABLE = {grey_sum, saturate, turn_hue};
