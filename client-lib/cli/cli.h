/* What the subcommands of redlock share. Each subcommand is a function of its own argv that returns the exit
 * status. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "redlock.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

/* Exit statuses, those of sysexits.h and timeout(1) where they fit. */
enum {
    STATUS_DONE = 0,
    STATUS_HELD = 1,
    STATUS_USAGE = 64,
    STATUS_NO_AGENT = 69,
    STATUS_SYSTEM = 71,
    STATUS_NO_QUORUM = 75,
    STATUS_DENIED = 77,
    STATUS_TIMED_OUT = 124,
    STATUS_LOST = 125,
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_NOT_FOUND = 127,
};

struct cli {
    const char *socket_path; /* NULL: the default */
};

int cli_run(const struct cli *cli, int argc, char **argv);
int cli_acquire(const struct cli *cli, int argc, char **argv);
int cli_release(const struct cli *cli, int argc, char **argv);
int cli_hold(const struct cli *cli, int argc, char **argv);
int cli_status(const struct cli *cli, int argc, char **argv);
int cli_metrics(const struct cli *cli, int argc, char **argv);
int cli_nodes(const struct cli *cli, int argc, char **argv);
int cli_leases(const struct cli *cli, int argc, char **argv);
int cli_leader(const struct cli *cli, int argc, char **argv);
int cli_watch(const struct cli *cli, int argc, char **argv);
int cli_history(const struct cli *cli, int argc, char **argv);
int cli_top(const struct cli *cli, int argc, char **argv);
int cli_whoami(const struct cli *cli, int argc, char **argv);
int cli_check(const struct cli *cli, int argc, char **argv);

/* The kernel's name of the process that holds a lease for `redlock acquire`: at most 15 bytes. */
#define CLI_HOLDER_NAME "redlock-holder"
#define CLI_RELEASE_SIGNAL SIGUSR1 /* from `redlock release` to the holder */

/* The same for the process that holds a lease for `redlock run`. */
#define CLI_GUARD_NAME "redlock-guard"

/* When the agent neither extends the lease nor gives a reason. */
#define CLI_NOT_EXTENDED "the agent no longer extends the lease (max_hold, or the agent is stuck)"

/* The exit status, or another one if standard output could not be written. */
int cli_flush(int status);

/* Writes what was printed to standard output. If the reader has ended, ends the process with STATUS_DONE:
 * for commands that print until then, and ignore SIGPIPE. False: another failure, which cli_flush()
 * reports. */
bool cli_flush_to_reader(void);

/* Prints one line to standard error, after "redlock: ". Control characters, as in users' input, become
 * question marks. */
void cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From now on cli_complain() prints nothing. */
void cli_be_quiet(void);

/* From now on a message is dropped if standard error has no room for it: for processes that must end other
 * processes in time. Blocks SIGPIPE and SIGTTOU. */
void cli_never_wait_for_reader(void);

/* From now on messages about the ttl name this instead of --ttl. */
void cli_name_ttl(const char *name);

/* From now on cli_report() prints like cli_complain(). */
void cli_be_verbose(void);
void cli_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The path at which the library connects. */
const char *cli_socket_path(const struct cli *cli);

/* Reports that redlock_connect() has failed with this error, and errno. The exit status. */
int cli_not_connected(const struct cli *cli, int error);

/* 0 when connected; else the exit status, reported. */
int cli_connect(const struct cli *cli, struct redlock **ret);

/* The exit status for an error of libredlock. */
int cli_status_of(int error);

/* Reports a failed call on this connection (NULL: there is none) concerning `what`; returns the exit
 * status. */
int cli_failed(const struct redlock *connection, int error, const char *what);

/* The time of CLOCK_BOOTTIME. */
int64_t cli_now_ns(void);

/* poll(2) until this instant; INT64_MAX: for ever. */
struct pollfd;
int cli_poll(struct pollfd *fds, unsigned long n_fds, int64_t until_ns);
