/* Secrets from the service manager: files in $CREDENTIALS_DIRECTORY (systemd.exec(5), LoadCredential=). */
#pragma once

#include <stdbool.h>

enum { CREDENTIAL_BYTES_MAX = 1024 };

/* Whether this process can read the service's credentials. The process of ExecReload= can't: systemd 252
 * hides their directory from that process, and later versions leave CREDENTIALS_DIRECTORY unset there. */
bool credential_is_reachable(void);

/* Reads the file's path, or its text without the newline. NULL on success, or the expectation that failed;
 * *ret is undefined then, and may have secrets. */
const char *credential_read(const char *name, bool path, char ret[static CREDENTIAL_BYTES_MAX + 1]);
