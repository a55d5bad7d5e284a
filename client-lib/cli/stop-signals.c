#include "stop-signals.h"

#include <errno.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli.h"

enum { SETTLE_MS = 500 };

static void end_at_once(int number) {
    (void) number;
    _exit(STATUS_DONE);
}

int stop_signals_init(struct stop_signals *signals) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    const struct sigaction action = {.sa_handler = end_at_once};
    struct sigaction old;
    sigset_t all;

    *signals = (struct stop_signals){.fd = -1};
    (void) signal(SIGCHLD, SIG_DFL); /* ignored, SIGCHLD would hide how a hook ends */
    (void) sigemptyset(&signals->set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void) sigaddset(&signals->set, numbers[i]);
    all = signals->set;
    (void) sigaddset(&all, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &all, NULL) < 0)
        return -errno;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (sigismember(&signals->set, numbers[i]))
            (void) sigaction(numbers[i], &action, NULL);
    signals->fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd < 0 ? -errno : 0;
}

void stop_signals_deinit(struct stop_signals *signals) {
    if (signals->fd >= 0)
        (void) close(signals->fd);
    signals->fd = -1;
}

void stop_signals_let_in(const struct stop_signals *signals, bool in) {
    (void) sigprocmask(in ? SIG_UNBLOCK : SIG_BLOCK, &signals->set, NULL);
}

void stop_signals_read(struct stop_signals *signals) {
    struct signalfd_siginfo info;
    int64_t at_ns = cli_now_ns();

    while (read(signals->fd, &info, sizeof(info)) == sizeof(info)) {
        bool is_same = signals->count > 0 && at_ns < signals->counted_ns + SETTLE_MS * NS_PER_MS;
        if (info.ssi_signo == SIGCHLD || is_same)
            continue;
        signals->count++;
        signals->counted_ns = at_ns;
    }
}
