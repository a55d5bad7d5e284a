#include "io/loop/random-bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void random_bytes_take(struct random_bytes *secrets, uint8_t secret[SECRET_BYTES]) {
    if (secrets->left == 0) {
        size_t filled = 0;
        while (filled < sizeof(secrets->bytes)) {
            ssize_t n = getrandom((uint8_t *) secrets->bytes + filled, sizeof(secrets->bytes) - filled, 0);
            if (n < 0 && errno != EINTR)
                abort(); /* without unique lock values there are no leases */
            if (n > 0)
                filled += (size_t) n;
        }
        secrets->left = SECRETS;
    }
    uint8_t *taken = secrets->bytes[--secrets->left];
    memcpy(secret, taken, SECRET_BYTES);
    memset(taken, 0, SECRET_BYTES);
}
