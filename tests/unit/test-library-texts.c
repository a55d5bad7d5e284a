/* redlock_error_text(): after a call that failed it says what happened, and nothing of former failures. */

#include "library-harness.h"
#include "tap.h"

enum call {
    CALL_CHECK,
    CALL_BEAT,
    CALL_ACQUIRE,
    CALL_LEADER,
    CALL_OBSERVE,
    CALL_ASYNC,
    CALL_RELEASE_ASYNC,
    CALL_RELEASE,
    CALLS
};

static const char *const names[CALLS] = {
    "redlock_check()",   "redlock_beat()",          "redlock_acquire()",       "redlock_leader()",
    "redlock_observe()", "redlock_acquire_async()", "redlock_release_async()", "redlock_release()"};

static int64_t call(enum call which, struct redlock *connection, struct redlock_lease *lease) {
    struct redlock_leader leader = REDLOCK_LEADER_INIT;
    struct redlock_lease *other = NULL;

    switch (which) {
    case CALL_CHECK:
        return redlock_check(lease);
    case CALL_BEAT:
        return redlock_beat(lease);
    case CALL_ACQUIRE:
        return redlock_acquire(connection, "y", NULL, &other);
    case CALL_LEADER:
        return redlock_leader(connection, "y", &leader);
    case CALL_OBSERVE:
        return redlock_observe(connection, "y");
    case CALL_ASYNC:
        return redlock_acquire_async(connection, "y", NULL, &other);
    case CALL_RELEASE_ASYNC:
        return redlock_release_async(lease);
    case CALL_RELEASE:
    case CALLS:
        break;
    }
    return redlock_release(lease);
}

static const char *text(const struct redlock *connection) {
    return redlock_error_text(connection);
}

/* A failure whose text must not remain. */
static void misuse(struct redlock *connection) {
    is(redlock_leader(connection, NULL, NULL), REDLOCK_BAD_ARGUMENT);
    is_string(text(connection), "name or ret is NULL", "a failure with a text of its own");
}

/* Those that only send don't notice. */
static bool waits(enum call which) {
    return which != CALL_ASYNC && which != CALL_RELEASE_ASYNC;
}

static void test_no_answer(enum call which) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    misuse(connection);
    scripted.is_silent = true;
    redlock_set_answer_timeout(connection, 5);
    is_int(call(which, connection, lease), REDLOCK_NO_ANSWER, names[which]);
    is_string(text(connection), "the agent did not reply within 5 ms", "has a text");
    redlock_close(connection);
}

static void test_no_answer_after_wait(void) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL;

    scripted_start();
    scripted.keeps_waiting = true;
    struct redlock *connection = connect_scripted();
    redlock_set_answer_timeout(connection, 5);
    options.wait_ms = 10;
    is(redlock_acquire(connection, "x", &options, &lease), REDLOCK_NO_ANSWER);
    is_string(text(connection), "the agent did not reply within 15 ms", "both times count");
    redlock_close(connection);
}

/* The break was seen in an earlier call. */
static void test_away(enum call which) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    scripted_die();
    is(redlock_dispatch(connection), REDLOCK_OK);
    misuse(connection);
    redlock_set_answer_timeout(connection, 5);
    is_int(call(which, connection, lease), REDLOCK_AGENT_AWAY, names[which]);
    ok(strstr(text(connection), "the agent closed the connection; no agent answers at /tmp/"),
       "has a text: %s", text(connection));
    redlock_close(connection);
}

/* Each call that the connection does not survive. */
static void test_over(enum call which) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = NULL;

    scripted_die();
    is(redlock_dispatch(connection), REDLOCK_AGENT_AWAY);
    is_string(text(connection), "the agent closed the connection; connect again",
              "redlock_dispatch() has a text");
    misuse(connection);
    is_int(call(which, connection, lease), REDLOCK_AGENT_AWAY, names[which]);
    is_string(text(connection), "the agent closed the connection; connect again", "has a text");
    misuse(connection);
    is(redlock_dispatch(connection), REDLOCK_AGENT_AWAY);
    is_string(text(connection), "the agent closed the connection; connect again",
              "redlock_dispatch() again");
    redlock_close(connection);
}

