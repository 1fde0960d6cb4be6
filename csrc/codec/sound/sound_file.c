#include "sound_file.h"

#include <stdio.h>
#include <string.h>

void sn_sound_release(sn_sound_file *file)
{
    sn_flac_release(&file->flac);
    sn_buffer_release(&file->packed);
}

#ifdef SN_HAVE_SNDFILE

#include <sndfile.h>

#define CHUNK_FRAMES 4096  /* that libsndfile is asked for at once: they stay in the processor's cache */
#define FRAMES_A_BYTE 16   /* of a file: room for as many to begin with, if it says so */
#define FEWEST_FRAMES 4096 /* room at least */
#define MPEG 0x230000      /* SF_FORMAT_MPEG, which headers before 1.1 do not have */

int sn_sound_version(void)
{
    unsigned major, minor, patch;

    return sscanf(sf_version_string(), "libsndfile-%u.%u.%u", &major, &minor, &patch) == 3
               ? (int)(major << 16 | minor << 8 | patch)
               : 1;
}

static sf_count_t get_length(void *user)
{
    return (sf_count_t)((sn_sound_file *)user)->length;
}

static sf_count_t seek(sf_count_t offset, int whence, void *user)
{
    sn_sound_file *file = user;
    sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? (sf_count_t)file->at : (sf_count_t)file->length;
    sf_count_t to;

    if (__builtin_add_overflow(base, offset, &to) || to < 0 || to > (sf_count_t)file->length)
        return -1;
    file->at = (size_t)to;
    return to;
}

static sf_count_t read_bytes(void *to, sf_count_t count, void *user)
{
    sn_sound_file *file = user;
    size_t left = file->length - file->at, n = count < 0 ? 0 : (uint64_t)count < left ? (size_t)count : left;

    memcpy(to, file->bytes + file->at, n);
    file->at += n;
    return (sf_count_t)n;
}

static sf_count_t write_bytes(const void *from, sf_count_t count, void *user)
{
    (void)from, (void)count, (void)user;
    return 0;
}

static sf_count_t tell(void *user)
{
    return (sf_count_t)((sn_sound_file *)user)->at;
}

/* libsndfile reads many more formats, by code that is older and less examined. */
static bool is_of_ours(const uint8_t *bytes, size_t length)
{
    if (length < 12)
        return false;
    if (memcmp(bytes, "RIFF", 4) == 0 || memcmp(bytes, "RIFX", 4) == 0 || memcmp(bytes, "RF64", 4) == 0)
        return memcmp(bytes + 8, "WAVE", 4) == 0;
    return memcmp(bytes, "fLaC", 4) == 0 || memcmp(bytes, "OggS", 4) == 0 || memcmp(bytes, "ID3", 3) == 0 ||
           (bytes[0] == 0xff && (bytes[1] & 0xe0) == 0xe0); /* the last: a frame of an MP3 */
}

static bool is_known(int format)
{
    switch (format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_WAV:
    case SF_FORMAT_WAVEX:
    case SF_FORMAT_RF64:
    case SF_FORMAT_FLAC:
    case SF_FORMAT_OGG:
    case MPEG:
        return true;
    }
    return false;
}

/* Whether the frames of a file have one size each, or are packed without regard to what comes before them. */
static bool seeks_exactly(int format)
{
    switch (format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_FLAC:
        return true;
    case SF_FORMAT_WAV:
    case SF_FORMAT_WAVEX:
    case SF_FORMAT_RF64:
        break;
    default:
        return false;
    }
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_U8:
    case SF_FORMAT_PCM_16:
    case SF_FORMAT_PCM_24:
    case SF_FORMAT_PCM_32:
    case SF_FORMAT_FLOAT:
    case SF_FORMAT_DOUBLE:
    case SF_FORMAT_ULAW:
    case SF_FORMAT_ALAW:
        return true;
    }
    return false;
}

static int refuse(sn_sound_file *file, int rc, const char *words, const char *details)
{
    snprintf(file->message, SN_SOUND_MESSAGE, "%s%s", words, details);
    return rc;
}

