/* The arguments of `redlock run`. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "redlock.h"

struct run_options {
    struct redlock_options request; /* for the lease */
    const char *name;
    char **command;         /* as for execvp(3) */
    const char *shell_text; /* instead of command, for /bin/sh -c; NULL: none */
    int conflict_status;    /* exit status when the name is held; -1: the usual ones */
    int64_t grace_ms;       /* -1: chosen by the ttl */
    bool quiet;
    bool linger_may_shrink; /* the linger is the default */
    bool leave_rest;        /* release at the command's end, though processes of it run on */
    sigset_t mask;          /* the signals that were blocked when redlock was started */
};

/* 0; or 1 + the exit status to end with, a mistake reported. */
int run_options_read(struct run_options *options, int argc, char **argv);
