#include "io/client/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>

enum {
    READY_WAIT_MS = 1000,  /* for a quorum of nodes, before READY=1 */
    STATUS_MS = 10 * 1000, /* between two statuses */
    STATUS_GAP_MS = 1000,  /* the same after a change */
    PINGS_A_PERIOD = 4,
    RETRY_MS = 20, /* of what a slow manager did not take */
};

/* In the order in which they are sent. */
enum { UNSENT_READY = 1, UNSENT_RELOADING = 2, UNSENT_RELOADED = 4, UNSENT_WATCHDOG = 8, UNSENT_END = 16 };

void notify_clear(struct notify *notify) {
    *notify = (struct notify){.manager.fd = -1,
                              .retry_ns = INSTANT_NEVER,
                              .ping_ns = INSTANT_NEVER,
                              .status_ns = INSTANT_NEVER,
                              .ready_latest_ns = INSTANT_NEVER};
}

int notify_init(struct notify *notify, instant_ns now_ns) {
    uint64_t watchdog_us = 0;

    notify_clear(notify);
    int r = service_manager_open(&notify->manager);
    if (r < 0)
        return r == -ENOTCONN ? 0 : r;
    notify->ready_latest_ns = now_ns + READY_WAIT_MS * NS_PER_MS;
    if (sd_watchdog_enabled(0, &watchdog_us) <= 0 || watchdog_us / PINGS_A_PERIOD > INT64_MAX / NS_PER_US)
        return 0;
    notify->ping_every_ns = (int64_t) (watchdog_us / PINGS_A_PERIOD) * NS_PER_US;
    notify->ping_ns = now_ns + notify->ping_every_ns;
    return 0;
}

void notify_deinit(struct notify *notify) {
    service_manager_close(&notify->manager);
}

/* --- messages that must arrive --- */

static int send_one(const struct notify *notify, unsigned message) {
    char reloading[64];

    switch (message) {
    case UNSENT_RELOADING:
        (void) snprintf(reloading, sizeof(reloading), "RELOADING=1\nMONOTONIC_USEC=%lld",
                        (long long) notify->reloading_us);
        return service_manager_send(&notify->manager, reloading, -1);
    case UNSENT_WATCHDOG:
        return service_manager_send(&notify->manager, "WATCHDOG=1", -1);
    default:
        return service_manager_send(&notify->manager, "READY=1", -1);
    }
}

static void send_unsent(struct notify *notify, instant_ns now_ns) {
    for (unsigned message = 1; message < UNSENT_END; message <<= 1) {
        if ((notify->unsent & message) && send_one(notify, message) == -EAGAIN) {
            notify->retry_ns = now_ns + RETRY_MS * NS_PER_MS;
            return;
        }
        notify->unsent &= ~message;
    }
    notify->retry_ns = INSTANT_NEVER;
}

static void post(struct notify *notify, unsigned message, instant_ns now_ns) {
    bool waits = notify->unsent != 0;

    notify->unsent |= message;
    if (!waits)
        send_unsent(notify, now_ns);
}

/* --- the status --- */

/* Appends. A text without room is cut between two words. */
__attribute__((format(printf, 2, 3))) static void append(char text[NOTIFY_STATUS_BYTES], const char *format,
                                                         ...) {
    size_t length = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    int wanted = vsnprintf(text + length, NOTIFY_STATUS_BYTES - length, format, arguments);
    va_end(arguments);
    if (wanted >= (int) (NOTIFY_STATUS_BYTES - length))
        (void) node_cut_text(text, NOTIFY_STATUS_BYTES);
}

static bool has_quorum(const struct front_state *local) {
    return front_state_voting(local) > local->identity.n_nodes / 2;
}

/* Appends the reason for which this node does not vote, and all nodes that share the reason; nothing if an
 * earlier node shares it. */
static void append_reason(const struct front_state *local, unsigned node, char text[NOTIFY_STATUS_BYTES]) {
    const struct front_state_node first = front_state_node(local, node);
    bool names[NODES_MAX] = {false};

    for (unsigned i = 0; i < local->identity.n_nodes; i++) {
        const struct front_state_node other = front_state_node(local, i);
        names[i] = other.node_state != NODE_STATE_VOTING && strcmp(first.reason, other.reason) == 0;
        if (i < node && names[i])
            return;
    }
    for (unsigned i = node; i < local->identity.n_nodes; i++)
        if (names[i])
            append(text, "%s%s", i > node ? ", " : "; ", local->identity.node_names[i]);
    append(text, ": %s", first.reason);
}

