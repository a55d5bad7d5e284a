/* Preloaded into an agent: a directory of accounts that has each user, and takes $SLOW_ACCOUNTS_MS to
 * answer. */
#include <pwd.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

__attribute__((visibility("default"))) struct passwd *getpwnam(const char *name) {
    static struct passwd user = {.pw_uid = 54321};
    const char *ms = getenv("SLOW_ACCOUNTS_MS");
    long long left_ms = ms ? atoll(ms) : 0;
    struct timespec left = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};

    (void) name;
    while (nanosleep(&left, &left) < 0) {
    }
    return &user;
}
