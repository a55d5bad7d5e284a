/* A memfd of fixed size, see memfd_create(2): shared with another process, or kept for the next one. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Zeroed bytes; only this user may reopen it. A descriptor or a negative errno. */
int sealed_memfd_new(const char *name, size_t bytes);

/* The size of an inherited one, or -EBADMSG when it can shrink: reading it could end in SIGBUS. */
ssize_t sealed_memfd_bytes(int fd);
