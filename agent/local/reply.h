/* Replies and pushes: RESP answers, composed in the front's buffer and written to a session's output. The
 * protocol's words for reasons are here too. */
#pragma once

#include "core/event.h"
#include "local/session.h"
#include "resp.h"

/* An empty reply in the front's buffer. One reply at a time. */
struct resp_writer reply_begin(const struct session *session);

/* A push of `items` items, the first of which is its kind. */
struct resp_writer reply_begin_push(const struct session *session, const char *kind, size_t items);

/* The whole reply or push goes to the session's output. */
void reply_send(struct session *session, const struct resp_writer *writer);

/* --- whole replies --- */

/* "WORD text". */
void reply_error(struct session *session, const char *word, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* QUOTA: why quota_may() was false. */
void reply_quota(struct session *session, enum quota_kind kind, uint64_t amount);
void reply_string(struct session *session, const char *text);
void reply_integer(struct session *session, int64_t value);
void reply_bulk(struct session *session, const char *bytes, size_t length);

/* Counts an error reply that is not written by reply_error(). */
void reply_count_rejection(struct front_state *front, const char *word);

/* The error word that is counted in this slot of the front's `rejections`. */
const char *reply_word_of_slot(unsigned slot);

/* --- parts --- */

void reply_put_text(struct resp_writer *writer, const char *text);

/* A key and its value, in a map. */
void reply_put_text_pair(struct resp_writer *writer, const char *key, const char *value);
void reply_put_integer_pair(struct resp_writer *writer, const char *key, int64_t value);

/* --- words --- */

/* The reason why a lease is at risk or lost: the word of the push, and a sentence for people. */
const char *reply_reason_word(enum reason reason);
const char *reply_reason_text(enum reason reason);
