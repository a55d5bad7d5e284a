#include "options.h"

#include <inttypes.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { FIRST_ROW = UCHAR_MAX + 1, HELP = 'h' };

/* --- mistakes --- */

/* The first option that this word may abbreviate; NULL: none. */
static const struct option *find_option(const struct option *known, const char *word) {
    if (strncmp(word, "--", 2) != 0)
        return NULL;
    for (; known->name; known++)
        if (strncmp(known->name, word + 2, strcspn(word + 2, "=")) == 0)
            return known;
    return NULL;
}

/* optind stays at a word until getopt has read all its letters: for a wrong letter only the letter is
 * known. */
static void complain_of_option(const char *command, int option, const struct option *known,
                               const char *word) {
    const char letter[] = {'-', (char) optopt, '\0'}, *trouble = "unknown option";
    const struct option *meant = find_option(known, word);

    if (option == ':')
        trouble = "a value is missing after";
    else if (optopt == 0)
        trouble = meant ? "ambiguous option" : trouble;
    else if (meant && meant->val == optopt && meant->has_arg == no_argument && strchr(word, '='))
        trouble = "unexpected value in";
    else
        word = letter;
    cli_complain("%s: %s '%s'; 'redlock %s --help' lists the options", command, trouble,
                 strncmp(word, "--", 2) == 0 ? word : letter, command);
}

/* --- values --- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool read_duration(const char *text, int64_t *ret_ms) {
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"", 1e3},     {"ms", 1},     {"s", 1e3},    {"m", 60e3},
                 {"min", 60e3}, {"h", 3600e3}, {"d", 86400e3}};
    char *end;

    /* strtod() would take blanks, signs, "inf", "nan" and hexadecimal digits. */
    if (!is_digit(text[0]) && !(text[0] == '.' && is_digit(text[1])))
        return false;
    double number = strtod(text, &end);
    if (memchr(text, 'x', (size_t) (end - text)) || memchr(text, 'X', (size_t) (end - text)))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        double ms = number * units[i].ms;
        if (strcmp(end, units[i].unit) != 0 || !(ms <= OPTIONS_DURATION_MS_MAX))
            continue;
        *ret_ms = (int64_t) (ms + 0.5);
        return true;
    }
    return false;
}

bool options_duration(const char *what, const char *text, int64_t *ret_ms) {
    if (read_duration(text, ret_ms))
        return true;
    cli_complain("%s %s: expected a time such as 500ms, 10s or 2m, at most 24d", what, text);
    return false;
}

bool options_grace_fits(int64_t grace_ms, const char *what, int64_t time_ms) {
    if (time_ms == 0 || grace_ms <= time_ms / 2)
        return true;
    cli_complain("a grace of %" PRId64 " ms: expected at most half of %s, %" PRId64 " ms", grace_ms, what,
                 time_ms / 2);
    return false;
}

static bool read_number(const char *what, const char *text, const char *expected, uint64_t *ret) {
    char *end;
    unsigned long long number = strtoull(text, &end, 10);

    if (!is_digit(text[0]) || *end != '\0' || number == 0 || number >= 1ULL << 53) {
        cli_complain("%s %s: expected %s", what, text, expected);
        return false;
    }
    *ret = number;
    return true;
}

static bool read_token(const char *what, const char *text, uint64_t *ret) {
    if (strcmp(text, "0") == 0) {
        cli_complain("%s 0: expected a token; 0 is none, for a name without fencing (fencing = no)", what);
        return false;
    }
    return read_number(what, text, "a number as 'redlock acquire' prints it", ret);
}

static bool read_status(const char *what, const char *text, int *ret) {
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < 0 || value > 255) {
        cli_complain("%s %s: expected an exit status from 0 to 255", what, text);
        return false;
    }
    *ret = (int) value;
    return true;
}

static bool has_value(const struct options_row *row) {
    return row->kind != OPTIONS_FLAG && row->kind != OPTIONS_ZERO;
}

