#include "stored.h"

#if defined SN_HAVE_PNG && defined SN_HAVE_DEFLATE

#include <libdeflate.h>

#include "png_chunks.h"

#define IHDR_BYTES 13
#define MOST_RAW (64u << 20) /* of larger pictures libpng inflates row after row, and needs no memory for all of them */
#define MOST_IN_BLOCK 65535u
#define BLOCK_HEADER 5
#define ZLIB_HEADER 2
#define ADLER 4

int sn_png_deflate_version(void)
{
    return LIBDEFLATE_VERSION_MAJOR << 8 | LIBDEFLATE_VERSION_MINOR;
}

/* The parts of a file. */
typedef struct {
    size_t first, behind, end; /* where the run of IDATs begins and ends; where the file does, behind IEND */
    size_t compressed;         /* bytes in that run */
    uint64_t pixels;
    size_t raw; /* bytes that the run becomes: all rows, each with its filter */
} parts;

static void put_number(uint8_t *to, uint32_t number)
{
    for (int k = 0; k < 4; k++)
        to[k] = (uint8_t)(number >> (24 - 8 * k));
}

/* How many numbers a pixel has; 0: there is no such type. */
static uint32_t channels_of(uint8_t type)
{
    static const uint8_t of[7] = {[0] = 1, [2] = 3, [3] = 1, [4] = 2, [6] = 4};

    return type < 7 ? of[type] : 0;
}

/* Read the first chunk, which is there. Whether a file that begins so can be stored. What a depth may be with a type is
 * left to libpng. */
static bool read_header(const uint8_t *chunk, uint64_t max_pixels, parts *found)
{
    const uint8_t *data = chunk + SN_PNG_DATA;
    uint64_t width = sn_png_number(data), height = sn_png_number(data + 4);
    uint32_t depth = data[8], channels = channels_of(data[9]);
    bool is_interlaced = data[12] != 0;

    if (sn_png_number(chunk) != IHDR_BYTES || !sn_png_is_named(chunk, "IHDR") || is_interlaced || depth > 16 ||
        channels == 0 || width == 0 || height == 0 || width > SN_PNG_MOST_SIDE || height > SN_PNG_MOST_SIDE)
        return false;
    uint64_t raw = height * (1 + (width * depth * channels + 7) / 8);
    found->pixels = width * height;
    found->raw = (size_t)raw;
    return found->pixels <= max_pixels && raw <= MOST_RAW;
}

/* Walk over all chunks. Whether they are whole and have one run of IDATs, and the critical ones the right checksums. */
static bool take_apart(const uint8_t *bytes, size_t length, uint64_t max_pixels, parts *found)
{
    size_t at = SN_PNG_SIGNATURE;

    *found = (parts){0};
    if (length < SN_PNG_SIGNATURE + SN_PNG_CHUNK + IHDR_BYTES || !read_header(bytes + at, max_pixels, found))
        return false;
    while (length - at >= SN_PNG_CHUNK) {
        const uint8_t *chunk = bytes + at;
        size_t data = sn_png_number(chunk);

        if (data > length - at - SN_PNG_CHUNK)
            return false;
        size_t next = at + SN_PNG_CHUNK + data;
        bool is_critical = !(chunk[4] & 0x20); /* its name begins with a capital letter */
        if (is_critical && libdeflate_crc32(0, chunk + 4, data + 4) != sn_png_number(chunk + SN_PNG_DATA + data))
            return false;
        if (sn_png_is_named(chunk, "IDAT")) {
            if (found->first == 0)
                found->first = at;
            else if (found->behind != at)
                return false; /* another run */
            found->compressed += data;
            found->behind = next;
        }
        if (sn_png_is_named(chunk, "IEND")) {
            found->end = next;
            return found->first != 0;
        }
        at = next;
    }
    return false;
}

