/* Replies and pushes of an agent, as a client that was written after protocol.md reads them. */

#include <assert.h>
#include <string.h>

#include "answer.h"
#include "resp.h"

enum { TOKENS_MAX = 128, ITEMS_MAX = 64 };

static bool is(const struct resp_token *token, const char *word) {
    return (token->type == RESP_BULK || token->type == RESP_STRING) && token->length == strlen(word) &&
           memcmp(token->text, word, token->length) == 0;
}

static void copy(const struct resp_token *token, char *ret, size_t size) {
    size_t length = token->length < size ? token->length : size - 1;

    if (length > 0)
        memcpy(ret, token->text, length);
    ret[length] = '\0';
}

/* "BUSY 250 ms ago: held by …", "TIMEOUT waited 50 ms; 250 ms ago: …": 250. */
static int64_t read_age(const struct resp_token *error) {
    static const char ago[] = " ms ago: ";
    const char *end = memmem(error->text, error->length, ago, sizeof(ago) - 1);
    int64_t age_ms = 0, power = 1;

    for (const char *at = end; at && at > error->text && at[-1] >= '0' && at[-1] <= '9'; at--, power *= 10)
        age_ms += (at[-1] - '0') * power;
    return end ? age_ms : -1;
}

static bool has(const struct resp_token *error, const char *words) {
    return memmem(error->text, error->length, words, strlen(words)) != NULL;
}

static void read_text(const struct resp_token *error, struct answer *ret) {
    ret->ago_ms = read_age(error);
    ret->shows_holder = has(error, "held by ") || has(error, "cools");
    ret->behind_resume = has(error, "is resuming the lease");
}

/* Up to the first blank. */
static void copy_word(const struct resp_token *token, char *ret, size_t size) {
    struct resp_token word = *token;
    const char *blank = token->length > 0 ? memchr(token->text, ' ', token->length) : NULL;

    if (blank)
        word.length = (size_t) (blank - token->text);
    copy(&word, ret, size);
}

/* The keys of all maps that the simulated clients read. */
static void read_pair(const struct resp_token *key, const struct resp_token *value, struct answer *ret) {
    static const struct {
        const char *key;
        size_t at;
    } numbers[] = {{"validity", offsetof(struct answer, validity_ms)},
                   {"deadline", offsetof(struct answer, deadline_ns)},
                   {"fence", offsetof(struct answer, fence)},
                   {"slot", offsetof(struct answer, slot)},
                   {"since", offsetof(struct answer, since_ms)}};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (is(key, numbers[i].key))
            memcpy((char *) ret + numbers[i].at, &value->integer, sizeof(value->integer));
    if (is(key, "id"))
        ret->id = (uint64_t) value->integer;
    else if (is(key, "name"))
        copy(value, ret->name, sizeof(ret->name));
    else if (is(key, "secret"))
        copy(value, ret->token, sizeof(ret->token));
    else if (is(key, "holder"))
        copy(value, ret->holder, sizeof(ret->holder));
    else if (is(key, "data"))
        copy(value, ret->data, sizeof(ret->data));
    else if (is(key, "state"))
        copy(value, ret->word, sizeof(ret->word));
}

/* A map, or the flat array that RESP2 has instead. All values are plain in the maps that matter. */
static void read_map(const struct resp_token *tokens, struct answer *ret) {
    size_t n = tokens[0].count * (tokens[0].type == RESP_MAP ? 2 : 1);

    for (size_t i = 0; i + 1 < n; i += 2)
        read_pair(&tokens[1 + i], &tokens[2 + i], ret);
}

