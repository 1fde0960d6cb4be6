/*
 * sn_item_file.h -- brings the file of a sample: from another host's memory, or else from storage.
 *
 *   wanted --> other hosts, many at a time --> the file, or the AUGMENTED copy
 *                    \--> not there --> storage --> the file, which is then left for other hosts
 *
 * Lives in   private memory.
 * Callers    the thread that claimed the place.
 * Blocking   on storage, for ever where that hangs; on other hosts as sn_remote.h says.
 * Errors     file->rc and file->why; a place that other hosts do not have is read from storage.
 */
#ifndef SN_ITEM_FILE_H
#define SN_ITEM_FILE_H

#include "sn_batch.h"

/* Have the file of a place: from another host, or else from storage, and then it is left for other hosts. Notes how many
 * nanoseconds that took, and returns them. Other hosts may have been asked in vain before. */
uint64_t sn_fetch_item_file(const sn_context *context, sn_batch_item *place, int is_interruptible, int is_ahead,
                            sn_file *file);

/* Read the file of a place ahead of sn_prepare(), by another thread. It blocks on storage, for ever where that hangs.
 *
 * 0, also where the file cannot be read: sn_prepare() reports it. -EMFILE, -ENFILE, -ENOMEM: too many files are read at
 * a time, and sn_prepare() reads this one. */
int sn_read_ahead(const sn_context *context, sn_batch_item *place);

/* How often this thread has gone to sleep. One whose core is taken away does not. */
long sn_thread_sleeps(void);

/* A request to other hosts. */
typedef struct {
    uint32_t sample;
    uint8_t wants_copy; /* the AUGMENTED copy */
    uint8_t wants_file; /* or else the file */
    sn_file file;       /* memory that may be used; then what has come */
} sn_asked;

/* Get what other hosts have left of up to SN_REMOTE_AT_ONCE samples, where the context names such hosts. What was found is
 * good, and says is_remote. */
void sn_ask_other_hosts(const sn_context *context, sn_asked *asked, uint32_t n);

/* Files that other hosts were asked for, and that have to be taken. */
typedef struct {
    sn_gets gets;
    sn_wish wishes[SN_REMOTE_AT_ONCE];
    sn_file *files[SN_REMOTE_AT_ONCE]; /* in the sn_asked */
    uint32_t n;
} sn_question;

/* Ask for files, and for no copies, without waiting. The context names other hosts; `asked` stays until the files are taken. */
void sn_ask_for_files(const sn_context *context, sn_asked *asked, uint32_t n, sn_question *question);

/* Take them, and wait for those that have not come. What was found is good, and says is_remote. */
void sn_take_files(const sn_context *context, const sn_question *question);

#endif