/* Put the zlib stream together that the run of IDATs carries. */
static void gather(const uint8_t *bytes, const parts *found, uint8_t *stream)
{
    for (size_t at = found->first; at < found->behind;) {
        size_t data = sn_png_number(bytes + at);

        memcpy(stream, bytes + at + SN_PNG_DATA, data);
        stream += data;
        at += SN_PNG_CHUNK + data;
    }
}

/* Whether the stream becomes just all rows, with nothing behind it. */
static bool inflate_all(const uint8_t *stream, const parts *found, uint8_t *raw)
{
    struct libdeflate_decompressor *inflater = libdeflate_alloc_decompressor();
    size_t used = 0, made = 0;

    if (!inflater)
        return false;
    enum libdeflate_result result =
        libdeflate_zlib_decompress_ex(inflater, stream, found->compressed, raw, found->raw, &used, &made);
    libdeflate_free_decompressor(inflater);
    return result == LIBDEFLATE_SUCCESS && used == found->compressed && made == found->raw;
}

/* The length of the one IDAT's data. */
static size_t stored_bytes(const parts *found)
{
    size_t blocks = (found->raw + MOST_IN_BLOCK - 1) / MOST_IN_BLOCK;

    return ZLIB_HEADER + BLOCK_HEADER * blocks + found->raw + ADLER;
}

/* Write the one IDAT. The rows are at `raw`, far enough behind: no block is written over rows that are still to be
 * moved. Returns where the IDAT ends. */
static uint8_t *write_idat(uint8_t *to, const uint8_t *raw, const parts *found)
{
    uint32_t adler = libdeflate_adler32(1, raw, found->raw);
    size_t left = found->raw;

    put_number(to, (uint32_t)stored_bytes(found));
    memcpy(to + 4, "IDAT\x78\x01", 4 + ZLIB_HEADER); /* a window of 32 KiB, no preset dictionary */
    to += SN_PNG_DATA + ZLIB_HEADER;
    while (left) {
        uint32_t n = left < MOST_IN_BLOCK ? (uint32_t)left : MOST_IN_BLOCK;
        uint8_t header[BLOCK_HEADER] = {n == left, (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)~n, (uint8_t)(~n >> 8)};

        memcpy(to, header, BLOCK_HEADER);
        memmove(to + BLOCK_HEADER, raw, n);
        to += BLOCK_HEADER + n;
        raw += n;
        left -= n;
    }
    put_number(to, adler);
    put_number(to + ADLER, 0); /* no checksum: it would cost time, and could only show errors made here */
    return to + ADLER + 4;
}

bool sn_png_store(const uint8_t *bytes, size_t length, uint64_t max_pixels, sn_buffer *buffer, const uint8_t **stored,
                  size_t *stored_length)
{
    parts found;

    if (!take_apart(bytes, length, max_pixels, &found))
        return false;
    size_t picture = 3 * (size_t)found.pixels, tail = found.end - found.behind;
    size_t whole = found.first + SN_PNG_CHUNK + stored_bytes(&found) + tail;
    if (sn_buffer_reserve(buffer, picture + whole + found.compressed) != 0)
        return false;
    uint8_t *file = buffer->data + picture, *stream = file + whole;
    uint8_t *raw = stream - found.raw; /* where the file will end: from there each block moves towards the beginning */
    gather(bytes, &found, stream);
    if (!inflate_all(stream, &found, raw))
        return false;
    memcpy(file, bytes, found.first);
    memcpy(write_idat(file + found.first, raw, &found), bytes + found.behind, tail);
    *stored = file;
    *stored_length = whole;
    return true;
}

#else

int sn_png_deflate_version(void)
{
    return 0;
}

bool sn_png_store(const uint8_t *bytes, size_t length, uint64_t max_pixels, sn_buffer *buffer, const uint8_t **stored,
                  size_t *stored_length)
{
    (void)bytes;
    (void)length;
    (void)max_pixels;
    (void)buffer;
    (void)stored;
    (void)stored_length;
    return false;
}

#endif
