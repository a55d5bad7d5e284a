#include "local/resume-token.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/secret.h"
#include "core/lock-value.h"
#include "local/request.h"

/* "1-" value "-" ttl "-" heartbeat "-" end "-" token "-" data "-" sum: the version; numbers in hexadecimal,
 * bytes as pairs of digits. Version 2 has "-" linger behind the token, and version 3 "-" linger "-" the end
 * of the cooldown. Each lease has the lowest version that it needs, which earlier agents accept. */
enum { SUM_DIGITS = 16, NUMBER_DIGITS_MAX = 16, PREFIX_LENGTH = 2 };

static const char plain[] = "1-", lingering[] = "2-", cooling[] = "3-";

static uint64_t sum_of(const char *text, size_t length) {
    static const uint64_t key[2] = {0x7265646c6f636b64, 1};
    return hash_bytes(key, text, length);
}

/* A number and the dash behind it. */
static size_t write_number(uint64_t number, char *text) {
    size_t length = hex_write_number(number, text);

    text[length] = '-';
    return length + 1;
}

/* Not by snprintf(3), whose own buffer on the stack keeps the digits: a core dump would have them. */
static size_t write_sum(uint64_t sum, char text[SUM_DIGITS]) {
    uint8_t of_sum[SUM_DIGITS / 2] = {0};

    for (size_t i = 0; i < sizeof(of_sum); i++)
        of_sum[i] = (uint8_t) (sum >> (56 - 8 * i));
    hex_write(of_sum, sizeof(of_sum), text);
    return SUM_DIGITS;
}

size_t resume_token_write(const struct resume_token *token, char text[RESUME_TOKEN_BYTES_MAX]) {
    uint64_t end = token->hold_until_ns == INSTANT_NEVER ? 0 : (uint64_t) token->hold_until_ns;
    size_t length = PREFIX_LENGTH;

    assert(token->data_length <= DATA_BYTES_MAX);
    bool cools = token->cooldown_until_ns > 0, lingers = cools || token->terms.linger_ms > 0;
    memcpy(text, cools ? cooling : lingers ? lingering : plain, length);
    hex_write(token->value, sizeof(token->value), text + length);
    length += 2 * sizeof(token->value);
    text[length++] = '-';
    length += write_number(token->terms.ttl_ms, text + length);
    length += write_number(token->terms.heartbeat_ms, text + length);
    length += write_number(end, text + length);
    length += write_number((uint64_t) token->token, text + length);
    if (lingers)
        length += write_number(token->terms.linger_ms, text + length);
    if (cools)
        length += write_number((uint64_t) token->cooldown_until_ns, text + length);
    hex_write(token->data, token->data_length, text + length);
    length += 2 * token->data_length;
    text[length++] = '-';
    length += write_sum(sum_of(text, length), text + length);
    assert(length < RESUME_TOKEN_BYTES_MAX);
    return length;
}

/* The rest of the text. */
struct reader {
    const char *at;
    size_t left;
};

/* Reads digits up to the next dash, and the dash. Returns the number of digits, or -1. */
static int field(struct reader *reader, const char **ret) {
    size_t length = 0;

    while (length < reader->left && hex_digit(reader->at[length]) >= 0)
        length++;
    if (length == reader->left || reader->at[length] != '-')
        return -1;
    *ret = reader->at;
    reader->at += length + 1;
    reader->left -= length + 1;
    return (int) length;
}

static bool number(struct reader *reader, uint64_t *ret) {
    const char *digits;
    int length = field(reader, &digits);
    uint64_t value = 0;

    if (length < 1 || length > NUMBER_DIGITS_MAX)
        return false;
    for (int i = 0; i < length; i++)
        value = value << 4 | (unsigned) hex_digit(digits[i]);
    *ret = value;
    return true;
}

static bool bytes(struct reader *reader, size_t most, void *ret, size_t *ret_length) {
    const char *digits;
    int length = field(reader, &digits);

    if (length < 0 || length % 2 != 0 || (size_t) length / 2 > most)
        return false;
    *ret_length = (size_t) length / 2;
    return hex_read(digits, *ret_length, ret);
}

/* The result may have secrets even if the text is no resume token. */
static bool parse(const char *text, size_t length, struct resume_token *ret) {
    char sum[SUM_DIGITS + 1];
    size_t value_length;
    uint64_t ttl, heartbeat, end, token, linger = 0, cooldown = 0;

    if (length < PREFIX_LENGTH + SUM_DIGITS || length >= RESUME_TOKEN_BYTES_MAX)
        return false;
    bool cools = bytes_begin_with(text, length, cooling, PREFIX_LENGTH);
    bool lingers = cools || bytes_begin_with(text, length, lingering, PREFIX_LENGTH);
    if (!lingers && !bytes_begin_with(text, length, plain, PREFIX_LENGTH))
        return false;
    (void) snprintf(sum, sizeof(sum), "%016" PRIx64, sum_of(text, length - SUM_DIGITS));
    bool right = secret_equal(sum, text + length - SUM_DIGITS, SUM_DIGITS);
    secret_clear(sum, sizeof(sum));
    if (!right)
        return false;
    struct reader reader = {.at = text + PREFIX_LENGTH, .left = length - PREFIX_LENGTH - SUM_DIGITS};
    if (!bytes(&reader, SECRET_BYTES, ret->value, &value_length) || value_length != SECRET_BYTES ||
        !number(&reader, &ttl) || !number(&reader, &heartbeat) || !number(&reader, &end) ||
        !number(&reader, &token) || (lingers && !number(&reader, &linger)) ||
        (cools && !number(&reader, &cooldown)) ||
        !bytes(&reader, DATA_BYTES_MAX, ret->data, &ret->data_length) || reader.left != 0)
        return false;
    if (ttl > TTL_MS_MAX || linger > TTL_MS_MAX || heartbeat > INT32_MAX || end > INT64_MAX ||
        cooldown > INT64_MAX || token >= UINT64_C(1) << 53)
        return false;
    ret->terms = (struct lease_terms){
        .ttl_ms = (uint32_t) ttl, .heartbeat_ms = (uint32_t) heartbeat, .linger_ms = (uint32_t) linger};
    ret->token = (int64_t) token;
    ret->cooldown_until_ns = (instant_ns) cooldown;
    ret->hold_until_ns = end == 0 ? INSTANT_NEVER : (instant_ns) end;
    return true;
}

bool resume_token_read(const char *text, size_t length, struct resume_token *ret) {
    struct resume_token result;
    bool right = parse(text, length, &result);

    if (right)
        *ret = result;
    secret_clear(&result, sizeof(result));
    return right;
}

size_t resume_token_of_grant(const struct request *request, const struct request_outcome *outcome,
                             char text[RESUME_TOKEN_BYTES_MAX]) {
    struct lock_value_tail tail = {.data = NULL};
    struct resume_token result; /* not initialised: its data has room for a kilobyte */

    assert(outcome->text_length == SECRET_BYTES);
    result.terms = request->terms;
    result.hold_until_ns = request->hold_until_ns;
    result.cooldown_until_ns = request->cooldown_until_ns;
    result.token = request->token;
    memcpy(result.value, outcome->text, SECRET_BYTES);
    bool read = lock_value_read_tail(request->tail->bytes, request->tail->head_length, &tail);
    assert(read);
    result.data_length = tail.data_length;
    memcpy(result.data, tail.data, tail.data_length);
    size_t length = resume_token_write(&result, text);
    secret_clear(&result, offsetof(struct resume_token, data) + result.data_length);
    return length;
}
