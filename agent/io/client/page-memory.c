#include "io/client/page-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "io/loop/sealed-memfd.h"

/* 0 and the page in the descriptor's memory, or a negative errno. */
static int map_page(int fd, struct deadline_page **ret) {
    struct deadline_page *page = malloc(sizeof(*page));

    if (!page)
        return -ENOMEM;
    void *memory = mmap(NULL, DEADLINE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        int r = -errno;
        free(page);
        return r;
    }
    page->memory = memory;
    *ret = page;
    return 0;
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
    struct deadline_page *page = NULL;

    if (fd < 0)
        return fd;
    _cleanup_close_ int client_fd = reopen_for_reading(fd);
    if (client_fd < 0)
        return client_fd;
    int r = map_page(fd, &page);
    if (r < 0)
        return r;
    deadline_page_init(page, page->memory);
    *ret = page;
    *ret_fd = cleanup_steal_fd(&fd);
    *ret_client_fd = cleanup_steal_fd(&client_fd);
    return 0;
}

int page_memory_adopt(int fd, struct deadline_page **ret) {
    struct deadline_page *page = NULL;

    if (fd < 0 || sealed_memfd_bytes(fd) != DEADLINE_PAGE_BYTES)
        return -EBADMSG;
    int r = map_page(fd, &page);
    if (r < 0)
        return r;
    if (!deadline_page_adopt(page, page->memory)) {
        (void) page_memory_free(page);
        return -EBADMSG;
    }
    *ret = page;
    return 0;
}

size_t page_memory_used_bytes(int fd) {
    size_t used = 0;

    for (off_t data = 0; (data = lseek(fd, data, SEEK_DATA)) >= 0;) {
        data = lseek(fd, data, SEEK_HOLE);
        if (data < 0)
            break;
        used = (size_t) data;
    }
    return used;
}

struct deadline_page *page_memory_free(struct deadline_page *page) {
    if (!page)
        return NULL;
    (void) munmap(page->memory, DEADLINE_PAGE_BYTES);
    free(page);
    return NULL;
}
