/* One way between two threads: one producer, one consumer, no lock. Records of any length up to
 * MAILBOX_RECORD_BYTES_MAX travel in order through a ring of bytes; an eventfd wakes the consumer, and is
 * written only when the consumer sleeps.
 *
 * Posting never waits and never fails: what the ring can't take stays with the producer, which tries again
 * at its next mailbox_flush(). This is the only place where threads share memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>

enum { MAILBOX_RECORD_BYTES_MAX = 8192 };

struct mailbox {
    unsigned char *ring;
    size_t size; /* a power of two */
    int wake_fd; /* edge-triggered: never read */

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

/* Producer: appends a record made of two pieces. */
void mailbox_post(struct mailbox *mailbox, const void *head, size_t head_length, const void *tail,
                  size_t tail_length);

/* Producer: wakes the consumer if it sleeps. True when records are left over: call again in a millisecond.
 */
bool mailbox_flush(struct mailbox *mailbox);

/* Consumer: the next record, aligned to 8, valid until mailbox_next() is called again; NULL when there is
 * none: then the consumer counts as sleeping, and the wake_fd becomes readable (edge-triggered) with the
 * next record. */
const void *mailbox_next(struct mailbox *mailbox, size_t *ret_length);
