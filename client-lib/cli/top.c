/* redlock top: what the agent does, each second anew. On a terminal as a screen, else as blocks of text. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli.h"
#include "connect.h"
#include "options.h"
#include "top-sample.h"
#include "top-screen.h"
#include "top-view.h"

enum { PLACE_MS = 1000, ANSWER_MS = 3000 /* then the agent counts as stuck */ };

struct top {
    const struct cli *cli;
    struct redlock *connection;   /* NULL: there is no agent at present */
    struct top_sample samples[2]; /* the present one and the one before, in turn */
    unsigned n_samples;
    uint64_t blocks; /* still to print */
    bool is_screen;
    int signals; /* resize and stop */
    char *text;  /* shown; text_length bytes */
    size_t text_length;
};

static struct top_screen screen; /* for the signal handler */

static void on_end(int number) {
    (void) number;
    top_screen_end(&screen);
    _exit(STATUS_DONE);
}

/* --- what is shown --- */

static const struct top_sample *sample_before(const struct top *top, unsigned ago) {
    return top->n_samples > ago ? &top->samples[(top->n_samples - 1 - ago) % 2] : NULL;
}

/* Replaces the text. `error`: of the connection; then there is no new sample. The exit status. */
static int compose(struct top *top, int error) {
    char *text = NULL;
    size_t length = 0;
    FILE *output = open_memstream(&text, &length);

    if (!output)
        return cli_failed(NULL, REDLOCK_NO_MEMORY, "top");
    if (error == REDLOCK_OK)
        top_view_print(output, sample_before(top, 0), sample_before(top, 1));
    else
        (void) fprintf(output, "no agent answers: %s; trying again each second\n", redlock_strerror(error));
    bool complete = !ferror(output);
    if (fclose(output) != 0 || !complete || !text) { /* fclose(3) may succeed without memory for the text */
        free(text);
        return cli_failed(NULL, REDLOCK_NO_MEMORY, "top");
    }
    free(top->text);
    top->text = text;
    top->text_length = length;
    return STATUS_DONE;
}

/* A block covers the second before it: the first sample makes none. */
static void show(struct top *top, int error) {
    if (top->is_screen) {
        top_screen_draw(top->text, top->text_length);
        return;
    }
    if (error == REDLOCK_OK && top->n_samples < 2)
        return;
    (void) fwrite(top->text, 1, top->text_length, stdout);
    top->blocks--;
    if (top->blocks > 0)
        (void) putchar('\n');
    (void) cli_flush_to_reader(); /* another failure stays in ferror(3) */
}

/* --- samples --- */

/* An enum redlock_error; without REDLOCK_OK the connection is closed. */
static int take_sample(struct top *top) {
    int error = REDLOCK_OK;

    if (!top->connection)
        error = connect_within(top->cli->socket_path, PLACE_MS, ANSWER_MS, &top->connection);
    if (error == REDLOCK_OK)
        error = top_sample_take(&top->samples[top->n_samples % 2], top->connection);
    if (error != REDLOCK_OK) {
        redlock_close(top->connection);
        top->connection = NULL;
        top->n_samples = 0; /* the rates are unknown after a gap */
        return error;
    }
    top->n_samples++;
    return REDLOCK_OK;
}

/* --- keys and signals --- */

/* Stops, as Ctrl-Z does by default: not without a shell that could continue the job. */
static void stop(struct top *top) {
    sigset_t set;

    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGTSTP);
    top_screen_end(&screen);
    (void) raise(SIGTSTP);
    /* cppcheck-suppress unreachableCode ; it takes raise() for one that does not return */
    (void) sigprocmask(SIG_UNBLOCK, &set, NULL);
    (void) sigprocmask(SIG_BLOCK, &set, NULL);
    top->is_screen = top_screen_begin(&screen);
}

static void read_signals(struct top *top) {
    struct signalfd_siginfo info;

    while (read(top->signals, &info, sizeof(info)) == sizeof(info))
        if (info.ssi_signo == SIGTSTP)
            stop(top);
    top_screen_draw(top->text, top->text_length);
}

/* True: the key is 'q', or the terminal is gone. */
static bool read_key(void) {
    char key;
    ssize_t n = read(STDIN_FILENO, &key, 1);

    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN) || (n == 1 && (key == 'q' || key == 'Q'));
}

/* Looks at keys and signals at least once: a sample of a stuck agent takes longer than a second. 1: the
 * user, or the reader of the output, has ended. Or a negative errno. */
