#include "io/client/page-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "io/loop/sealed-memfd.h"

/* The page in the descriptor's memory; NULL, and errno has the reason. */
static struct deadline_page *map_page(int fd) {
    struct deadline_page *page = malloc(sizeof(*page));
    void *memory =
        page ? mmap(NULL, DEADLINE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (memory == MAP_FAILED) {
        free(page); /* leaves errno as it is */
        return NULL;
    }
    page->memory = memory;
    return page;
}

/* The client's descriptor of the same file: it can't be mapped for writing. */
static int reopen_for_reading(int fd) {
    char path[40];

    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int r = open(path, O_RDONLY | O_CLOEXEC);
    return r < 0 ? -errno : r;
}

int page_memory_new(struct deadline_page **ret, int *ret_fd, int *ret_client_fd) {
    _cleanup_close_ int fd = sealed_memfd_new("redlockd-page", DEADLINE_PAGE_BYTES);

    if (fd < 0)
        return fd;
    _cleanup_close_ int client_fd = reopen_for_reading(fd);
    if (client_fd < 0)
        return client_fd;
    struct deadline_page *page = map_page(fd);
    if (!page)
        return -errno;
    deadline_page_init(page, page->memory);
    *ret = page;
    *ret_fd = cleanup_steal_fd(&fd);
    *ret_client_fd = cleanup_steal_fd(&client_fd);
    return 0;
}

/* How many bytes from the start were ever written; the rest takes no memory. */
static size_t find_written_bytes(int fd) {
    size_t written = 0;

    for (off_t data = 0; (data = lseek(fd, data, SEEK_DATA)) >= 0;) {
        data = lseek(fd, data, SEEK_HOLE);
        if (data < 0)
            break;
        written = (size_t) data;
    }
    return written;
}

int page_memory_adopt(int fd, struct deadline_page **ret) {
    if (fd < 0 || sealed_memfd_bytes(fd) != DEADLINE_PAGE_BYTES)
        return -EBADMSG;
    size_t written_bytes = find_written_bytes(fd);
    struct deadline_page *page = map_page(fd);
    if (!page)
        return -errno;
    *ret = page;
    return deadline_page_adopt(page, page->memory, written_bytes) ? 0 : -EBADMSG;
}

struct deadline_page *page_memory_free(struct deadline_page *page) {
    if (!page)
        return NULL;
    (void) munmap(page->memory, DEADLINE_PAGE_BYTES);
    free(page);
    return NULL;
}

struct deadline_page *page_memory_end(struct deadline_page *page) {
    if (page) /* a failure costs memory alone */
        (void) madvise(page->memory, DEADLINE_PAGE_BYTES, MADV_REMOVE);
    return page_memory_free(page);
}
