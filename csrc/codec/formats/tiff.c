#include "tiff.h"

#include <string.h>

static bool holds(const sn_tiff *file, uint64_t at, uint64_t count)
{
    return at <= file->length && count <= file->length - at;
}

uint64_t sn_tiff_number(const sn_tiff *file, size_t at, size_t count)
{
    uint64_t value = 0;

    for (size_t k = 0; k < count; k++)
        value = value << 8 | file->bytes[file->big_endian ? at + k : at + count - 1 - k];
    return value;
}

uint32_t sn_tiff_type_size(uint32_t type)
{
    static const uint8_t sizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};

    return type < sizeof sizes ? sizes[type] : 0;
}

/* The heads that Pillow reads as a TIFF's: two are, two have the bytes of 42 swapped, one is a
 * big TIFF's, whose directory it takes for a TIFF's. */
bool sn_tiff_open(sn_tiff *file, const uint8_t *bytes, size_t length)
{
    static const char heads[5][4] = {
        {'M', 'M', 0, 42}, {'I', 'I', 42, 0}, {'M', 'M', 42, 0}, {'I', 'I', 0, 42}, {'M', 'M', 0, 43}};

    *file = (sn_tiff){bytes, length, length > 0 && bytes[0] == 'M'};
    for (int k = 0; k < 5; k++)
        if (length >= 8 && memcmp(bytes, heads[k], 4) == 0)
            return true;
    return false;
}

bool sn_tiff_find(const sn_tiff *file, uint32_t tag, sn_tiff_entry *entry)
{
    uint64_t at = sn_tiff_number(file, 4, 4), entries;
    bool found = false;

    if (!holds(file, at, 2))
        return false;
    entries = sn_tiff_number(file, at, 2);
    at += 2;
    for (; entries > 0 && holds(file, at, 12); entries--, at += 12) {
        uint32_t its_tag = (uint32_t)sn_tiff_number(file, at, 2);
        uint32_t type = (uint32_t)sn_tiff_number(file, at + 2, 2);
        uint64_t where = at + 8, size;

        if (sn_tiff_type_size(type) == 0)
            continue;
        size = sn_tiff_number(file, at + 4, 4) * sn_tiff_type_size(type);
        if (size > 4)
            where = sn_tiff_number(file, at + 8, 4);
        if (!holds(file, where, size))
            break; /* Pillow reads no further, whatever tag it is */
        if (its_tag == tag && size > 0) {
            *entry = (sn_tiff_entry){type, size, (size_t)where};
            found = true;
        }
    }
    return found;
}
