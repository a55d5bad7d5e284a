/* The first process of `redlock run`, the shell's child. The relay waits for the guard, passes on the
 * signals that were sent to the relay alone, and ends as the command did. */
#pragma once

#include <sys/types.h>

/* From now on signals are kept for signal_relay_run(). Call this before the guard is started. A descriptor
 * or a negative errno. */
int signal_relay_init(void);

/* Runs until the guard, a child, reports the command's end; returns the exit status. Does not return when
 * the command was ended by SIGINT, or by a signal that the relay got too: then the same signal ends the
 * relay, so that shells stop their loops. */
int signal_relay_run(int signal_fd, int channel, const char *name, pid_t guard);
