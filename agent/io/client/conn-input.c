#include "io/client/conn-input.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/secret.h"
#include "io/client/conn-bytes.h"
#include "io/client/conn-output.h"
#include "io/loop/clock.h"
#include "io/loop/secret-memory.h"
#include "io/restart/logged-io.h"
#include "local/command.h"
#include "local/reply.h"

enum { LOG_ROOM_BYTES_MIN = 256 };

static_assert((int) CONN_SCRATCH_BYTES == (int) LEDGER_SCRATCH_BYTES, "recv(2) uses either of them");

void conn_input_deinit(struct conn *conn) {
    heap_trim_note(&conn->table->trim, conn->input_length);
    secret_memory_free(conn->input, conn->input_length);
    conn->input = NULL;
    conn->input_used = conn->input_length = 0;
}

int conn_input_keep(struct conn *conn, const char *bytes, size_t length) {
    if (length == 0)
        return 0;
    char *larger = secret_memory_grow(conn->input, conn->input_length, conn->input_length + length);
    if (!larger)
        return -ENOMEM;
    memcpy(larger + conn->input_length, bytes, length);
    conn->input = larger;
    conn->input_length += length;
    return 0;
}

static void drop_parsed_input(struct conn *conn) {
    if (conn->input_used == conn->input_length) {
        conn_input_deinit(conn);
        return;
    }
    size_t left = conn->input_length - conn->input_used;
    memmove(conn->input, conn->input + conn->input_used, left);
    secret_clear(conn->input + left, conn->input_used);
    conn->input_length = left;
    conn->input_used = 0;
}

/* The session takes requests, and the client reads replies. */
static bool may_take(struct conn *conn) {
    return conn->fd >= 0 && session_ready(&conn->session) &&
           conn_output_unsent_bytes(conn) <= conn_bytes_pause(conn) && session_may_ask(&conn->session);
}

/* --- parsing --- */

static void begin_skipping(struct conn *conn) {
    resp_skip_begin(&conn->skip, REQUEST_SKIPPED_BYTES_MAX);
    conn->skipping = true;
    conn->skipped_bytes = 0;
    conn->session.request_at = conn->parsed;
}

/* Skips a request over a limit, and replies at its end; until then the ledger has the request as not taken.
 * The number of bytes skipped, or a negative outcome of resp_skip(). */
static long skip_request(struct conn *conn, const char *bytes, size_t length) {
    bool done;
    long n = resp_skip(&conn->skip, bytes, length, &done);

    if (n < 0)
        return n;
    conn->skipped_bytes += (size_t) n;
    if (!done)
        return n;
    conn->skipping = false;
    conn->parsed += conn->skipped_bytes;
    conn->session.asked_ns = 0;
    reply_error(&conn->session, "BADARG",
                "a request has at most %d items of at most %d bytes each, a line as many bytes: this "
                "request was skipped",
                REQUEST_ITEMS_MAX, REQUEST_ITEM_BYTES_MAX);
    return n;
}

/* The number of bytes taken, or 0 if the request is incomplete, or its turn comes later; or a negative
 * outcome of the parser. */
static long take_request(struct conn *conn, const char *bytes, size_t length, unsigned *work,
                         instant_ns now_ns) {
    static const struct resp_limits limits = {
        .bulk_bytes_max = REQUEST_ITEM_BYTES_MAX, .tokens_max = REQUEST_ITEMS_MAX, .depth_max = 1};
    struct resp_token tokens[REQUEST_ITEMS_MAX];
    size_t n_tokens = 0;
    long n = 0;

    if (!conn->skipping)
        n = resp_parse_request(bytes, length, &limits, tokens, &n_tokens);
    if (n == RESP_TOO_LARGE)
        begin_skipping(conn);
    if (conn->skipping) {
        n = skip_request(conn, bytes, length);
        *work += n > 0 && !conn->skipping;
        return n;
    }
    if (n <= 0) {
        conn->session.asked_ns = 0; /* a former process got its beginning only, and took no request */
        return n;
    }
    uint32_t written = conn->session.written;
    conn->session.request_at = conn->parsed;
    conn->parsed += (size_t) n;
    unsigned units =
        n_tokens > 0 ? command_run(&conn->session, tokens, n_tokens, now_ns) : WORK_SHARE_REQUEST;
    if (units == 0) {
        conn->parsed -= (size_t) n;
        return 0;
    }
    *work += units;
    *work += (conn->session.written - written) / WORK_SHARE_WRITTEN_BYTES;
    return n;
}

/* Takes requests while the session is ready for them. The number of bytes taken, or -1 after an error reply
 * for a malformed request. */
static ssize_t take_requests(struct conn *conn, const char *bytes, size_t length, unsigned *work,
                             instant_ns now_ns) {
    size_t used = 0;

    while (*work < CONN_INPUT_WORK_MAX && used < length && may_take(conn)) {
        long n = take_request(conn, bytes + used, length - used, work, now_ns);
        if (n == 0)
            break;
        if (n < 0) {
            reply_error(&conn->session, "ERR", "protocol: %s",
                        n == RESP_TOO_LARGE ? "a request has at most 32 items of at most 4096 bytes"
                                            : "expected an array of bulk strings, or a line of words");
            return -1;
        }
        used += (size_t) n;
    }
    return (ssize_t) used;
}

