#include "io/restart/inherited-fds.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

/* The number of a ledger; false for another name. */
static bool parse_ledger(const char *name, uint64_t *ret) {
    const size_t length = strlen(FD_STORE_LEDGER);
    char *end;

    if (strncmp(name, FD_STORE_LEDGER, length) != 0)
        return false;
    errno = 0;
    *ret = strtoull(name + length, &end, 16);
    return errno == 0 && end != name + length && *end == '\0';
}

/* A listening socket may have any name (FileDescriptorName=), also one that could be a session's. */
static bool listens(int fd) {
    int value = 0;
    socklen_t length = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &length) == 0 && value;
}

static int by_name(const void *a, const void *b) {
    const struct fd_store_session *one = &((const struct inherited_fds_session *) a)->stored;
    const struct fd_store_session *other = &((const struct inherited_fds_session *) b)->stored;

    if (one->long_name != other->long_name)
        return one->long_name ? -1 : 1;
    return one->id < other->id ? -1 : one->id > other->id;
}

static void close_fd(int fd) {
    if (fd >= 0)
        (void) close(fd);
}

/* Keeps the first of each; a descriptor may have been stored twice. */
static void merge(struct inherited_fds_session *into, const struct inherited_fds_session *from) {
    into->stored.count += from->stored.count;
    if (into->fd < 0)
        into->fd = from->fd;
    else
        close_fd(from->fd);
    if (into->page_fd < 0)
        into->page_fd = from->page_fd;
    else
        close_fd(from->page_fd);
}

/* Makes one entry of a session's socket and page. */
static void merge_sessions(struct inherited_fds *inherited) {
    struct inherited_fds_session *sessions = inherited->sessions;
    size_t n = 0;

    if (inherited->n_sessions == 0)
        return;
    qsort(sessions, inherited->n_sessions, sizeof(sessions[0]), by_name);
    for (size_t i = 0; i < inherited->n_sessions; i++)
        if (n > 0 && by_name(&sessions[n - 1], &sessions[i]) == 0)
            merge(&sessions[n - 1], &sessions[i]);
        else
            sessions[n++] = sessions[i];
    inherited->n_sessions = n;
}

static void take_one(struct inherited_fds *inherited, int fd, const char *name) {
    struct fd_store_session stored;
    struct stat status;
    uint64_t number;

    if (fd_store_parse_name(name, &stored) && !listens(fd) && fstat(fd, &status) == 0) {
        bool is_socket = S_ISSOCK(status.st_mode);
        inherited->sessions[inherited->n_sessions++] = (struct inherited_fds_session){
            .stored = stored, .fd = is_socket ? fd : -1, .page_fd = is_socket ? -1 : fd};
    } else if (parse_ledger(name, &number)) {
        size_t room = sizeof(inherited->ledgers) / sizeof(inherited->ledgers[0]);
        if (inherited->n_ledgers < room)
            inherited->ledgers[inherited->n_ledgers++] = (struct inherited_fds_ledger){number, fd};
        else
            (void) close(fd);
    } else if (inherited->n_listen++ == 0) {
        inherited->listen_fd = fd;
    } else {
        (void) close(fd);
    }
}

int inherited_fds_take(struct inherited_fds *ret) {
    char **names = NULL;
    int n = sd_listen_fds_with_names(1, &names);

    *ret = (struct inherited_fds){.listen_fd = -1};
    if (n <= 0)
        return n;
    ret->sessions = calloc((size_t) n, sizeof(ret->sessions[0]));
    for (int i = 0; ret->sessions && i < n; i++)
        take_one(ret, SD_LISTEN_FDS_START + i, names[i]);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    if (!ret->sessions)
        return -ENOMEM;
    merge_sessions(ret);
    return 0;
}

void inherited_fds_drop_ledgers(const struct inherited_fds *inherited) {
    for (size_t i = 0; i < inherited->n_ledgers; i++)
        fd_store_drop_ledger(inherited->ledgers[i].sequence);
}

void inherited_fds_drop(const struct inherited_fds *inherited) {
    for (size_t i = 0; i < inherited->n_sessions; i++)
        fd_store_drop_inherited(&inherited->sessions[i].stored);
    inherited_fds_drop_ledgers(inherited);
}

void inherited_fds_close(struct inherited_fds *inherited) {
    for (size_t i = 0; i < inherited->n_sessions; i++) {
        close_fd(inherited->sessions[i].fd);
        close_fd(inherited->sessions[i].page_fd);
    }
    for (size_t i = 0; i < inherited->n_ledgers; i++)
        (void) close(inherited->ledgers[i].fd);
    free(inherited->sessions);
    inherited->sessions = NULL;
    inherited->n_sessions = inherited->n_ledgers = 0;
}
