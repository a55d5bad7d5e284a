/* A former process's ledger with any bytes changed, and the recovery from it. What must hold: the ledger is
 * rejected as a whole, or what it has is restored within the policy; and when all sessions have ended and
 * the keeper has answered, no request is left.
 *
 * The ledger is a real one, of a front with leases, waiting requests and observed names. An input is the
 * changes: three bytes of place, one of number, and that many bytes. */

#include <sys/mman.h>

#include "fuzz.h"
#include "local-harness.h"
#include "local/recovery/recovery.h"
#include "local/recovery/restore.h"

enum goal { REJECTED, UNANSWERED, CONTINUED, LEFT_OUT, FOUND, OVER };

const char *const fuzz_goals[] = {
    [REJECTED] = "a ledger that is rejected",
    [UNANSWERED] = "a session with unanswered requests",
    [CONTINUED] = "leases that are continued",
    [LEFT_OUT] = "leases that are left out",
    [FOUND] = "a lease that the nodes have",
    [OVER] = "one that they don't have",
    NULL,
};
uint32_t fuzz_reached;

enum { CLIENTS = 4, ENTRIES = 32, REQUESTS_MAX_HERE = 4096, CHANGES_MAX = 64, RELEASES_MAX = 256 };

static const struct ledger_size size = {.sessions = CLIENTS, .entries = ENTRIES};
static struct ledger ledger;
static char *original, *changed; /* the former process's ledger */
static uint64_t asked[RELEASES_MAX], releases[RELEASES_MAX];
static unsigned n_asked, n_releases;

static void on_command(void *userdata, uint64_t hash, const struct command *command) {
    (void) userdata;
    (void) hash;
    if ((command->kind == COMMAND_CONTEND || command->kind == COMMAND_RESUME ||
         command->kind == COMMAND_SEARCH) &&
        n_asked < RELEASES_MAX)
        asked[n_asked++] = command->request;
    if (command->kind == COMMAND_RELEASE || command->kind == COMMAND_FORGET) {
        must(n_releases < RELEASES_MAX);
        releases[n_releases++] = command->request;
    }
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    (void) userdata;
    memset(secret, 7, SECRET_BYTES);
}

