/* The directory of --dev: redlockd-dev-PID-XXXXXX in $TMPDIR or /tmp, private, and locked (flock(2)) while
 * its agent runs. */
#pragma once

enum { DEV_DIRECTORY_BYTES_MAX = 88 };

/* Creates and locks a directory. On failure, `ret_path` has the path that was tried. 0 or a negative
 * errno. */
int dev_directory_make(char ret_path[static DEV_DIRECTORY_BYTES_MAX], int *ret_fd);

/* Removes the directory with its contents, and closes the lock. Nothing for an `fd` of -1. */
void dev_directory_remove(const char *path, int fd);

/* Removes directories of this user whose agent has ended. */
void dev_directory_sweep(void);
