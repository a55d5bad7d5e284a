#include "io/loop/mailbox.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/loop/core-dump.h"
#include "io/loop/memory.h"
#include "io/loop/secret-memory.h"

/* A record in the ring: its length, its bytes, padding to 8 bytes. After a length of SKIP the next record is
 * at the ring's start. */
struct record {
    uint64_t length;
};

#define SKIP UINT64_MAX

struct mailbox_overflow {
    struct mailbox_overflow *next;
    size_t length;
    unsigned char bytes[];
};

static size_t space_for(size_t length) {
    return sizeof(struct record) + (length + 7) / 8 * 8;
}

int mailbox_init(struct mailbox *mailbox, size_t size) {
    assert((size & (size - 1)) == 0 && size >= 4 * space_for(MAILBOX_RECORD_BYTES_MAX));

    *mailbox = (struct mailbox){.size = size, .wake_fds = {-1, -1}, .sleeping = true};
    mailbox->ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mailbox->ring == MAP_FAILED) {
        mailbox->ring = NULL;
        return -errno;
    }
    core_dump_exclude(mailbox->ring, size);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, mailbox->wake_fds) < 0) {
        int error = -errno;
        mailbox_deinit(mailbox);
        return error;
    }
    return 0;
}

void mailbox_deinit(struct mailbox *mailbox) {
    while (mailbox->first) {
        struct mailbox_overflow *next = mailbox->first->next;
        secret_memory_free(mailbox->first, sizeof(*next) + mailbox->first->length);
        mailbox->first = next;
    }
    if (!mailbox->ring)
        return; /* not initialised */
    (void) munmap(mailbox->ring, mailbox->size);
    for (unsigned i = 0; i < 2; i++) {
        if (mailbox->wake_fds[i] >= 0)
            (void) close(mailbox->wake_fds[i]);
        mailbox->wake_fds[i] = -1;
    }
    mailbox->ring = NULL;
}

/* Discards the bytes that woke the consumer: each turn reads the mailboxes anyway. */
static void on_woken(struct poller_target *target, uint32_t events) {
    struct mailbox *mailbox = (void *) ((char *) target - offsetof(struct mailbox, target));
    char bytes[16];

    (void) events;
    (void) recv(mailbox->wake_fds[0], bytes, sizeof(bytes), MSG_DONTWAIT);
}

int mailbox_attach(struct mailbox *mailbox, struct poller *poller) {
    mailbox->target.on_events = on_woken;
    return poller_add(poller, mailbox->wake_fds[0], EPOLLIN, &mailbox->target);
}

/* False when the ring has no room. */
static bool put(struct mailbox *mailbox, const void *head, size_t head_length, const void *tail,
                size_t tail_length) {
    size_t written = atomic_load_explicit(&mailbox->written, memory_order_relaxed);
    size_t taken = atomic_load_explicit(&mailbox->taken, memory_order_acquire);
    size_t offset = written & (mailbox->size - 1);
    size_t space = space_for(head_length + tail_length), to_end = mailbox->size - offset;
    size_t skipped = to_end < space ? to_end : 0;

    if (mailbox->size - (written - taken) < skipped + space)
        return false;
    if (skipped > 0) {
        const struct record skip = {.length = SKIP};
        memcpy(mailbox->ring + offset, &skip, sizeof(skip));
        offset = 0;
    }
    const struct record record = {.length = head_length + tail_length};
    memcpy(mailbox->ring + offset, &record, sizeof(record));
    memcpy(mailbox->ring + offset + sizeof(record), head, head_length);
    if (tail_length > 0)
        memcpy(mailbox->ring + offset + sizeof(record) + head_length, tail, tail_length);
    atomic_store_explicit(&mailbox->written, written + skipped + space, memory_order_seq_cst);
    mailbox->posted = true;
    return true;
}

static void queue_overflow(struct mailbox *mailbox, const void *head, size_t head_length, const void *tail,
                           size_t tail_length) {
    struct mailbox_overflow *overflow = memory_await(NULL, sizeof(*overflow) + head_length + tail_length);

    overflow->next = NULL;
    overflow->length = head_length + tail_length;
    memcpy(overflow->bytes, head, head_length);
    if (tail_length > 0)
        memcpy(overflow->bytes + head_length, tail, tail_length);
    if (mailbox->last)
        mailbox->last->next = overflow;
    else
        mailbox->first = overflow;
    mailbox->last = overflow;
}

void mailbox_post(struct mailbox *mailbox, const void *head, size_t head_length, const void *tail,
                  size_t tail_length) {
    assert(head_length + tail_length <= MAILBOX_RECORD_BYTES_MAX);

    if (mailbox->first || !put(mailbox, head, head_length, tail, tail_length))
        queue_overflow(mailbox, head, head_length, tail, tail_length);
}

bool mailbox_flush(struct mailbox *mailbox) {
    while (mailbox->first && put(mailbox, mailbox->first->bytes, mailbox->first->length, NULL, 0)) {
        struct mailbox_overflow *sent = mailbox->first;
        mailbox->first = sent->next;
        if (!mailbox->first)
            mailbox->last = NULL;
        secret_memory_free(sent, sizeof(*sent) + sent->length);
    }
    if (mailbox->posted && atomic_exchange(&mailbox->sleeping, false)) {
        if (send(mailbox->wake_fds[1], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1) {
            /* The kernel has no memory: the next flush wakes the consumer. */
            atomic_store(&mailbox->sleeping, true);
            return true;
        }
    }
    mailbox->posted = false;
    return mailbox->first;
}

bool mailbox_waits(struct mailbox *mailbox, bool sleeping) {
    size_t taken = atomic_load_explicit(&mailbox->taken, memory_order_relaxed) + mailbox->reading;

    /* First the flag, then the check: producer or consumer sees a record posted in between. */
    if (atomic_load_explicit(&mailbox->sleeping, memory_order_relaxed) != sleeping)
        atomic_store(&mailbox->sleeping, sleeping);
    return atomic_load(&mailbox->written) != taken;
}

const void *mailbox_next(struct mailbox *mailbox, size_t *ret_length) {
    size_t taken = atomic_load_explicit(&mailbox->taken, memory_order_relaxed);
    struct record record;

    /* The caller has finished the former record. */
    taken += mailbox->reading;
    mailbox->reading = 0;
    atomic_store_explicit(&mailbox->taken, taken, memory_order_release);

    if (atomic_load_explicit(&mailbox->written, memory_order_acquire) == taken) {
        /* The same order as in mailbox_waits(). */
        atomic_store(&mailbox->sleeping, true);
        if (atomic_load(&mailbox->written) == taken)
            return NULL;
        atomic_store(&mailbox->sleeping, false);
    }
    size_t offset = taken & (mailbox->size - 1);
    memcpy(&record, mailbox->ring + offset, sizeof(record));
    if (record.length == SKIP) {
        mailbox->reading = mailbox->size - offset;
        offset = 0;
        memcpy(&record, mailbox->ring, sizeof(record));
    }
    mailbox->reading += space_for(record.length);
    *ret_length = record.length;
    return mailbox->ring + offset + sizeof(record);
}
