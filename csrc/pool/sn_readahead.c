#include "sn_readahead.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define DESCRIPTORS_A_READER 4 /* that the process may still open */
#define LARGE_SPARE 4.0        /* of the mean of a file: a larger buffer is given back */
#define LEAST_AWAITED 0.1      /* of the time that preparing takes: with less, preparers read for themselves */
#define SPARE_READERS 1.25     /* of those that the means say are needed */
#define MEAN_OVER 32.0         /* places */
#define AHEAD_BYTES 67108864.0 /* of files that are read, or read ahead and not claimed */
#define ASKED_BYTES 4194304.0  /* of files that one thread asks other hosts for at a time */

/* Each reader has a descriptor: a part of those that this process may still open, because others need some too. */
static uint32_t most_readers(void)
{
    struct rlimit limit;
    uint64_t used = 0;
    DIR *own = opendir("/proc/self/fd");

    if (own) {
        while (readdir(own))
            used++;
        closedir(own);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    uint64_t most = limit.rlim_cur > used ? (limit.rlim_cur - used) / DESCRIPTORS_A_READER : 0;
    return most < SN_MOST_READERS ? (uint32_t)most : SN_MOST_READERS;
}

void sn_readahead_init(sn_readahead *ahead)
{
    memset(ahead, 0, sizeof *ahead);
    ahead->most_readers = most_readers();
}

void sn_readahead_free(sn_readahead *ahead)
{
    for (uint32_t i = 0; i < ahead->n_spares; i++)
        free(ahead->spares[i].bytes);
}

/* Half of the bytes may be of files that are being read now. So many requests bring more files than one each. */
int sn_readahead_may_read(const sn_readahead *ahead, uint32_t preparers, uint64_t requested)
{
    double being_read = ahead->least_readers ? (double)requested : ahead->reading * ahead->file_bytes;
    double files = ahead->readers * (ahead->together > 1.0 ? ahead->together : 1.0);

    return ahead->reading < ahead->readers && ahead->n < files + preparers &&
           (ahead->bytes + being_read < AHEAD_BYTES || ahead->reading + ahead->n == 0);
}

void sn_readahead_fetches(sn_readahead *ahead)
{
    if (ahead->least_readers)
        return;
    ahead->least_readers = SN_LEAST_FETCHES;
    ahead->readers = SN_FIRST_FETCHES;
}

void sn_readahead_began(sn_readahead *ahead)
{
    ahead->reading++;
}

sn_file sn_readahead_spare(sn_readahead *ahead)
{
    return ahead->n_spares ? ahead->spares[--ahead->n_spares] : (sn_file){0};
}

void sn_readahead_ended(sn_readahead *ahead, int rc)
{
    ahead->reading--;
    if (rc != 0) /* descriptors or memory are short: so many were too many */
        ahead->most_readers = ahead->reading;
}

static void add_to_mean(double *mean, double value, int is_first)
{
    *mean += (value - *mean) / (is_first ? 1.0 : MEAN_OVER);
}

void sn_readahead_brought(sn_readahead *ahead, uint32_t files)
{
    add_to_mean(&ahead->together, files, ahead->together <= 0);
}

uint32_t sn_readahead_at_once(const sn_readahead *ahead)
{
    double most = ahead->file_bytes > 0 ? ASKED_BYTES / ahead->file_bytes : 1.0;

    return most < 1.0 ? 1 : most < SN_REMOTE_AT_ONCE ? (uint32_t)most : SN_REMOTE_AT_ONCE;
}

int sn_readahead_may_ask(const sn_readahead *ahead, uint32_t preparers)
{
    return ahead->n + ahead->reading < 2 * preparers &&
           ahead->bytes + sn_readahead_at_once(ahead) * ahead->file_bytes < AHEAD_BYTES;
}

void sn_readahead_saw(sn_readahead *ahead, size_t bytes)
{
    if (bytes)
        add_to_mean(&ahead->file_bytes, (double)bytes, ahead->file_bytes <= 0);
}

void sn_readahead_add(sn_readahead *ahead, sn_batch_item *place)
{
    place->following = NULL;
    if (ahead->last)
        ahead->last->following = place;
    else
        ahead->first = place;
    ahead->last = place;
    ahead->n++;
    ahead->bytes += (double)place->file.length;
    sn_readahead_saw(ahead, place->file.length);
}

void sn_readahead_take(sn_readahead *ahead, sn_batch_item *place)
{
    sn_batch_item *before = NULL, *at = ahead->first;

    while (at != place) {
        before = at;
        at = at->following;
    }
    if (before)
        before->following = place->following;
    else
        ahead->first = place->following;
    if (ahead->last == place)
        ahead->last = before;
    ahead->n--;
    ahead->bytes -= (double)place->file.length;
}

/* By Little's law P preparers that are never without a file need P * (what storage takes of a place) / (what preparing
 * takes of it) of them under way. Where storage takes next to nothing, which is the page cache, a preparer reads for
 * itself: the file is then in its core's own cache. */
void sn_readahead_choose(sn_readahead *ahead, const sn_batch_item *place, uint64_t busy_ns, uint32_t preparers)
{
    int is_first = ahead->busy_ns <= 0;

    add_to_mean(&ahead->awaited_ns, (double)place->awaited_ns, is_first);
    add_to_mean(&ahead->read_ns, place->awaited_ns ? (double)place->spent.read : 0.0, is_first);
    add_to_mean(&ahead->busy_ns, (double)busy_ns, is_first);
    double ratio = ahead->busy_ns > 0 ? ahead->awaited_ns / ahead->busy_ns : 0.0;
    double needed = ahead->read_ns < LEAST_AWAITED * ahead->busy_ns ? 0.0 : SPARE_READERS * preparers * ratio;
    ahead->readers = needed < ahead->most_readers ? (uint32_t)(needed + 0.999) : ahead->most_readers;
    if (ahead->readers < ahead->least_readers)
        ahead->readers = ahead->least_readers;
}

void sn_readahead_keep_spare(sn_readahead *ahead, sn_file *file)
{
    if (!file->bytes)
        return;
    int is_large = (double)file->capacity > LARGE_SPARE * ahead->file_bytes;
    if (ahead->n_spares < SN_MOST_SPARES && ahead->n_spares < 2 * ahead->readers + ahead->hosts_asked && !is_large)
        ahead->spares[ahead->n_spares++] = (sn_file){.bytes = file->bytes, .capacity = file->capacity};
    else
        free(file->bytes);
    memset(file, 0, sizeof *file);
}
