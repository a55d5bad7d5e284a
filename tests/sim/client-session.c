#include "client-session.h"

#include <assert.h>
#include <string.h>

#include "agent.h"
#include "answer.h"
#include "clients.h"
#include "front.h"
#include "reader.h"
#include "resp.h"
#include "local/command.h"
#include "local/disconnect.h"
#include "local/recovery/recovery.h"

enum { LOG_ROOM_BYTES_MIN = 256 };

struct client_session client_sessions[SIM_SESSIONS];
static unsigned current[SIM_USERS]; /* 0 or 1 */

/* With output that is not sent, in the order of writing. */
static struct client_session *unsent[4 * SIM_SESSIONS];
static unsigned n_unsent;

struct client_session *client_session_of(unsigned client) {
    return &client_sessions[current[client] * SIM_USERS + client];
}

struct client_session *client_session_closed(unsigned client) {
    return &client_sessions[(1 - current[client]) * SIM_USERS + client];
}

void client_session_close(unsigned client) {
    current[client] = 1 - current[client];
}

static int64_t session_now(const struct client_session *of) {
    return clock_read(&of->agent->clock);
}

/* --- life --- */

void client_sessions_allocate(void) {
    for (unsigned i = 0; i < SIM_SESSIONS; i++)
        client_sessions[i].page_memory = agents_map(DEADLINE_PAGE_BYTES);
    for (unsigned i = 0; i < SIM_SESSIONS; i++)
        client_sessions[i].output = agents_map(SESSION_OUTPUT_BYTES);
}

void client_sessions_reset(void) {
    for (unsigned i = 0; i < SIM_SESSIONS; i++)
        client_sessions[i].agent = NULL;
    memset(current, 0, sizeof(current));
    client_sessions_drop_output();
}

static void start(struct client_session *of) {
    unsigned client = client_session_client(of);

    of->expelled = false;
    of->n_input = 0;
    session_init(&of->session, &of->agent->front, of->id, (pid_t) client_pid(client), client_uid(client));
    if (client_session_ledger(of))
        ledger_open(client_session_ledger(of), client_session_slot(of), of->id);
}

void client_session_begin(struct client_session *of, struct sim_agent *agent) {
    static uint64_t ids; /* their order means nothing */

    assert(!of->agent);
    of->agent = agent;
    of->id = ++ids << SESSION_SLOT_BITS | client_session_slot(of);
    of->stored = of->hung_up = of->torn = false;
    of->n_socket = 0;
    of->received = of->parsed = 0;
    start(of);
}

void client_session_end(struct client_session *of) {
    disconnect_end(&of->session, session_now(of));
    if (client_session_ledger(of))
        ledger_close(client_session_ledger(of), client_session_slot(of));
    of->n_output = 0;
    of->agent = NULL;
}

/* --- requests --- */

/* The kernel notes in the ledger how many bytes it has received. */
static void log_bytes(struct ledger *ledger, struct ledger_transfer *transfer, size_t length) {
    unsigned count = (unsigned) length;

    memcpy(transfer->message + ledger->header->count_at, &count, sizeof(count));
}

static void keep(struct client_session *of, const char *bytes, size_t length) {
    assert(of->n_input + length <= SESSION_INPUT_BYTES);
    if (length > 0)
        memcpy(of->input + of->n_input, bytes, length);
    of->n_input += length;
    of->received += length;
}

/* Returns how many bytes were received. */
static size_t receive(struct client_session *of) {
    struct ledger *ledger = client_session_ledger(of);
    uint32_t slot = client_session_slot(of);
    size_t length = of->n_socket, room = ledger ? ledger_log_room(ledger, slot) : length;
    uint64_t position = of->received;

    if (room < LOG_ROOM_BYTES_MIN && of->n_output > 0)
        return 0;
    length = room >= LOG_ROOM_BYTES_MIN && length > room ? room : length;
    if (length == 0)
        return 0;
    if (ledger) {
        struct ledger_transfer *receiving = ledger_receive(ledger, slot, position);
        front_may_die(of->agent);
        memcpy(ledger->header->scratch, of->socket, length);
        log_bytes(ledger, receiving, length);
    }
    keep(of, of->socket, length);
    of->n_socket -= length;
    memmove(of->socket, of->socket + length, of->n_socket);
    front_may_die(of->agent);
    if (ledger)
        ledger_received(ledger, slot, position, length, session_now(of));
    return length;
}

/* Returns the bytes taken; 0: more are needed, or the session pauses before the request. */
static size_t take_request(struct client_session *of) {
    static const struct resp_limits limits = {
        .bulk_bytes_max = REQUEST_ITEM_BYTES_MAX, .tokens_max = REQUEST_ITEMS_MAX, .depth_max = 1};
    struct resp_token tokens[REQUEST_ITEMS_MAX];
    size_t n_tokens;
    long n = resp_parse_request(of->input, of->n_input, &limits, tokens, &n_tokens);

    if (n < 0)
        violation("the agent of client %u rejects its request", client_session_client(of));
    if (n <= 0)
        return 0;
    of->session.request_at = of->parsed;
    of->parsed += (size_t) n;
    if (n_tokens > 0 && command_run(&of->session, tokens, n_tokens, session_now(of)) == 0) {
        of->parsed -= (size_t) n;
        return 0;
    }
    return (size_t) n;
}

static bool may_take(struct client_session *of) {
    return of->agent && !of->expelled && session_ready(&of->session) && session_may_ask(&of->session);
}

