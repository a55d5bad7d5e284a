/* The mailbox between two real threads: records arrive in order, none is lost, and a sleeping consumer
 * wakes. */

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/loop/mailbox.h"
#include "tap.h"

enum { RING_BYTES = 64 * 1024, RECORDS = 200000, WAKE_MS = 30000 };

struct letter {
    uint64_t number;
    uint64_t length; /* of the bytes that follow */
};

static struct mailbox mailbox;

/* Lengths that meet the ring's end in every way. */
static size_t length_of(uint64_t number) {
    return number * 2654435761u % 601;
}

static void post(uint64_t number) {
    static char bytes[601];
    struct letter letter = {.number = number, .length = length_of(number)};

    memset(bytes, (int) (number & 0x7f), sizeof(bytes));
    mailbox_post(&mailbox, &letter, sizeof(letter), bytes, letter.length);
}

/* Posts far more than the ring holds, in bursts and one by one. */
static void *produce(void *userdata) {
    (void) userdata;
    for (uint64_t number = 0; number < RECORDS; number++) {
        post(number);
        if (number % 97 == 0 || number % 1000 < 20)
            (void) mailbox_flush(&mailbox);
    }
    while (mailbox_flush(&mailbox))
        (void) usleep(100);
    return NULL;
}

static bool is_intact(const struct letter *letter, size_t length, uint64_t number) {
    const char *bytes = (const char *) (letter + 1);

    if (length != sizeof(*letter) + length_of(number) || letter->number != number)
        return false;
    for (size_t i = 0; i < letter->length; i++)
        if (bytes[i] != (char) (number & 0x7f))
            return false;
    return true;
}

/* False when the producer doesn't wake the consumer in time. */
static bool sleep_until_woken(void) {
    struct pollfd poll_fd = {.fd = mailbox.wake_fds[0], .events = POLLIN};
    char bytes[16];

    if (poll(&poll_fd, 1, WAKE_MS) != 1)
        return false;
    (void) recv(mailbox.wake_fds[0], bytes, sizeof(bytes), MSG_DONTWAIT);
    return true;
}

static void test_threads(void) {
    uint64_t expected = 0, wrong = 0, sleeps = 0;
    const struct letter *letter;
    pthread_t producer;
    bool woken = true;
    size_t length;

    is_int(mailbox_init(&mailbox, RING_BYTES), 0, "a mailbox");
    if (pthread_create(&producer, NULL, produce, NULL) != 0)
        abort();
    while (expected < RECORDS && woken) {
        while ((letter = mailbox_next(&mailbox, &length)))
            wrong += !is_intact(letter, length, expected++);
        /* Half of the time the consumer spins before it sleeps, as the poller does. */
        for (unsigned i = 0; i < 100 && expected % 2 == 0 && !mailbox_waits(&mailbox, false); i++)
            continue;
        if (expected < RECORDS && !mailbox_waits(&mailbox, true)) {
            sleeps++;
            woken = sleep_until_woken();
        }
    }
    (void) pthread_join(producer, NULL);
    ok(woken, "a sleeping consumer wakes, each of %llu times", (unsigned long long) sleeps);
    is_int(expected, RECORDS, "every record arrives");
    is_int(wrong, 0, "intact and in order");
    ok(!mailbox_next(&mailbox, &length), "and no other record");
    mailbox_deinit(&mailbox);
}

static void test_overflow(void) {
    const struct letter *letter;
    uint64_t expected = 0, wrong = 0;
    size_t length;

    is_int(mailbox_init(&mailbox, RING_BYTES), 0, "a mailbox without a consumer");
    for (uint64_t number = 0; number < 5000; number++)
        post(number);
    ok(mailbox_flush(&mailbox), "a full ring: the producer keeps the rest");
    do
        while ((letter = mailbox_next(&mailbox, &length)))
            wrong += !is_intact(letter, length, expected++);
    while (mailbox_flush(&mailbox) || mailbox_waits(&mailbox, false));
    is_int(expected, 5000, "every record is delivered later");
    is_int(wrong, 0, "in order");
    for (uint64_t number = 0; number < 5000; number++)
        post(number);
    mailbox_deinit(&mailbox);
    mailbox_deinit(&mailbox);
    ok(!mailbox.ring && !mailbox.first, "deinit frees records that were never taken");
}

int main(void) {
    test_threads();
    test_overflow();
    return done_testing();
}
