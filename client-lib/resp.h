/* RESP codec, versions 2 and 3, for the agent and the library. Pure: no I/O, no allocation, no recursion.
 * Source: "Redis serialization protocol specification", redis.io.
 *
 * Reading: resp_parse() parses one complete value at the front of a buffer into a flat array of tokens in
 * document order. An aggregate's token precedes its elements; a map of n pairs has 2n elements. Writing: the
 * resp_put_ functions append to a resp_writer, which counts the bytes needed even beyond its size. */
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
    const char *text; /* points into the buffer, without NUL: strings, errors, bulks, doubles */
    size_t length;
    int64_t integer; /* integers and booleans */
};

struct resp_limits {
    size_t bulk_bytes_max; /* of one string */
    size_t tokens_max;     /* size of the caller's array */
    unsigned depth_max;    /* of nesting, at most RESP_DEPTH_MAX */
};

enum { RESP_DEPTH_MAX = 8 };

/* Results of parsing other than a length. */
enum {
    RESP_INCOMPLETE = 0, /* more bytes are needed */
    RESP_MALFORMED = -1, /* not RESP */
    RESP_TOO_LARGE = -2, /* over a limit */
};

/* Parses one value at the front of `buffer`. Returns its length in bytes (> 0), with its tokens and their
 * number in *ret_tokens, or one of the results above, and then consumes nothing. A value over a limit is
 * rejected as soon as its length has been read, before its bytes arrive. O(tokens), whatever the lengths of
 * strings. */
long resp_parse(const char *buffer, size_t length, const struct resp_limits *limits,
                struct resp_token *tokens, size_t *ret_tokens);

/* Parses a decimal integer, with a sign or without. */
bool resp_integer(const char *text, size_t length, int64_t *ret);

/* Parses one request: an array of bulk strings, or a line of words without quoting, of at most
 * bulk_bytes_max. `tokens` gets the items only, without a token for the array; none for an empty line or
 * array. Returns like resp_parse(). */
long resp_parse_request(const char *buffer, size_t length, const struct resp_limits *limits,
                        struct resp_token *tokens, size_t *ret_tokens);

/* Skips a request over a limit, whose framing is intact, as its bytes arrive, up to the next request. */
struct resp_skip {
    size_t left;      /* bytes that may still be skipped */
    uint64_t items;   /* of the array, not yet skipped */
    uint64_t payload; /* of the present item with its line end, not yet skipped */
    bool begun, line;
};

/* Skips at most `bytes_max` bytes in all. */
void resp_skip_begin(struct resp_skip *skip, size_t bytes_max);

/* Skips bytes of the request at the front of `buffer`. Returns their number, 0: more input is needed;
 * RESP_MALFORMED, or RESP_TOO_LARGE beyond `bytes_max`. *ret_done: the request has ended. */
long resp_skip(struct resp_skip *skip, const char *buffer, size_t length, bool *ret_done);

struct resp_writer {
    char *buffer;
    size_t size;   /* room */
    size_t length; /* bytes needed so far; the buffer is complete while <= size */
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