/* One line: the manager ignores what follows a newline. */
static void compose_status(const struct front_state *local, char text[NOTIFY_STATUS_BYTES]) {
    unsigned voting = front_state_voting(local), n_nodes = local->identity.n_nodes;

    text[0] = '\0';
    append(text, "%u of %u nodes vote%s; %u leases held, %u waited for, %u connections", voting, n_nodes,
           has_quorum(local) ? "" : ", no quorum", local->registry.held, local->registry.waiting,
           local->sessions);
    for (unsigned i = 0; i < n_nodes && voting < n_nodes; i++) {
        if (front_state_node(local, i).node_state != NODE_STATE_VOTING)
            append_reason(local, i, text);
    }
    for (char *end = strchr(text, '\n'); end; end = strchr(end, '\n'))
        *end = ' ';
}

/* 0, or a negative errno: nothing is sent. */
static int send_status(struct notify *notify, const struct front_state *local, const char *before,
                       instant_ns now_ns) {
    char status[NOTIFY_STATUS_BYTES], text[NOTIFY_STATUS_BYTES + 32];

    compose_status(local, status);
    notify->changed = false;
    notify->status_ns = now_ns + STATUS_MS * NS_PER_MS;
    if (before[0] == '\0' && strcmp(status, notify->status) == 0)
        return 0;
    (void) snprintf(text, sizeof(text), "%sSTATUS=%s", before, status);
    int r = service_manager_send(&notify->manager, text, -1);
    if (r >= 0)
        memcpy(notify->status, status, sizeof(status));
    return r;
}

static void become_ready(struct notify *notify, const struct front_state *local, instant_ns now_ns) {
    notify->ready = true;
    notify->ready_latest_ns = INSTANT_NEVER;
    if (send_status(notify, local, "READY=1\n", now_ns) == -EAGAIN)
        post(notify, UNSENT_READY, now_ns);
}

void notify_serving(struct notify *notify, const struct front_state *local, instant_ns now_ns) {
    if (notify->manager.fd < 0)
        return;
    notify->status_ns = now_ns;
    if (has_quorum(local))
        become_ready(notify, local, now_ns);
}

void notify_changed(struct notify *notify, const struct front_state *local, instant_ns now_ns) {
    if (notify->status_ns == INSTANT_NEVER)
        return; /* no service manager, or not serving yet */
    if (!notify->ready && has_quorum(local)) {
        become_ready(notify, local, now_ns);
    } else if (!notify->changed) {
        notify->changed = true;
        notify->status_ns = instant_min(notify->status_ns, now_ns + STATUS_GAP_MS * NS_PER_MS);
    }
}

bool notify_tick(struct notify *notify, const struct front_state *local, instant_ns now_ns) {
    if (now_ns >= notify->retry_ns)
        send_unsent(notify, now_ns);
    if (now_ns >= notify->ready_latest_ns)
        become_ready(notify, local, now_ns);
    else if (now_ns >= notify->status_ns)
        (void) send_status(notify, local, "", now_ns);
    if (now_ns < notify->ping_ns)
        return false;
    notify->ping_ns = now_ns + notify->ping_every_ns;
    if (notify->n_awaited > 0)
        return false;
    notify->ping++;
    notify->n_awaited = local->identity.n_keepers;
    return true;
}

instant_ns notify_due_ns(const struct notify *notify) {
    return instant_min(instant_min(notify->retry_ns, notify->ready_latest_ns),
                       instant_min(notify->status_ns, notify->ping_ns));
}

void notify_pong(struct notify *notify, uint32_t ping, instant_ns now_ns) {
    if (ping != notify->ping || notify->n_awaited == 0)
        return;
    notify->n_awaited--;
    if (notify->n_awaited == 0) /* not at the next ping: a keeper may hang since its reply */
        post(notify, UNSENT_WATCHDOG, now_ns);
}

/* The manager may not have got the end of a former reload yet: that is sent first. If it has not got the
 * beginning either, only this reload is reported. */
void notify_reloading(struct notify *notify, instant_ns now_ns) {
    struct timespec now;

    if (!notify->ready || clock_gettime(CLOCK_MONOTONIC, &now) < 0)
        return;
    if ((notify->unsent & UNSENT_RELOADED) && !(notify->unsent & UNSENT_RELOADING))
        notify->unsent |= UNSENT_READY;
    notify->unsent &= ~(unsigned) UNSENT_RELOADED;
    notify->reloading_us = (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
    post(notify, UNSENT_RELOADING, now_ns);
}

void notify_reloaded(struct notify *notify, instant_ns now_ns) {
    if (notify->ready) /* READY=1 also ends the start */
        post(notify, UNSENT_RELOADED, now_ns);
}

void notify_stopping(const struct notify *notify) {
    if (notify->manager.fd >= 0)
        (void) service_manager_send(&notify->manager, "STOPPING=1", -1);
}
