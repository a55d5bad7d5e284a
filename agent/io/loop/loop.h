/* How sd-event is used: priorities, and timers that are exact. All timers are set and loops ended here,
 * because poller.c relies on loop_touched(). */
#pragma once

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "base/instant.h"

/* The order in which sd-event dispatches ready sources. */
enum loop_priority {
    LOOP_PRIORITY_TIMER = -40,
    LOOP_PRIORITY_SIGNAL = -20,
    LOOP_PRIORITY_NODE = -10,
    LOOP_PRIORITY_LISTENER = 10,
};

/* Creates a disabled timer on CLOCK_BOOTTIME with an accuracy of 1 µs. The caller unrefs the source. 0 or a
 * negative errno. */
int loop_add_timer(sd_event *event, sd_event_time_handler_t handler, void *userdata, sd_event_source **ret);

/* Sets the timer to this instant, rounded up, or disables it for INSTANT_NEVER. 0 or a negative errno. */
int loop_set_timer(sd_event_source *timer, instant_ns at_ns);

/* Ends poller_run() after this turn, with this code: 0 or a negative errno. */
int loop_exit(sd_event *event, int code);

/* Whether this thread has used one of the above since the last call: then sd_event_prepare() has work. */
bool loop_touched(void);

/* Zeroed memory whose pages cost nothing until they are touched, and are in no core dump; or NULL. The
 * caller unmaps it with munmap(2). */
void *loop_reserve(size_t bytes);
