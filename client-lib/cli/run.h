/* The arguments of `redlock run`. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "redlock.h"

/* The default of --linger: for the relay to end the tree when the guard is killed. */
enum { RUN_LINGER_MS = 2000 };

struct run {
    struct redlock_options options;
    const char *name;
    char **command;         /* as for execvp(3) */
    const char *shell_text; /* instead of command, for /bin/sh -c; NULL: none */
    int conflict_status;    /* with which to exit when the name is held; -1: the usual ones */
    int64_t grace_ms;       /* -1: chosen by the ttl */
    bool quiet;
    bool linger_may_shrink; /* the linger is the default */
    bool leave_rest;        /* release at the command's end, though processes of it run on */
    sigset_t mask;          /* the signals that were blocked when redlock was started */
};
