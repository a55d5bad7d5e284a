/* The arguments and environment variables of `redlock hold`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "redlock.h"

struct hold_options {
    struct redlock_options request; /* for the lease */
    bool linger_may_shrink;         /* the linger is from the environment */
    const char *name;
    const char *unit;                        /* the led systemd unit; NULL: none */
    const char *leader_hook, *follower_hook; /* shell texts; NULL: none */
    bool once;                               /* end after a loss */
    int64_t grace_ms;                        /* -1: a quarter of the ttl */
    int64_t pause_ms;                        /* before the lease is asked for */
};

/* 0; or 1 + the exit status to end with, a mistake reported. */
int hold_options_read(struct hold_options *options, int argc, char **argv);
