#include "config/credential.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

const char *credential_read(const char *name, bool path, char ret[static CREDENTIAL_BYTES_MAX + 1]) {
    const char *expected = NULL, *directory = getenv("CREDENTIALS_DIRECTORY");
    char text[CREDENTIAL_BYTES_MAX + 1];
    _cleanup_close_ int fd = -1;
    ssize_t length;

    if (!directory || directory[0] != '/')
        return "expected the agent to be run by systemd, with LoadCredential=NAME:/path in the service";
    if (!name[0] || name[0] == '.' || strchr(name, '/'))
        return "expected a credential's name, as in LoadCredential=NAME:/path of the service";
    if (snprintf(text, sizeof text, "%s/%s", directory, name) > CREDENTIAL_BYTES_MAX)
        return "expected a shorter name";
    fd = path ? -1 : open(text, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
    if (!path && fd < 0 && errno == ENOENT)
        return "not passed by the service manager: expected LoadCredential=NAME:/path in the service";
    length = path ? (ssize_t) strlen(text) : fd < 0 ? -1 : read(fd, text, sizeof text);
    if (length < 0)
        return "can't be read";
    if (length > 0 && text[length - 1] == '\n')
        length--;
    if (length == 0 || length > CREDENTIAL_BYTES_MAX)
        return "expected 1 to 1024 bytes in it";
    for (ssize_t i = 0; i < length; i++)
        if ((unsigned char) text[i] < ' ' || text[i] == 0x7f)
            expected = "expected one line of text in it, without control characters";
    if (!expected)
        (void) snprintf(ret, CREDENTIAL_BYTES_MAX + 1, "%.*s", (int) length, text);
    explicit_bzero(text, sizeof text);
    return expected;
}