static enum conn_input_outcome take_kept(struct conn *conn, unsigned *work, instant_ns now_ns) {
    ssize_t used = take_requests(conn, conn->input, conn->input_length, work, now_ns);

    if (used < 0)
        return CONN_INPUT_MALFORMED;
    conn->input_used = (size_t) used;
    drop_parsed_input(conn);
    return CONN_INPUT_OK;
}

/* The units for so many bytes. The rest of the division counts with later bytes. */
static unsigned units_of(struct conn *conn, size_t bytes) {
    size_t uncounted = conn->uncounted_bytes + bytes;

    conn->uncounted_bytes = uncounted % WORK_SHARE_RECEIVED_BYTES;
    return (unsigned) (uncounted / WORK_SHARE_RECEIVED_BYTES);
}

/* Takes requests from the `length` bytes in the scratch, and keeps the rest. What is kept of half a request
 * is copied and parsed again with each further part, so it counts as received again. */
static enum conn_input_outcome take_received(struct conn *conn, size_t length, unsigned *work,
                                             instant_ns now_ns) {
    const char *bytes = conn->table->scratch;

    *work += units_of(conn, conn->input_length + length);
    if (conn->input_length > 0)
        return conn_input_keep(conn, bytes, length) < 0 ? CONN_INPUT_NO_MEMORY
                                                        : take_kept(conn, work, now_ns);
    ssize_t used = take_requests(conn, bytes, length, work, now_ns);
    if (used < 0)
        return CONN_INPUT_MALFORMED;
    return conn_input_keep(conn, bytes + used, length - (size_t) used) < 0 ? CONN_INPUT_NO_MEMORY
                                                                           : CONN_INPUT_OK;
}

/* --- receiving --- */

/* How many bytes to receive at a time, and no more than the ledger can keep until they are answered. 0: none
 * before the replies so far are sent. */
static size_t receive_room(const struct conn *conn) {
    const struct ledger *ledger = conn->table->local->registry.ledger;
    size_t room = conn_bytes_receive_room(conn);
    size_t log_room = ledger ? ledger_log_room(ledger, conn->slot) : room;

    if (log_room >= LOG_ROOM_BYTES_MIN)
        return log_room < room ? log_room : room;
    return conn_output_unsent_bytes(conn) > 0 ? 0 : room;
}

/* Receives into the scratch, and records the bytes in the ledger. */
static ssize_t receive(struct conn *conn, size_t room, instant_ns now_ns) {
    struct ledger *ledger = conn->table->local->registry.ledger;

    if (!ledger)
        return recv(conn->fd, conn->table->scratch, room, MSG_DONTWAIT);
    ssize_t n = logged_io_receive(conn->fd, room, ledger, conn->slot, conn->received, now_ns);
    if (n > 0)
        conn->received += (size_t) n;
    return n;
}

/* A short part leaves the socket empty, and the next byte makes a new edge; unless the part was ended by a
 * descriptor or a byte out of band. That is seen within a request. Between two, such a client waits for its
 * next byte, and other clients need no further system call. */
static bool may_have_more(const struct conn *conn) {
    return conn->half_closed || conn->input_length > 0 || conn->skipping;
}

enum conn_input_outcome conn_input_take(struct conn *conn, unsigned *work, instant_ns now_ns) {
    enum conn_input_outcome outcome = CONN_INPUT_OK;

    if (conn->input_length > 0)
        outcome = take_kept(conn, work, now_ns);
    while (outcome == CONN_INPUT_OK && conn->readable && *work < CONN_INPUT_WORK_MAX && may_take(conn)) {
        size_t room = receive_room(conn);
        if (room == 0)
            break; /* conn_wake() follows when the output is sent */
        ssize_t n = receive(conn, room, now_ns);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            conn->readable = false;
            break;
        }
        if (n == 0)
            return CONN_INPUT_END;
        if (n < 0) /* without memory in the kernel, say, the client lives, and may hold leases */
            return errno == ECONNRESET ? CONN_INPUT_ERROR : CONN_INPUT_NO_MEMORY;
        now_ns = clock_now_ns(); /* else the validity could count from before the request was sent */
        unsigned before = *work;
        outcome = take_received(conn, (size_t) n, work, now_ns);
        conn->readable = (size_t) n == room || may_have_more(conn);
        if (*work == before) /* a few bytes that end no request take a turn all the same */
            *work += WORK_SHARE_REQUEST;
        if (conn->table->scratch == conn->table->own_scratch)
            secret_clear(conn->table->own_scratch, (size_t) n); /* the ledger needs its own after a crash */
    }
    return outcome;
}

bool conn_input_has_more(struct conn *conn, unsigned work) {
    return may_take(conn) && ((conn->readable && receive_room(conn) > 0) || work >= CONN_INPUT_WORK_MAX);
}