static int wait_until(struct top *top, int64_t until_ns) {
    int n_ready;

    do {
        struct pollfd fds[] = {
            {.fd = STDOUT_FILENO}, /* POLLERR or POLLHUP: the reader has ended */
            {.fd = top->is_screen ? top->signals : -1, .events = POLLIN},
            {.fd = top->is_screen ? STDIN_FILENO : -1, .events = POLLIN},
        };
        n_ready = cli_poll(fds, 3, until_ns);
        if (n_ready < 0 && errno != EINTR)
            return -errno;
        if (fds[0].revents & (POLLERR | POLLHUP))
            return 1;
        if (fds[1].revents != 0)
            read_signals(top);
        if (fds[2].revents != 0 && read_key())
            return 1;
    } while (n_ready > 0 || cli_now_ns() < until_ns);
    return 0;
}

/* The last block without an agent is a failure; on a screen the user has seen it. */
static int end_blocks(const struct top *top, int error) {
    return error == REDLOCK_OK || top->is_screen ? STATUS_DONE : cli_failed(NULL, error, "top");
}

static int watch_agent(struct top *top) {
    int64_t next_ns = cli_now_ns();
    int error = take_sample(top);

    if (error != REDLOCK_OK) { /* as for all commands */
        int status = cli_connect(top->cli, &top->connection);
        return status != STATUS_DONE ? status : cli_failed(top->connection, error, "top");
    }
    top->is_screen = top->is_screen && top_screen_begin(&screen);
    for (;;) {
        int status = compose(top, error);
        if (status != STATUS_DONE)
            return status;
        show(top, error);
        next_ns = cli_now_ns() > next_ns + NS_PER_S ? cli_now_ns() : next_ns + NS_PER_S;
        if (top->blocks == 0 || ferror(stdout))
            return end_blocks(top, error);
        int r = wait_until(top, next_ns);
        if (r > 0)
            return STATUS_DONE;
        if (r < 0) {
            cli_complain("can't wait for the next second: %s", strerror(-r));
            return STATUS_SYSTEM;
        }
        error = take_sample(top);
    }
}

static int open_signals(void) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    const struct sigaction action = {.sa_handler = on_end};
    struct sigaction old;
    sigset_t set;

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void) sigaction(ends[i], &action, NULL);
    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGWINCH);
    (void) sigaddset(&set, SIGTSTP);
    (void) sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run_top(const struct cli *cli, uint64_t blocks, bool is_screen) {
    struct top *top = calloc(1, sizeof(*top));

    if (!top)
        return cli_failed(NULL, REDLOCK_NO_MEMORY, "top");
    *top = (struct top){.cli = cli, .blocks = blocks, .is_screen = is_screen, .signals = -1};
    if (is_screen && (top->signals = open_signals()) < 0) {
        cli_complain("can't receive signals: %s", strerror(errno));
        free(top);
        return STATUS_SYSTEM;
    }
    int status = watch_agent(top);
    top_screen_end(&screen);
    redlock_close(top->connection);
    if (top->signals >= 0)
        (void) close(top->signals);
    free(top->text);
    free(top);
    return status;
}

int cli_top(const struct cli *cli, int argc, char **argv) {
    static const char usage[] =
        "redlock top [--once | --count N]\n"
        "What the agent does, each second anew: grants, hand-offs, extensions, losses and rejections a\n"
        "second, how late its threads are, the slowest nodes, the heaviest users, and the latest grants.\n"
        "Ends with 'q'. With --count N, or when the output is no terminal, blocks of text, each about the\n"
        "second before it. What other users have is shown as in 'redlock leases' and 'redlock metrics'.\n";
    uint64_t count = 0;
    bool once = false;
    const struct options_row rows[] = {{"count", 0, OPTIONS_COUNT, &count},
                                       {"once", 0, OPTIONS_FLAG, &once}};

    int status = options_read(rows, 2, true, usage, argc, argv);
    if (status != 0)
        return status - 1;
    if (!options_end(argc, argv, 0))
        return STATUS_USAGE;
    if (once && count > 0) {
        cli_complain("top: expected either --once or --count; see 'redlock top --help'");
        return STATUS_USAGE;
    }
    if (once)
        count = 1;
    (void) signal(SIGPIPE, SIG_IGN); /* see cli_flush_to_reader() */
    bool is_screen = count == 0 && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    return run_top(cli, count > 0 ? count : UINT64_MAX, is_screen);
}
