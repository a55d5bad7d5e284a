/* The process of `redlock run` that was started: the shell's child. It waits for the guard, passes on the
 * signals that were sent to it alone, and ends as the command did. */
#pragma once

#include <sys/types.h>

/* Signals that reach us from now on are kept for signal_relay_run(). To be called before the guard is
 * started. */
int signal_relay_init(void);

/* Until the guard says how the command has ended: the exit status. Does not return when a signal has ended
 * the command that has come to us too, or is SIGINT: then that ends us, and shells stop their loops. */
int signal_relay_run(int signal_fd, int channel, const char *name);
