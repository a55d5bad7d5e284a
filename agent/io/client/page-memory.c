#include "io/client/page-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/* 0, and the page over the descriptor's memory, or a negative errno. */
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

/* The same file for reading alone: what the client gets can't be mapped for writing. */
static int reopen_for_reading(int fd) {
    char path[40];

    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int r = open(path, O_RDONLY | O_CLOEXEC);
    return r < 0 ? -errno : r;
}

int page_memory_new(struct deadline_page **ret, int *ret_fd, int *ret_client_fd) {
    _cleanup_close_ int fd = memfd_create("redlockd-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct deadline_page *page = NULL;

    if (fd < 0 || ftruncate(fd, DEADLINE_PAGE_BYTES) < 0 || fchmod(fd, S_IRUSR | S_IWUSR) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
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
    struct stat status;
    struct deadline_page *page = NULL;

    if (fd < 0 || fstat(fd, &status) < 0 || status.st_size != DEADLINE_PAGE_BYTES ||
        !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK))
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
