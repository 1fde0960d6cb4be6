#include "sn_decoded.h"

#include <string.h>

#include "../slots/sn_slots.h"

/* How many bytes the mask of a pair has; 0: there is none. */
static size_t mask_bytes_of(const sn_view *picture)
{
    return picture->mask ? (size_t)picture->height * picture->width : 0;
}

size_t sn_decoded_bytes(const sn_context *context, const sn_view *picture)
{
    return sn_plan_row_bytes(context->plan, picture->width) * picture->height + mask_bytes_of(picture);
}

void sn_decoded_copy(const sn_context *context, uint8_t *to, const sn_view *picture)
{
    size_t row = sn_plan_row_bytes(context->plan, picture->width);

    for (uint32_t y = 0; y < picture->height; y++, to += row)
        memcpy(to, picture->pixels + y * picture->stride, row);
    if (picture->mask)
        memcpy(to, picture->mask, mask_bytes_of(picture));
}

sn_view sn_decoded_view(const sn_context *context, const uint8_t *pixels, uint32_t height, uint32_t width)
{
    size_t row = sn_plan_row_bytes(context->plan, width);

    return (sn_view){pixels, height, width, row, context->plan->is_pair ? pixels + row * height : NULL, 0};
}

/* The width of a DECODED payload. A record has no room for the frames of a sound, which follow from its length. */
static uint32_t width_of(const sn_context *context, const sn_slot *slot)
{
    if (!context->plan->is_sound)
        return slot->width;
    return slot->height ? slot->length / (uint32_t)sizeof(float) / slot->height : 0;
}

sn_view sn_decoded_of_slot(const sn_context *context, const sn_slot *slot)
{
    return sn_decoded_view(context, sn_slot_payload(context->segment, slot), slot->height, width_of(context, slot));
}

bool sn_decoded_is(const sn_context *context, const sn_slot *slot, const sn_view *picture)
{
    const uint8_t *pixels = sn_slot_payload(context->segment, slot);
    size_t row = sn_plan_row_bytes(context->plan, picture->width);

    if (slot->height != picture->height || width_of(context, slot) != picture->width ||
        sn_slot_length(context->segment, slot) != sn_decoded_bytes(context, picture))
        return false;
    for (uint32_t y = 0; y < picture->height; y++)
        if (memcmp(pixels + y * row, picture->pixels + y * picture->stride, row) != 0)
            return false;
    return !picture->mask || memcmp(pixels + row * picture->height, picture->mask, mask_bytes_of(picture)) == 0;
}
