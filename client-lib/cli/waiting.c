#include "waiting.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

enum { NOTICE_MS = 2000, ANSWER_TIMEOUT_MS = 10000 };

void waiting_init(struct waiting *waiting, const struct cli *cli, const char *name, bool wanted) {
    *waiting = (struct waiting){
        .cli = cli, .name = name, .due_ns = wanted ? cli_now_ns() + NOTICE_MS * NS_PER_MS : INT64_MAX};
}

int64_t waiting_due_ns(const struct waiting *waiting) {
    return waiting->due_ns;
}

int64_t waiting_give_up_ns(int64_t wait_ms) {
    return wait_ms < 0 ? INT64_MAX : cli_now_ns() + (wait_ms + ANSWER_TIMEOUT_MS) * NS_PER_MS;
}

/* "held by HOLDER, 8123 ms left if not extended"; or that the holder has ended and the name cools. */
static void report_holder(const struct waiting *waiting, const struct redlock_leader *leader) {
    const char *name = waiting->name;
    const char *holder = leader->holder[0] ? leader->holder : "a key with an empty value";

    if (leader->type[0])
        cli_complain("%s: waiting: its Redis key is of type %s, which is no lock: delete that key", name,
                     leader->type);
    else if (leader->cooling_ms > 0)
        cli_complain("%s: waiting: the last holder has ended; the name is kept for %" PRId64 " ms more",
                     name, leader->cooling_ms);
    else if (leader->validity_ms < 0)
        cli_complain("%s: waiting: held by %s, without an expiry", name, holder);
    else
        cli_complain("%s: waiting: held by %s, %" PRId64 " ms left if not extended", name, holder,
                     leader->validity_ms);
}

static void report(const struct waiting *waiting) {
    struct redlock *connection = NULL;
    struct redlock_leader leader = {.size = sizeof(leader)};

    int held = redlock_connect(waiting->cli->socket_path, &connection);
    if (held == REDLOCK_OK)
        held = redlock_leader(connection, waiting->name, &leader);
    if (held == 1)
        report_holder(waiting, &leader);
    else if (held == 0)
        cli_complain("%s: waiting: not held at this moment", waiting->name);
    else if (held == REDLOCK_DENIED) /* to ask for the holder, not to wait */
        cli_complain("%s: waiting: the right 'leader' shows the reason", waiting->name);
    else
        cli_complain("%s: waiting: %s%s%s", waiting->name, redlock_strerror(held), connection ? ": " : "",
                     connection ? redlock_error_text(connection) : "");
}

void waiting_report_due(struct waiting *waiting) {
    pid_t parent = getpid();

    if (cli_now_ns() < waiting->due_ns)
        return;
    waiting->due_ns = INT64_MAX;
    waiting->pid = fork();
    if (waiting->pid != 0)
        return;
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        report(waiting);
    _exit(0);
}

void waiting_deinit(struct waiting *waiting) {
    if (waiting->pid <= 0)
        return;
    (void) kill(waiting->pid, SIGKILL);
    while (waitpid(waiting->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    waiting->pid = 0;
}
