/* Admission: how much of a flood contends at a time, in which turns the rest follows, and that a request
 * that is held back ends like any other. */

#include <assert.h>
#include <sys/mman.h>

#include "local/registry-report.h"
#include "tap.h"

enum { REQUESTS = 16384, SESSIONS = 40, FLOODER = 1000, OTHER = 1001 };

static struct {
    struct registry registry;
    struct admission_requester sessions[SESSIONS];
    uint64_t contending[REQUESTS]; /* the keeper's numbers of those that it was sent, in this order */
    enum command_kind last_kind;   /* of the last one */
    uint32_t n_contending, reported;
    unsigned releases, failed, released, ready;
    const char *error; /* of the last that failed */
    char text[128];
    uint32_t names;
    instant_ns now_ns;
    void *memory;
} front;

static void on_command(void *userdata, uint64_t hash, const struct command *command) {
    (void) userdata;
    (void) hash;
    if (command->kind == COMMAND_CONTEND || command->kind == COMMAND_RESUME) {
        front.contending[front.n_contending++] = command->request;
        front.last_kind = command->kind;
    }
    front.releases += command->kind == COMMAND_RELEASE;
}

static void on_outcome(void *userdata, struct request *request, const struct request_outcome *outcome,
                       instant_ns now_ns) {
    (void) userdata;
    (void) request;
    (void) now_ns;
    front.failed += outcome->kind == OUTCOME_FAILED;
    front.released += outcome->kind == OUTCOME_RELEASED;
    if (outcome->kind != OUTCOME_FAILED)
        return;
    front.error = outcome->error;
    (void) snprintf(front.text, sizeof(front.text), "%.*s", (int) outcome->text_length, outcome->text);
}

static void on_ready(void *userdata, struct session *session) {
    (void) userdata;
    (void) session;
    front.ready++;
}

static void begin(void) {
    const struct registry_sink sink = {.command = on_command, .outcome = on_outcome, .ready = on_ready};
    const uint64_t key[2] = {1, 2};
    size_t bytes = registry_memory_bytes(REQUESTS);

    if (front.memory)
        (void) munmap(front.memory, bytes);
    memset(&front, 0, sizeof(front));
    front.now_ns = 1000 * NS_PER_S;
    front.memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert(front.memory != MAP_FAILED);
    registry_init(&front.registry, &sink, REQUESTS, REQUESTS, key, front.memory);
    for (unsigned i = 0; i < SESSIONS; i++)
        admission_requester_init(&front.sessions[i]);
}

static struct session *session_at(unsigned index) {
    return (struct session *) (void *) &front.sessions[index];
}

static struct request *ask_for(unsigned session, uid_t uid, const char *name, int64_t wait_ms,
                               const uint8_t *resume) {
    const struct registry_ask ask = {.name = name,
                                     .name_length = strlen(name),
                                     .tail = "7:1000:",
                                     .tail_length = 7,
                                     .wait_ms = wait_ms,
                                     .terms.ttl_ms = 2000,
                                     .terms.node_timeout_ms = 100,
                                     .uid = uid,
                                     .resume = resume};
    struct request *request = registry_ask(&front.registry, session_at(session), &ask, front.now_ns);

    assert(request);
    registry_start(&front.registry, request, &ask, front.now_ns);
    return request;
}

/* For a name of its own. */
static struct request *ask(unsigned session, uid_t uid) {
    char name[16];

    (void) snprintf(name, sizeof(name), "n%u", front.names++);
    return ask_for(session, uid, name, -1, NULL);
}

static void ask_often(unsigned session, uid_t uid, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        (void) ask(session, uid);
}

/* Reports on the oldest request in its first attempt. */
static void report(enum report_kind kind) {
    const struct report report = {.kind = kind,
                                  .request = front.contending[front.reported++],
                                  .failure = kind == REPORT_FAILED ? FAILURE_QUOTA : FAILURE_BUSY,
                                  .deadline_ns = front.now_ns + 1900 * NS_PER_MS,
                                  .text = "vvvvvvvvvvvvvvvvvvvv",
                                  .text_length = SECRET_BYTES};

    registry_report(&front.registry, &report, front.now_ns);
}

