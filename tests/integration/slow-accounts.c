/* Preloaded into an agent: a directory of accounts that has each user, and takes $SLOW_ACCOUNTS_MS to
 * answer; and processes that are all in one unit, which takes $SLOW_UNITS_MS to read. */
#include <pwd.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void wait_ms(const char *variable) {
    const char *ms = getenv(variable);
    long long left_ms = ms ? atoll(ms) : 0;
    struct timespec left = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};

    while (nanosleep(&left, &left) < 0) {
    }
}

__attribute__((visibility("default"))) struct passwd *getpwnam(const char *name) {
    static struct passwd user = {.pw_uid = 54321};

    (void) name;
    wait_ms("SLOW_ACCOUNTS_MS");
    return &user;
}

int sd_pid_get_unit(pid_t pid, char **ret);

__attribute__((visibility("default"))) int sd_pid_get_unit(pid_t pid, char **ret) {
    (void) pid;
    wait_ms("SLOW_UNITS_MS");
    *ret = strdup("slow.service");
    return 0;
}
