#include "io/loop/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 1024 };

void log_write(enum log_level level, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    log_write_list(level, format, arguments);
    va_end(arguments);
}

void log_write_list(enum log_level level, const char *format, va_list arguments) {
    char line[LINE_BYTES_MAX + 1]; /* the newline replaces the NUL */
    int saved_errno = errno, prefix = 0;

    if (!isatty(STDERR_FILENO))
        prefix = snprintf(line, sizeof(line), "<%d>", (int) level);
    errno = saved_errno; /* for %m */
    int text = vsnprintf(line + prefix, sizeof(line) - (size_t) prefix, format, arguments);
    if (text < 0)
        line[prefix] = '\0';
    size_t length = strlen(line);
    if (length == LINE_BYTES_MAX)
        length--;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char) line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?';
    line[length++] = '\n';
    while (write(STDERR_FILENO, line, length) < 0 && errno == EINTR)
        ;
    errno = saved_errno;
}
