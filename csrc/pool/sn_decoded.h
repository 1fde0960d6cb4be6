/*
 * sn_decoded.h -- how a picture or a sound lies in a DECODED payload: its rows close together, and its mask behind it.
 *
 * Lives in   the payload of a slot, or private memory.
 * Callers    any thread, with a slot that it holds.
 */
#ifndef SN_DECODED_H
#define SN_DECODED_H

#include <stdbool.h>

#include "sn_item_file.h"

size_t sn_decoded_bytes(const sn_context *context, const sn_view *picture); /* of its payload */
void sn_decoded_copy(const sn_context *context, uint8_t *to, const sn_view *picture);

/* A view of a payload, of a picture of this size; of the one in a slot. */
sn_view sn_decoded_view(const sn_context *context, const uint8_t *payload, uint32_t height, uint32_t width);
sn_view sn_decoded_of_slot(const sn_context *context, const sn_slot *slot);

/* Whether the payload in a slot is this picture. */
bool sn_decoded_is(const sn_context *context, const sn_slot *slot, const sn_view *picture);

#endif
