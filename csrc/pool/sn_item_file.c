#define _GNU_SOURCE
#include "sn_item_file.h"

#include <errno.h>
#include <sys/resource.h>

#include "../base/sn_clock.h"
#include "sn_read.h"

#define SLOW_NS 64000u /* the most that the page cache takes for a picture's file */

/* Whether what other hosts have left can be what was asked for. */
static int fits(const sn_context *context, const sn_wish *wish, int is_copy)
{
    if (is_copy)
        return wish->length == sn_context_copy_bytes(context);
    return !context->pieces || context->pieces[wish->sample].length == wish->length;
}

/* The most bytes that what other hosts have left may have, as sn_wish has it. */
static size_t most_bytes(const sn_context *context, uint32_t sample, int is_copy)
{
    if (is_copy)
        return sn_context_copy_bytes(context);
    return context->pieces ? context->pieces[sample].length : context->largest;
}

/* Write wishes for the copies that are wanted, or for the files that are. How many. */
static uint32_t write_wishes(const sn_context *context, sn_asked *asked, uint32_t n, int for_copies,
                             sn_question *question)
{
    question->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        sn_file *file = &asked[i].file;
        if (file->is_remote || !(for_copies ? asked[i].wants_copy : asked[i].wants_file))
            continue;
        question->files[question->n] = file;
        question->wishes[question->n++] = (sn_wish){.sample = asked[i].sample,
                                                    .bytes = file->bytes,
                                                    .capacity = file->capacity,
                                                    .most = most_bytes(context, asked[i].sample, for_copies)};
    }
    return question->n;
}

/* Store the answers as the files that were asked for. */
static void hand_out(const sn_context *context, const sn_question *question, int is_copy)
{
    for (uint32_t i = 0; i < question->n; i++) {
        const sn_wish *wish = &question->wishes[i];
        sn_file *file = question->files[i];
        *file = (sn_file){.bytes = wish->bytes, .capacity = wish->capacity};
        if (!wish->is_found || !fits(context, wish, is_copy))
            continue;
        file->length = wish->length;
        file->is_remote = 1;
        file->is_copy = is_copy != 0;
    }
}

static void forget_lengths(sn_asked *asked, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        asked[i].file = (sn_file){.bytes = asked[i].file.bytes, .capacity = asked[i].file.capacity};
}

void sn_ask_for_files(const sn_context *context, sn_asked *asked, uint32_t n, sn_question *question)
{
    forget_lengths(asked, n);
    write_wishes(context, asked, n, 0, question);
    sn_remote_ask(context->remote, context->dataset, question->wishes, question->n, &question->gets);
}

void sn_take_files(const sn_context *context, const sn_question *question)
{
    sn_remote_take(&question->gets);
    hand_out(context, question, 0);
}

void sn_ask_other_hosts(const sn_context *context, sn_asked *asked, uint32_t n)
{
    sn_question question;

    forget_lengths(asked, n);
    if (write_wishes(context, asked, n, 1, &question) > 0) {
        sn_hosts_get(context->hosts, context->copies, question.wishes, question.n);
        hand_out(context, &question, 1);
    }
    if (write_wishes(context, asked, n, 0, &question) > 0) {
        sn_remote_get(context->remote, context->dataset, question.wishes, question.n);
        hand_out(context, &question, 0);
    }
}

/* Have the file of a place: from another host, or else from storage, and then it is left for other hosts. */
static void fetch(const sn_context *context, const sn_batch_item *place, int is_interruptible, int is_ahead,
                  sn_file *file)
{
    sn_asked asked = {.sample = place->item.sample, .wants_file = 1, .file = *file};

    file->is_remote = 0;
    if (context->remote && !place->skips_remote) {
        sn_ask_other_hosts(context, &asked, 1);
        *file = asked.file;
    }
    file->ctime_ns = 0;
    if (file->is_remote)
        return;
    sn_read_file(context, asked.sample, is_interruptible, is_ahead, file);
    if (context->remote && file->rc == 0)
        sn_remote_put(context->remote, context->dataset, asked.sample, file->bytes, file->length,
                      (sn_terms){.replaces = place->skips_remote}); /* what it has may be of an earlier time */
}

long sn_thread_sleeps(void)
{
    struct rusage used;
    return getrusage(RUSAGE_THREAD, &used) == 0 ? used.ru_nvcsw : 0;
}

uint64_t sn_fetch_item_file(const sn_context *context, sn_batch_item *place, int is_interruptible, int is_ahead,
                            sn_file *file)
{
    long slept = sn_thread_sleeps();
    uint64_t began = sn_now_ns();

    fetch(context, place, is_interruptible, is_ahead, file);
    uint64_t took = sn_now_ns() - began;
    place->spent.read += took;
    place->ctime_ns = file->ctime_ns;
    if (took > SLOW_NS && sn_thread_sleeps() > slept)
        place->awaited_ns += took;
    return took;
}

int sn_read_ahead(const sn_context *context, sn_batch_item *place)
{
    sn_fetch_item_file(context, place, 0, 1, &place->file);
    int rc = place->file.rc;
    place->is_read = rc != -EMFILE && rc != -ENFILE && rc != -ENOMEM;
    return place->is_read ? 0 : rc;
}
