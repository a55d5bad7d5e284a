/* redlock release: ends the background process of `redlock acquire`, which releases its lease first. */

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
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

enum { TIMEOUT_MS = 10000, NAME_BYTES = 64 };

struct release {
    struct listing list;
    uint64_t id, fence; /* 0: any */
    const char *name;   /* NULL: any */
    pid_t pid;          /* of the holder; 0: none was found */
};

static void find(void *userdata, const struct resp_token *lease) {
    struct release *release = userdata;
    const struct resp_token *name = listing_get(lease, "name");

    if (listing_integer(lease, "validity") == 0 || !name ||
        (release->id != 0 && (uint64_t) listing_integer(lease, "id") != release->id) ||
        (release->fence != 0 && (uint64_t) listing_integer(lease, "fence") != release->fence))
        return;
    if (!release->name ||
        (name->length == strlen(release->name) && memcmp(name->text, release->name, name->length) == 0))
        release->pid = (pid_t) listing_integer(lease, "pid");
}

/* Whether the process is one of `redlock acquire`, and its name. */
static bool is_holder(pid_t pid, char name[NAME_BYTES]) {
    char path[NAME_BYTES];

    (void) strcpy(name, "?");
    (void) snprintf(path, sizeof(path), "/proc/%ld/comm", (long) pid);
    FILE *file = fopen(path, "re");
    if (file && fgets(name, NAME_BYTES, file))
        name[strcspn(name, "\n")] = '\0';
    if (file)
        (void) fclose(file);
    return strcmp(name, CLI_HOLDER_NAME) == 0;
}

static int end_holder(pid_t pid) {
    char name[NAME_BYTES];
    struct pollfd fd = {.fd = (int) syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

    if (fd.fd < 0)
        return STATUS_HELD; /* ended meanwhile */
    if (!is_holder(pid, name)) {
        cli_complain(
            "process %ld (%s) holds the lease, and is not of 'redlock acquire': end that process instead",
            (long) pid, name);
        return STATUS_USAGE;
    }
    if (syscall(SYS_pidfd_send_signal, fd.fd, SIGTERM, NULL, 0) < 0) {
        if (errno == ESRCH)
            return STATUS_HELD;
        cli_complain("process %ld holds the lease and can't be ended: %s", (long) pid, strerror(errno));
        return errno == EPERM ? STATUS_DENIED : STATUS_SYSTEM;
    }
    if (poll(&fd, 1, TIMEOUT_MS) > 0)
        return STATUS_DONE;
    cli_complain("process %ld holds the lease and has not ended within %d s", (long) pid, TIMEOUT_MS / 1000);
    return STATUS_SYSTEM;
}

int cli_release(const struct cli *cli, int argc, char **argv) {
    struct release release = {0};
    const struct options_row rows[] = {
        {"id", 0, OPTIONS_NUMBER, &release.id},
        {"fence", 0, OPTIONS_NUMBER, &release.fence},
    };

    int status = options_read(rows, sizeof(rows) / sizeof(rows[0]), true, usage, argc, argv);
    if (status != 0)
        return status - 1;
    if (!options_end(argc, argv, 1))
        return STATUS_USAGE;
    release.name = optind < argc ? argv[optind] : NULL;
    if (!release.name && release.id == 0 && release.fence == 0) {
        cli_complain("release: expected --id ID, --fence TOKEN or NAME; see 'redlock release --help'");
        return STATUS_USAGE;
    }
    status = cli_connect(cli, &release.list.connection);
    if (status == STATUS_DONE)
        status = listing_leases(&release.list, find, &release);
    redlock_close(release.list.connection);
    if (status != STATUS_DONE)
        return status;
    if (release.pid == 0) {
        cli_complain("no process of this host holds that lease: nothing was released");
        return STATUS_HELD;
    }
    return end_holder(release.pid);
}
