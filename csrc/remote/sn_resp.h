/*
 * sn_resp.h -- what is sent to Redis and Valkey, and what they answer: the part of RESP2 that a cache needs.
 *
 *   command   *3 $3 SET $24 seneca:... $110032 <bytes>
 *   answer    +OK | -ERR why | :1 | $110032 <bytes> | $-1
 *
 * Lives in   private memory. Nothing here reads or writes a socket.
 * Blocking   never.
 * Trust      none: whatever bytes come, an answer is one of those above, or -EPROTO.
 */
#ifndef SN_RESP_H
#define SN_RESP_H

#include <stddef.h>
#include <stdint.h>

#define SN_RESP_LINE 1024 /* bytes of the first line of an answer, at the most */
#define SN_RESP_DIGITS 20 /* of a number, at the most */

enum sn_answer_kind { SN_ANSWER_OK, SN_ANSWER_ERROR, SN_ANSWER_NUMBER, SN_ANSWER_BYTES, SN_ANSWER_NOTHING };

typedef struct {
    enum sn_answer_kind kind;
    uint64_t length;  /* of BYTES, which follow, and then CR LF */
    const char *text; /* of OK and ERROR, in the bytes that were given; not terminated */
    size_t text_length;
} sn_answer;

/* Read the first line of an answer from `n` bytes. 0: `answer` has it, and `used` how long the line is; SN_BUSY: it is
 * not whole yet; -EPROTO: no server says this, or BYTES are more than `most`. */
int sn_resp_answer(const uint8_t *bytes, size_t n, uint64_t most, sn_answer *answer, size_t *used);

/* Whether an answer says that the key holds something else than a value of bytes. */
int sn_answer_is_of_another_type(const sn_answer *answer);

/* Write a number's digits, without a NUL: how many. printf() takes twenty times as long. */
size_t sn_resp_number(char *to, uint64_t value);

/* One word of a command. Without `bytes` only its length is written: the caller sends it, and CR LF, by itself. */
typedef struct {
    const void *bytes;
    size_t length;
} sn_word;

/* Write a command of `total` words, of which the first `n` are given. The bytes that were written; 0: `capacity` does not
 * suffice. */
size_t sn_resp_command(uint8_t *to, size_t capacity, uint32_t total, const sn_word *words, uint32_t n);

#endif