/* `what`: the option as it was written, in full. */
static bool read_value(const struct options_row *row, const char *what, const char *text) {
    switch (row->kind) {
    case OPTIONS_FLAG:
        if (row->value)
            *(bool *) row->value = true;
        return true;
    case OPTIONS_ZERO:
        *(int64_t *) row->value = 0;
        return true;
    case OPTIONS_TEXT:
        *(const char **) row->value = text;
        return true;
    case OPTIONS_DURATION:
        return options_duration(what, text, row->value);
    case OPTIONS_STATUS:
        return read_status(what, text, row->value);
    case OPTIONS_NUMBER:
        return read_number(what, text, "a number as 'redlock acquire' prints it", row->value);
    case OPTIONS_TOKEN:
        return read_token(what, text, row->value);
    case OPTIONS_COUNT:
        return read_number(what, text, "a number above 0", row->value);
    }
    return false;
}

/* --- reading --- */

/* getopt accepts an abbreviation of several names when all of them have the same number. */
static int number_of(const struct options_row *rows, size_t row) {
    for (size_t i = 0; i < row; i++)
        if (rows[i].kind == rows[row].kind && rows[i].value == rows[row].value)
            return FIRST_ROW + (int) i;
    return FIRST_ROW + (int) row;
}

static const struct options_row *find_row(const struct options_row *rows, size_t n_rows, int option) {
    if (option >= FIRST_ROW)
        return &rows[option - FIRST_ROW];
    for (size_t i = 0; i < n_rows; i++)
        if (rows[i].letter != 0 && rows[i].letter == option)
            return &rows[i];
    return NULL;
}

static void describe(const struct options_row *rows, size_t n_rows, bool mixed,
                     struct option known[static OPTIONS_ROWS_MAX + 2],
                     char letters[static 2 * OPTIONS_ROWS_MAX + 4]) {
    if (!mixed)
        *letters++ = '+';
    *letters++ = ':';
    *letters++ = HELP;
    for (size_t i = 0; i < n_rows; i++) {
        known[i] = (struct option){.name = rows[i].name,
                                   .has_arg = has_value(&rows[i]) ? required_argument : no_argument,
                                   .val = number_of(rows, i)};
        if (rows[i].letter == 0)
            continue;
        *letters++ = rows[i].letter;
        if (has_value(&rows[i]))
            *letters++ = ':';
    }
    known[n_rows] = (struct option){.name = "help", .has_arg = no_argument, .val = HELP};
    *letters = '\0';
}

int options_read(const struct options_row *rows, size_t n_rows, bool mixed, const char *usage, int argc,
                 char **argv) {
    struct option known[OPTIONS_ROWS_MAX + 2] = {0};
    char letters[2 * OPTIONS_ROWS_MAX + 4];
    int option, long_index = -1;

    if (n_rows > OPTIONS_ROWS_MAX)
        abort();
    describe(rows, n_rows, mixed, known, letters);
    opterr = 0; /* getopt's own messages would print unfiltered bytes */
    while ((option = getopt_long(argc, argv, letters, known, &long_index)) >= 0) {
        char what[64];
        if (option == HELP) {
            (void) fputs(usage, stdout);
            return 1 + STATUS_DONE;
        }
        const struct options_row *row = find_row(rows, n_rows, option);
        if (!row)
            complain_of_option(argv[0], option, known, argv[optind - 1]);
        if (long_index >= 0)
            (void) snprintf(what, sizeof(what), "--%s", known[long_index].name);
        else
            (void) snprintf(what, sizeof(what), "-%c", option);
        if (!row || !read_value(row, what, optarg))
            return 1 + STATUS_USAGE;
        long_index = -1;
    }
    return 0;
}

bool options_end(int argc, char **argv, int arguments_max) {
    if (argc - optind <= arguments_max)
        return true;
    cli_complain("%s: unexpected argument '%s'; see 'redlock %s --help'", argv[0],
                 argv[optind + arguments_max], argv[0]);
    return false;
}
