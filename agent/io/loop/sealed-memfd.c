#include "io/loop/sealed-memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"

int sealed_memfd_new(const char *name, size_t bytes) {
    _cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, (off_t) bytes) < 0 || fchmod(fd, S_IRUSR | S_IWUSR) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
    return cleanup_steal_fd(&fd);
}

ssize_t sealed_memfd_bytes(int fd) {
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &status) < 0)
        return -EBADMSG;
    return status.st_size;
}
