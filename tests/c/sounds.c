#include "sounds.h"

#include <math.h>

#include "check.h"

const char *const sound_names[SOUND_FORMATS] = {"WAV, 16 bits", "WAV, 24 bits",  "WAV, floats",
                                                "WAV, ADPCM",   "FLAC, 16 bits", "FLAC, 24 bits",
                                                "Vorbis",       "Opus",          "MP3"};

#ifdef SN_HAVE_SNDFILE

#include <sndfile.h>

typedef struct {
    uint8_t *bytes;
    sf_count_t length, at, room;
} growing;

static sf_count_t get_length(void *user)
{
    return ((growing *)user)->length;
}

static sf_count_t seek(sf_count_t offset, int whence, void *user)
{
    growing *file = user;

    return file->at = offset + (whence == SEEK_SET ? 0 : whence == SEEK_CUR ? file->at : file->length);
}

static sf_count_t read_bytes(void *to, sf_count_t count, void *user)
{
    growing *file = user;
    sf_count_t n = count < file->length - file->at ? count : file->length - file->at;

    memcpy(to, file->bytes + file->at, (size_t)n);
    file->at += n;
    return n;
}

static sf_count_t write_bytes(const void *from, sf_count_t count, void *user)
{
    growing *file = user;

    if (file->at + count > file->room) {
        file->room = 2 * (file->at + count);
        file->bytes = realloc(file->bytes, (size_t)file->room);
        CHECK(file->bytes);
    }
    memcpy(file->bytes + file->at, from, (size_t)count);
    file->at += count;
    file->length = file->at > file->length ? file->at : file->length;
    return count;
}

static sf_count_t tell(void *user)
{
    return ((growing *)user)->at;
}

static float *draw_frames(const sound_kind *kind, sn_rng *rng)
{
    float *frames = malloc(sizeof(float) * kind->channels * kind->frames + 1);
    double pitch = sn_rng_uniform(rng, 0.002, 0.1), noise = sn_rng_uniform(rng, 0, 0.3);
    uint32_t silence = 1 + sn_rng_below(rng, kind->frames + 1);

    CHECK(frames);
    for (uint32_t k = 0; k < kind->frames; k++)
        for (uint32_t channel = 0; channel < kind->channels; channel++) {
            double tone = 0.6 * sin(k * pitch * (channel + 1) * (1 + 1e-5 * k));

            frames[k * kind->channels + channel] =
                k / silence % 3 == 1 ? 0 : (float)(tone + noise * (sn_rng_double(rng) - 0.5));
        }
    return frames;
}

picture_file sound_make(const sound_kind *kind, sn_rng *rng)
{
    static const int formats[SOUND_FORMATS] = {SF_FORMAT_WAV | SF_FORMAT_PCM_16,
                                               SF_FORMAT_WAV | SF_FORMAT_PCM_24,
                                               SF_FORMAT_WAV | SF_FORMAT_FLOAT,
                                               SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM,
                                               SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
                                               SF_FORMAT_FLAC | SF_FORMAT_PCM_24,
                                               SF_FORMAT_OGG | SF_FORMAT_VORBIS,
                                               SF_FORMAT_OGG | 0x64, /* Opus, and MP3: new in 1.0.29 and 1.1 */
                                               0x230082};
    SF_VIRTUAL_IO io = {get_length, seek, read_bytes, write_bytes, tell};
    SF_INFO info = {.samplerate = (int)kind->rate, .channels = (int)kind->channels, .format = formats[kind->format]};
    growing file = {0};
    picture_file made = {0};
    SNDFILE *handle = sf_open_virtual(&io, SFM_WRITE, &info, &file);
    float *frames;

    if (handle) {
        frames = draw_frames(kind, rng);
        CHECK(sf_writef_float(handle, frames, kind->frames) == kind->frames);
        sf_close(handle);
        free(frames);
        made.length = (size_t)file.length;
        made.bytes = malloc(made.length);
        CHECK(made.bytes);
        memcpy(made.bytes, file.bytes, made.length);
    }
    free(file.bytes);
    return made;
}

#else

picture_file sound_make(const sound_kind *kind, sn_rng *rng)
{
    (void)kind;
    (void)rng;
    return (picture_file){0};
}

#endif
