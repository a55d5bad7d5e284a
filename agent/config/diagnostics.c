/* Collected mistakes. Everything has a fixed size, so that noting one never fails and a file of garbage
 * costs no memory. */
#include "config/diagnostics.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct mistake {
    unsigned line;
    unsigned number; /* keeps the order of those on one line */
    bool warning;
    char text[MISTAKE_BYTES_MAX];
};

struct mistakes {
    unsigned n;
    unsigned n_untold;
    bool any;
    struct mistake list[MISTAKES_MAX];
};

struct mistakes *mistakes_new(void) {
    return calloc(1, sizeof(struct mistakes));
}

struct mistakes *mistakes_free(struct mistakes *mistakes) {
    free(mistakes);
    return NULL;
}

static void note(struct mistakes *mistakes, unsigned line, bool warning, const char *format,
                 va_list arguments) __attribute__((format(printf, 4, 0)));

static void note(struct mistakes *mistakes, unsigned line, bool warning, const char *format,
                 va_list arguments) {
    struct mistake *mistake;

    mistakes->any = mistakes->any || !warning;
    if (mistakes->n == MISTAKES_MAX) {
        mistakes->n_untold++;
        return;
    }
    mistake = &mistakes->list[mistakes->n];
    mistake->line = line;
    mistake->number = mistakes->n++;
    mistake->warning = warning;
    (void) vsnprintf(mistake->text, sizeof mistake->text, format, arguments);
    for (char *p = mistake->text; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

void mistake_add(struct mistakes *mistakes, unsigned line, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    note(mistakes, line, false, format, arguments);
    va_end(arguments);
}

void mistake_warn(struct mistakes *mistakes, unsigned line, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    note(mistakes, line, true, format, arguments);
    va_end(arguments);
}

bool mistakes_any(const struct mistakes *mistakes) {
    return mistakes->any;
}

static int compare(const void *left, const void *right) {
    const struct mistake *a = left, *b = right;

    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

void mistakes_print(struct mistakes *mistakes, const char *path, FILE *output) {
    qsort(mistakes->list, mistakes->n, sizeof mistakes->list[0], compare);
    for (unsigned i = 0; i < mistakes->n; i++) {
        if (mistakes->any && mistakes->list[i].warning)
            continue;
        (void) fprintf(output, "%s:%u: %s%s\n", path, mistakes->list[i].line,
                       mistakes->list[i].warning ? "warning: " : "", mistakes->list[i].text);
    }
    if (mistakes->n_untold > 0)
        (void) fprintf(output, "%s: and %u more\n", path, mistakes->n_untold);
}

enum { NAME_LENGTH_MAX = 32 }; /* longer than every option, so nothing longer is near to one */

/* How many letters must be added, left out, changed or swapped with their neighbour to get from one to the
 * other. */
static unsigned distance(const char *a, const char *b) {
    unsigned rows[3][NAME_LENGTH_MAX + 1];
    unsigned length_a = (unsigned) strlen(a), length_b = (unsigned) strlen(b);

    for (unsigned j = 0; j <= length_b; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= length_a; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];

        row[0] = i;
        for (unsigned j = 1; j <= length_b; j++) {
            unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);

            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && above2[j - 2] + 1 < best)
                best = above2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[length_a % 3][length_b];
}

const char *nearest_option(const cfg_opt_t *options, const char *name) {
    const char *nearest = NULL;
    size_t length = strlen(name);
    unsigned least;

    if (length > NAME_LENGTH_MAX)
        return NULL;
    least = (unsigned) length / 3 + 2; /* more than a third of it wrong is another word */
    for (const cfg_opt_t *option = options; option->name; option++) {
        unsigned d = distance(name, option->name);

        if (d < least) {
            least = d;
            nearest = option->name;
        }
    }
    return nearest;
}
