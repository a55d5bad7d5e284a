/* Names that cool after their lease has ended: what STATUS, LEASES and LEADER show of them. */

#include <assert.h>
#include <stdlib.h>

#include "core/limits.h"
#include "local/resume-token.h"
#include "scripted-keeper.h"
#include "tap.h"

static void grant(uint64_t request, int64_t token) {
    registry_report(&harness.front.registry,
                    &(struct report){.kind = REPORT_GRANTED,
                                     .request = request,
                                     .deadline_ns = harness.now_ns + 9898 * NS_PER_MS,
                                     .cooldown_until_ns = local_harness_cooldown_until_ns(last_command()),
                                     .token = token},
                    harness.now_ns);
}

static uint64_t hold_cooling(unsigned session, const char *line) {
    keeper.n_commands = 0;
    ask(session, line);
    uint64_t request = last_command()->request;
    grant(request, 7);
    return request;
}

/* The lease is the only one of the registry. */
static void end(uint64_t request) {
    const struct registry *registry = &harness.front.registry;
    char line[64];

    (void) snprintf(line, sizeof(line), "RELEASE %llu",
                    (unsigned long long) registry_id(registry, registry_next(registry, &(uint32_t){0})));
    ask(0, line);
    report(request, REPORT_RELEASED);
}

static const char *status(void) {
    ask(1, "STATUS");
    local_harness_counted();
    return got(1);
}

static const char *leases(void) {
    ask(1, "LEASES");
    return got(1);
}

static bool shows(const char *text, const char *pair) {
    return strstr(text, pair) != NULL;
}

static unsigned n_shown(const char *text, const char *pair) {
    unsigned n = 0;

    for (; (text = strstr(text, pair)); text++)
        n++;
    return n;
}

static void test_shown(void) {
    begin(8);
    uint64_t request = hold_cooling(0, "ACQUIRE job TTL 500 COOLDOWN 3000");
    harness.now_ns += 1000 * NS_PER_MS;
    ok(shows(leases(), "state\r\n$4\r\nheld\r\n") && shows(got(1), "cooldown\r\n:2000\r\n"),
       "LEASES shows the rest of a held lease's cooldown");
    ok(shows(status(), "cooling\r\n:0\r\n"), "STATUS counts no cooling name while the lease is held");
    end(request);
    ok(begins(0, ":1\r\n"), "the lease is released");
    ok(shows(status(), "leases\r\n:0\r\n") && shows(got(1), "cooling\r\n:1\r\n"),
       "STATUS: no lease, a cooling name");
    ok(shows(leases(), "name\r\n$3\r\njob\r\n$5\r\nstate\r\n$7\r\ncooling\r\n$3\r\npid\r\n:100\r\n") &&
           shows(got(1), "validity\r\n:0\r\n") && shows(got(1), "cooldown\r\n:2000\r\n") &&
           shows(got(1), "fence\r\n:7\r\n"),
       "LEASES: its last holder, and the time that is left");
    harness.now_ns += 2000 * NS_PER_MS;
    ok(begins(1, "*1\r\n") && (leases(), begins(1, "*0\r\n")) && shows(status(), "cooling\r\n:0\r\n"),
       "nothing when it is over");
}

static void test_ends(void) {
    begin(8);
    uint64_t request = hold_cooling(0, "ACQUIRE job COOLDOWN 20000");
    registry_report(&harness.front.registry,
                    &(struct report){.kind = REPORT_LOST, .request = request, .reason = REASON_HEARTBEAT},
                    harness.now_ns);
    ok(shows(status(), "cooling\r\n:1\r\n"), "a lost lease cools, too");

    begin(8);
    request = hold_cooling(0, "ACQUIRE job COOLDOWN 20000");
    registry_report(&harness.front.registry,
                    &(struct report){.kind = REPORT_LOST, .request = request, .reason = REASON_TAKEN},
                    harness.now_ns);
    ok(shows(status(), "cooling\r\n:0\r\n"),
       "but not one that another holder has, as after a RESUME elsewhere");

    begin(8);
    request = hold_cooling(0, "ACQUIRE job COOLDOWN 20000");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    ok(shows(status(), "cooling\r\n:1\r\n"), "the name of a lease cools after the end of its session");

    begin(8);
    ask(0, "ACQUIRE job COOLDOWN 20000 ASYNC");
    disconnect_end(&harness.sessions[0], harness.now_ns);
    ok(shows(status(), "cooling\r\n:0\r\n"), "a request that was withdrawn leaves nothing");

    begin(8);
    request = hold_cooling(0, "ACQUIRE job TTL 10000");
    end(request);
    ok(shows(status(), "cooling\r\n:0\r\n"), "nor does a lease without a cooldown");
}

