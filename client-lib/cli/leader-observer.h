/* Observes the leader of a name while `redlock hold` waits for the lease, on a connection of its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct redlock;

struct leader_observer {
    struct redlock *connection; /* NULL: not observing */
    char text[320];             /* "host leads"; "": not known */
    uint64_t fence;             /* of the last leader that was seen or set */
    long pid;                   /* the holder's, on its host; 0: not known */
    /* Called when `text` has changed; `is_new`: another leader has taken over, with another token. */
    void (*on_change)(void *userdata, bool is_new);
    void *userdata;
};

/* Connects and begins, within a second; without an agent the observer stays stopped, and may be started
 * again later. */
void leader_observer_start(struct leader_observer *observer, const char *socket_path, const char *name);

/* Reads what has come. Stops when the connection has ended. */
void leader_observer_dispatch(struct leader_observer *observer);

/* For poll(2): -1 when stopped. */
int leader_observer_fd(const struct leader_observer *observer);

void leader_observer_stop(struct leader_observer *observer);
