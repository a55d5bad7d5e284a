#include "io/loop/loop.h"

#include <sys/mman.h>
#include <time.h>

#include "io/loop/core-dump.h"

static _Thread_local bool touched;

bool loop_touched(void) {
    bool was = touched;

    touched = false;
    return was;
}

int loop_add_timer(sd_event *event, sd_event_time_handler_t handler, void *userdata, sd_event_source **ret) {
    sd_event_source *source = NULL;

    /* An accuracy of 0 means sd-event's default, 250 ms. */
    int r = sd_event_add_time(event, &source, CLOCK_BOOTTIME, UINT64_MAX, 1, handler, userdata);
    if (r < 0)
        return r;
    r = sd_event_source_set_priority(source, LOOP_PRIORITY_TIMER);
    if (r >= 0)
        r = sd_event_source_set_enabled(source, SD_EVENT_OFF);
    if (r >= 0)
        r = sd_event_source_set_exit_on_failure(source, 1);
    if (r < 0) {
        sd_event_source_unref(source);
        return r;
    }
    *ret = source;
    return 0;
}

int loop_set_timer(sd_event_source *timer, instant_ns at_ns) {
    touched = true;
    if (at_ns == INSTANT_NEVER)
        return sd_event_source_set_enabled(timer, SD_EVENT_OFF);
    uint64_t usec = at_ns <= 0 ? 0 : ((uint64_t) at_ns + 999) / 1000;
    int r = sd_event_source_set_time(timer, usec);
    if (r < 0)
        return r;
    r = sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
    return r < 0 ? r : 0;
}

int loop_exit(sd_event *event, int code) {
    touched = true;
    return sd_event_exit(event, code);
}

void *loop_reserve(size_t bytes) {
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    core_dump_exclude(memory, bytes);
    return memory;
}
