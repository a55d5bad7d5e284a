/* Secrets that the service manager hands over (LoadCredential= in systemd.exec(5)): files in a directory
 * that only this service can read, named by $CREDENTIALS_DIRECTORY. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { CREDENTIAL_BYTES_MAX = 1024 };

/* Whether there is such a directory. */
bool credentials_passed(void);

/* Where this one would be. NULL, or what was expected (the name may have mistakes). */
const char *credential_path(const char *name, char *ret, size_t size);

/* What it says, without the line's end. NULL, or what was expected. */
const char *credential_read(const char *name, char ret[CREDENTIAL_BYTES_MAX + 1]);
