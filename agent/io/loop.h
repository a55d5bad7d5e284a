/* The habits of an sd-event loop here: priorities, exact timers, mailboxes, and a settling step that ends
 * what a handler began. */
#pragma once

#include <systemd/sd-event.h>

#include "base/instant.h"

/* The order in which a turn serves what is ready: a deadline before a message, a message before a socket. */
enum loop_priority {
    LOOP_PRIORITY_TIMER = -40,
    LOOP_PRIORITY_MAILBOX = -30,
    LOOP_PRIORITY_SIGNAL = -20,
    LOOP_PRIORITY_NODE = -10,
    LOOP_PRIORITY_CLIENT = 0,
    LOOP_PRIORITY_LISTENER = 10,
};

/* A disabled timer on CLOCK_BOOTTIME with an accuracy of 1 µs. The source is the caller's to unref. 0 or a
 * negative errno. */
int loop_add_timer(sd_event *event, sd_event_time_handler_t handler, void *userdata, sd_event_source **ret);

/* Arms it for this instant (not early: rounded up), or disarms it for INSTANT_NEVER. */
int loop_set_timer(sd_event_source *timer, instant_ns at_ns);

/* Watches a mailbox's wake_fd, edge-triggered; an error of the handler ends the loop. Floating: goes with
 * the loop. */
int loop_add_mailbox(sd_event *event, int wake_fd, sd_event_io_handler_t handler, void *userdata);

/* A handler to be called once in the next turn, each time that loop_call_later() asks for it. The source is
 * the caller's. */
int loop_add_later(sd_event *event, sd_event_handler_t handler, void *userdata, sd_event_source **ret);
int loop_call_later(sd_event_source *later);

/* Address space whose pages cost nothing until touched, zeroed; NULL when there is none. To be unmapped with
 * munmap(2). */
void *loop_reserve(size_t bytes);
