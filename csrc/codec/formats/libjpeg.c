#include "libjpeg.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include <jerror.h>

#include "../../base/sn_status.h"

/* A scan takes ten bytes of a file and a pass over all coefficients: up to 1 ns a pixel where it says nothing of
 * them, 4 with arithmetic coding. So what is bounded is scans times pixels, to some two seconds of a core. libjpeg's
 * script has 10 scans, and 18 for four colours; encoders that search for the best script come to about as many.
 * Pictures of 64 million pixels may have 32, smaller ones more, up to where libjpeg-turbo's own tools stop; larger
 * ones no fewer. No camera and no browser knows arithmetic coding, so that 8 have to do for the largest of those. */
#define MAX_SCANS 500
#define MAX_SCANS_OF_LARGE 32
#define MAX_SCANNED_PIXELS 2000000000ull
#define ARITHMETIC_WEIGHT 4

/* The bytes that libjpeg may hold for one picture beyond the coefficients of max_pixels. */
#define MEMORY_MARGIN (64L << 20)

void sn_libjpeg_fail(sn_libjpeg *lib, int rc, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(lib->message, lib->room, format, arguments);
    va_end(arguments);
    lib->rc = rc;
    longjmp(lib->jump, 1);
}

static void fail_too_large(sn_libjpeg *lib, const char *what) __attribute__((noreturn));
static void fail_too_large(sn_libjpeg *lib, const char *what)
{
    sn_libjpeg_fail(lib, SN_E_TOO_LARGE,
                    "%u x %u pixels %s max_pixels=%llu: shrink the picture, leave it out, or allow more",
                    lib->info.image_height, lib->info.image_width, what, (unsigned long long)lib->max_pixels);
}

/* -- Callbacks -- */

static sn_libjpeg *owner(j_common_ptr info)
{
    return info->client_data;
}

static void on_error(j_common_ptr info)
{
    char reason[JMSG_LENGTH_MAX];
    int rc = SN_E_DECODE;

    switch (info->err->msg_code) {
    case JERR_OUT_OF_MEMORY:
        rc = -ENOMEM;
        break;
    case JERR_NO_BACKING_STORE: /* how libjpeg says that max_memory_to_use is reached */
        fail_too_large(owner(info), "take more memory to decode than goes with");
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
        rc = SN_E_TOO_LARGE;
        break;
    case JERR_SOF_UNSUPPORTED: /* this libjpeg-turbo does not know the kind; Pillow may have another, which does */
    case JERR_BAD_PRECISION:
    case JERR_ARITH_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_NOTIMPL:
        rc = SN_E_FOR_PILLOW;
        break;
    default:
        break;
    }
    info->err->format_message(info, reason);
    sn_libjpeg_fail(owner(info), rc, "%s", reason);
}

/* A warning is damage that libjpeg goes on from. Pillow takes such pictures; so do we. */
static void on_warning(j_common_ptr info, int level)
{
    (void)info;
    (void)level;
}

static void on_output(j_common_ptr info)
{
    (void)info;
}

static void on_progress(j_common_ptr info)
{
    const sn_libjpeg *lib = owner(info);
    if (lib->info.input_scan_number > lib->max_scans)
        sn_libjpeg_fail(
            owner(info), SN_E_TOO_LARGE,
            "a JPEG of %u x %u pixels in more than %d scans, each a pass over all of them; no encoder writes so "
            "many: save it anew",
            lib->info.image_height, lib->info.image_width, lib->max_scans);
}

static void source_init(j_decompress_ptr info)
{
    (void)info;
}

/* The whole file is there from the start: to be asked for more means that it ends early.
 * libjpeg's own memory source would invent an end marker and leave the rest of the picture grey,
 * with a warning; Pillow refuses the file, and grey pictures are not worth training on. But once
 * the last row is had, only the end marker is searched for, and Pillow does without. */
static boolean source_fill(j_decompress_ptr info)
{
    if (info->output_height > 0 && info->output_scanline == info->output_height)
        return FALSE;
    sn_libjpeg_fail(owner((j_common_ptr)info), SN_E_DECODE, "image file is truncated");
}

static void source_skip(j_decompress_ptr info, long count)
{
    if (count <= 0)
        return;
    if ((size_t)count > info->src->bytes_in_buffer) {
        source_fill(info);
        count = (long)info->src->bytes_in_buffer;
    }
    info->src->next_input_byte += count;
    info->src->bytes_in_buffer -= (size_t)count;
}

static void source_term(j_decompress_ptr info)
{
    (void)info;
}

/* -- The calls -- */

void sn_libjpeg_init(sn_libjpeg *lib, uint64_t max_pixels, char *message, size_t room)
{
    memset(lib, 0, sizeof *lib);
    jpeg_std_error(&lib->errors);
    lib->errors.error_exit = on_error;
    lib->errors.emit_message = on_warning;
    lib->errors.output_message = on_output;
    lib->progress.progress_monitor = on_progress;
    lib->source.init_source = source_init;
    lib->source.fill_input_buffer = source_fill;
    lib->source.skip_input_data = source_skip;
    lib->source.resync_to_restart = jpeg_resync_to_restart;
    lib->source.term_source = source_term;
    lib->max_pixels = max_pixels;
    lib->message = message;
    lib->room = room;
}

int sn_libjpeg_attempt(sn_libjpeg *lib, void (*step)(void *), void *argument)
{
    if (setjmp(lib->jump) != 0)
        return lib->rc;
    step(argument); /* a function of its own: no variable of this one changes between setjmp and the jump */
    return SN_OK;
}

static int max_scans(const struct jpeg_decompress_struct *info)
{
    uint64_t scans = MAX_SCANNED_PIXELS / ((uint64_t)info->image_width * info->image_height);

    if (scans < MAX_SCANS_OF_LARGE)
        scans = MAX_SCANS_OF_LARGE;
    if (info->arith_code)
        scans /= ARITHMETIC_WEIGHT;
    return scans < MAX_SCANS ? (int)scans : MAX_SCANS;
}

void sn_libjpeg_read_header(sn_libjpeg *lib, const uint8_t *bytes, size_t length, bool saves_app1)
{
    struct jpeg_decompress_struct *info = &lib->info;

    info->err = &lib->errors;
    info->client_data = lib;
    lib->created = true; /* before it is true: a half-made one must be destroyed as well */
    jpeg_create_decompress(info);
    info->progress = &lib->progress;
    info->mem->max_memory_to_use = (long)(lib->max_pixels * 8) + MEMORY_MARGIN;

    lib->source.next_input_byte = bytes;
    lib->source.bytes_in_buffer = length;
    info->src = &lib->source;
    if (saves_app1)
        jpeg_save_markers(info, JPEG_APP0 + 1, 0xFFFF);
    while (jpeg_read_header(info, FALSE) == JPEG_HEADER_TABLES_ONLY)
        ; /* an abbreviated stream: the picture is in the next one */

    if ((uint64_t)info->image_width * info->image_height > lib->max_pixels)
        fail_too_large(lib, "are more than");
    if (info->num_components != 1 && info->num_components != 3 && info->num_components != 4)
        sn_libjpeg_fail(lib, SN_E_DECODE, "neither grey, colour nor CMYK");
    lib->max_scans = max_scans(info);
}

/* The decompressor is made anew for each picture. Kept, it would keep the Huffman and
 * quantisation tables of the last one, and a file that lacks its own would decode by them: pixels
 * that depend on what came before. Making it costs less than a thousandth of a picture. */
void sn_libjpeg_close(sn_libjpeg *lib)
{
    if (lib->created)
        jpeg_destroy_decompress(&lib->info);
    lib->created = false;
}
