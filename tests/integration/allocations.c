/* Preloaded into an agent: counts what it allocates, in a file of eight bytes that $ALLOCATIONS names and
 * the test reads. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

/* The C library's own functions, which the functions below replace. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

static _Atomic uint64_t *counter;

static void count(void) {
    if (counter)
        atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

PUBLIC void *malloc(size_t size) {
    count();
    return __libc_malloc(size);
}

PUBLIC void *calloc(size_t number, size_t size) {
    count();
    return __libc_calloc(number, size);
}

PUBLIC void *realloc(void *memory, size_t size) {
    count();
    return __libc_realloc(memory, size);
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("ALLOCATIONS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    void *memory = mmap(NULL, sizeof(*counter), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void) close(fd);
    if (memory != MAP_FAILED)
        counter = memory;
}
