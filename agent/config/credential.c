#include "config/credential.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

bool credentials_passed(void) {
    const char *directory = getenv("CREDENTIALS_DIRECTORY");

    return directory && directory[0] == '/';
}

const char *credential_path(const char *name, char *ret, size_t size) {
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    int length;

    if (!name[0] || name[0] == '.' || strchr(name, '/'))
        return "expected a credential's name, as in LoadCredential=NAME:/path of the service";
    length = snprintf(ret, size, "%s/%s", directory ? directory : "", name);
    return length < 0 || (size_t) length >= size ? "expected a shorter name" : NULL;
}

const char *credential_read(const char *name, char ret[CREDENTIAL_BYTES_MAX + 1]) {
    _cleanup_close_ int fd = -1;
    const char *expected;
    char path[4096];
    ssize_t length;

    expected = credential_path(name, path, sizeof path);
    if (expected)
        return expected;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT
                   ? "the service manager did not pass it: expected LoadCredential=NAME:/path in "
                     "the service"
                   : "it can't be read";
    length = read(fd, ret, CREDENTIAL_BYTES_MAX + 1);
    if (length < 0)
        return "it can't be read";
    if (length > 0 && ret[length - 1] == '\n')
        length--;
    if (length == 0 || length > CREDENTIAL_BYTES_MAX)
        return "expected 1 to 1024 bytes in it";
    ret[length] = 0;
    for (ssize_t i = 0; i < length; i++)
        if ((unsigned char) ret[i] < ' ' || ret[i] == 0x7f) {
            explicit_bzero(ret, (size_t) length);
            return "expected one line of text in it, without control characters";
        }
    return NULL;
}
