/* What is wrong with the configuration file: collected while the file is read, printed at once in the order
 * of the lines. Everything has a fixed size, so that adding one never fails. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum { DIAGNOSTICS_MAX = 100 /* more are counted, not kept */, DIAGNOSTICS_TEXT_BYTES_MAX = 400 };

struct diagnostics {
    unsigned n, n_more;
    bool failed; /* has an error, not just warnings */
    struct {
        long line;
        bool warning;
        char text[DIAGNOSTICS_TEXT_BYTES_MAX];
    } list[DIAGNOSTICS_MAX];
};

/* Adds one. The text may quote the file: it is made printable, but has to be kept short ("%.40s"). */
void diagnostics_add(struct diagnostics *diagnostics, long line, bool warning, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Writes "PATH:LINE: text" for each; warnings only when there is no error. */
void diagnostics_print(const struct diagnostics *diagnostics, const char *path, FILE *output);
