/* The habits of an sd-event loop here: priorities, exact timers. All timers are armed
 * here: poller.c relies on loop_touched(). */
#pragma once

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "base/instant.h"

/* The order in which sd-event serves what is ready. */
enum loop_priority {
    LOOP_PRIORITY_TIMER = -40,
    LOOP_PRIORITY_SIGNAL = -20,
    LOOP_PRIORITY_NODE = -10,
    LOOP_PRIORITY_LISTENER = 10,
};

/* A disabled timer on CLOCK_BOOTTIME with an accuracy of 1 µs. The source is the caller's to unref. 0 or a
 * negative errno. */
int loop_add_timer(sd_event *event, sd_event_time_handler_t handler, void *userdata, sd_event_source **ret);

/* Arms it for this instant (not early: rounded up), or disarms it for INSTANT_NEVER. */
int loop_set_timer(sd_event_source *timer, instant_ns at_ns);

/* Ends poller_run() after this turn, with this code: 0 or a negative errno. */
int loop_exit(sd_event *event, int code);

/* Whether this thread has armed anything since it was asked last: then sd_event_prepare() has work. */
bool loop_touched(void);

/* Address space whose pages cost nothing until touched, zeroed; NULL when there is none. To be unmapped with
 * munmap(2). */
void *loop_reserve(size_t bytes);