static int begin(sn_sound_file *file, SF_INFO *info)
{
    SF_VIRTUAL_IO from_memory = {get_length, seek, read_bytes, write_bytes, tell};

    memset(info, 0, sizeof *info);
    file->at = 0;
    file->was_read = false;
    file->handle = sf_open_virtual(&from_memory, SFM_READ, info, file);
    return file->handle ? SN_OK : SN_E_FOR_PILLOW;
}

int sn_sound_open(sn_sound_file *file, const uint8_t *bytes, size_t length, bool in_part)
{
    SF_INFO info;

    file->handle = NULL;
    file->bytes = bytes;
    file->length = length;
    if (!is_of_ours(bytes, length))
        return refuse(file, SN_E_FOR_PILLOW, "no WAV, FLAC, Ogg or MP3: soundfile reads it, or says what is wrong", "");
    /* libsndfile's words are the process's here: if two threads fail at once they may be the other one's. */
    if (begin(file, &info) != SN_OK)
        return refuse(file, SN_E_FOR_PILLOW, "libsndfile does not open it: ", sf_strerror(NULL));
    if (!is_known(info.format) || info.channels < 1 || info.samplerate < 1 || info.frames < 0)
        return refuse(file, SN_E_FOR_PILLOW, "no usual WAV, FLAC, Ogg or MP3: soundfile reads it", "");
    if (info.channels > SN_MAX_CHANNELS)
        return refuse(file, SN_E_TOO_LARGE, "it has more than 64 channels: leave it out, or write it with fewer", "");
    file->rate = (uint32_t)info.samplerate;
    file->channels = (uint32_t)info.channels;
    file->frames = (uint64_t)info.frames;
    file->is_exact = info.frames > 0 && info.frames <= UINT32_MAX && info.seekable && seeks_exactly(info.format);
    file->is_flac = (info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC && sn_flac_open(&file->flac, bytes, length) &&
                    file->flac.stream.frames == file->frames && file->flac.stream.channels == file->channels;
    if (file->is_exact && (info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC &&
        (in_part || file->frames > length * FRAMES_A_BYTE))
        file->is_exact = file->is_flac && sn_flac_is_whole(&file->flac);
    return SN_OK;
}

void sn_sound_close(sn_sound_file *file)
{
    if (file->handle)
        sf_close(file->handle);
    file->handle = NULL;
}

/* The next frames, at most so many, as planes from `frame` on. How many there were; 0 at the end, or if that failed. */
static uint64_t read_some(sn_sound_file *file, bool mono, const sn_planes *planes, int64_t frame, uint64_t most)
{
    uint32_t channels = file->channels;
    float *packed = channels > 1 ? (float *)file->packed.data : sn_planes_at(planes, 0, frame);
    sf_count_t got = sf_readf_float(file->handle, packed, (sf_count_t)(most < CHUNK_FRAMES ? most : CHUNK_FRAMES));
    size_t n = got > 0 ? (size_t)got : 0;

    if (channels > 1 && mono)
        sn_planes_mix(packed, channels, n, sn_planes_at(planes, 0, frame));
    else if (channels > 1)
        for (uint32_t channel = 0; channel < channels; channel++)
            sn_planes_unpack(packed + channel, channels, n, sn_planes_at(planes, channel, frame));
    return n;
}

/* What to say of a read that came to its end. */
static int outcome(sn_sound_file *file)
{
    if (sf_error(file->handle) == SF_ERR_NO_ERROR)
        return SN_OK;
    return refuse(file, SN_E_DECODE, "it is damaged: ", sf_strerror(file->handle));
}

static int prepare(sn_sound_file *file)
{
    return file->channels > 1 ? sn_buffer_reserve(&file->packed, sizeof(float) * CHUNK_FRAMES * file->channels) : SN_OK;
}

static int too_large(sn_sound_file *file)
{
    return refuse(file, SN_E_TOO_LARGE, "as floats it takes more than 1 GiB: leave it out, or cut it into pieces", "");
}

int sn_sound_read_part(sn_sound_file *file, bool mono, int64_t first, uint64_t count, sn_buffer *buffer, sn_planes *out)
{
    int rc = sn_planes_reserve(buffer, mono ? 1 : file->channels, first, count, out);
    int64_t at, end;

    if (rc == SN_E_TOO_LARGE)
        return too_large(file);
    if (rc == SN_OK)
        rc = prepare(file);
    if (rc != SN_OK)
        return rc;
    sn_planes_clear_outside(out, 0, (int64_t)file->frames);
    sn_planes_within(out, 0, (int64_t)file->frames, &at, &end);
    if (file->is_flac && at < end) {
        rc = sn_flac_read(&file->flac, mono, at, end, out);
        if (rc != SN_MISS)
            return rc;
    }
    if ((at > 0 || file->was_read) && at < end && sf_seek(file->handle, at, SF_SEEK_SET) != at)
        return refuse(file, SN_E_DECODE, "it is damaged: ", sf_strerror(file->handle));
    file->was_read = true;
    for (uint64_t n; at < end; at += (int64_t)n) {
        n = read_some(file, mono, out, at, (uint64_t)(end - at));
        if (n == 0) {
            rc = outcome(file);
            return rc == SN_OK ? SN_MISS : rc;
        }
    }
    return outcome(file);
}

/* Twice the room, or what the header says if that is less, and what was read so far. */
static int grow(sn_sound_file *file, sn_buffer *buffer, sn_planes *planes)
{
    sn_buffer larger = {0};
    sn_planes to;
    uint64_t most = SN_MAX_FRAMES / planes->channels, count = planes->count < most / 2 ? planes->count * 2 : most;
    int rc;

    if (planes->count == most)
        return too_large(file);
    rc = sn_planes_reserve(&larger, planes->channels, 0, count, &to);
    if (rc != SN_OK)
        return rc;
    for (uint32_t channel = 0; channel < planes->channels; channel++)
        memcpy(sn_planes_at(&to, channel, 0), sn_planes_at(planes, channel, 0), sizeof(float) * planes->count);
    sn_buffer_release(buffer);
    *buffer = larger;
    *planes = to;
    return SN_OK;
}

int sn_sound_read_all(sn_sound_file *file, bool mono, sn_buffer *buffer, sn_planes *out)
{
    uint32_t channels = mono ? 1 : file->channels;
    uint64_t room = file->length * FRAMES_A_BYTE, at = 0, n;
    SF_INFO info;
    int rc;

    if (file->was_read) { /* a seek that has failed leaves a decoder anywhere */
        sn_sound_close(file);
        if (begin(file, &info) != SN_OK || (uint32_t)info.channels != file->channels)
            return refuse(file, SN_E_FOR_PILLOW, "libsndfile does not open it again", "");
    }
    room = room < file->frames ? room : file->frames;
    room = room < FEWEST_FRAMES ? FEWEST_FRAMES : room;
    room = room > SN_MAX_FRAMES / channels ? SN_MAX_FRAMES / channels : room;
    rc = sn_planes_reserve(buffer, channels, 0, room, out);
    if (rc == SN_OK)
        rc = prepare(file);
    if (rc != SN_OK)
        return rc;
    file->was_read = true;
    for (;; at += n) {
        if (at == out->count && at < file->frames) {
            rc = grow(file, buffer, out);
            if (rc != SN_OK)
                return rc;
        }
        n = at < out->count ? read_some(file, mono, out, (int64_t)at, out->count - at) : 0;
        if (n == 0)
            break;
    }
    out->count = at;
    return outcome(file);
}

#else

int sn_sound_version(void)
{
    return 0;
}

int sn_sound_open(sn_sound_file *file, const uint8_t *bytes, size_t length, bool in_part)
{
    (void)bytes, (void)length, (void)in_part;
    snprintf(file->message, SN_SOUND_MESSAGE, "Seneca was compiled without libsndfile: soundfile reads it");
    return SN_E_FOR_PILLOW;
}

int sn_sound_read_part(sn_sound_file *file, bool mono, int64_t first, uint64_t count, sn_buffer *buffer, sn_planes *out)
{
    (void)file, (void)mono, (void)first, (void)count, (void)buffer, (void)out;
    return SN_E_FOR_PILLOW;
}

int sn_sound_read_all(sn_sound_file *file, bool mono, sn_buffer *buffer, sn_planes *out)
{
    (void)file, (void)mono, (void)buffer, (void)out;
    return SN_E_FOR_PILLOW;
}

void sn_sound_close(sn_sound_file *file)
{
    (void)file;
}

#endif
