/* redlock release: ends the background process of `redlock acquire`, which releases its lease first. */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli.h"
#include "listing.h"
#include "options.h"

static const char usage[] = "redlock release [--id ID] [--fence TOKEN] [NAME]\n"
                            "Releases a lease that 'redlock acquire' holds on this host: by the id or the "
                            "token that it printed, or by\n"
                            "name. Exit status 1 when there is none.\n";

enum {
    TIMEOUT_MS = 10000,
    NAME_BYTES = 64,
    LOOK_AGAIN_MS = 100, /* for the agent to notice the end of a process */
    LOOKS = 10,
};

struct release {
    struct redlock *connection;
    struct listing_choice choice;
    uint64_t id;        /* of the lease; 0: none was found */
    pid_t pid;          /* of the holder, as the agent sees it; 0: it has no number for it */
    bool lingers;       /* the holder has ended */
    int64_t cooling_ms; /* a lease that was meant has ended, and the name stays taken for this long */
};

static void find(void *userdata, const struct resp_token *lease) {
    struct release *release = userdata;
    int64_t pid = listing_integer(lease, "pid");

    if (listing_is_meant(&release->choice, lease) && listing_is(lease, "state", "cooling") &&
        listing_integer(lease, "cooldown") > release->cooling_ms)
        release->cooling_ms = listing_integer(lease, "cooldown");
    if (!listing_is_chosen(&release->choice, lease))
        return;
    release->id = (uint64_t) listing_integer(lease, "id");
    release->pid = pid > 0 && pid <= INT32_MAX ? (pid_t) pid : 0;
    release->lingers = strcmp(listing_text(lease, "state"), "lingering") == 0;
}

/* Its pid may be another process's by now. */
static int report_lingering(const struct release *release) {
    cli_complain(
        "process %ld held the lease, and has ended or disconnected without a release: it lingers, and ends "
        "by itself, within the agent's max_ttl at most ('redlock whoami' shows it)",
        (long) release->pid);
    return STATUS_NO_QUORUM;
}

/* The name of the process. 0 or a negative errno. */
static int read_name(pid_t pid, char name[NAME_BYTES]) {
    char path[NAME_BYTES];
    int error = 0;

    (void) snprintf(path, sizeof(path), "/proc/%ld/comm", (long) pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return -errno;
    if (fgets(name, NAME_BYTES, file))
        name[strcspn(name, "\n")] = '\0';
    else
        error = ferror(file) ? -errno : -ESRCH;
    (void) fclose(file);
    return error;
}

/* The parent, to be signalled instead of a guard, which takes no signals; 0: unknown. */
static long parent_of(pid_t pid) {
    char path[NAME_BYTES], line[NAME_BYTES];
    long parent = 0;

    (void) snprintf(path, sizeof(path), "/proc/%ld/status", (long) pid);
    FILE *file = fopen(path, "re");
    while (file && parent == 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, "PPid:", strlen("PPid:")) == 0)
            parent = strtol(line + strlen("PPid:"), NULL, 10);
    if (file)
        (void) fclose(file);
    return parent;
}

static void complain_of_holder(pid_t pid, const char *name) {
    long parent = strcmp(name, CLI_GUARD_NAME) == 0 ? parent_of(pid) : 0;

    if (parent > 1)
        cli_complain("process %ld ('redlock run') holds the lease: end that process instead", parent);
    else
        cli_complain("process %ld (%s) holds the lease, but does not belong to 'redlock acquire': end that "
                     "process instead",
                     (long) pid, name);
}

/* There is no process of this number here: it has ended, or it is in another PID namespace, as a container
 * has one. Then it still holds the lease. */