static void *fresh_memory(void) {
    void *memory =
        mmap(NULL, ledger_bytes(&size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    must(memory != MAP_FAILED);
    return memory;
}

static void begin_process(void *memory) {
    static const struct ledger_identity identity = {.agent = "00c0ffee", .host = "web1", .sequence = 1};
    static const struct local_harness_setup setup = {
        .identity = {.version = "1", .agent = "00c0ffee", .host = "web1", .n_keepers = 1},
        .sink = {.query = on_command},
        .registry_sink = {.command = on_command, .secret = on_secret},
        .requests_max = REQUESTS_MAX_HERE,
        .limit = 64,
        .sessions = CLIENTS};

    n_asked = n_releases = 0;
    local_harness_begin(&setup);
    ledger_init(&ledger, &size, 0, &identity, memory);
    harness.front.registry.ledger = &ledger;
    for (unsigned i = 0; i < CLIENTS; i++) {
        harness.sessions[i].id = UINT64_C(1) << SESSION_SLOT_BITS | i;
        harness.sessions[i].protocol = 3;
        ledger_open(&ledger, i, harness.sessions[i].id);
    }
}

static void report(uint64_t request, enum report_kind kind) {
    static const char secret[SECRET_BYTES] = "abcdefghijklmnopqrst";
    const struct report report = {.kind = kind,
                                  .request = request,
                                  .failure = FAILURE_NOT_HELD,
                                  .deadline_ns = harness.now_ns + 5 * NS_PER_S,
                                  .token = 7,
                                  .token_last = 71,
                                  .text = secret,
                                  .text_length = SECRET_BYTES};

    registry_report(&harness.front.registry, &report, harness.now_ns);
}

/* Received, and not answered before the process ends. */
static void receive(unsigned session, const char *line) {
    (void) ledger_receive(&ledger, session, 0);
    memcpy(ledger.header->scratch, line, strlen(line));
    ledger_received(&ledger, session, 0, strlen(line), harness.now_ns);
}

static void ask_and_grant(unsigned session, const char *line) {
    ask(session, line);
    report(asked[n_asked - 1], REPORT_GRANTED);
}

/* Includes a client that has not read its replies. */
static void make_original(void) {
    const struct ledger_state state = {.protocol = 3, .pushes = true};

    original = fresh_memory();
    begin_process(original);
    ask_and_grant(0, "ACQUIRE a TTL 5000 DATA hello");
    ask_and_grant(1, "ACQUIRE b TTL 5000 LINGER 1000 MAXHOLD 60000");
    ask_and_grant(1, "ACQUIRE c TTL 5000 HEARTBEAT 1000 COOLDOWN 3000");
    ask(2, "ACQUIRE a WAIT 60000 ASYNC");
    ask(2, "OBSERVE a");
    for (unsigned i = 0; i < 3; i++)
        ledger_sent(&ledger, i, &state);
    receive(0, "RELEASE 1\r\n");
    receive(2, "ACQUIRE e TTL 5000\r\nPI");
    ask(3, "ACQUIRE b WAIT 60000 ASYNC");
    ask_and_grant(3, "ACQUIRE d TTL 5000");
}

static struct session *session_here(void *userdata, uint64_t id) {
    (void) userdata;
    for (unsigned i = 0; i < 3; i++)
        if (harness.sessions[i].id == id)
            return &harness.sessions[i];
    return NULL;
}

static bool session_whole(void *userdata, uint64_t id) {
    (void) userdata;
    return id % 2 == 0;
}

static bool process_dead(void *userdata, pid_t pid) {
    (void) userdata;
    return pid % 2 == 0;
}

/* As the process reads them that takes over. */
static void read_sessions(const struct ledger_reader *reader) {
    struct ledger_reader_session_view view;

    for (uint32_t slot = 0; slot < CLIENTS; slot++) {
        if (!ledger_reader_session(reader, slot, &view) || !view.whole)
            continue;
        must((view.id & LEDGER_SLOT_MASK) == slot && memchr(view.name, '\0', sizeof(view.name)));
        must(view.state.protocol == 2 || view.state.protocol == 3);
        for (size_t i = 0; i < sizeof(view.unanswered) / sizeof(view.unanswered[0]); i++) {
            free(fuzz_copy(view.unanswered[i].bytes, view.unanswered[i].length));
            if (view.unanswered[i].length > 0)
                fuzz_reach(UNANSWERED);
        }
    }
}

static void check_restored(void) {
    const struct request *request;
    uint32_t slot = 0;

    while ((request = registry_next(&harness.front.registry, &slot)))
        must(request->state == REQUEST_RELEASING ||
             (request->terms.ttl_ms >= TTL_MS_MIN && request->terms.ttl_ms <= TTL_MS_MAX));
}

static void answer(void) {
    while (n_releases > 0)
        report(releases[--n_releases], REPORT_RELEASED);
}

/* The keeper's answers to the commands, chosen by the end of the input. */
static void answer_resumes(struct fuzz_input *input) {
    for (unsigned i = 0; i < n_asked; i++) {
        unsigned verdict = fuzz_below(input, 4);
        if (verdict != 1 && verdict != 2)
            continue;
        fuzz_reach(verdict == 1 ? FOUND : OVER);
        report(asked[i], verdict == 1 ? REPORT_GRANTED : REPORT_FAILED);
    }
}

static void end(void) {
    const struct registry *registry = &harness.front.registry;

    for (unsigned i = 0; i < CLIENTS; i++)
        disconnect_end(&harness.sessions[i], harness.now_ns);
    for (unsigned i = 0; i < 3000 && registry->requests.taken > 0; i++) {
        harness.now_ns += 60 * NS_PER_S;
        registry_tick(&harness.front.registry, harness.now_ns);
        answer();
    }
    must(registry->requests.taken == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static uint32_t order[REQUESTS_MAX_HERE];
    static void *memory;
    struct fuzz_input input = {bytes, length};
    struct recovery_past past = {
        .session = session_here, .whole = session_whole, .dead = process_dead, .order = order};
    size_t whole = ledger_bytes(&size);

    if (!original) {
        make_original();
        changed = fresh_memory();
    }
    memcpy(changed, original, whole);
    for (unsigned i = 0; i < CHANGES_MAX && input.length > 4; i++) {
        size_t place = fuzz_number(&input, 3) % whole;
        const char *change;
        size_t n = fuzz_take(&input, 1 + fuzz_below(&input, 16), &change);
        memcpy(changed + place, change, n < whole - place ? n : whole - place);
    }
    if (memory)
        (void) munmap(memory, whole);
    memory = fresh_memory();
    begin_process(memory);
    if (!ledger_reader_init(&past.reader, changed, whole)) {
        fuzz_reach(REJECTED);
        return 0;
    }
    read_sessions(&past.reader);
    memset(order, 0, sizeof(order));
    const struct recovery_result result = recovery_run(&harness.front, &past, harness.now_ns);
    if (result.held > 0)
        fuzz_reach(CONTINUED);
    if (result.left_out > 0)
        fuzz_reach(LEFT_OUT);
    for (unsigned i = 0; i < 3; i++)
        recovery_end_left_out(&harness.sessions[i]);
    restore_start(&harness.front.registry, harness.now_ns);
    check_restored();
    answer_resumes(&input);
    restore_end(&harness.front.registry, harness.now_ns);
    answer();
    end();
    return 0;
}
