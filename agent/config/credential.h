/* Secrets that the service manager hands over (LoadCredential= in systemd.exec(5)): files in
 * $CREDENTIALS_DIRECTORY. */
#pragma once

#include <stdbool.h>

enum { CREDENTIAL_BYTES_MAX = 1024 };

/* Gives the file's path, or its text without the end of the line. Returns NULL, or what was expected. */
const char *credential_read(const char *name, bool path, char ret[static CREDENTIAL_BYTES_MAX + 1]);
