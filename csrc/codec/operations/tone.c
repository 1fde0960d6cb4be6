#include "tone.h"

#include <string.h>

typedef uint32_t histogram[3][256];

/* Neighbours are often alike: two rows of counters in turn, so that one need not wait for the other. */
static void count(const uint8_t *rgb, size_t n_pixels, histogram counts)
{
    histogram odd = {{0}};
    size_t k = 0;

    memset(counts, 0, sizeof(histogram));
    for (; k + 1 < n_pixels; k += 2, rgb += 6) {
        counts[0][rgb[0]]++;
        counts[1][rgb[1]]++;
        counts[2][rgb[2]]++;
        odd[0][rgb[3]]++;
        odd[1][rgb[4]]++;
        odd[2][rgb[5]]++;
    }
    for (int c = 0; c < 3; c++) {
        if (k < n_pixels)
            counts[c][rgb[c]]++;
        for (int value = 0; value < 256; value++)
            counts[c][value] += odd[c][value];
    }
}

static void identity(uint8_t table[256])
{
    for (int value = 0; value < 256; value++)
        table[value] = (uint8_t)value;
}

static int first_of(const uint32_t counts[256])
{
    int value = 0;

    while (value < 255 && counts[value] == 0)
        value++;
    return value;
}

static int last_of(const uint32_t counts[256])
{
    int value = 255;

    while (value > 0 && counts[value] == 0)
        value--;
    return value;
}

/* In doubles, rounded as ImageOps.autocontrast() rounds them. */
static void stretch(const uint32_t counts[256], uint8_t table[256])
{
    int low = first_of(counts), high = last_of(counts);
    double scale, offset;

    identity(table);
    if (high <= low)
        return;
    scale = 255.0 / (high - low);
    offset = -low * scale;
    for (int value = low; value <= high; value++) {
        int stretched = (int)(value * scale + offset);

        table[value] = (uint8_t)(stretched < 0 ? 0 : stretched > 255 ? 255 : stretched);
    }
}

/* ImageOps.equalize(): a value becomes the number of pixels below it, in steps of a 255th of all but
 * those of the greatest value. */
static void equalize(const uint32_t counts[256], uint8_t table[256])
{
    int low = first_of(counts), high = last_of(counts);
    uint64_t all = 0, step, below;

    for (int value = 0; value < 256; value++)
        all += counts[value];
    step = (all - counts[high]) / 255;
    identity(table);
    if (low == high || step == 0)
        return;
    below = step / 2;
    for (int value = 0; value < 256; value++) {
        uint64_t level = below / step;

        table[value] = (uint8_t)(level < 255 ? level : 255);
        below += counts[value];
    }
}

static void look_up(uint8_t *rgb, size_t n_pixels, uint8_t tables[3][256])
{
    for (size_t k = 0; k < n_pixels; k++, rgb += 3) {
        rgb[0] = tables[0][rgb[0]];
        rgb[1] = tables[1][rgb[1]];
        rgb[2] = tables[2][rgb[2]];
    }
}

void sn_tone_run(const sn_tone *tone, uint8_t *rgb, size_t n_pixels)
{
    size_t n = 3 * n_pixels;
    uint32_t amount = tone->amount;
    uint8_t mask = (uint8_t)(0xff00u >> (amount & 15)), tables[3][256];
    histogram counts;

    switch (tone->kind) {
    case SN_INVERT:
        for (size_t k = 0; k < n; k++)
            rgb[k] = (uint8_t)~rgb[k];
        break;
    case SN_POSTERIZE:
        for (size_t k = 0; k < n; k++)
            rgb[k] &= mask;
        break;
    case SN_SOLARIZE:
        if (amount > 255)
            break;
        for (size_t k = 0; k < n; k++)
            rgb[k] = rgb[k] < (uint8_t)amount ? rgb[k] : (uint8_t)~rgb[k];
        break;
    case SN_SOLARIZE_ADD:
        for (size_t k = 0; k < n; k++) /* 127 + 128 is 255 */
            rgb[k] = rgb[k] < 128 ? (uint8_t)(rgb[k] + amount) : rgb[k];
        break;
    case SN_PERMUTE:
        for (size_t k = 0; k < n; k += 3) {
            uint8_t pixel[3] = {rgb[k], rgb[k + 1], rgb[k + 2]};

            for (int c = 0; c < 3; c++)
                rgb[k + c] = pixel[amount >> 2 * c & 3];
        }
        break;
    case SN_AUTOCONTRAST:
    case SN_EQUALIZE:
        count(rgb, n_pixels, counts);
        for (int c = 0; c < 3; c++)
            (tone->kind == SN_EQUALIZE ? equalize : stretch)(counts[c], tables[c]);
        look_up(rgb, n_pixels, tables);
        break;
    }
}
