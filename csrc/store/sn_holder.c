#include "sn_holder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/sn_prefetch.h"
#include "../slots/sn_slots.h"
#include "sn_rows.h"

#define AT_ONCE 256 /* so many records are on their way from memory together */

int sn_holder_init(sn_holder *holder, sn_segment *segment)
{
    memset(holder, 0, sizeof *holder);
    holder->segment = segment;
    holder->row = SN_NONE;
    holder->free_entries = malloc(segment->n_ledger * sizeof(uint32_t));
    holder->done_entries = malloc(segment->n_ledger * sizeof(uint32_t));
    if (!holder->free_entries || !holder->done_entries) {
        sn_holder_free(holder);
        return -ENOMEM;
    }
    for (uint32_t entry = segment->n_ledger; entry > 0; entry--)
        holder->free_entries[holder->n_free++] = entry - 1;
    return 0;
}

void sn_holder_free(sn_holder *holder)
{
    free(holder->free_entries);
    free(holder->done_entries);
    memset(holder, 0, sizeof *holder);
}

uint32_t sn_holder_hold(sn_holder *holder, uint32_t slot)
{
    if (holder->n_free == 0)
        return SN_NONE;
    uint32_t entry = holder->free_entries[--holder->n_free];
    sn_ledger_hold(holder->segment, holder->row, entry, slot);
    return entry;
}

void sn_holder_done(sn_holder *holder, uint32_t entry)
{
    if (entry != SN_NONE)
        holder->done_entries[holder->n_done++] = entry;
}

/* Hundreds of records at random places: fetch the next of them, and then what is touched by freeing those
 * that nobody else holds or wants. */
static void prefetch(const sn_holder *holder, uint32_t end)
{
    const sn_segment *segment = holder->segment;
    const uint32_t *ledger = sn_ledger(segment, holder->row);

    for (uint32_t i = end; i < holder->n_done; i++)
        if (ledger[holder->done_entries[i]] != 0)
            sn_prefetch(&segment->slots[ledger[holder->done_entries[i]] - 1]); /* wherever that is */
    for (uint32_t i = end; i < holder->n_done; i++) {
        uint32_t line = ledger[holder->done_entries[i]];
        if (line - 1 < segment->n_slots && segment->slots[line - 1].pins == 1 &&
            segment->slots[line - 1].list == SN_LIST_WANT)
            sn_slot_prefetch_free(segment, line - 1);
    }
}

void sn_holder_let_go(sn_holder *holder)
{
    while (holder->n_done > 0) {
        uint32_t end = holder->n_done > AT_ONCE ? holder->n_done - AT_ONCE : 0;
        prefetch(holder, end);
        while (holder->n_done > end) {
            uint32_t entry = holder->done_entries[--holder->n_done];
            sn_ledger_let_go(holder->segment, holder->row, entry);
            holder->free_entries[holder->n_free++] = entry;
        }
    }
}