/* Which session's request was sent last. */
static unsigned last_session(void) {
    const struct request *request =
        keeper_handle_find(&front.registry.handles, front.contending[front.n_contending - 1]);
    return (unsigned) ((struct admission_requester *) (void *) request->session - front.sessions);
}

static void test_bounds(void) {
    begin();
    ask_often(0, FLOODER, 1000);
    is_int(front.n_contending, ADMITTED_SESSION_MAX, "of one session so many contend at a time");
    for (unsigned session = 1; session < 20; session++)
        ask_often(session, FLOODER, 100);
    is_int(front.n_contending, ADMITTED_USER_MAX, "and so many of one user, from twenty sessions");
    (void) ask(20, OTHER);
    is_int(front.n_contending, ADMITTED_USER_MAX + 1, "another user's request does not wait behind them");
    for (uid_t uid = 2000; uid < 2010; uid++)
        ask_often(20 + uid - 2000, uid, 200);
    is_int(front.n_contending, ADMITTED_MAX, "so many contend in all");
    report(REPORT_GRANTED);
    is_int(front.n_contending, ADMITTED_MAX + 1, "when one is granted, another follows");
    report(REPORT_FAILED);
    report(REPORT_CONTENDED);
    is_int(front.n_contending, ADMITTED_MAX + 3, "and when one fails, or the keeper retries it");
}

/* What one user has at the nodes, another user's request waits for. */
static void test_shared(void) {
    begin();
    ask_often(0, FLOODER, 100);
    ask_often(1, FLOODER, 100);
    ask_often(2, FLOODER, 100);
    is_int(front.n_contending, ADMITTED_USER_MAX, "a user alone has so many under way");
    (void) ask(3, OTHER);
    is_int(front.n_contending, ADMITTED_USER_MAX + 1, "another user asks");
    for (unsigned i = 0; i < ADMITTED_USER_MAX - ADMITTED_SHARED_MAX; i++)
        report(REPORT_GRANTED);
    is_int(front.n_contending, ADMITTED_USER_MAX + 1, "then nothing follows until the first has its share");
    report(REPORT_GRANTED);
    is_int(front.n_contending, ADMITTED_USER_MAX + 2, "and one for one from then on");
    front.now_ns += 900 * NS_PER_MS;
    ask_often(4, FLOODER, 50);
    is_int(front.n_contending, ADMITTED_USER_MAX + 2, "0.9 s later as well");
    front.now_ns += 200 * NS_PER_MS;
    ok(front.registry.admission.n_held_back > 90, "most requests are held back");
    (void) ask(4, FLOODER);
    report(REPORT_GRANTED);
    is_int(front.registry.admission.n_held_back, 0, "the other has not asked for a second: none is");
}

static void test_turns(void) {
    begin();
    front.registry.admission.all_max = 1;
    ask_often(0, FLOODER, 50);
    ask_often(1, FLOODER, 50);
    ask_often(2, OTHER, 2);
    const unsigned turns[] = {0, 2, 1, 2, 0, 1, 0};
    for (unsigned i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
        report(REPORT_GRANTED);
        is_int(last_session(), turns[i], "users take turns, and the sessions of each");
    }
}

static void test_ends(void) {
    begin();
    front.registry.admission.all_max = 1;
    (void) ask(0, FLOODER);
    struct request *waits = ask_for(1, OTHER, "a", 500, NULL), *withdrawn = ask_for(1, OTHER, "b", -1, NULL);
    (void) waits;
    is_int(front.n_contending, 1, "two requests of a user at the limit are held back");
    registry_release(&front.registry, withdrawn, front.now_ns);
    ok(front.released == 1 && front.releases == 0,
       "a request that is held back is withdrawn without a command to the keeper");
    is_int(registry_due_ns(&front.registry), front.now_ns + 500 * NS_PER_MS,
           "the WAIT of a request that is held back continues");
    front.now_ns += 500 * NS_PER_MS;
    registry_tick(&front.registry, front.now_ns);
    front.now_ns += 100 * NS_PER_MS;
    registry_tick(&front.registry, front.now_ns);
    is_int(front.failed, 1, "the WAIT ends the request, a node time-out later at the latest");
    is_string(front.error, "NOQUORUM", "such a request fails with NOQUORUM");
    (void) ask_for(1, OTHER, "c", -1, NULL);
    registry_drop(&front.registry, list_entry(front.sessions[1].requests.next, struct request, session_link),
                  front.now_ns);
    ok(front.registry.admission.n_held_back == 0 && front.registry.requests.taken == 1,
       "the requests of an ended session are freed");
    report(REPORT_GRANTED);
    is_int(front.n_contending, 1, "requests of an ended session do not contend later");
    is_int(front.registry.admission.n_admitted, 0, "requests of an ended session count no more");
}

