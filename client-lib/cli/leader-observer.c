#include "leader-observer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "connect.h"
#include "printable.h"
#include "redlock.h"

/* Meanwhile signals wait, and a grant is not read. */
enum { PLACE_MS = 250, ANSWER_TIMEOUT_MS = 250 };

/* A lease of a redlockd has the holder "host:agent:pid". */
static long pid_of(const struct redlock_sighting *sighting) {
    const char *pid = sighting->host[0] ? strrchr(sighting->holder, ':') : NULL;

    return pid ? strtol(pid + 1, NULL, 10) : 0;
}

static void on_leader(struct redlock *connection, const struct redlock_sighting *sighting, void *userdata) {
    struct leader_observer *observer = userdata;
    const char *holder = sighting->host[0]     ? sighting->host
                         : sighting->holder[0] ? sighting->holder
                                               : "a key with an empty value";
    bool is_new = sighting->leadership == REDLOCK_LEADER_HELD && sighting->fence != observer->fence;

    (void) connection;
    switch (sighting->leadership) {
    case REDLOCK_LEADER_HELD:
        if (sighting->type[0])
            (void) snprintf(observer->text, sizeof(observer->text), "no lock: its Redis key is of type %s",
                            printable_text(sighting->type, strlen(sighting->type)));
        else
            (void) snprintf(observer->text, sizeof(observer->text), "%s leads",
                            printable_text(holder, strlen(holder)));
        observer->fence = sighting->fence;
        observer->pid = pid_of(sighting);
        break;
    case REDLOCK_LEADER_NONE:
        (void) snprintf(observer->text, sizeof(observer->text), "nobody leads");
        break;
    case REDLOCK_LEADER_UNKNOWN:
        (void) snprintf(observer->text, sizeof(observer->text), "the leader is unknown");
        break;
    }
    observer->on_change(observer->userdata, is_new);
}

void leader_observer_start(struct leader_observer *observer, const char *socket_path, const char *name) {
    static const struct redlock_callbacks callbacks = {.size = sizeof(callbacks), .leader = on_leader};

    int error = connect_within(socket_path, PLACE_MS, ANSWER_TIMEOUT_MS, &observer->connection);
    if (error == REDLOCK_OK) {
        redlock_set_callbacks(observer->connection, &callbacks, observer);
        error = redlock_observe(observer->connection, name);
        redlock_set_answer_timeout(observer->connection, CLIENT_ANSWER_TIMEOUT_MS); /* nothing waits now */
    }
    if (error != REDLOCK_OK)
        leader_observer_stop(observer);
}

void leader_observer_dispatch(struct leader_observer *observer) {
    if (observer->connection && redlock_dispatch(observer->connection) != REDLOCK_OK)
        leader_observer_stop(observer);
}

int leader_observer_fd(const struct leader_observer *observer) {
    return observer->connection ? redlock_fd(observer->connection) : -1;
}

void leader_observer_stop(struct leader_observer *observer) {
    redlock_close(observer->connection);
    observer->connection = NULL;
    observer->text[0] = '\0';
}
