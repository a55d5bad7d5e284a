/* Clean-up at the end of a scope, in the idiom of systemd and dbus-broker. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(function) __attribute__((cleanup(function)))

static inline void cleanup_free(void *p) {
    free(*(void **) p);
}

static inline void cleanup_close(int *fd) {
    if (*fd >= 0)
        (void) close(*fd);
}

static inline void cleanup_fclose(FILE **file) {
    if (*file)
        (void) fclose(*file);
}

#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)

/* Moves a descriptor out of a variable that is cleaned up: returns it, and leaves -1 behind. */
static inline int cleanup_steal_fd(int *fd) {
    int taken = *fd;
    *fd = -1;
    return taken;
}
