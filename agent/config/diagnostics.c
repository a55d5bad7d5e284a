#include "config/diagnostics.h"

#include <stdarg.h>
#include <string.h>

void diagnostics_add(struct diagnostics *d, long line, bool warning, const char *format, ...) {
    unsigned i = d->n;
    va_list arguments;

    d->failed = d->failed || !warning;
    if (d->n == DIAGNOSTICS_MAX) {
        d->n_more++;
        return;
    }
    while (i > 0 && d->list[i - 1].line > line)
        i--;
    memmove(&d->list[i + 1], &d->list[i], (d->n++ - i) * sizeof d->list[0]);
    d->list[i].line = line;
    d->list[i].warning = warning;
    va_start(arguments, format);
    (void) vsnprintf(d->list[i].text, sizeof d->list[i].text, format, arguments);
    va_end(arguments);
    for (char *p = d->list[i].text; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

void diagnostics_print(const struct diagnostics *diagnostics, const char *path, FILE *output) {
    for (unsigned i = 0; i < diagnostics->n; i++)
        if (!diagnostics->failed || !diagnostics->list[i].warning)
            (void) fprintf(output, "%s:%ld: %s%s\n", path, diagnostics->list[i].line,
                           diagnostics->list[i].warning ? "warning: " : "", diagnostics->list[i].text);
    if (diagnostics->n_more > 0)
        (void) fprintf(output, "%s: and %u more\n", path, diagnostics->n_more);
}
