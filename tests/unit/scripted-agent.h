/* A scripted agent for tests of libredlock: grants every request and keeps the session's deadline page, and
 * on demand falls silent, sends wrong replies, or dies between any two bytes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct redlock;

extern struct scripted {
    char path[108]; /* of its socket */
    /* What the next replies contain. */
    _Atomic int64_t ttl_ms;
    _Atomic int64_t clock_ns; /* added to CLOCK_BOOTTIME, as in another time namespace */
    _Atomic int64_t check_ms; /* reply to CHECK; negative: the remaining validity */
    _Atomic int64_t beat;
    _Atomic int64_t release; /* reply to RELEASE */
    _Atomic bool has_page, sends_clock, is_silent, refuses_resume;
    _Atomic bool refuses_clients;   /* accepts connections, and closes them with a reason */
    _Atomic bool pushes_leader;     /* to a new observer: the name is free */
    _Atomic bool keeps_waiting;     /* ACQUIRE ASYNC gets its grant by scripted_grant() */
    _Atomic bool loses_grants;      /* a grant comes with `at-risk`, `extended` and `lost`, in one message */
    _Atomic bool breaks_at_release; /* in place of a reply the last request gets its grant, and the
                                       connection breaks */
    /* Requests received, and connections that clients have closed. */
    _Atomic unsigned acquires, checks, releases, resumes, observes, unobserves, hang_ups;
    _Atomic uint64_t id; /* of the last lease */
} scripted;

/* Resets and starts the agent, with a socket of its own. */
void scripted_start(void);

/* Ends the agent like a killed process: connections break, pages keep their content. */
void scripted_die(void);

/* Starts the next agent on the same socket. */
void scripted_again(void);

/* Sets the deadline in the page, on this process's clock; 0: the lease is over. */
void scripted_show(int64_t deadline_ns);
int64_t scripted_shown_ns(void);

/* Grants the last request, which was kept waiting. */
void scripted_grant(void);

/* Sends bytes to the client. */
void scripted_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

int64_t boottime_ns(void);
