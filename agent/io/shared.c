#include "io/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

int shared_new(struct page **ret, int *ret_fd) {
    _cleanup_close_ int fd = memfd_create("redlockd-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, PAGE_BYTES) < 0)
        return -errno;
    void *memory = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return -errno;
    struct page *page = malloc(sizeof(*page));
    /* Our map was made before the seal and writes on. */
    if (!page ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0) {
        int r = page ? -errno : -ENOMEM;
        free(page);
        (void) munmap(memory, PAGE_BYTES);
        return r;
    }
    page_init(page, memory);
    *ret = page;
    *ret_fd = steal_fd(&fd);
    return 0;
}

struct page *shared_free(struct page *page) {
    if (!page)
        return NULL;
    (void) munmap(page->memory, PAGE_BYTES);
    free(page);
    return NULL;
}
