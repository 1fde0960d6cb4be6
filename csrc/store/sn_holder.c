#include "sn_holder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../slots/sn_slots.h"
#include "sn_rows.h"

#define LOOK_AHEAD 16

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

/* Hundreds of records at random places: fetch those that come next, and then what freeing them touches. */
static void foresee(const sn_holder *holder)
{
    const sn_segment *segment = holder->segment;
    const uint32_t *ledger = sn_ledger(segment, holder->row);

    if (holder->n_done > 2 * LOOK_AHEAD) {
        uint32_t line = ledger[holder->done_entries[holder->n_done - 1 - 2 * LOOK_AHEAD]];
        if (line != 0)
            __builtin_prefetch(&segment->slots[line - 1]);
    }
    if (holder->n_done > LOOK_AHEAD) {
        uint32_t line = ledger[holder->done_entries[holder->n_done - 1 - LOOK_AHEAD]];
        if (line != 0)
            sn_slot_foresee(segment, line - 1);
    }
}

void sn_holder_let_go(sn_holder *holder)
{
    while (holder->n_done > 0) {
        foresee(holder);
        uint32_t entry = holder->done_entries[--holder->n_done];
        sn_ledger_let_go(holder->segment, holder->row, entry);
        holder->free_entries[holder->n_free++] = entry;
    }
}
