#include "local/reply.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ERROR_BYTES_MAX = 1600 };

/* --- words --- */

static const struct {
    const char *word, *text;
} reasons[] = {
    [REASON_NO_QUORUM] = {"no-quorum", "no majority of the nodes extended the lease in time"},
    [REASON_TAKEN] =
        {"taken", "another holder has a majority of the nodes, or the lease was resumed at another agent"},
    [REASON_PAUSED] = {"paused", "the agent was stopped or starved past the deadline"},
    [REASON_HEARTBEAT] = {"heartbeat", "no BEAT came in time"},
    [REASON_MAX_HOLD] = {"max-hold", "the lease reached its max_hold"},
    [REASON_CLOSED] = {"closed", "the agent closed the session"},
    [REASON_UNREAD] = {"unread", "the client did not read the grant in time"},
};

static_assert(sizeof(reasons) / sizeof(reasons[0]) == REASON_COUNT, "each reason has its words");

const char *reply_reason_word(enum reason reason) {
    return reasons[reason].word;
}

const char *reply_reason_text(enum reason reason) {
    return reasons[reason].text;
}

/* The words of errors, the most frequent first. The last slot is for words that are not here. */
static const char *const error_words[] = {"BUSY",    "TIMEOUT", "NOQUORUM", "QUOTA", "DENIED",  "BADARG",
                                          "BADNAME", "NOTHELD", "DRAINING", "ERR",   "NOPROTO", "other"};

static_assert(sizeof(error_words) / sizeof(error_words[0]) == FRONT_STATE_WORDS, "each word has a slot");

void reply_count_rejection(struct front_state *front, const char *word) {
    unsigned slot = 0;

    while (slot < FRONT_STATE_WORDS - 1 && strcmp(word, error_words[slot]) != 0)
        slot++;
    front->rejections[slot]++;
}

const char *reply_word_of_slot(unsigned slot) {
    assert(slot < FRONT_STATE_WORDS);
    return error_words[slot];
}

/* --- composing --- */

struct resp_writer reply_begin(const struct session *session) {
    return (struct resp_writer){.buffer = session->front->reply, .size = REPLY_BYTES_MAX};
}

struct resp_writer reply_begin_push(const struct session *session, const char *kind, size_t items) {
    struct resp_writer writer = reply_begin(session);

    resp_put_push(&writer, items, session->protocol);
    reply_put_text(&writer, kind);
    return writer;
}

void reply_send(struct session *session, const struct resp_writer *writer) {
    const struct front_state_sink *sink = &session->front->sink;

    assert(writer->length <= writer->size);
    session->written += (uint32_t) writer->length;
    sink->write(sink->userdata, session, writer->buffer, writer->length);
}

void reply_put_text(struct resp_writer *writer, const char *text) {
    resp_put_bulk(writer, text, strlen(text));
}

void reply_put_text_pair(struct resp_writer *writer, const char *key, const char *value) {
    reply_put_text(writer, key);
    reply_put_text(writer, value);
}

void reply_put_integer_pair(struct resp_writer *writer, const char *key, int64_t value) {
    reply_put_text(writer, key);
    resp_put_integer(writer, value);
}

/* --- whole replies --- */

void reply_error(struct session *session, const char *word, const char *format, ...) {
    struct resp_writer writer = reply_begin(session);
    char text[ERROR_BYTES_MAX];
    va_list arguments;

    reply_count_rejection(session->front, word);
    int prefix = snprintf(text, sizeof(text), "%s ", word);
    assert(prefix > 0 && (size_t) prefix < sizeof(text));
    va_start(arguments, format);
    (void) vsnprintf(text + prefix, sizeof(text) - (size_t) prefix, format, arguments);
    va_end(arguments);
    resp_put_error(&writer, text, strlen(text));
    reply_send(session, &writer);
}

void reply_quota(struct session *session, enum quota_kind kind, uint64_t amount) {
    char text[QUOTA_TEXT_BYTES];

    quota_text(&session->front->registry.quota, session->uid, kind, amount, text);
    reply_error(session, "QUOTA", "%s", text);
}

void reply_string(struct session *session, const char *text) {
    struct resp_writer writer = reply_begin(session);

    resp_put_string(&writer, text);
    reply_send(session, &writer);
}

void reply_integer(struct session *session, int64_t value) {
    struct resp_writer writer = reply_begin(session);

    resp_put_integer(&writer, value);
    reply_send(session, &writer);
}

void reply_bulk(struct session *session, const char *bytes, size_t length) {
    struct resp_writer writer = reply_begin(session);

    resp_put_bulk(&writer, bytes, length);
    reply_send(session, &writer);
}
