/* Reading a regular file of limited size: a FIFO or a device could block. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Reads at most `size` bytes, and the file's mode. The length; -EFBIG: the file is longer; -EISDIR,
 * -ENOTSUP: no regular file; or another negative errno. */
ssize_t regular_file_read(const char *path, char *ret, size_t size, mode_t *ret_mode);

/* In words; not for several threads. */
const char *regular_file_error(int error);
