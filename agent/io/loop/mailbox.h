/* A queue from one thread to another: one producer, one consumer, no lock. Records of up to
 * MAILBOX_RECORD_BYTES_MAX travel in order through a ring of bytes. A byte on a socket pair wakes the
 * consumer, and is sent only when the consumer sleeps. (With an eventfd the kernel may run the consumer on
 * another core; a socket's reader runs on the core of the writer, which sleeps next.)
 *
 * Posting never waits and never fails: records that the ring has no room for stay with the producer until
 * its next mailbox_flush(). This is the only place where threads share memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
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
    _Alignas(64) _Atomic bool sleeping;  /* the consumer needs a wake-up */

    /* The consumer's own. */
    size_t reading; /* bytes of the record that mailbox_next() returned last */

    /* The producer's own. */
    bool posted; /* since the last flush */
    struct mailbox_overflow *first, *last;
};

/* 0 or a negative errno. */
int mailbox_init(struct mailbox *mailbox, size_t size);
void mailbox_deinit(struct mailbox *mailbox);

/* Consumer: records wake this poller from now on. 0 or a negative errno. */
int mailbox_attach(struct mailbox *mailbox, struct poller *poller);

/* Producer: appends a record, made of head and tail. */
void mailbox_post(struct mailbox *mailbox, const void *head, size_t head_length, const void *tail,
                  size_t tail_length);

/* Producer: wakes the consumer if it sleeps. True when records are left, or the wake-up failed: call again
 * in a millisecond. */
bool mailbox_flush(struct mailbox *mailbox);

/* Consumer: whether there is a record; no system call. With `sleeping`, the next record wakes the poller;
 * without, the consumer calls again by itself. */
bool mailbox_waits(struct mailbox *mailbox, bool sleeping);

/* Consumer: the next record, aligned to 8 bytes, valid until the next call. NULL when there is none; then
 * the consumer counts as sleeping, and the next record wakes its poller. */
const void *mailbox_next(struct mailbox *mailbox, size_t *ret_length);
