#include "sn_holder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sn_rows.h"

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

void sn_holder_let_go(sn_holder *holder)
{
    while (holder->n_done > 0) {
        uint32_t entry = holder->done_entries[--holder->n_done];
        sn_ledger_let_go(holder->segment, holder->row, entry);
        holder->free_entries[holder->n_free++] = entry;
    }
}
