/* Observers whose subscription may have ended: the library sends OBSERVE again, a second after the push
 * `unknown` or a refusal, and not otherwise. Observers of an agent that hangs. */

#include <poll.h>

#include "client.h"
#include "deadline-view.h"
#include "library-harness.h"
#include "observe.h"
#include "tap.h"

#define OBSERVE "*2\r\n$7\r\nOBSERVE\r\n$3\r\njob\r\n"
#define ANEW "*2\r\n$9\r\nUNOBSERVE\r\n$3\r\njob\r\n" OBSERVE
#define PING "*1\r\n$4\r\nPING\r\n"
#define PUSH(state) ">3\r\n$6\r\nleader\r\n$3\r\njob\r\n%1\r\n$5\r\nstate\r\n" state "\r\n"

static const char unknown[] = PUSH("$7\r\nunknown"), none[] = PUSH("$4\r\nfree");

/* --- with virtual time --- */

static struct deadline_view view;
static struct client client;
static struct client_reply first;
static int64_t now_ns;
static char states[16]; /* a letter for each report */

static void on_leader(struct redlock *connection, const struct redlock_sighting *sighting, void *userdata) {
    static const char letters[] = {
        [REDLOCK_LEADER_UNKNOWN] = 'u', [REDLOCK_LEADER_NONE] = 'f', [REDLOCK_LEADER_HELD] = 'h'};
    size_t length = strlen(states);

    (void) connection;
    (void) userdata;
    if (length + 1 < sizeof(states))
        states[length] = letters[sighting->leadership];
}

static void receive(const char *bytes) {
    size_t length = strlen(bytes);
    char *room = client_input_room(&client, length);

    if (!room)
        abort();
    memcpy(room, bytes, length);
    if (client_received(&client, length, now_ns) != REDLOCK_OK)
        abort();
}

/* What was to be sent until now. */
static const char *sent(void) {
    static char text[1024];
    size_t length = client.output_length;

    if (length >= sizeof(text))
        abort();
    if (length > 0)
        memcpy(text, client.output, length);
    text[length] = '\0';
    client_sent(&client, length);
    return text;
}

static const char *sent_after(int64_t ns) {
    now_ns += ns;
    client_tick(&client, now_ns);
    return sent();
}

/* A client that observes "job", which is free. */
static void begin(void) {
    static const struct resp_token items[] = {{.text = "OBSERVE", .length = 7},
                                              {.text = "job", .length = 3}};

    now_ns = 1000 * NS_PER_S;
    first = (struct client_reply){0};
    memset(states, 0, sizeof(states));
    if (client_init(&client, NULL, &view) != REDLOCK_OK)
        abort();
    client.callbacks.leader = on_leader;
    client.pinged_ns = INT64_MAX - 3 * NS_PER_S; /* no PING */
    is(observe_add(&client, "job"), 1);
    is(client_request(&client, KIND_OTHER, items, 2, NULL, &first, now_ns), REDLOCK_OK);
    is_string(sent(), OBSERVE, "OBSERVE, as redlock_observe() sends it");
    is_string(sent_after(NS_PER_S), "", "while its reply is pending there is no other");
    receive(":1\r\n");
    observe_accepted(&client, "job");
    receive(none);
    is(observe_due_ns(&client), INT64_MAX);
}

static void test_nodes_away(void) {
    begin();
    receive(unknown);
    is_string(sent_after(0), "", "not at once after `unknown`");
    is(observe_due_ns(&client), now_ns + NS_PER_S);
    is_string(sent_after(NS_PER_S - 1), "", "nor a nanosecond before its time");
    is_string(sent_after(1), OBSERVE, "but then");
    is(observe_due_ns(&client), INT64_MAX);
    is_string(sent_after(9 * NS_PER_S), "", "not again while the reply is pending");
    receive(":0\r\n");
    is(observe_due_ns(&client), INT64_MAX);
    is_string(sent_after(9 * NS_PER_S), "", "nor after it: there is a subscription, whose end is pushed");
    receive(none);
    receive(unknown);
    receive(none);
    is(observe_due_ns(&client), INT64_MAX);
    is_string(sent_after(9 * NS_PER_S), "", "nor for a state that is known again");
    is_string(states, "fufuf", "all were reported");
    client_deinit(&client);
}

