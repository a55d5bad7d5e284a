/* Preloaded into a redis-server: adds the number in the file $WALLJUMP (ns, int64) to its wall clock, at any
 * moment. No allocation: it runs before the allocator does. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t none, *offset_ns = &none;

__attribute__((constructor)) static void find_file(void) {
    const char *path = getenv("WALLJUMP");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    void *memory = mmap(NULL, sizeof(*offset_ns), PROT_READ, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED)
        offset_ns = memory;
    (void) close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    int r = (int) syscall(SYS_clock_gettime, clock, t);

    if (r == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = (int64_t) t->tv_sec * 1000000000 + t->tv_nsec + *offset_ns;
        t->tv_sec = ns / 1000000000;
        t->tv_nsec = ns % 1000000000;
    }
    return r;
}

int gettimeofday(struct timeval *tv, void *zone) {
    struct timespec t;

    (void) zone;
    if (clock_gettime(CLOCK_REALTIME, &t) < 0)
        return -1;
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *ret) {
    struct timespec t;

    if (clock_gettime(CLOCK_REALTIME, &t) < 0)
        return -1;
    if (ret)
        *ret = t.tv_sec;
    return t.tv_sec;
}