/* As when a person has deleted the keys of the name that cools. */
static void test_granted_again(void) {
    begin(8);
    end(hold_cooling(0, "ACQUIRE job COOLDOWN 5000"));
    end(hold_cooling(0, "ACQUIRE other COOLDOWN 5000"));
    is_int(n_shown(leases(), "state\r\n$7\r\ncooling\r\n"), 2, "two names cool");
    uint64_t request = hold_cooling(0, "ACQUIRE job");
    ok(n_shown(leases(), "name\r\n$3\r\njob\r\n") == 1 && shows(got(1), "state\r\n$4\r\nheld\r\n") &&
           n_shown(got(1), "state\r\n$7\r\ncooling\r\n") == 1 && shows(status(), "cooling\r\n:1\r\n"),
       "one that is granted anew does not, and is listed once");
    end(request);
    ok(!shows(leases(), "name\r\n$3\r\njob\r\n") && shows(got(1), "name\r\n$5\r\nother\r\n"),
       "nor after its new lease, which has no cooldown");
}

/* Reads all pages. Returns how many leases they have; each is listed once. */
static unsigned read_pages(const char *pair) {
    unsigned long long last = 0;
    unsigned n = 0, of_kind = 0;
    char line[64];

    do {
        (void) snprintf(line, sizeof(line), last ? "LEASES AFTER %llu" : "LEASES", last);
        ask(0, line);
        n = (unsigned) atoi(got(0) + 1);
        assert(n <= LEASES_PAGE);
        for (const char *at = got(0); (at = strstr(at, "\r\nid\r\n:")); at++)
            last = strtoull(at + 7, NULL, 10);
        of_kind += n_shown(got(0), pair);
    } while (n > 0);
    return of_kind;
}

static void test_pages(void) {
    char line[64];

    begin(512);
    for (unsigned i = 0; i < 700; i++) { /* with the same slot, all of them */
        (void) snprintf(line, sizeof(line), "ACQUIRE name%u COOLDOWN 50000", i);
        end(hold_cooling(0, line));
        harness.now_ns += 20 * NS_PER_MS;
    }
    for (unsigned i = 0; i < 300; i++) {
        (void) snprintf(line, sizeof(line), "ACQUIRE held%u ASYNC", i);
        keeper.n_commands = 0;
        ask(0, line);
    }
    is_int(read_pages("\r\ncooling\r\n"), 700, "the pages of LEASES have each cooling name once");
    is_int(read_pages("\r\nwaiting\r\n"), 300, "and each request");
}

static void test_full(void) {
    char line[600];

    begin(512);
    for (unsigned i = 0; i < COOLING_NAMES_MAX + 5; i++) {
        (void) snprintf(line, sizeof(line), "ACQUIRE %0512u COOLDOWN %u", i, 50000 - i);
        end(hold_cooling(0, line));
    }
    is_int(read_pages("\r\ncooling\r\n"), COOLING_NAMES_MAX,
           "there is room for so many, with the longest names");
    ok(read_pages("\r\n:49999\r\n") == 1 && read_pages("\r\n:48977\r\n") == 1 &&
           read_pages("\r\n:48976\r\n") == 0 && read_pages("\r\n:48972\r\n") == 0,
       "those that cool longest are listed");
    end(hold_cooling(0, "ACQUIRE as-short COOLDOWN 48977"));
    is_int(read_pages("as-short"), 0, "one that cools as long as the shortest is not");
    end(hold_cooling(0, "ACQUIRE longer COOLDOWN 48978"));
    ok(read_pages("longer") == 1 && read_pages("\r\n:48977\r\n") == 0, "a longer one is, in its place");
}

static const char *leader(const char *value, int64_t token) {
    keeper.n_commands = 0;
    ask(0, "LEADER job");
    assert(last_command()->kind == COMMAND_QUERY);
    leader_report(&harness.front, &harness.sessions[0],
                  &(struct report){.kind = REPORT_LEADER,
                                   .request = last_command()->request,
                                   .token = token,
                                   .text = value,
                                   .text_length = (uint16_t) strlen(value),
                                   .validity_ms = 9000},
                  harness.now_ns);
    return got(0);
}

static void test_leader(void) {
#define HEX "0123456789abcdef0123456789abcdef01234567"
    static const char ours[] = HEX ":web1:00c0ffee:100:1000:", others[] = HEX ":web2:00c0ffef:100:1000:";

    begin(8);
    uint64_t request = hold_cooling(0, "ACQUIRE job COOLDOWN 5000");
    ok(shows(leader(ours, 7), "since\r\n:1\r\n"),
       "LEADER: since when a session of this agent has the lease");
    harness.now_ns += 1500 * NS_PER_MS;
    ok(shows(leader(ours, 7), "*12\r\n") && shows(got(0), "since\r\n:1500\r\n"), "in ms");
    leader(others, 9);
    ok(begins(0, "*10\r\n") && !shows(got(0), "since"), "nothing of another agent's lease");
    end(request);
    ok(shows(leader(ours, 7), "*12\r\n") && shows(got(0), "cooling\r\n:3500\r\n") && !shows(got(0), "since"),
       "when it has ended: that the name cools, and how long");
    leader(others, 9);
    ok(begins(0, "*10\r\n"), "but not if another agent has the name");
    end(hold_cooling(0, "ACQUIRE other COOLDOWN 9000"));
    ok(shows(leader(ours, 7), "cooling\r\n:3500\r\n"), "whatever else cools");
    end(hold_cooling(0, "ACQUIRE job COOLDOWN 1000"));
    ok(shows(leader(ours, 7), "cooling\r\n:1000\r\n"), "of leases of one name the last one's counts");
    harness.now_ns += 1000 * NS_PER_MS;
    leader(ours, 7);
    ok(begins(0, "*10\r\n"), "nor when it is over");
}