/* An agent that accepts the connection and refuses the client is not one that is gone. */
static void test_refused_return(enum call which) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    scripted_die();
    is(redlock_dispatch(connection), REDLOCK_OK);
    scripted.refuses_clients = true;
    scripted_again();
    redlock_set_answer_timeout(connection, 690); /* attempts are due after 310, 510, 710 ms, or later */
    is_int(call(which, connection, lease), REDLOCK_AGENT_AWAY, names[which]);
    is_string(text(connection),
              "the agent closed the connection: QUOTA user 1000 has 64 of 64 sessions; "
              "the library connects again",
              "has the next agent's reason");
    redlock_close(connection);
}

static bool ends_with(const char *whole, const char *end) {
    return strlen(whole) >= strlen(end) && strcmp(whole + strlen(whole) - strlen(end), end) == 0;
}

/* The agent refuses a request, lives on, and is killed later: the refusal is not the reason. */
static void test_refused_before(const char *reply, const char *want) {
    struct redlock_lease *lease = NULL;

    scripted_start();
    struct redlock *connection = connect_scripted();
    is(redlock_release(acquire(connection)), 1);
    scripted.is_silent = true;
    is(redlock_acquire_async(connection, "x", NULL, &lease), REDLOCK_OK);
    scripted_send("%s", reply);
    ok(dispatch_until(connection, &events.failed, 1), "the request is refused");
    is_string(text(connection), events.text, "the text is that of the callback");
    scripted_die();
    is(redlock_dispatch(connection), REDLOCK_AGENT_AWAY);
    ok(strstr(text(connection), "Connection reset by peer"),
       "then the agent closes the connection, without reading: %s", text(connection));
    ok(ends_with(text(connection), want), "the text ends with \"%s\"", want);
    redlock_close(connection);
}

static void test_no_return(void) {
    struct redlock_options options = REDLOCK_OPTIONS_INIT;
    struct redlock_lease *lease = NULL;

    scripted_start();
    scripted.keeps_waiting = true;
    struct redlock *connection = connect_scripted();
    options.wait_ms = 60000;
    is(redlock_acquire_async(connection, "x", &options, &lease), REDLOCK_OK);
    redlock_set_answer_timeout(connection, 5);
    ok(counts_to(&scripted.acquires, 1), "the agent has read the request, so the end is no reset");
    scripted_die();
    is(redlock_dispatch(connection), REDLOCK_OK);
    misuse(connection);
    ok(dispatch_until(connection, &events.failed, 1), "no agent returns");
    ok(strstr(events.text, "no agent took the request") && strstr(events.text, "closed the connection"),
       "the callback gets a text: %s", events.text);
    redlock_close(connection);
}

static void test_no_lease(void) {
    struct redlock_lease *lease = NULL;

    scripted_start();
    struct redlock *connection = connect_scripted();
    scripted.ttl_ms = 0; /* no validity */
    is(redlock_acquire(connection, "x", NULL, &lease), REDLOCK_PROTOCOL);
    is_string(text(connection), "the agent's reply to ACQUIRE is no lease", "a grant without validity");
    redlock_close(connection);
}

int main(void) {
    for (enum call which = CALL_CHECK; which < CALLS; which++) {
        if (waits(which))
            test_no_answer(which);
        if (which != CALL_RELEASE_ASYNC && which != CALL_ASYNC)
            test_refused_return(which);
        if (which != CALL_RELEASE_ASYNC) /* there is nothing to send */
            test_away(which);
        if (which >= CALL_ACQUIRE && which <= CALL_ASYNC)
            test_over(which);
    }
    test_no_answer_after_wait();
    test_refused_before("-BUSY held by web1\r\n", "by peer); connect again");
    test_refused_before("-ERR protocol: too long\r\n", "by peer): ERR protocol: too long; connect again");
    test_no_return();
    test_no_lease();
    scripted_die();
    return done_testing();
}
