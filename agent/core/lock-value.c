#include "core/lock-value.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/decimal.h"
#include "base/secret.h"

enum { HOST_COLON = 1, AGENT_COLON, PID_COLON, UID_COLON, DATA_COLON };

void lock_value_identify(struct lock_value_identity *ret, const char *host, const char *agent) {
    int length =
        snprintf(ret->bytes, sizeof(ret->bytes), ":%.64s:%.*s:", host, IDENTITY_BYTES_MAX - 67, agent);

    assert(length > 0 && (size_t) length < sizeof(ret->bytes));
    ret->length = (size_t) length;
}

size_t lock_value_put_tail(char ret[LOCK_VALUE_TAIL_BYTES_MAX], int32_t pid, uint32_t uid, const void *data,
                           size_t data_length) {
    static_assert(LOCK_VALUE_TAIL_BYTES_MAX >= 11 + 1 + 10 + 1 + DATA_BYTES_MAX, "any process and user fit");
    assert(data_length <= DATA_BYTES_MAX);

    size_t length = decimal_write(pid, ret);
    ret[length++] = ':';
    length += decimal_write(uid, ret + length);
    ret[length++] = ':';
    if (data_length > 0)
        memcpy(ret + length, data, data_length);
    return length + data_length;
}

bool lock_value_read_tail(const char *tail, size_t length, struct lock_value_tail *ret) {
    const char *end = tail + length, *user = memchr(tail, ':', length);
    const char *data = user ? memchr(user + 1, ':', (size_t) (end - user - 1)) : NULL;

    if (!data || length > LOCK_VALUE_TAIL_BYTES_MAX || (size_t) (end - data - 1) > DATA_BYTES_MAX)
        return false;
    data++;
    *ret = (struct lock_value_tail){.user = user,
                                    .user_length = (size_t) (end - user),
                                    .data = data,
                                    .data_length = (size_t) (end - data)};
    return true;
}

/* Skips LOCK_VALUE_FAR_FUTURE. */
const char *lock_value_skip_time(const char *value, size_t *length) {
    if (!bytes_begin_with(value, *length, LOCK_VALUE_FAR_FUTURE, LOCK_VALUE_FAR_FUTURE_BYTES))
        return value;
    *length -= LOCK_VALUE_FAR_FUTURE_BYTES;
    return value + LOCK_VALUE_FAR_FUTURE_BYTES;
}

/* Where the n-th colon of a value is; 0 when there are fewer. */
static size_t colon_at(const char *value, size_t length, unsigned n) {
    for (size_t at = LOCK_VALUE_HEX_BYTES; at < length; at++)
        if (value[at] == ':' && --n == 0)
            return at;
    return 0;
}

void lock_value_resume(uint8_t secret[SECRET_BYTES]) {
    for (unsigned i = SECRET_BYTES; i > SECRET_LEASE_BYTES && ++secret[i - 1] == 0; i--)
        ;
}

static uint16_t number_of(const uint8_t secret[SECRET_BYTES]) {
    return (uint16_t) (secret[SECRET_BYTES - 2] << 8 | secret[SECRET_BYTES - 1]);
}

bool lock_value_is_next(const uint8_t secret[SECRET_BYTES], const uint8_t next[SECRET_BYTES]) {
    int16_t resumes = (int16_t) (number_of(next) - number_of(secret));

    return secret_equal(secret, next, SECRET_LEASE_BYTES) && resumes <= 1;
}

/* Where the colon before the data is; 0: the value is not an agent's. */
static size_t data_colon(const char *value, size_t length) {
    if (length <= LOCK_VALUE_HEX_BYTES || value[LOCK_VALUE_HEX_BYTES] != ':')
        return 0;
    for (size_t i = 0; i < LOCK_VALUE_HEX_BYTES; i++)
        if (hex_digit(value[i]) < 0)
            return 0;
    return colon_at(value, length, DATA_COLON);
}

bool lock_value_is_agents(const char *value, size_t length) {
    value = lock_value_skip_time(value, &length);
    return data_colon(value, length) != 0;
}

bool lock_value_read(const char *value, size_t length, struct lock_value *ret) {
    value = lock_value_skip_time(value, &length);
    const size_t host = LOCK_VALUE_HEX_BYTES + 1, data = data_colon(value, length);

    if (data == 0)
        return false;
    *ret = (struct lock_value){.host = value + host,
                               .host_length = colon_at(value, length, AGENT_COLON) - host,
                               .holder = value + host,
                               .holder_length = colon_at(value, length, UID_COLON) - host,
                               .agent_length = colon_at(value, length, PID_COLON) - host,
                               .data = value + data + 1,
                               .data_length = length - data - 1};
    return true;
}

bool lock_value_is_of(const char *value, size_t length, const struct lock_value_identity *identity,
                      uint8_t ret_secret[SECRET_BYTES]) {
    return length > LOCK_VALUE_HEX_BYTES &&
           bytes_begin_with(value + LOCK_VALUE_HEX_BYTES, length - LOCK_VALUE_HEX_BYTES, identity->bytes,
                            identity->length) &&
           hex_read(value, SECRET_BYTES, ret_secret);
}

bool lock_value_has_identity(const char *value, size_t length, const struct lock_value_identity *identity) {
    value = lock_value_skip_time(value, &length);
    return identity->length > 0 && data_colon(value, length) != 0 &&
           bytes_begin_with(value + LOCK_VALUE_HEX_BYTES, length - LOCK_VALUE_HEX_BYTES, identity->bytes,
                            identity->length);
}

bool lock_value_is_same_lease(const char *one, size_t one_length, const char *other, size_t other_length) {
    if (lock_value_is_agents(one, one_length) && lock_value_is_agents(other, other_length))
        return secret_equal(lock_value_skip_time(one, &one_length),
                            lock_value_skip_time(other, &other_length), LOCK_VALUE_LEASE_BYTES);
    return bytes_equal(one, one_length, other, other_length);
}

bool lock_value_is_same_holder(const char *one, size_t one_length, const char *other, size_t other_length) {
    if (!lock_value_is_agents(one, one_length) || !lock_value_is_agents(other, other_length))
        return false;
    one = lock_value_skip_time(one, &one_length);
    other = lock_value_skip_time(other, &other_length);
    return bytes_equal(one + LOCK_VALUE_HEX_BYTES, one_length - LOCK_VALUE_HEX_BYTES,
                       other + LOCK_VALUE_HEX_BYTES, other_length - LOCK_VALUE_HEX_BYTES);
}

size_t lock_value_print(const char *value, size_t length, char *buffer, size_t size) {
    struct lock_value parts;

    if (lock_value_read(value, length, &parts))
        return bytes_escape(parts.holder, parts.holder_length, buffer, size);
    if (length <= LOCK_VALUE_FOREIGN_WHOLE)
        return bytes_escape(value, length, buffer, size);
    size_t shown = length / 2 < LOCK_VALUE_FOREIGN_SHOWN ? length / 2 : LOCK_VALUE_FOREIGN_SHOWN;
    size_t used = bytes_escape(value, shown, buffer, size);
    return used + bytes_escape(LOCK_VALUE_MORE, strlen(LOCK_VALUE_MORE), buffer + used, size - used);
}
