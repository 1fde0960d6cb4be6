#include "flac_loops.h"

uint32_t sn_rice_plain(sn_bits *bits, uint32_t k, uint32_t n, int32_t *out)
{
    return read_rice(bits, k, n, out);
}

static inline __attribute__((always_inline)) void predict(const sn_flac_row *row, uint32_t order, uint32_t n)
{
    int32_t *samples = row->samples;

    for (uint32_t at = order; at < n; at++) {
        uint32_t sum = 0;

        for (uint32_t k = 0; k < order; k++)
            sum += (uint32_t)row->weights[k] * (uint32_t)samples[at - 1 - k];
        samples[at] = (int32_t)((uint32_t)samples[at] + (uint32_t)((int32_t)sum >> row->shift));
    }
}

static void predict_wide(const sn_flac_row *row, uint32_t first, uint32_t end, bool is_wide)
{
    int32_t *samples = row->samples;

    for (uint32_t at = first; at < end; at++) {
        uint32_t order = at < row->order ? at : row->order;
        uint64_t sum = 0;

        for (uint32_t k = 0; k < order; k++)
            sum += (uint64_t)((int64_t)row->weights[k] * samples[at - 1 - k]);
        sum = is_wide ? sum : (uint64_t)(int64_t)(int32_t)sum;
        samples[at] = (int32_t)((uint32_t)samples[at] + (uint32_t)((int64_t)sum >> row->shift));
    }
}

void sn_predict_plain(const sn_flac_row *rows, uint32_t n_rows, uint32_t n)
{
    for (const sn_flac_row *row = rows; row < rows + n_rows; row++) {
        uint32_t begun = row->order < n ? row->order : n;

        if (row->order == 0)
            continue;
        predict_wide(row, 0, row->is_wide ? n : begun, row->is_wide);
        if (row->is_wide)
            continue;
        switch (row->order) { /* the compiler unrolls a loop whose end it knows */
#define ORDER(N)                                                                                                       \
    case N:                                                                                                            \
        predict(row, N, n);                                                                                            \
        break;
            ORDER(1)
            ORDER(2)
            ORDER(3)
            ORDER(4)
            ORDER(5)
            ORDER(6)
            ORDER(7)
            ORDER(8)
            ORDER(9)
            ORDER(10)
            ORDER(11)
            ORDER(12)
        default:
            predict(row, row->order, n);
        }
    }
}
