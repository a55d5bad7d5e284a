#include "io/loop/regular-file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

ssize_t regular_file_read(const char *path, char *ret, size_t size, mode_t *ret_mode) {
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    char more;

    if (fd < 0 || fstat(fd, &status) < 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return S_ISDIR(status.st_mode) ? -EISDIR : -ENOTSUP;
    *ret_mode = status.st_mode;
    ssize_t length = read(fd, ret, size);
    if (length < 0)
        return -errno;
    return (size_t) length == size && read(fd, &more, 1) > 0 ? -EFBIG : length;
}

const char *regular_file_error(int error) {
    return error == ENOTSUP ? "not a regular file" : strerror(error);
}