/* The keeper's answer to the last attempt. */
static void meet(enum report_kind kind, const char *text, bool own) {
    registry_report(&harness.front.registry,
                    &(struct report){.kind = kind,
                                     .request = last_command()->request,
                                     .failure = FAILURE_BUSY,
                                     .own = own,
                                     .text = text,
                                     .text_length = (uint16_t) strlen(text)},
                    harness.now_ns);
}

static void test_rejected(void) {
    static const char ours[] = "held by web1:00c0ffee:100, 9000 ms left",
                      others[] = "held by web2:00c0ffef:100, 9000 ms left";
    static const char cools[] = "the name cools: its last lease has ended, and the name stays taken for ";
    char text[160];

    begin(8);
    end(hold_cooling(0, "ACQUIRE job COOLDOWN 5000"));
    harness.now_ns += 1500 * NS_PER_MS;
    ask(1, "ACQUIRE job");
    meet(REPORT_FAILED, ours, true);
    (void) snprintf(text, sizeof(text), "-BUSY %s3500 ms more\r\n", cools);
    is_string(got(1), text, "BUSY: the name cools, and how long");
    ask(2, "ACQUIRE job WAIT 1000");
    meet(REPORT_CONTENDED, ours, true);
    ask(3, "ACQUIRE job");
    is_string(got(3), text, "also behind a request that waits");
    harness.now_ns += 1000 * NS_PER_MS;
    registry_tick(&harness.front.registry, harness.now_ns);
    (void) snprintf(text, sizeof(text), "-TIMEOUT waited 1000 ms; %s2500 ms more\r\n", cools);
    is_string(got(2), text, "TIMEOUT likewise");
    report(last_command()->request, REPORT_RELEASED);
    ask(1, "ACQUIRE job");
    meet(REPORT_FAILED, others, false);
    ok(begins(1, "-BUSY held by web2:"), "a holder that has the name although it cools is shown");
    ask(1, "ACQUIRE job");
    meet(REPORT_FAILED, ours, false);
    ok(begins(1, "-BUSY held by web1:"), "also a foreign value that looks like this agent's");

    harness.front.policy.terms.may = POLICY_MAY(POLICY_ACQUIRE);
    harness.sessions[2].uid = harness.sessions[0].uid + 1;
    ask(2, "ACQUIRE job");
    meet(REPORT_FAILED, ours, true);
    ok(begins(2, "-BUSY held; the right"), "without the right 'leader' it is hidden");
    ask(1, "ACQUIRE job");
    meet(REPORT_FAILED, ours, true);
    ok(begins(1, "-BUSY the name cools: "), "but for the last holder's user");
    harness.now_ns += 2500 * NS_PER_MS;
    ask(1, "ACQUIRE job");
    meet(REPORT_FAILED, ours, true);
    ok(begins(1, "-BUSY held"), "when it is over, the keys count");
}

static void test_rejected_resume(void) {
    static const char ours[] = "held by web1:00c0ffee:100, 9000 ms left";
    const struct resume_token token = {.terms.ttl_ms = 10000, .hold_until_ns = INSTANT_NEVER, .token = 7};
    char text[RESUME_TOKEN_BYTES_MAX + 1], line[RESUME_TOKEN_BYTES_MAX + 64];

    begin(8);
    end(hold_cooling(0, "ACQUIRE job COOLDOWN 5000"));
    ask(2, "ACQUIRE job WAIT 5000");
    meet(REPORT_CONTENDED, ours, true); /* the name keeps the result of this attempt */
    text[resume_token_write(&token, text)] = '\0';
    (void) snprintf(line, sizeof(line), "RESUME job %s", text);
    ask(1, line);
    assert(last_command()->kind == COMMAND_RESUME);
    meet(REPORT_FAILED, ours, true);
    is_string(got(1), "-BUSY held by web1:00c0ffee:100, 9000 ms left\r\n",
              "a RESUME wants a lease, not the name: it gets the nodes' answer");
}

int main(void) {
    test_shown();
    test_rejected();
    test_rejected_resume();
    test_ends();
    test_granted_again();
    test_pages();
    test_full();
    test_leader();
    return done_testing();
}