static bool read_push(const struct resp_token *tokens, size_t n, struct answer *ret) {
    const struct resp_token *second = &tokens[2], *third = &tokens[3];

    if (n < 2)
        return false;
    ret->push = true;
    ret->id = (uint64_t) second->integer;
    if (is(&tokens[1], "granted")) {
        ret->kind = ANSWER_GRANT;
        read_map(third, ret);
    } else if (is(&tokens[1], "failed")) {
        ret->kind = ANSWER_FAILED;
        copy_word(third, ret->word, sizeof(ret->word));
        read_text(third, ret);
    } else if (is(&tokens[1], "lost")) {
        ret->kind = ANSWER_LOST;
        copy(third, ret->word, sizeof(ret->word));
    } else if (is(&tokens[1], "at-risk")) {
        ret->kind = ANSWER_AT_RISK;
        ret->validity_ms = third->integer;
        copy(&tokens[4], ret->word, sizeof(ret->word));
    } else if (is(&tokens[1], "extended")) {
        ret->kind = ANSWER_EXTENDED;
        ret->validity_ms = third->integer;
        ret->deadline_ns = tokens[4].integer;
    } else if (is(&tokens[1], "leader")) {
        ret->kind = ANSWER_OBSERVED;
        copy(second, ret->name, sizeof(ret->name));
        read_map(third, ret);
    } else {
        ret->push = false;
    }
    return ret->push;
}

static void read_aggregate(const struct resp_token *tokens, size_t n, struct answer *ret) {
    if (tokens[0].type != RESP_MAP && n > 1 && is(&tokens[1], "waiting")) {
        ret->kind = ANSWER_WAITING;
        ret->id = (uint64_t) tokens[2].integer;
    } else if (tokens[0].type == RESP_MAP || !read_push(tokens, n, ret)) {
        ret->kind = n > 1 && is(&tokens[1], "id")       ? ANSWER_GRANT
                    : n > 1 && is(&tokens[1], "holder") ? ANSWER_LEADER
                                                        : ANSWER_OTHER;
        if (ret->kind != ANSWER_OTHER)
            read_map(tokens, ret);
    }
}

size_t answer_read(const char *bytes, size_t length, struct answer *ret) {
    static const struct resp_limits limits = {
        .bulk_bytes_max = 4096, .tokens_max = TOKENS_MAX, .depth_max = RESP_DEPTH_MAX};
    struct resp_token tokens[TOKENS_MAX];
    size_t n_tokens = 0;
    long n = resp_parse(bytes, length, &limits, tokens, &n_tokens);

    if (n <= 0)
        return 0;
    *ret = (struct answer){.kind = ANSWER_OTHER, .slot = -1, .ago_ms = -1};
    switch (tokens[0].type) {
    case RESP_INTEGER:
        ret->kind = ANSWER_INTEGER;
        ret->integer = tokens[0].integer;
        break;
    case RESP_ERROR:
        ret->kind = ANSWER_ERROR;
        copy_word(&tokens[0], ret->word, sizeof(ret->word));
        read_text(&tokens[0], ret);
        break;
    case RESP_NIL:
        ret->kind = ANSWER_NIL;
        break;
    case RESP_ARRAY:
    case RESP_MAP:
    case RESP_PUSH:
        read_aggregate(tokens, n_tokens, ret);
        break;
    case RESP_STRING:
    case RESP_BULK:
    case RESP_BOOL:
    case RESP_DOUBLE:
        break;
    }
    return (size_t) n;
}

/* protocol.md, section 8. */
int64_t answer_page_deadline(const void *page, int64_t slot, uint64_t id) {
    const unsigned char *bytes = page;
    uint32_t header[5];
    uint64_t its_id;
    int64_t deadline_ns;

    memcpy(header, bytes, sizeof(header));
    if (header[0] != 0x4b434c52 || header[1] != 1 || slot >= header[2]) {
        violation("a page is none");
        return 0;
    }
    const unsigned char *at = bytes + header[4] + (size_t) slot * header[3];
    memcpy(&its_id, at, sizeof(its_id));
    memcpy(&deadline_ns, at + sizeof(its_id), sizeof(deadline_ns));
    return its_id == id ? deadline_ns : 0;
}
