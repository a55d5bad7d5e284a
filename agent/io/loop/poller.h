/* A thread's turns: an epoll set of its own for what is hot (clients, nodes, mailboxes), with the sd-event
 * loop inside of it for timers, signals and what is rare.
 *
 * This way round, a turn costs one epoll_wait(2) and takes what is ready by the batch; sd-event alone would
 * serve one source a turn, and as the outer one it would cost a second wait and, for the kernel, hide who
 * woke whom: a thread that is woken by another is best run on the same core, since that one goes to sleep.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct poller;

/* Embedded in what is watched, which must live until the settling step after its last event. */
struct poller_target {
    void (*on_events)(struct poller_target *target, uint32_t events);
};

struct poller_hooks {
    /* Takes what is in the mailboxes: called in every turn, before the descriptors. */
    void (*mail)(void *userdata);
    /* Whether there is any. With `sleeping`, the poller is about to sleep: whoever posts from now on wakes
     * it. */
    bool (*mail_waits)(void *userdata, bool sleeping);
    /* Ends every turn, so that handlers need not. A negative return ends poller_run(). */
    int (*settle)(void *userdata);
};

/* 0 or a negative errno. */
int poller_new(sd_event *event, const struct poller_hooks *hooks, void *userdata, struct poller **ret);

/* The watched descriptors stay their owners'. NULL is fine. Returns NULL. */
struct poller *poller_free(struct poller *poller);

/* Runs until loop_exit(): its code. Or a negative errno, when something failed that must not. */
int poller_run(struct poller *poller);

int poller_add(struct poller *poller, int fd, uint32_t events, struct poller_target *target);
int poller_modify(struct poller *poller, int fd, uint32_t events, struct poller_target *target);
void poller_remove(struct poller *poller, int fd);
