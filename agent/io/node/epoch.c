#include "io/node/epoch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOOR_LIMIT_US (UINT64_C(1) << 53)

/* The next word of the text, of these characters. False: there is none, or it has no room. */
static bool take_word(const char **at, const char *characters, char *ret, size_t size) {
    const char *word = *at + strspn(*at, " ");
    size_t length = strspn(word, characters);

    if (length == 0 || length >= size)
        return false;
    memcpy(ret, word, length);
    ret[length] = '\0';
    *at = word + length;
    return true;
}

/* A number that is larger than `max` counts as `max`. */
static bool take_number(const char **at, uint64_t max, uint64_t *ret) {
    char digits[24], *end;

    if (!take_word(at, "-0123456789", digits, sizeof(digits)))
        return false;
    errno = 0;
    long long number = strtoll(digits, &end, 10);
    *ret = errno != 0 || number > (long long) max ? max : number < 0 ? 0 : (uint64_t) number;
    return *end == '\0';
}

static bool take_u32(const char **at, uint32_t *ret) {
    uint64_t number = 0;

    if (!take_number(at, UINT32_MAX, &number))
        return false;
    *ret = (uint32_t) number;
    return true;
}

bool epoch_read(const char *text, struct epoch *ret) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz", hex[] = "0123456789abcdef",
                      any[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct epoch epoch = {0};
    uint64_t floor_us = 0;
    char rested[16];

    if (!take_word(&text, any, epoch.run_id, sizeof(epoch.run_id)) || !take_u32(&text, &epoch.max_ttl_ms) ||
        !take_number(&text, FLOOR_LIMIT_US, &floor_us) ||
        !take_word(&text, hex, epoch.fleet, sizeof(epoch.fleet)) ||
        !take_word(&text, letters, rested, sizeof(rested)) || !take_u32(&text, &epoch.generation))
        return false;
    if (*text != '\0' && !take_u32(&text, &epoch.proposed_ms))
        return false;
    epoch.floor_us = floor_us < FLOOR_LIMIT_US ? (int64_t) floor_us : 0;
    epoch.rested = strcmp(rested, "rested") == 0;
    if (epoch.max_ttl_ms > TTL_MS_MAX)
        epoch.max_ttl_ms = TTL_MS_MAX;
    *ret = epoch;
    return true;
}

void epoch_amend(const struct epoch *epoch, const struct amendment *amendment, const char *fleet,
                 char text[static EPOCH_BYTES_MAX]) {
    char proposed[16] = "";

    if (amendment->proposed_ms != 0)
        (void) snprintf(proposed, sizeof(proposed), " %u", (unsigned) amendment->proposed_ms);
    (void) snprintf(text, EPOCH_BYTES_MAX, "%s %u %lld %s %s %u%s", epoch->run_id,
                    (unsigned) amendment->max_ttl_ms, (long long) epoch->floor_us, fleet,
                    epoch->rested ? "rested" : "unrested", (unsigned) epoch->generation + 1, proposed);
}
