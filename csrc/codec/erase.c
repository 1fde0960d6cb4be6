#include "erase.h"

#include <math.h>
#include <stdbool.h>

#include "element.h"
#include "jpeg.h"

#define TRIES 10 /* torchvision's */

static bool draw_box(const sn_erase *erase, sn_rng *rng, uint32_t height, uint32_t width, sn_rect *box)
{
    double area = (double)height * width;
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

void sn_erase_run(const sn_plan *plan, sn_rng *rng, uint32_t height, uint32_t width, void *out)
{
    const sn_erase *erase = &plan->erase;
    size_t step = plan->channels_last ? 3 : 1;
    size_t plane = plan->channels_last ? 1 : (size_t)height * width;
    normal numbers = {rng, false, 0};
    uint32_t element[3];
    sn_rect box;

    if (sn_rng_double(rng) >= erase->probability || !draw_box(erase, rng, height, width, &box))
        return;
    for (int c = 0; c < 3; c++)
        element[c] = sn_element(plan->dtype, erase->value[c]);
    for (uint32_t y = box.top; y < box.top + box.height; y++)
        for (uint32_t x = box.left; x < box.left + box.width; x++)
            for (size_t c = 0; c < 3; c++) {
                size_t place = ((size_t)y * width + x) * step + c * plane;

                if (erase->noise)
                    element[c] = sn_element(plan->dtype, erase->value[c] +
                                                             erase->deviation[c] * next_normal(&numbers));
                sn_element_put(plan->dtype, out, place, element[c]);
            }
}
