/* Short texts from outside: resume tokens, lock values, epochs, and the command line's JSON and UTF-8. What
 * must hold: a text that is read and written again is the same. */

#include "json.h"
#include "utf8.h"
#include "core/lock-value.h"
#include "fuzz.h"
#include "io/node/epoch.h"
#include "local/resume-token.h"
#include "resp.h"

enum goal { RESUME_TOKEN, TAIL, VALUE, EPOCH, JSON };

const char *const fuzz_goals[] = {
    [RESUME_TOKEN] = "a resume token", [TAIL] = "the end of a lock value",
    [VALUE] = "a lock value",          [EPOCH] = "an epoch",
    [JSON] = "a value of RESP",        NULL,
};
uint32_t fuzz_reached;

static void read_resume_token(const char *text, size_t length) {
    struct resume_token token, again;
    char written[RESUME_TOKEN_BYTES_MAX];

    memset(&token, 0, sizeof(token));
    memset(&again, 0, sizeof(again));
    if (!resume_token_read(text, length, &token))
        return;
    fuzz_reach(RESUME_TOKEN);
    must(token.data_length <= DATA_BYTES_MAX);
    size_t written_length = resume_token_write(&token, written);
    must(written_length <= sizeof(written));
    must(resume_token_read(written, written_length, &again));
    must(again.token == token.token && again.hold_until_ns == token.hold_until_ns &&
         again.data_length == token.data_length && memcmp(again.data, token.data, token.data_length) == 0 &&
         memcmp(again.value, token.value, SECRET_BYTES) == 0);
}

static void check_inside(const char *text, size_t length, const char *part, size_t part_length) {
    must(part >= text && part + part_length <= text + length);
}

static void read_lock_value(const char *text, size_t length) {
    char printed[64];
    struct lock_value value;
    struct lock_value_tail tail;

    size_t printed_length = lock_value_print(text, length, printed, sizeof(printed));
    must(printed_length < sizeof(printed));
    for (size_t i = 0; i < printed_length; i++)
        must((unsigned char) printed[i] >= ' ' && printed[i] != 127);
    must(lock_value_is_same_lease(text, length, text, length) || length < LOCK_VALUE_HEX_BYTES);
    if (lock_value_read_tail(text, length, &tail)) {
        fuzz_reach(TAIL);
        check_inside(text, length, tail.user, tail.user_length);
        check_inside(text, length, tail.data, tail.data_length);
    }
    if (!lock_value_read(text, length, &value))
        return;
    fuzz_reach(VALUE);
    must(lock_value_is_agents(text, length));
    check_inside(text, length, value.host, value.host_length);
    check_inside(text, length, value.holder, value.holder_length);
    check_inside(text, length, value.data, value.data_length);
}

static void read_epoch(const char *string) {
    struct epoch epoch = {0}, again = {0};
    char text[EPOCH_BYTES_MAX];

    if (strlen(string) >= EPOCH_BYTES_MAX || !epoch_read(string, &epoch))
        return;
    fuzz_reach(EPOCH);
    const struct amendment same = {.max_ttl_ms = epoch.max_ttl_ms, .proposed_ms = epoch.proposed_ms};
    epoch_amend(&epoch, &same, epoch.fleet, text);
    must(epoch_read(text, &again));
    must(strcmp(again.run_id, epoch.run_id) == 0 && again.max_ttl_ms == epoch.max_ttl_ms &&
         again.floor_us == epoch.floor_us && again.rested == epoch.rested);
}

static void write_json(const char *text, size_t length) {
    static const struct resp_limits limits = {.bulk_bytes_max = 65536, .tokens_max = 256, .depth_max = 4};
    static char json[1 << 20];
    struct resp_token tokens[256];
    size_t n_tokens;
    FILE *out = fmemopen(json, sizeof(json), "w");

    must(out);
    json_string(out, text, length);
    if (resp_parse(text, length, &limits, tokens, &n_tokens) > 0) {
        fuzz_reach(JSON);
        must(json_value(out, tokens) == n_tokens);
    }
    (void) fclose(out);
    for (size_t i = 0; i < length;) {
        size_t sequence = utf8_sequence(text + i, length - i);
        must(sequence >= 1 && sequence <= length - i);
        i += sequence;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char *text = fuzz_copy(bytes, length);
    char *string = fuzz_string(bytes, length);

    read_resume_token(text, length);
    read_lock_value(text, length);
    read_epoch(string);
    write_json(text, length);
    free(text);
    free(string);
    return 0;
}
