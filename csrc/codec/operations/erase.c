#include "erase.h"

#include <math.h>
#include <stdbool.h>

#include "../formats/jpeg.h"
#include "../kernels/element.h"

#define TRIES 10 /* torchvision's */

static bool draw_box(const sn_erase *erase, sn_rng *rng, uint32_t height, uint32_t width, uint32_t n_boxes,
                     sn_rect *box)
{
    double area = (double)height * width / n_boxes;
    double log_low = log(erase->ratio[0]), log_high = log(erase->ratio[1]);

    for (int i = 0; i < TRIES; i++) {
        double target = area * sn_rng_uniform(rng, erase->scale[0], erase->scale[1]);
        double ratio = exp(sn_rng_uniform(rng, log_low, log_high)); /* height / width */
        double h = rint(sqrt(target * ratio)), w = rint(sqrt(target / ratio));

        if (h < height && w < width) {
            box->height = (uint32_t)h;
            box->width = (uint32_t)w;
            box->top = sn_rng_below(rng, height - box->height + 1);
            box->left = sn_rng_below(rng, width - box->width + 1);
            return true;
        }
    }
    return false;
}

/* Standard normal numbers, two at a time (Box and Muller 1958). */
typedef struct {
    sn_rng *rng;
    bool has_spare;
    float spare;
} normal;

static float next_normal(normal *numbers)
{
    double up, turn;
    float radius, angle;

    if (numbers->has_spare) {
        numbers->has_spare = false;
        return numbers->spare;
    }
    up = (sn_rng_u32(numbers->rng) + 1.0) * 0x1p-32; /* in (0, 1]: it has a logarithm */
    turn = sn_rng_u32(numbers->rng) * 0x1p-32;
    radius = sqrtf(-2 * logf((float)up));
    angle = (float)(2 * 3.14159265358979323846 * turn);
    numbers->spare = radius * sinf(angle);
    numbers->has_spare = true;
    return radius * cosf(angle);
}

/* The number that each channel of a box gets, or with SN_NOISE_VALUES the mean of its numbers. */
static void draw_value(const sn_erase *erase, normal *numbers, float value[3])
{
    for (int c = 0; c < 3; c++) {
        float noise = erase->noise == SN_NOISE_COLOURS ? erase->deviation[c] * next_normal(numbers) : 0;

        value[c] = erase->value[c] + noise;
    }
}

static void paint(const sn_plan *plan, normal *numbers, const sn_rect *box, uint32_t height, uint32_t width, void *out)
{
    const sn_erase *erase = &plan->erase;
    size_t step = plan->channels_last ? 3 : 1;
    size_t plane = plan->channels_last ? 1 : (size_t)height * width;
    uint32_t element[3];
    float value[3];

    draw_value(erase, numbers, value);
    for (int c = 0; c < 3; c++)
        element[c] = sn_element(plan->dtype, value[c]);
    for (uint32_t y = box->top; y < box->top + box->height; y++)
        for (uint32_t x = box->left; x < box->left + box->width; x++)
            for (size_t c = 0; c < 3; c++) {
                size_t place = ((size_t)y * width + x) * step + c * plane;

                if (erase->noise == SN_NOISE_VALUES) {
                    float noisy = erase->value[c] + erase->deviation[c] * next_normal(numbers);

                    element[c] = sn_element(plan->dtype, noisy);
                }
                sn_element_put(plan->dtype, out, place, element[c]);
            }
}

/* Erase at `out`, or with NULL write down what would be erased. */
static void run(const sn_plan *plan, sn_rng *rng, uint32_t height, uint32_t width, void *out, sn_erasure *erasures)
{
    const sn_erase *erase = &plan->erase;
    normal numbers = {rng, false, 0};
    uint32_t n_boxes = erase->most > 0 ? erase->most : 1;
    sn_rect box;

    if (sn_rng_double(rng) >= erase->probability)
        return;
    if (erase->fewest < erase->most)
        n_boxes = erase->fewest + sn_rng_below(rng, erase->most - erase->fewest + 1);
    for (uint32_t k = 0; k < n_boxes; k++) {
        if (!draw_box(erase, rng, height, width, n_boxes, &box))
            continue;
        if (out != NULL) {
            paint(plan, &numbers, &box, height, width, out);
            continue;
        }
        erasures->rect = box;
        draw_value(erase, &numbers, erasures++->value);
    }
}

void sn_erase_run(const sn_plan *plan, sn_rng *rng, uint32_t height, uint32_t width, void *out)
{
    run(plan, rng, height, width, out, NULL);
}

void sn_erase_draw(const sn_plan *plan, sn_rng *rng, uint32_t height, uint32_t width, sn_erasure *erasures)
{
    run(plan, rng, height, width, NULL, erasures);
}
