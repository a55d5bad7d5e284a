/* An agent for tests of libredlock that says what the test wants: it grants whatever is asked for, keeps the
 * session's page, and can fall silent, lie, and die between any two bytes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct redlock;

extern struct scripted {
    char path[108]; /* of its socket */
    /* What the next answers say. */
    _Atomic int64_t ttl_ms;
    _Atomic int64_t clock_ns; /* ahead of CLOCK_BOOTTIME here: as in another time namespace */
    _Atomic int64_t check_ms; /* CHECK says this; negative: what is left */
    _Atomic int64_t beat;
    _Atomic bool has_page, tells_clock, is_silent, refuses_resume;
    /* What it was asked. */
    _Atomic unsigned acquires, checks, releases, resumes;
    _Atomic uint64_t id; /* of the last lease */
} scripted;

/* Begins it anew, with an own socket. */
void scripted_start(void);

/* Ends its process, as it were: connections break, nobody listens. The pages stay as they are. */
void scripted_die(void);

/* Another one listens where the last one did. */
void scripted_again(void);

/* Moves the deadline in the page, by this clock; 0: over. */
void scripted_show(int64_t deadline_ns);
int64_t scripted_shown_ns(void);

/* Sends these bytes, as a push. */
void scripted_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

int64_t boottime_ns(void);