static void test_names(void) {
    const uint8_t secret[SECRET_BYTES] = {1};

    begin();
    front.registry.admission.all_max = 1;
    (void) ask(0, FLOODER);
    (void) ask_for(1, OTHER, "x", -1, NULL);
    (void) ask_for(1, OTHER, "x", -1, NULL);
    (void) ask_for(2, OTHER, "x", 1000, secret);
    is_int(front.n_contending, 1, "a request to resume is held back like others");
    report(REPORT_GRANTED);
    is_int(front.n_contending, 2, "but not behind a request for its name");
    is_int(front.last_kind, COMMAND_RESUME, "which waits until it is first of its queue");
    report(REPORT_FAILED);
    is_int(front.n_contending, 3, "the first of its queue contends");
    report(REPORT_CONTENDED);
    is_int(front.n_contending, 3, "the next request still waits behind it");
}

/* A valid resume token of one name is one for each. */
static void test_resumes(void) {
    const uint8_t secret[SECRET_BYTES] = {1};
    char name[16];

    begin();
    for (unsigned i = 0; i < 2 * ADMITTED_SESSION_MAX; i++) {
        (void) snprintf(name, sizeof(name), "r%u", i);
        (void) ask_for(0, FLOODER, name, 60000, secret);
    }
    is_int(front.n_contending, ADMITTED_SESSION_MAX, "a flood of requests to resume is held back");
    (void) ask(1, OTHER);
    is_int(front.n_contending, ADMITTED_SESSION_MAX + 1, "another user's request is not");
    for (unsigned i = 0; i < ADMITTED_SESSION_MAX; i++)
        report(REPORT_FAILED);
    ok(front.n_contending > ADMITTED_SESSION_MAX + 1 && front.last_kind == COMMAND_RESUME,
       "the others follow when these have ended");
    uint32_t before = front.n_contending;
    struct list *last = front.sessions[0].requests.previous;
    registry_release(&front.registry, list_entry(last, struct request, session_link), front.now_ns);
    is_int(front.n_contending, before, "one that is held back can be withdrawn");
    while (front.reported < front.n_contending)
        report(REPORT_FAILED);
    is_int(front.n_contending, 2 * ADMITTED_SESSION_MAX, "and all others have their turn");
    for (unsigned i = 0; i < ADMITTED_SESSION_MAX; i++)
        (void) ask(0, FLOODER);
    (void) ask_for(0, FLOODER, "late", 500, secret);
    front.now_ns += 600 * NS_PER_MS;
    registry_tick(&front.registry, front.now_ns);
    is_string(front.error, "NOQUORUM", "one that is held back until its bound fails");
    is_string(front.text, "no attempt has ended within 600 ms", "and the reason is no failure of the nodes");
}

