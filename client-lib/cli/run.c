/* redlock run: a command under a lease. The command ends before the lease, even if the agent or redlock
 * itself is killed. Starts the two processes that ensure this: guard.h has the picture. */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli.h"
#include "guard.h"
#include "job.h"
#include "run-options.h"
#include "signal-relay.h"

static int run_guarded(const struct cli *cli, struct run_options *run) {
    int channel[2], signal_fd;

    (void) sigprocmask(SIG_BLOCK, NULL, &run->mask);
    signal_fd = signal_relay_init();
    if (signal_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) < 0) {
        cli_complain("can't watch signals: %s", strerror(errno));
        return STATUS_SYSTEM;
    }
    pid_t relay = getpid(), guard = fork();
    if (guard < 0) {
        cli_complain("can't start the guard process: %s", strerror(errno));
        return STATUS_SYSTEM;
    }
    if (guard == 0) {
        (void) close(channel[0]);
        (void) close(signal_fd);
        guard_run(cli, run, channel[1], relay);
        _exit(STATUS_DONE);
    }
    (void) close(channel[1]);
    return signal_relay_run(signal_fd, channel[0], run->name, guard);
}

int cli_run(const struct cli *cli, int argc, char **argv) {
    struct run_options run;

    int status = run_options_read(&run, argc, argv);
    if (status != 0)
        return status - 1;
    if (run.quiet)
        cli_be_quiet();
    /* A lease for nothing would keep the other hosts from the work: with --min-hold for that time. */
    status = run.shell_text ? 0 : job_check(run.command[0]);
    if (status != 0)
        return status;
    return run_guarded(cli, &run);
}
