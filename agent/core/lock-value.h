/* The lock value: what a holder stores under the lock's key on the nodes.
 *
 *     <40 hex digits>:<host>:<agent>:<pid>:<uid>:<data>
 *
 * The digits are 20 random bytes, fresh for each attempt. ":host:agent:" is the agent's identity, the same
 * in all of its values. The rest, the tail, comes from the front: process and user of the holder, and the
 * DATA of its request. Other programs' values are arbitrary bytes.
 *
 * A lease that is resumed keeps the first 18 of the 20 bytes. The last two are a serial number (RFC 1982),
 * which begins anywhere, and grows with each RESUME of the client. A node replaces a value by one with an
 * equal or later number only: a request that reaches the node late takes no key back from an agent that has
 * resumed the lease since.
 *
 * Where clients of the old SETNX and GETSET pattern use the same name (legacy_setnx), LOCK_VALUE_FAR_FUTURE
 * precedes the value. Such clients store the end of a lock in its value, and read the first digits of any
 * value as that time. Without the prefix they would read a time in the past, and take the lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/hex.h"
#include "core/limits.h"

/* A time in 2242, 274,000 and 272 million years after 1970, in microseconds, milliseconds and seconds: valid
 * as a double and as a date of JavaScript, and in 2038 for a reader that keeps the lowest 32 bits. */
#define LOCK_VALUE_FAR_FUTURE "8589936739483647:"

enum {
    LOCK_VALUE_FAR_FUTURE_BYTES = sizeof(LOCK_VALUE_FAR_FUTURE) - 1,
    LOCK_VALUE_HEX_BYTES = 2 * SECRET_BYTES,
    LOCK_VALUE_LEASE_BYTES = 2 * SECRET_LEASE_BYTES,
    LOCK_VALUE_TAIL_BYTES_MAX = 32 + DATA_BYTES_MAX,
};

/* ":host:agent:" */
struct lock_value_identity {
    char bytes[IDENTITY_BYTES_MAX + 1];
    size_t length; /* 0: none */
};

/* Cuts the host to 64 bytes, the agent's id to what fits. */
void lock_value_identify(struct lock_value_identity *ret, const char *host, const char *agent);

/* --- composing --- */

/* Composes the tail, "pid:uid:data". Returns its length. */
size_t lock_value_put_tail(char ret[LOCK_VALUE_TAIL_BYTES_MAX], int32_t pid, uint32_t uid, const void *data,
                           size_t data_length);

/* The length of a value with this identity and tail. */
static inline size_t lock_value_bytes(const struct lock_value_identity *identity, size_t tail_length) {
    return LOCK_VALUE_HEX_BYTES + identity->length + tail_length;
}

/* Composes the value, lock_value_bytes() long. */
static inline void lock_value_put(char *ret, const uint8_t secret[SECRET_BYTES],
                                  const struct lock_value_identity *identity, const char *tail,
                                  size_t tail_length) {
    hex_write(secret, SECRET_BYTES, ret);
    memcpy(ret + LOCK_VALUE_HEX_BYTES, identity->bytes, identity->length);
    if (tail_length > 0)
        memcpy(ret + LOCK_VALUE_HEX_BYTES + identity->length, tail, tail_length);
}

/* The random part for the agent that resumes the lease. */
void lock_value_resume(uint8_t secret[SECRET_BYTES]);

/* True if both random parts are those of one lease, and at most one RESUME lies between them. */
bool lock_value_is_next(const uint8_t secret[SECRET_BYTES], const uint8_t next[SECRET_BYTES]);

/* --- parsing --- */

/* A tail's parts. */
struct lock_value_tail {
    const char *user; /* ":uid:data": equal for two processes of one user with the same data */
    size_t user_length;
    const char *data;
    size_t data_length;
};

/* False: no such tail. */
bool lock_value_read_tail(const char *tail, size_t length, struct lock_value_tail *ret);

/* The parts of a value of an agent, as pointers into the value. */
struct lock_value {
    const char *host;
    size_t host_length;
    const char *holder; /* "host:agent:pid" */
    size_t holder_length;
    size_t agent_length; /* of "host:agent", the beginning of `holder` */
    const char *data;
    size_t data_length;
};

/* The value without the leading time of LOCK_VALUE_FAR_FUTURE, if there is one; shortens *length. */
const char *lock_value_skip_time(const char *value, size_t *length);

/* False, and `ret` is untouched: the value is not an agent's. */
bool lock_value_read(const char *value, size_t length, struct lock_value *ret);

/* True if the value has an agent's form. */
bool lock_value_is_agents(const char *value, size_t length);

/* True if the value belongs to the agent with this identity; `ret_secret` has its random part then. Never of
 * a value with LOCK_VALUE_FAR_FUTURE. */
bool lock_value_is_of(const char *value, size_t length, const struct lock_value_identity *identity,
                      uint8_t ret_secret[SECRET_BYTES]);

/* True if the agent with this identity has set the value. */
bool lock_value_has_identity(const char *value, size_t length, const struct lock_value_identity *identity);

/* True if both values are those of one lease. */
bool lock_value_is_same_lease(const char *one, size_t one_length, const char *other, size_t other_length);

/* True if both values have an agent's form, and differ in their random parts at most. */
bool lock_value_is_same_holder(const char *one, size_t one_length, const char *other, size_t other_length);

/* The part of a value that people read, escaped and cut to fit: "host:agent:pid" of an agent's. A person who
 * knows another library's whole value can release the lock: so of a value that may be random, half is shown.
 * Returns the text's length. */
enum { LOCK_VALUE_FOREIGN_WHOLE = 8, LOCK_VALUE_FOREIGN_SHOWN = 12 };
#define LOCK_VALUE_MORE "..."
size_t lock_value_print(const char *value, size_t length, char *buffer, size_t size);