static void test_reading(void) {
    unsigned asked = 0;

    begin();
    for (; admission_may_ask(&front.registry, admission_requester_of(session_at(0)), FLOODER); asked++)
        (void) ask(0, FLOODER);
    is_int(asked, ASKING_SESSION_MAX, "a session is not read from when so many requests are on the way");
    ok(admission_may_ask(&front.registry, admission_requester_of(session_at(1)), FLOODER),
       "another session of the user is read");
    for (unsigned i = 0; i < ASKING_SESSION_MAX / 2 - 1; i++)
        report(REPORT_CONTENDED);
    is_int(front.ready, 0, "the session is not read while more than half of its requests are under way");
    report(REPORT_CONTENDED);
    is_int(front.ready, 1, "with half of its requests answered the session is read again");
    for (unsigned session = 2; session < 6; session++)
        ask_often(session, FLOODER, ASKING_SESSION_MAX);
    ask_often(6, FLOODER, ASKING_SHARE - 1);
    ok(!admission_may_ask(&front.registry, admission_requester_of(session_at(0)), FLOODER) &&
           admission_may_ask(&front.registry, admission_requester_of(session_at(6)), FLOODER),
       "sessions with more than a share of a user with very many requests are not read");
    ok(admission_may_ask(&front.registry, admission_requester_of(session_at(7)), OTHER),
       "the sessions of another user are read");
}

/* Sessions and users at their limits have no turn. */
static void test_turns_at_limits(void) {
    struct admission *admission = &front.registry.admission;

    begin();
    admission->all_max = 3;
    admission->user_max = 2;
    admission->session_max = 1;
    ask_often(0, FLOODER, 3);
    ask_often(1, FLOODER, 2);
    ask_often(2, FLOODER, 1);
    ask_often(3, OTHER, 1);
    is_int(front.n_contending, 3, "one of a session, two of a user, three in all");
    report(REPORT_GRANTED);
    is_int(last_session(), 2, "a session that had its limit until now is not first");
    report(REPORT_GRANTED);
    is_int(last_session(), 0, "a session that had its limit until now is next");
    report(REPORT_GRANTED);
    is_int(front.n_contending, 5, "a user at the limit gets no other user's room");
    is_int(front.ready, 0, "sessions that were read all the time are not reported");
}

static void test_order(void) {
    begin();
    front.registry.admission.session_max = 1;
    (void) ask(0, FLOODER);
    const struct request *second = ask(0, FLOODER);
    front.registry.admission.session_max = 3;
    (void) ask(0, FLOODER);
    is_int(front.n_contending, 1, "a session's request does not overtake those that are held back");
    report(REPORT_GRANTED);
    ok(keeper_handle_find(&front.registry.handles, front.contending[1]) == second,
       "requests that are held back follow in their order");
}

/* Requests in their first attempt whose session ends. */
static void test_orphans(void) {
    begin();
    front.registry.admission.session_max = 1;
    front.registry.admission.user_max = 2;
    registry_drop(&front.registry, ask(0, FLOODER), front.now_ns);
    (void) ask(0, FLOODER);
    is_int(front.n_contending, 2, "an orphan does not count for its session");
    (void) ask(1, FLOODER);
    is_int(front.n_contending, 2, "an orphan counts for its user");
    report(REPORT_RELEASED);
    is_int(front.n_contending, 3, "an orphan counts until the keeper's report");

    begin();
    front.registry.admission.all_max = 0;
    struct request nobodys = {.uid = OTHER,
                              .account = quota_charge(&front.registry.quota, OTHER, QUOTA_LEASES, 1)};
    ok(admission_ask(&front.registry, &nobodys), "a request without a session is never held back");
}

static void test_crowded_user(void) {
    begin();
    ask_often(1, FLOODER, ASKING_SHARE);
    for (unsigned left = ASKING_USER_MAX - ASKING_SHARE - 1, session = 2; left > 0; session++) {
        unsigned count = left < ASKING_SESSION_MAX ? left : ASKING_SESSION_MAX;
        ask_often(session, FLOODER, count);
        left -= count;
    }
    ok(admission_may_ask(&front.registry, admission_requester_of(session_at(1)), FLOODER),
       "below the user's limit a session may ask");
    (void) ask(2, FLOODER);
    ok(!admission_may_ask(&front.registry, admission_requester_of(session_at(1)), FLOODER),
       "at the limit its share is all");
    ok(admission_may_ask(&front.registry, admission_requester_of(session_at(0)), FLOODER),
       "which others still have");
}

int main(void) {
    test_turns_at_limits();
    test_order();
    test_orphans();
    test_crowded_user();
    test_bounds();
    test_shared();
    test_turns();
    test_ends();
    test_names();
    test_resumes();
    test_reading();
    return done_testing();
}