static void test_right_taken(void) {
    begin();
    receive(unknown);
    (void) sent_after(0);
    is_string(sent_after(NS_PER_S), OBSERVE, "a second after `unknown`");
    for (int i = 0; i < 3; i++) {
        receive("-DENIED no rule allows it\r\n");
        is_string(sent_after(0), "", "a refusal");
        is(observe_due_ns(&client), now_ns + NS_PER_S);
        is_string(sent_after(NS_PER_S), OBSERVE, "and again after a second");
    }
    receive(":1\r\n");
    receive(none);
    is(observe_due_ns(&client), INT64_MAX);
    is_string(states, "fuf", "with the right, the state comes again");
    receive(unknown);
    (void) sent_after(0);
    is(observe_due_ns(&client), now_ns + NS_PER_S);
    is_string(sent_after(NS_PER_S), OBSERVE, "as after the first `unknown`");
    receive(unknown);
    receive(":1\r\n");
    (void) sent_after(0);
    is_string(sent_after(NS_PER_S), OBSERVE, "also if that was pushed before the reply");
    client_deinit(&client);
}

static void test_unobserved(void) {
    begin();
    receive(unknown);
    (void) sent_after(0);
    is(observe_remove(&client, "job"), 1);
    is(observe_due_ns(&client), INT64_MAX);
    is_string(sent_after(NS_PER_S), "", "a name that is no longer observed");
    is(observe_add(&client, "job"), 1);
    receive(unknown);
    (void) sent_after(0);
    is_string(sent_after(NS_PER_S), OBSERVE, "a request under way");
    is(observe_remove(&client, "job"), 1);
    receive("-DENIED no rule allows it\r\n");
    is(observe_due_ns(&client), INT64_MAX);
    is_string(sent_after(NS_PER_S), "", "nor after the reply");
    client_deinit(&client);
}

static void test_disconnected(void) {
    begin();
    receive(unknown);
    (void) sent_after(0);
    client_disconnected(&client, REDLOCK_AGENT_AWAY, "", now_ns);
    is(observe_due_ns(&client), INT64_MAX);
    is_string(sent_after(NS_PER_S), "", "nothing while there is no agent");
    client_back(&client, now_ns);
    ok(strstr(sent(), OBSERVE), "a new agent gets OBSERVE at once");
    receive("%0\r\n");
    receive(":1\r\n");
    is(observe_due_ns(&client), INT64_MAX);
    is_string(sent_after(NS_PER_S), "", "and once");
    client_deinit(&client);
}

static void test_blocking(void) {
    begin();
    receive(unknown);
    client_tick_resuming(&client, now_ns);
    is(client_dues(&client).resume_ns, now_ns + NS_PER_S);
    now_ns += NS_PER_S;
    client_tick_resuming(&client, now_ns);
    is_string(sent(), OBSERVE, "blocking calls send it, too");
    is(client_dues(&client).resume_ns, INT64_MAX);
    client_deinit(&client);
}

/* The agent sends nothing for as long as it has been asked. */
static void begin_to_hang(void) {
    begin();
    client.pinged_ns = 0;
    is_string(sent_after(3 * NS_PER_S), PING, "an agent that sends nothing is asked after three seconds");
    is_string(sent_after(10 * NS_PER_S - 1), "", "once");
    is_string(states, "f", "its answer has ten seconds");
}

