/* Errors and warnings about the configuration file: collected while the file is read, printed in the order
 * of the lines. Fixed in size, so that adding never fails. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum { DIAGNOSTICS_MAX = 100 /* further ones are only counted */, DIAGNOSTICS_TEXT_BYTES_MAX = 400 };

struct diagnostics {
    unsigned n, n_more;
    bool failed; /* there is an error, not only warnings */
    struct {
        long line;
        bool warning;
        char text[DIAGNOSTICS_TEXT_BYTES_MAX];
    } list[DIAGNOSTICS_MAX];
};

/* Adds an error or a warning. Text of the file becomes printable; the caller limits its length ("%.40s"). */
void diagnostics_add(struct diagnostics *diagnostics, long line, bool warning, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Writes "PATH:LINE: text" for each; warnings only without errors. */
void diagnostics_print(const struct diagnostics *diagnostics, const char *path, FILE *output);
