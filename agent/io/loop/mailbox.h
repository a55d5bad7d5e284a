/* One way between two threads: one producer, one consumer, no lock. Records of any length up to
 * MAILBOX_RECORD_BYTES_MAX travel in order through a ring of bytes; a byte on a socket pair wakes the
 * consumer, and is sent only when it sleeps. (Not an eventfd: that the kernel takes for a wake-up from
 * anywhere, and may run the consumer on another core, while a socket's reader is run where the writer is
 * about to sleep.)
 *
 * Posting never waits and never fails: what the ring can't take stays with the producer, which tries again
 * at its next mailbox_flush(). This is the only place where threads share memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>

#include "io/loop/poller.h"

enum { MAILBOX_RECORD_BYTES_MAX = 8192 };

struct mailbox {
    unsigned char *ring;
    size_t size;                 /* a power of two */
    int wake_fds[2];             /* the consumer's end, the producer's */
    struct poller_target target; /* of the consumer's end */

    _Alignas(64) _Atomic size_t written; /* bytes, by the producer */
    _Alignas(64) _Atomic size_t taken;   /* bytes, by the consumer */
    _Alignas(64) _Atomic bool sleeping;  /* the consumer wants to be woken */

    size_t reading; /* the consumer's own: bytes of the record that it has */

    /* The producer's own. */
    bool posted; /* since the last flush */
    struct mailbox_overflow *first, *last;
};

/* 0 or a negative errno. */
int mailbox_init(struct mailbox *mailbox, size_t size);
void mailbox_deinit(struct mailbox *mailbox);

/* Consumer: from now on a turn of this poller begins when a record comes. 0 or a negative errno. */
int mailbox_attach(struct mailbox *mailbox, struct poller *poller);

/* Producer: appends a record made of two pieces. */
void mailbox_post(struct mailbox *mailbox, const void *head, size_t head_length, const void *tail,
                  size_t tail_length);

/* Producer: wakes the consumer if it sleeps. True when there is more to do: call again in a millisecond.
 */
bool mailbox_flush(struct mailbox *mailbox);

/* Consumer: whether a record waits, without a system call. With `sleeping`, the next record wakes the
 * poller; otherwise nobody needs to, since the consumer will look again. */
bool mailbox_waits(struct mailbox *mailbox, bool sleeping);

/* Consumer: the next record, aligned to 8, valid until mailbox_next() is called again; NULL when there is
 * none: then the consumer counts as sleeping, and the next record wakes its poller. */
const void *mailbox_next(struct mailbox *mailbox, size_t *ret_length);
