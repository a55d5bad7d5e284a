/* The one RESP codec (versions 2 and 3), without I/O and without allocation, compiled into the agent and the
 * library.
 *
 * Reading: resp_parse() takes one complete value off the front of a buffer as a flat array of tokens in
 * document order. An aggregate is followed by its elements; a map of n pairs by 2n elements. Nesting is
 * bounded and there is no recursion. Writing: the resp_put_… functions append to a resp_writer, which counts
 * what it needed even when the room is too small. Not thread-safe as to one writer; otherwise pure. Source:
 * the RESP specification (redis.io, "Redis serialization protocol"). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum resp_type {
    RESP_STRING,  /* + */
    RESP_ERROR,   /* - (and the bulk error !) */
    RESP_INTEGER, /* : */
    RESP_BULK,    /* $ (and the verbatim string =, without its three-letter prefix) */
    RESP_ARRAY,   /* * (and the set ~) */
    RESP_MAP,     /* % */
    RESP_PUSH,    /* > */
    RESP_NIL,     /* _ $-1 *-1 */
    RESP_BOOL,    /* # : integer 0 or 1 */
    RESP_DOUBLE,  /* , : as text */
};

struct resp_token {
    enum resp_type type;
    uint32_t count;   /* elements of an array or push, pairs of a map */
    const char *text; /* into the buffer; not terminated. Strings, errors, bulks, doubles */
    size_t length;
    int64_t integer; /* integers and booleans */
};

struct resp_limits {
    size_t bulk_bytes_max; /* of one string */
    size_t tokens_max;     /* room in the caller's array */
    unsigned depth_max;    /* of nesting, at most RESP_DEPTH_MAX */
};

enum { RESP_DEPTH_MAX = 8 };

/* Outcomes of parsing that are not a value. */
enum {
    RESP_INCOMPLETE = 0, /* more bytes are needed */
    RESP_MALFORMED = -1, /* not RESP */
    RESP_TOO_LARGE = -2, /* over a limit */
};

/* Parses one value from `buffer[0..length)`. Returns the bytes it takes (> 0) with the tokens filled in and
 * their number in *ret_tokens, or one of the outcomes above; then nothing is consumed. A value over a limit
 * is told as soon as its announced length is seen, before its bytes have come. Costs O(tokens), whatever the
 * strings' lengths. */
long resp_parse(const char *buffer, size_t length, const struct resp_limits *limits,
                struct resp_token *tokens, size_t *ret_tokens);

/* Parses one request: an array of bulk strings, or an inline line of words (no quoting). Fills `tokens` with
 * its items only (no token for the array); *ret_tokens may be 0 for an empty line or empty array. An inline
 * line is at most limits->bulk_bytes_max long. Returns like resp_parse(). */
long resp_parse_request(const char *buffer, size_t length, const struct resp_limits *limits,
                        struct resp_token *tokens, size_t *ret_tokens);

/* A request over a limit whose framing is intact: its bytes can be passed over as they come, and the next
 * request is read behind them. */
struct resp_skip {
    size_t left;      /* bytes that it may still take */
    uint64_t items;   /* of the array, to come */
    uint64_t payload; /* of the item under way, with its line end, to come */
    bool begun, line;
};

/* At most `bytes_max` bytes are passed over. */
void resp_skip_begin(struct resp_skip *skip, size_t bytes_max);

/* Passes over what of the request is at the front: how many bytes, which may be 0 until more have come;
 * *ret_done: up to its end. RESP_MALFORMED when it is none, RESP_TOO_LARGE when it is beyond `bytes_max`. */
long resp_skip(struct resp_skip *skip, const char *buffer, size_t length, bool *ret_done);

struct resp_writer {
    char *buffer;
    size_t size;   /* room */
    size_t length; /* needed so far; valid while <= size */
};

void resp_put_raw(struct resp_writer *w, const void *bytes, size_t length);
void resp_put_string(struct resp_writer *w, const char *text); /* +text, text without line breaks */
void resp_put_error(struct resp_writer *w, const char *text,
                    size_t length); /* -text; line breaks become blanks */
void resp_put_integer(struct resp_writer *w, int64_t value);
void resp_put_bulk(struct resp_writer *w, const void *bytes, size_t length);
void resp_put_array(struct resp_writer *w, size_t count);
void resp_put_map(struct resp_writer *w, size_t pairs, int protocol);  /* protocol 2: array of 2 × pairs */
void resp_put_push(struct resp_writer *w, size_t count, int protocol); /* protocol 2: array */
void resp_put_nil(struct resp_writer *w, int protocol);
