/* The directory of --dev: /tmp/redlockd-dev-PID-XXXXXX, private, locked by its agent for as long as that
 * lives. */
#pragma once

enum { DEV_DIRECTORY_BYTES_MAX = 48 };

/* Makes and locks one. On failure, `ret_path` has the path that was tried. 0 or a negative errno. */
int dev_directory_make(char ret_path[static DEV_DIRECTORY_BYTES_MAX], int *ret_fd);

/* Removes it with all that is in it, and closes the lock. -1 for `fd`: there is none. */
void dev_directory_remove(const char *path, int fd);

/* Removes those of our own user whose agent is gone. */
void dev_directory_sweep(void);
