#include "sn_resp.h"

#include <errno.h>
#include <string.h>

#include "../base/sn_status.h"

/* A number as servers write it: digits, perhaps after a minus, and nothing else. */
static int number(const char *text, size_t length, int64_t *value)
{
    size_t at = length > 0 && text[0] == '-';
    uint64_t sum = 0;

    if (length == at || length - at > 18)
        return -EPROTO;
    for (size_t i = at; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -EPROTO;
        sum = 10 * sum + (uint64_t)(text[i] - '0');
    }
    *value = at ? -(int64_t)sum : (int64_t)sum;
    return 0;
}

int sn_resp_answer(const uint8_t *bytes, size_t n, uint64_t most, sn_answer *answer, size_t *used)
{
    size_t seen = n < SN_RESP_LINE ? n : SN_RESP_LINE;
    const uint8_t *end = seen ? memchr(bytes, '\n', seen) : NULL;
    int64_t value;

    if (!end)
        return n < SN_RESP_LINE ? SN_BUSY : -EPROTO;
    if (end - bytes < 2 || end[-1] != '\r')
        return -EPROTO;
    *used = (size_t)(end - bytes) + 1;
    answer->text = (const char *)bytes + 1;
    answer->text_length = *used - 3;
    answer->length = 0;
    switch (bytes[0]) {
    case '+':
        answer->kind = SN_ANSWER_OK;
        return 0;
    case '-':
        answer->kind = SN_ANSWER_ERROR;
        return 0;
    case ':':
        answer->kind = SN_ANSWER_NUMBER;
        return number(answer->text, answer->text_length, &value);
    case '$':
        if (number(answer->text, answer->text_length, &value) != 0 || value < -1 ||
            (value > 0 && (uint64_t)value > most))
            return -EPROTO;
        answer->kind = value < 0 ? SN_ANSWER_NOTHING : SN_ANSWER_BYTES;
        answer->length = value < 0 ? 0 : (uint64_t)value;
        return 0;
    default:
        return -EPROTO;
    }
}

int sn_answer_is_of_another_type(const sn_answer *answer)
{
    static const char code[] = "WRONGTYPE";

    return answer->kind == SN_ANSWER_ERROR && answer->text_length >= sizeof code - 1 &&
           memcmp(answer->text, code, sizeof code - 1) == 0;
}

size_t sn_resp_number(char *to, uint64_t value)
{
    char backwards[SN_RESP_DIGITS];
    size_t n = 0;

    do
        backwards[n++] = (char)('0' + value % 10);
    while (value /= 10);
    for (size_t i = 0; i < n; i++)
        to[i] = backwards[n - 1 - i];
    return n;
}

/* A line that says how many there are of something. */
static size_t write_count(char *line, char kind, uint64_t count)
{
    line[0] = kind;
    size_t n = 1 + sn_resp_number(line + 1, count);
    line[n++] = '\r';
    line[n++] = '\n';
    return n;
}

size_t sn_resp_command(uint8_t *to, size_t capacity, uint32_t total, const sn_word *words, uint32_t n)
{
    char line[SN_RESP_DIGITS + 3];
    size_t at = 0;

    for (uint32_t i = 0; i <= n; i++) {
        const sn_word *word = i ? &words[i - 1] : NULL;
        size_t follows = word && word->bytes ? word->length + 2 : 0;
        size_t length = word ? write_count(line, '$', word->length) : write_count(line, '*', total);
        if (length + follows > capacity - at)
            return 0;
        memcpy(to + at, line, length);
        at += length;
        if (follows) {
            memcpy(to + at, word->bytes, word->length);
            memcpy(to + at + word->length, "\r\n", 2);
            at += follows;
        }
    }
    return at;
}
