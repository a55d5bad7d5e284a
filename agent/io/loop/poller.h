/* A thread's loop: an epoll set for clients, nodes and mailboxes, with the sd-event loop as a member for
 * timers, signals and rare events.
 *
 * So a turn costs one epoll_wait(2) and takes ready descriptors in a batch. sd-event alone serves one source
 * a turn; as the outer loop it would cost a second wait, and hide from the kernel which thread wakes which:
 * a woken thread runs best on the core of the waking thread, which sleeps next. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct poller;

/* Embedded in what is watched, which must live until the settle() after its last event. */
struct poller_target {
    void (*on_events)(struct poller_target *target, uint32_t events);
};

struct poller_hooks {
    /* Takes the messages in the mailboxes: in every turn, before the descriptors. */
    void (*mail)(void *userdata);
    /* Whether there is a message. With `sleeping`, the poller sleeps next, and the next post must wake
     * it. */
    bool (*mail_waits)(void *userdata, bool sleeping);
    /* Ends every turn, so that handlers need not. 0; 1: more is to do, so the next turn takes what is ready
     * without sleeping; negative: ends poller_run(). */
    int (*settle)(void *userdata);
};

/* 0 or a negative errno. */
int poller_new(sd_event *event, const struct poller_hooks *hooks, void *userdata, struct poller **ret);

/* Watched descriptors stay open. NULL is fine. Returns NULL. */
struct poller *poller_free(struct poller *poller);

/* Runs until loop_exit(), and returns its code; or a negative errno after an unexpected failure. */
int poller_run(struct poller *poller);

int poller_add(struct poller *poller, int fd, uint32_t events, struct poller_target *target);
int poller_modify(struct poller *poller, int fd, uint32_t events, struct poller_target *target);
void poller_remove(struct poller *poller, int fd);
