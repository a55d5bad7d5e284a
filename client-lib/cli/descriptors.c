#include "descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

void descriptors_close_inherited(void) {
    const struct dirent *entry;
    DIR *descriptors = opendir("/proc/self/fd");

    while (descriptors && (entry = readdir(descriptors))) {
        int fd = (int) strtol(entry->d_name, NULL, 10), flags = fcntl(fd, F_GETFD);
        if (fd > STDERR_FILENO && flags >= 0 && !(flags & FD_CLOEXEC))
            (void) close(fd);
    }
    if (descriptors)
        (void) closedir(descriptors);
}
