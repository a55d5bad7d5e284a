/* The send buffer: bytes come out in order, whatever one system call sends; a random run against a model. */
#include <fcntl.h>
#include <unistd.h>

#include "base/random.h"
#include "io/client/send-buffer.h"
#include "tap.h"

enum { ROUNDS = 20000, BYTES_MAX = 3000 };

static bool is_open(int fd) {
    return fcntl(fd, F_GETFD) >= 0;
}

static bool is_zero(const char *bytes, size_t length) {
    while (length > 0 && bytes[length - 1] == 0)
        length--;
    return length == 0;
}

static void test_parts(void) {
    struct send_buffer buffer;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    send_buffer_init(&buffer);
    send_buffer_append(&buffer, "before", 6);
    send_buffer_attach(&buffer, fd);
    send_buffer_append(&buffer, "behind", 6);
    struct send_buffer_part part = send_buffer_part(&buffer);
    ok(part.length == 6 && part.fd < 0 && !part.whole, "the first part is the bytes before the descriptor");
    send_buffer_advance(&buffer, 4);
    send_buffer_advance(&buffer, 2);
    part = send_buffer_part(&buffer);
    ok(part.length == 6 && part.fd == fd && memcmp(part.bytes, "behind", 6) == 0,
       "the descriptor goes with its byte");
    send_buffer_advance(&buffer, 1);
    ok(!is_open(fd), "a descriptor that was sent is closed");
    part = send_buffer_part(&buffer);
    ok(part.length == 5 && part.fd < 0 && !part.whole, "the rest goes without a descriptor");
    send_buffer_clear(&buffer);
    is_int(send_buffer_unsent(&buffer), 0, "clearing drops everything");
    ok(is_zero(buffer.bytes, 12), "and its memory, which is kept, has no byte of it");
    send_buffer_append(&buffer, "x", 1);
    part = send_buffer_part(&buffer);
    ok(part.length == 1 && part.bytes[0] == 'x' && part.whole, "bytes appended then are a whole");
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    send_buffer_attach(&buffer, fd);
    ok(send_buffer_part(&buffer).fd < 0, "a descriptor without a byte waits");
    ok(send_buffer_detach(&buffer) && !is_open(fd), "detaching closes the descriptor");
    ok(!send_buffer_detach(&buffer), "only once");
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    send_buffer_attach(&buffer, fd);
    send_buffer_deinit(&buffer);
    ok(!is_open(fd), "deinit closes the descriptor");
}

/* Byte number n is n mod 251: each part must continue the former one. */
static void test_random(void) {
    struct send_buffer buffer;
    struct random random;
    uint64_t put = 0, taken = 0;
    char bytes[BYTES_MAX];
    bool good = true;

    random_init(&random, 21);
    send_buffer_init(&buffer);
    for (unsigned round = 0; round < ROUNDS && good; round++) {
        size_t length = (size_t) random_between(&random, 1, BYTES_MAX);
        if (random_between(&random, 0, 20 - 1) == 0 && buffer.fd < 0)
            send_buffer_attach(&buffer, open("/dev/null", O_RDONLY | O_CLOEXEC));
        for (size_t i = 0; i < length; i++)
            bytes[i] = (char) ((put + i) % 251);
        send_buffer_append(&buffer, bytes, length);
        put += length;
        while (send_buffer_unsent(&buffer) > 0 && good && random_between(&random, 0, 8 - 1) > 0) {
            const struct send_buffer_part part = send_buffer_part(&buffer);
            size_t some = (size_t) random_between(&random, 1, (int64_t) part.length);
            for (size_t i = 0; i < some; i++)
                good &= part.bytes[i] == (char) ((taken + i) % 251);
            good &= part.length <= put - taken;
            send_buffer_advance(&buffer, some);
            taken += some;
        }
        if (random_between(&random, 0, 50 - 1) == 0 || send_buffer_unsent(&buffer) == 0) {
            send_buffer_clear(&buffer);
            taken = put;
        }
    }
    ok(good, "%d rounds: the bytes are sent in order, each once", ROUNDS);
    send_buffer_deinit(&buffer);
}

/* A client that reads all the time, but never all. */
static void test_slow_reader(void) {
    struct send_buffer buffer;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    char bytes[1000] = {0};
    bool whole = false;

    send_buffer_init(&buffer);
    send_buffer_append(&buffer, bytes, sizeof(bytes));
    for (unsigned i = 0; i < 10000; i++) {
        send_buffer_append(&buffer, bytes, sizeof(bytes));
        whole |= i > 0 && send_buffer_part(&buffer).whole;
        send_buffer_advance(&buffer, sizeof(bytes));
    }
    ok(buffer.room <= 4096, "a reader that lags by 1,000 bytes takes a buffer of %zu bytes", buffer.room);
    ok(!whole, "whose content is the rest of more");
    send_buffer_attach(&buffer, fd);
    for (unsigned i = 0; buffer.fd_at >= sizeof(bytes) && i < 100; i++) {
        send_buffer_append(&buffer, "y", 1);
        send_buffer_advance(&buffer, 1);
    }
    while (send_buffer_part(&buffer).fd < 0)
        send_buffer_advance(&buffer, 1);
    is_int(send_buffer_part(&buffer).bytes[0], 'y', "a descriptor goes with its byte when bytes have moved");
    send_buffer_deinit(&buffer);
}

int main(void) {
    test_parts();
    test_slow_reader();
    test_random();
    return done_testing();
}