static void test_idle(void) {
    begin();
    client.pinged_ns = 0;
    for (int i = 0; i < 3; i++) {
        is(client_due_ns(&client), now_ns + 3 * NS_PER_S);
        is_string(sent_after(3 * NS_PER_S - 1), "", "not a nanosecond before its time");
        is_string(sent_after(1), PING, "PING");
        is(client_due_ns(&client), now_ns + 10 * NS_PER_S);
        now_ns += 9 * NS_PER_S;
        receive("+PONG\r\n");
    }
    now_ns += 2 * NS_PER_S;
    receive(none);
    is(client_due_ns(&client), now_ns + 3 * NS_PER_S);
    is_string(states, "f", "an agent that answers late is no agent that hangs");
    is(observe_remove(&client, "job"), 1);
    is(client_due_ns(&client), INT64_MAX);
    is_string(sent_after(NS_PER_S * 3600), "", "nor is an agent asked for nothing");
    client_deinit(&client);
}

static void test_hanging(void) {
    begin_to_hang();
    is_string(sent_after(1), "", "then nothing is sent");
    is_string(states, "fu", "but the leader is unknown");
    is(client_due_ns(&client), INT64_MAX);
    is_string(sent_after(3600 * NS_PER_S), "", "however long");
    is_string(states, "fu", "which is reported once");
    receive(none);
    is_string(sent_after(0), ANEW, "when the agent sends something, the present leader is asked for");
    receive("+PONG\r\n:1\r\n:1\r\n");
    receive(none);
    is_string(states, "fuf", "and reported once, too");
    is_string(sent_after(3 * NS_PER_S), PING, "then it goes on as before");
    is_string(sent_after(10 * NS_PER_S), "", "to the next time");
    is_string(states, "fufu", "that it hangs");
    client_deinit(&client);
}

/* An OBSERVE was sent to an agent that hangs, as after a refusal: its reply belongs to no later one. */
static void test_hanging_while_asked(void) {
    begin();
    receive(unknown);
    (void) sent_after(0);
    is_string(sent_after(NS_PER_S), OBSERVE, "a request under way");
    receive(none);
    is_string(sent_after(10 * NS_PER_S), "", "is not answered");
    is_string(states, "fufu", "and the agent hangs");
    receive(none);
    is_string(sent_after(0), ANEW, "when it goes on, the present leader is asked for");
    receive("-DENIED no rule allows it\r\n");
    is_string(sent_after(0), "", "the late reply");
    is_string(sent_after(NS_PER_S), "", "is not that to the new request");
    receive(":0\r\n-DENIED no rule allows it\r\n");
    is_string(sent_after(0), "", "which may be a refusal, too");
    is_string(sent_after(NS_PER_S), OBSERVE, "and then is followed by another");
    client_deinit(&client);
}

/* The connection breaks while redlock_observe() waits: it fails, or sends OBSERVE again itself. */
static void test_not_accepted(void) {
    now_ns = 1000 * NS_PER_S;
    memset(states, 0, sizeof(states));
    if (client_init(&client, NULL, &view) != REDLOCK_OK)
        abort();
    client.callbacks.leader = on_leader;
    is(observe_add(&client, "job"), 1);
    client_disconnected(&client, REDLOCK_AGENT_AWAY, "", now_ns);
    client_fail_requests(&client, now_ns);
    is_string(states, "", "without an agent no leader is reported");
    client_back(&client, now_ns);
    receive("%0\r\n-DENIED by a rule\r\n");
    (void) sent();
    is_string(sent_after(9 * NS_PER_S), PING, "after a refusal there is no other OBSERVE");
    is_string(states, "", "and no leader is reported");
    client_deinit(&client);
}

static void test_hanging_then_gone(void) {
    begin_to_hang();
    (void) sent_after(1);
    client_disconnected(&client, REDLOCK_AGENT_AWAY, "", now_ns);
    client_fail_requests(&client, now_ns);
    is_string(states, "fu", "the end of an agent that hangs changes nothing");
    client_back(&client, now_ns);
    ok(strstr(sent(), ANEW) == NULL, "the next one gets OBSERVE alone");
    receive("%0\r\n");
    is_string(sent_after(0), "", "and once");
    is_string(sent_after(10 * NS_PER_S), "", "if that one hangs, too");
    is_string(states, "fu", "this is no change");
    receive(":1\r\n");
    is_string(sent_after(0), ANEW, "when it answers");
    receive(":1\r\n:1\r\n");
    receive(none);
    is_string(states, "fuf", "there is one");
    client_deinit(&client);
}

