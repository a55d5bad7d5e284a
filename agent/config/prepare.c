#include "config/prepare.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char unclosed[] = "the string on this line is not closed: expected a quote at its end";
static const char no_value[] = "no value after '=': expected one on the same line";
static const char open_section[] =
    "the section is not closed: expected '}' before the next one, or the end of the file";

/* The error in the byte at `at`, within quotes, or NULL. */
static const char *check_quoted(const char *at, const char *end, char quote) {
    char next = at + 1 < end ? at[1] : '\n';

    if (*at == '\n' || (*at == '\r' && next == '\n'))
        return unclosed;
    if ((unsigned char) *at < ' ' || *at == 0x7f)
        return "a control character in a string: expected none";
    if (*at != '\\' || quote == '\'' || (next && strchr("\\\"'$", next)))
        return NULL;
    if (next == 'x' && end - at > 3 && isxdigit(at[2]) && isxdigit(at[3]) && at[2] >= '2' &&
        strncasecmp(at + 2, "7f", 2) != 0)
        return NULL;
    return "a backslash in a string: expected \\\\, \\\", \\', \\$ or \\xHH, and no control character";
}

/* The same outside quotes and comments; `last` is the former byte that is not blank. */
static const char *check_bare(char c, char next, char last, bool within) {
    if (c == '\n' && last == '=')
        return no_value;
    if (!c || c == '$' || c == '*' || (c == '+' && next != '='))
        return "'$', '*', '+' or a NUL outside quotes: expected the whole value in quotes";
    if (c == '}' && !within)
        return "'}' with no section open: expected the name of an option";
    return c == '{' && within ? open_section : NULL;
}

/* Skips a comment, except for its last byte or the newline. */
static const char *skip_comment(const char **at, const char *end, char **out, unsigned *line) {
    bool block = (*at)[0] == '/' && (*at)[1] == '*';
    size_t left = (size_t) (end - *at);
    const char *close = block ? memmem(*at + 2, left - 2, "*/", 2) : memchr(*at, '\n', left);

    if (block && !close)
        return "the comment that begins here does not end: expected '*/'";
    for (; block && *at <= close; (*at)++)
        if (**at == '\n') {
            *(*out)++ = '\n';
            (*line)++;
        }
    if (!block)
        *at = (close ? close : end) - 1;
    return NULL;
}

/* After '=': writes an empty value if a call follows. Checks the call, because libconfuse leaks memory for a
 * error one. */
static const char *take_call(const char *at, const char *end, char **out) {
    static const char function[] = "credential(\"";
    size_t begin = strlen(function), left = (size_t) (end - at);
    const char *close = left > begin ? memchr(at + begin, '"', left - begin) : NULL;

    if (left < begin || memcmp(at, function, begin - 1) != 0)
        return NULL;
    if (at[begin - 1] != '"' || !close || close + 1 >= end || close[1] != ')')
        return "a call after '=': expected credential(\"name\")";
    *out += sprintf(*out, "\"\"");
    return NULL;
}

const char *prepare_text(const char *text, size_t length, char *out, unsigned *ret_line) {
    const char *end = text + length, *error = NULL;
    char quote = 0, last = 0;
    unsigned line = 1, section = 0;

    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3; /* a byte order mark */
    for (const char *at = text; at < end && !error; at++) {
        char c = *at, next = at + 1 < end ? at[1] : '\n';

        if (quote) {
            error = check_quoted(at, end, quote);
            if (!error && c == '\\' && (next == '\\' || next == quote || (quote == '"' && next != 'x')))
                *out++ = *at++;
            else if (c == '$' && quote == '"')
                *out++ = '\\';
            else if (c == quote)
                quote = 0;
        } else if (c == '#' || (c == '/' && (next == '/' || next == '*'))) {
            error = skip_comment(&at, end, &out, &line);
            *out++ = ' ';
            continue;
        } else {
            error = check_bare(c, next, last, section > 0);
            if (last == '=' && !error)
                error = take_call(at, end, &out);
            if (c == '{' && !error)
                out += sprintf(out, "{\"" PREPARE_LINE "\"=%u", line);
            if ((c == '{' || c == '}') && !error)
                section = c == '{' ? line : 0;
            quote = c == '"' || c == '\'' ? c : 0;
            last = c == ' ' || c == '\t' || c == '\r' ? last : c;
        }
        *out++ = c == '{' && !quote ? ' ' : *at;
        line += *at == '\n' && !error;
    }
    *out = 0;
    if (!error)
        error = quote ? unclosed : last == '=' ? no_value : section ? open_section : NULL;
    *ret_line = error == open_section ? section : line;
    return error;
}
