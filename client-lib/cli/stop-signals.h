/* SIGTERM, SIGINT and SIGHUP, which end `redlock hold`, as a descriptor; SIGCHLD wakes it as well. A signal
 * that was ignored at the start, by nohup(1) or for a job in the background, stays ignored. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct stop_signals {
    int fd; /* readable when stop_signals_read() has work */
    int count;
    int64_t counted_ns; /* when the last counted signal came */
    sigset_t set;
};

/* 0 or a negative errno. Blocks the signals. */
int stop_signals_init(struct stop_signals *signals);
void stop_signals_deinit(struct stop_signals *signals);

/* While `in` is true, one of these signals ends the process at once: for calls that may take long while no
 * lease is held. */
void stop_signals_let_in(const struct stop_signals *signals, bool in);

/* Counts the signals that have come. Those within half a second count as one: a terminal that closes,
 * timeout(1) and a service manager (SendSIGHUP=) send several at once. */
void stop_signals_read(struct stop_signals *signals);