void client_session_take(struct client_session *of) {
    bool more = true;

    while (more && may_take(of)) {
        size_t n = of->n_input > 0 ? take_request(of) : 0;
        of->n_input -= n;
        memmove(of->input, of->input + n, of->n_input);
        more = n > 0 || (may_take(of) && receive(of) > 0);
    }
}

/* --- replies --- */

void client_session_write(struct session *session, const char *bytes, size_t length) {
    struct client_session *of = client_session_from(session);

    front_may_die(of->agent);
    if (of->n_output == 0)
        unsent[n_unsent++] = of;
    assert(n_unsent < sizeof(unsent) / sizeof(unsent[0]) && of->n_output + length <= SESSION_OUTPUT_BYTES);
    memcpy(of->output + of->n_output, bytes, length);
    of->n_output += length;
}

static struct ledger_state state_of(const struct client_session *of) {
    bool answered = session_ready(&of->session) || of->session.state == SESSION_QUITTING;

    return (struct ledger_state){.answered = answered ? of->parsed : of->session.request_at,
                                 .protocol = (uint8_t) of->session.protocol,
                                 .pushes = of->session.pushes,
                                 .page = of->session.requester.page != NULL};
}

static void read_answer(const struct client_session *of, const struct answer *answer) {
    unsigned client = client_session_client(of);

    if (of == client_session_of(client))
        client_answer_read(client, answer);
    else
        client_answer_read_former(client, answer);
}

/* The client reads what is whole of the first bytes. */
static void arrive(const struct client_session *of, size_t length) {
    unsigned client = client_session_client(of);
    struct answer answer;
    size_t n = 1;

    if (of->hung_up)
        return;
    for (size_t at = 0; at < length && n > 0; at += n) {
        bool of_reader = client == SIM_READER;
        n = of_reader ? reader_reads(of->output + at, length - at)
                      : answer_read(of->output + at, length - at, &answer);
        if (n > 0 && !of_reader)
            read_answer(of, &answer);
        if (n == 0 && length == of->n_output)
            violation("client %u gets bytes that are no RESP", client);
    }
}

static bool has_state(const struct client_session *of) {
    return !list_is_empty(&of->session.requester.requests) || of->session.requester.page;
}

/* With one system call. A process that is killed may have sent a part. */
static void send_logged(struct client_session *of, struct ledger *ledger) {
    const struct ledger_state state = state_of(of);
    uint32_t slot = client_session_slot(of);
    size_t length = of->n_output;

    of->stored |= has_state(of);
    struct ledger_transfer *sending = ledger_send(ledger, slot, &state, length);
    front_may_die(of->agent);
    if (front_is_dying(of->agent) && chance(30))
        length = (size_t) pick(1, (int64_t) length);
    log_bytes(ledger, sending, length);
    arrive(of, length);
    of->torn = length < of->n_output;
    if (of->torn)
        front_die(of->agent);
    front_may_die(of->agent);
    ledger_sent(ledger, slot, &state);
}

void client_session_flush(struct client_session *of) {
    if (of->n_output == 0)
        return;
    if (client_session_ledger(of))
        send_logged(of, client_session_ledger(of));
    else
        arrive(of, of->n_output);
    of->n_output = 0;
}

void client_sessions_flush(void) {
    for (unsigned i = 0; i < n_unsent; i++)
        client_session_flush(unsent[i]);
    n_unsent = 0;
}

void client_sessions_drop_output(void) {
    for (unsigned i = 0; i < SIM_SESSIONS; i++)
        client_sessions[i].n_output = 0;
    n_unsent = 0;
}

/* --- the next process --- */

/* The unanswered requests, as if they were received now. */
static void restore_input(struct client_session *of, const struct ledger_reader_session_view *view) {
    struct ledger *ledger = client_session_ledger(of);
    instant_ns asked_ns = view->asked_ns > 0 ? view->asked_ns : session_now(of);
    uint64_t position = of->received;
    size_t length = 0;

    (void) ledger_receive(ledger, client_session_slot(of), position);
    for (unsigned i = 0; i < 2; i++) {
        if (view->unanswered[i].length > 0)
            memcpy(ledger->header->scratch + length, view->unanswered[i].bytes, view->unanswered[i].length);
        keep(of, view->unanswered[i].bytes, view->unanswered[i].length);
        length += view->unanswered[i].length;
    }
    ledger_received(ledger, client_session_slot(of), position, length, asked_ns);
    if (view->accepted != 0)
        ledger_accepted(ledger, client_session_slot(of), view->accepted - 1, asked_ns);
}

void client_session_restore(struct client_session *of, const struct ledger_reader_session_view *view) {
    start(of);
    of->session.protocol = view->state.protocol;
    of->session.pushes = view->state.pushes;
    of->session.asked_ns = view->asked_ns;
    of->session.accepted_at = view->accepted;
    of->received = of->parsed = of->session.request_at = view->state.answered;
    if (view->state.page) {
        if (!deadline_page_adopt(&of->page, of->page_memory, SESSION_PAGE_BYTES))
            violation("client %u's page is none", client_session_client(of));
        of->session.requester.page = &of->page;
    }
    ledger_sent(client_session_ledger(of), client_session_slot(of), &view->state);
    if (view->unanswered[0].length + view->unanswered[1].length > 0)
        restore_input(of, view);
}

void client_session_restored(struct client_session *of) {
    const struct ledger_state state = state_of(of);

    if (of->session.requester.page)
        deadline_page_clean(of->session.requester.page);
    ledger_sent(client_session_ledger(of), client_session_slot(of), &state);
    recovery_end_left_out(&of->session);
}