static int report_missing(struct release *release) {
    pid_t pid = release->pid;

    release->choice.id = release->id;
    for (int looks = 0; looks < LOOKS; looks++) {
        (void) poll(NULL, 0, looks > 0 ? LOOK_AGAIN_MS : 0);
        release->id = 0;
        int status = listing_leases(release->connection, find, release);
        if (status != STATUS_DONE)
            return status;
        if (release->id == 0) {
            cli_complain("process %ld held the lease, and has ended meanwhile", (long) pid);
            return STATUS_HELD;
        }
        if (release->lingers)
            return report_lingering(release);
    }
    if (pid > 0)
        cli_complain("process %ld in the agent's PID namespace holds the lease, and is not seen from this "
                     "namespace: call 'redlock release' in that of the agent, or 'kill -USR1 PID' where the "
                     "lease was acquired, with the last number that 'redlock acquire' printed",
                     (long) pid);
    else
        cli_complain("the lease is held in a PID namespace that the agent can't see: call 'kill -USR1 PID' "
                     "there, with the last number that 'redlock acquire' printed");
    return STATUS_SYSTEM;
}

/* The holder could not be opened or signalled. */
static int report_failure(struct release *release, int error) {
    if (error == ESRCH || release->pid <= 0)
        return report_missing(release);
    cli_complain("process %ld holds the lease and can't be ended: %s", (long) release->pid, strerror(error));
    return error == EPERM ? STATUS_DENIED : STATUS_SYSTEM;
}

static int end_holder(struct release *release) {
    char name[NAME_BYTES];
    struct pollfd fd = {.fd = (int) syscall(SYS_pidfd_open, release->pid, 0), .events = POLLIN};

    if (fd.fd < 0)
        return report_failure(release, errno);
    int r = read_name(release->pid, name);
    if (r < 0)
        return report_failure(release, poll(&fd, 1, 0) > 0 ? ESRCH : -r);
    if (strcmp(name, CLI_HOLDER_NAME) != 0) {
        complain_of_holder(release->pid, name);
        return STATUS_USAGE;
    }
    if (syscall(SYS_pidfd_send_signal, fd.fd, CLI_RELEASE_SIGNAL, NULL, 0) < 0)
        return report_failure(release, errno);
    if (poll(&fd, 1, TIMEOUT_MS) > 0)
        return STATUS_DONE;
    cli_complain("process %ld holds the lease and has not ended within %d s", (long) release->pid,
                 TIMEOUT_MS / 1000);
    return STATUS_SYSTEM;
}

static int report_none(const struct release *release) {
    const char *const words[] = {"WHOAMI", release->choice.name, NULL};

    if (release->choice.name &&
        listing_request(release->connection, words, LISTING_MAP, NULL, NULL) == REDLOCK_BAD_NAME)
        return cli_failed(release->connection, REDLOCK_BAD_NAME, release->choice.name);
    if (release->cooling_ms > 0) {
        cli_complain("the lease has ended, and its name cools (--min-hold): it stays taken for %" PRId64
                     " ms more, and can't be released before",
                     release->cooling_ms);
        return STATUS_NO_QUORUM;
    }
    cli_complain("no such lease on this host, or it is another user's: nothing was released");
    return STATUS_HELD;
}

static int release_chosen(struct release *release) {
    int status = listing_leases(release->connection, find, release);

    if (status != STATUS_DONE)
        return status;
    if (release->id == 0)
        return report_none(release);
    return release->lingers ? report_lingering(release) : end_holder(release);
}

int cli_release(const struct cli *cli, int argc, char **argv) {
    struct release release = {0};
    const struct options_row rows[] = {
        {"id", 0, OPTIONS_NUMBER, &release.choice.id},
        {"fence", 0, OPTIONS_TOKEN, &release.choice.fence},
    };

    int status = options_read(rows, sizeof(rows) / sizeof(rows[0]), true, usage, argc, argv);
    if (status != 0)
        return status - 1;
    if (!options_end(argc, argv, 1))
        return STATUS_USAGE;
    release.choice.name = optind < argc ? argv[optind] : NULL;
    if (!release.choice.name && release.choice.id == 0 && release.choice.fence == 0) {
        cli_complain("release: expected --id ID, --fence TOKEN or NAME; see 'redlock release --help'");
        return STATUS_USAGE;
    }
    status = cli_connect(cli, &release.connection);
    if (status == STATUS_DONE)
        status = release_chosen(&release);
    redlock_close(release.connection);
    return status;
}
