#include "io/loop/credential.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

bool credential_is_reachable(void) {
    const char *directory = getenv("CREDENTIALS_DIRECTORY");

    return directory && access(directory, X_OK) == 0;
}

const char *credential_read(const char *name, bool path, char ret[static CREDENTIAL_BYTES_MAX + 1]) {
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    _cleanup_close_ int fd = -1;
    ssize_t length;

    if (!directory || directory[0] != '/')
        return "expected the agent to be run by systemd, with LoadCredential=NAME:/path in the service";
    if (!name[0] || name[0] == '.' || strchr(name, '/'))
        return "expected a credential's name, as in LoadCredential=NAME:/path of the service";
    if (snprintf(ret, CREDENTIAL_BYTES_MAX + 1, "%s/%s", directory, name) > CREDENTIAL_BYTES_MAX)
        return "expected a shorter name";
    if (path)
        return NULL;
    fd = open(ret, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return "not passed by the service manager: expected LoadCredential=NAME:/path in the service";
    length = fd < 0 ? -1 : read(fd, ret, CREDENTIAL_BYTES_MAX + 1);
    if (length < 0)
        return "can't be read";
    if (length > 0 && ret[length - 1] == '\n')
        length--;
    if (length == 0 || length > CREDENTIAL_BYTES_MAX)
        return "expected 1 to 1024 bytes in it";
    ret[length] = 0;
    for (ssize_t i = 0; i < length; i++)
        if ((unsigned char) ret[i] < ' ' || ret[i] == 0x7f)
            return "expected one line of text in it, without control characters";
    return NULL;
}
