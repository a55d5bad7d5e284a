/* `redlock hold` while it waits for the lease: connects, asks, and shows the present leader. */
#pragma once

struct hold;

/* Waits until the lease is granted or a signal has arrived: 0; or the exit status. */
int hold_wait(struct hold *hold);
