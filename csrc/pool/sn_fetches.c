#include "sn_fetches.h"

#include <stddef.h>

static const sn_piece *piece_of(const sn_batch_item *place)
{
    return &place->batch->context->pieces[place->item.sample];
}

static void append(sn_request *request, sn_batch_item *place)
{
    request->wanted.samples[request->wanted.n] = place->item.sample;
    request->places[request->wanted.n++] = place;
}

sn_request *sn_fetches_add(sn_fetches *fetches, sn_batch_item *place, uint64_t now_ns)
{
    const sn_piece *piece = piece_of(place);
    sn_request *request = &fetches->under_way[fetches->n++];

    request->wanted.ticket = ++fetches->given;
    request->wanted.offset = piece->offset;
    request->wanted.container = piece->container;
    request->wanted.length = piece->length;
    request->wanted.n = 0;
    request->gap_bytes = 0;
    request->began_ns = now_ns;
    append(request, place);
    fetches->bytes += piece->length;
    return request;
}

int sn_fetches_join(sn_fetches *fetches, sn_request *request, sn_batch_item *place)
{
    const sn_piece *piece = piece_of(place);
    sn_wanted *wanted = &request->wanted;
    uint64_t begin = wanted->offset, end = begin + wanted->length;
    uint64_t from = piece->offset, to = from + piece->length;

    if (piece->container != wanted->container || wanted->n == SN_MOST_JOINED)
        return 0;
    uint64_t gap = from > end ? from - end : to < begin ? begin - to : 0;
    begin = from < begin ? from : begin;
    end = to > end ? to : end;
    if (gap > SN_MOST_GAP_BYTES - request->gap_bytes || end - begin > SN_MOST_JOINED_BYTES)
        return 0;
    fetches->bytes += end - begin - wanted->length;
    wanted->offset = begin;
    wanted->length = (uint32_t)(end - begin);
    request->gap_bytes += (uint32_t)gap;
    append(request, place);
    return 1;
}

sn_request *sn_fetches_find(sn_fetches *fetches, uint64_t ticket)
{
    for (uint32_t at = 0; at < fetches->n; at++)
        if (fetches->under_way[at].wanted.ticket == ticket)
            return &fetches->under_way[at];
    return NULL;
}

sn_batch_item *sn_fetches_take(sn_request *request, uint32_t i)
{
    sn_batch_item *place = request->places[i];

    request->places[i] = NULL;
    return place;
}

void sn_fetches_end(sn_fetches *fetches, sn_request *request)
{
    fetches->bytes -= request->wanted.length;
    *request = fetches->under_way[--fetches->n];
}

static int is_empty(const sn_request *request)
{
    for (uint32_t i = 0; i < request->wanted.n; i++)
        if (request->places[i])
            return 0;
    return 1;
}

int sn_fetches_forget(sn_fetches *fetches, const sn_batch_item *place, int *is_over)
{
    *is_over = 0;
    for (uint32_t at = 0; at < fetches->n; at++) {
        sn_request *request = &fetches->under_way[at];
        for (uint32_t i = 0; i < request->wanted.n; i++) {
            if (request->places[i] != place)
                continue;
            sn_fetches_take(request, i);
            *is_over = is_empty(request);
            if (*is_over)
                sn_fetches_end(fetches, request);
            return 1;
        }
    }
    return 0;
}