/* Blocking calls read the input before they take the agent for one that hangs. */
static void test_hanging_while_blocked(void) {
    begin();
    client.pinged_ns = 0;
    is(client_dues(&client).resume_ns, now_ns + 3 * NS_PER_S);
    now_ns += 3 * NS_PER_S;
    client_tick_resuming(&client, now_ns);
    is_string(sent(), PING, "blocking calls ask, too");
    is(client_dues(&client).deadline_ns, now_ns + 10 * NS_PER_S);
    now_ns += 20 * NS_PER_S;
    client_tick_resuming(&client, now_ns);
    is_string(states, "f", "the answer may have come between two calls");
    receive("+PONG\r\n");
    client_end_overdue(&client, now_ns);
    is_string(states, "f", "and is read first");
    now_ns += 3 * NS_PER_S;
    client_tick_resuming(&client, now_ns);
    now_ns += 10 * NS_PER_S;
    client_end_overdue(&client, now_ns);
    is_string(states, "fu", "without it the leader is unknown");
    is(client_dues(&client).deadline_ns, INT64_MAX);
    client_deinit(&client);
}

/* --- with an agent --- */

/* A blocking call reads the push: the event loop wakes up all the same. */
static void test_event_loop(void) {
    scripted_start();
    struct redlock *connection = connect_scripted();
    struct redlock_lease *lease = acquire(connection);

    is(redlock_observe(connection, "job"), REDLOCK_OK);
    struct pollfd fd = {.fd = redlock_fd(connection), .events = POLLIN};
    is(redlock_dispatch(connection), REDLOCK_OK);
    int64_t pushed_ns = boottime_ns();
    scripted_send("%s", unknown);
    ok(redlock_check(lease) > 0, "a blocking call");
    while (scripted.observes < 2 && poll(&fd, 1, TIMEOUT_MS) == 1 &&
           redlock_dispatch(connection) == REDLOCK_OK)
        continue;
    is(scripted.observes, 2);
    ok(boottime_ns() - pushed_ns > 900 * NS_PER_MS, "the event loop sends OBSERVE after about a second");
    redlock_close(connection);
}

/* The agent answers too late, and then again. */
static void test_late_answer(void) {
    const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .leader = on_leader};
    int64_t until_ns = boottime_ns() + TIMEOUT_MS * NS_PER_MS;

    scripted_start();
    scripted.pushes_leader = true;
    struct redlock *connection = connect_scripted();
    is(redlock_set_callbacks(connection, &callbacks, NULL), REDLOCK_OK);
    memset(states, 0, sizeof(states));
    scripted.is_silent = true;
    redlock_set_answer_timeout(connection, 1);
    is(redlock_observe(connection, "job"), REDLOCK_NO_ANSWER);
    scripted.is_silent = false;
    ok(counts_to(&scripted.unobserves, 1), "the agent ends the subscription");
    is(redlock_dispatch(connection), REDLOCK_OK);
    is_string(states, "", "nothing is reported: the name is not observed");
    redlock_set_answer_timeout(connection, TIMEOUT_MS);
    is(redlock_observe(connection, "job"), REDLOCK_OK);
    while (!states[0] && boottime_ns() < until_ns)
        (void) redlock_dispatch(connection);
    is_string(states, "f", "a later redlock_observe() gets the present leader");
    is(scripted.observes, 2);
    redlock_close(connection);
}

int main(void) {
    test_nodes_away();
    test_right_taken();
    test_unobserved();
    test_disconnected();
    test_blocking();
    test_idle();
    test_hanging();
    test_hanging_while_asked();
    test_not_accepted();
    test_hanging_then_gone();
    test_hanging_while_blocked();
    test_event_loop();
    test_late_answer();
    scripted_die();
    return done_testing();
}
