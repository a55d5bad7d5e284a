/* The messages between the two processes of `redlock run`, over a socketpair: guard.h and signal-relay.h. */
#pragma once

#include <stdbool.h>

enum guard_channel_word {
    GUARD_GRANTED,       /* guard: the lease is held; may the command start? */
    GUARD_GO,            /* relay: yes, and it passes signals on from here; or it knows the command's end */
    GUARD_WAITS_AGAIN,   /* guard: GUARD_GO came too late: the lease was given back */
    GUARD_SIGNAL,        /* relay: pass this signal on to the command */
    GUARD_GROUP_SIGNAL,  /* relay: the same, if the command has left the job's process group, which has it */
    GUARD_ENDED,         /* guard: exit with this status */
    GUARD_COMMAND_ENDED, /* guard: the command has ended with this status of waitpid(2) */
};

struct guard_channel_message {
    enum guard_channel_word word;
    int value;
};

/* Both: false when the other process has ended. */
bool guard_channel_send(int channel, enum guard_channel_word word, int value);
bool guard_channel_receive(int channel, struct guard_channel_message *ret);
