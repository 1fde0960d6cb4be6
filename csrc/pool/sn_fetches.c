#include "sn_fetches.h"

#include <stddef.h>

sn_wanted sn_fetches_add(sn_fetches *fetches, sn_place *place, uint64_t now_ns)
{
    const sn_piece *piece = &place->batch->context->pieces[place->item.sample];
    uint64_t ticket = ++fetches->given;

    fetches->under_way[fetches->n].place = place;
    fetches->under_way[fetches->n].ticket = ticket;
    fetches->under_way[fetches->n++].began_ns = now_ns;
    return (sn_wanted){.ticket = ticket,
                      .offset = piece->offset,
                      .sample = place->item.sample,
                      .container = piece->container,
                      .length = piece->length};
}

static sn_place *take_at(sn_fetches *fetches, uint32_t at)
{
    sn_place *place = fetches->under_way[at].place;

    fetches->under_way[at] = fetches->under_way[--fetches->n];
    return place;
}

sn_place *sn_fetches_take(sn_fetches *fetches, uint64_t ticket, uint64_t *began_ns)
{
    for (uint32_t at = 0; at < fetches->n; at++) {
        if (fetches->under_way[at].ticket == ticket) {
            *began_ns = fetches->under_way[at].began_ns;
            return take_at(fetches, at);
        }
    }
    return NULL;
}

int sn_fetches_forget(sn_fetches *fetches, const sn_place *place)
{
    for (uint32_t at = 0; at < fetches->n; at++)
        if (fetches->under_way[at].place == place)
            return take_at(fetches, at) != NULL;
    return 0;
}
