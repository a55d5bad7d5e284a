/* Many descriptors behind one source of an sd-event loop: an epoll set inside the loop's own. sd-event
 * serves one source a turn, a system call each; the poller takes what is ready by the batch, and then calls
 * for one settling step. */
#pragma once

#include <stdint.h>
#include <systemd/sd-event.h>

struct poller;

/* Embedded in what is watched, which must live until the settling step after its last event. */
struct poll_target {
    void (*on_events)(struct poll_target *target, uint32_t events);
};

/* `settle` is called after each batch; a negative return of it ends the loop. 0 or a negative errno. */
int poller_new(sd_event *event, int64_t priority, int (*settle)(void *userdata), void *userdata,
               struct poller **ret);

/* The watched descriptors stay their owners'. NULL is fine. Returns NULL. */
struct poller *poller_free(struct poller *poller);

int poller_add(struct poller *poller, int fd, uint32_t events, struct poll_target *target);
int poller_modify(struct poller *poller, int fd, uint32_t events, struct poll_target *target);
void poller_remove(struct poller *poller, int fd);
