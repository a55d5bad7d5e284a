#include "io/loop/random-bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/secret.h"

void random_bytes_take(struct random_bytes *random_bytes, uint8_t secret[SECRET_BYTES]) {
    if (random_bytes->left == 0) {
        size_t filled = 0;
        while (filled < sizeof(random_bytes->bytes)) {
            ssize_t n =
                getrandom((uint8_t *) random_bytes->bytes + filled, sizeof(random_bytes->bytes) - filled, 0);
            if (n < 0 && errno != EINTR)
                abort();
            if (n > 0)
                filled += (size_t) n;
        }
        random_bytes->left = RANDOM_BYTES_BATCH;
    }
    uint8_t *taken = random_bytes->bytes[--random_bytes->left];
    memcpy(secret, taken, SECRET_BYTES);
    secret_clear(taken, SECRET_BYTES);
}
